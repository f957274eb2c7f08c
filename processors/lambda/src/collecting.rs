//! The collections engine, with a payments service that takes a rotating secret as its token.

use dues_processors::collections::Collector;
use dues_processors::collections::gateway::Gateway;
use dues_processors::collections::gateway::http::{HttpGateway, RetryPolicy};
use dues_store::dynamo::Dynamo;
use dues_store::{Locks, Store};
use std::sync::Arc;
use tokio::sync::Mutex;

use crate::clients::Clients;
use crate::env::{Env, GATEWAY, GATEWAY_SECRET, Unset};
use crate::secret::Secret;
use crate::start::Failed;

/// What collectors are built from.
pub(crate) struct Collecting {
    store: Store<Dynamo>,
    /// Shared by the process: it remembers the locks that it has seen.
    locks: Locks<Dynamo>,
    rules: Arc<dues_events::collections::eligibility::Rules>,
    url: String,
    token: Secret,
    /// The gateway of the last token, kept so that its certificates are read once.
    gateway: Mutex<Option<(Arc<str>, HttpGateway)>>,
}

impl Collecting {
    pub(crate) fn new(env: &Env, clients: &Clients, store: Store<Dynamo>) -> Result<Self, Unset> {
        let (clock, url) = (store.clock.clone(), env.need(GATEWAY)?);
        // Reject a malformed address at startup, not when the first debit is due.
        HttpGateway::new(&url, None, RetryPolicy::default(), clock.clone())
            .map_err(|why| Unset::Wrong(GATEWAY.to_owned(), why.to_string()))?;
        Ok(Self {
            locks: Locks::new(store.engine.clone(), clock.clone()),
            rules: Arc::new(env.rules()?),
            url,
            token: clients.secret(env.need(GATEWAY_SECRET)?, clock),
            gateway: Mutex::default(),
            store,
        })
    }

    /// A collector with the current token.
    pub(crate) async fn collector(&self) -> Result<Collector<Dynamo, impl Gateway + use<>>, Failed> {
        let token = self.token.value().await.map_err(Failed::of)?;
        let mut kept = self.gateway.lock().await;
        let gateway = match kept.as_ref().filter(|(known, _)| *known == token) {
            Some((_, gateway)) => gateway.clone(),
            None => {
                let made = HttpGateway::new(
                    &self.url,
                    Some(&token),
                    RetryPolicy::default(),
                    self.store.clock.clone(),
                )
                .map_err(Failed::of)?;
                kept.insert((token, made)).1.clone()
            }
        };
        Ok(Collector {
            store: self.store.clone(),
            locks: self.locks.clone(),
            gateway,
            rules: self.rules.clone(),
        })
    }
}
