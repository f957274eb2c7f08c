//! The collections engine with a payments service whose token is a secret that may change.

use dues_processors::collections::Collector;
use dues_processors::gateway::Gateway;
use dues_processors::gateway::http::{HttpGateway, Patience};
use dues_store::dynamo::Dynamo;
use dues_store::{Locks, Store};
use std::sync::Arc;
use tokio::sync::Mutex;

use crate::clients::Clients;
use crate::env::{Env, GATEWAY, GATEWAY_SECRET, Unset};
use crate::secret::Secret;
use crate::start::Failed;

/// What collectors are made from.
pub(crate) struct Collecting {
    store: Store<Dynamo>,
    /// One for the process: it remembers the locks that it has seen.
    locks: Locks<Dynamo>,
    rules: Arc<dues_events::collect::Rules>,
    url: String,
    token: Secret,
    /// The gateway of the last token: its certificates are read once.
    gateway: Mutex<Option<(Arc<str>, HttpGateway)>>,
}

impl Collecting {
    pub(crate) fn new(env: &Env, clients: &Clients, store: Store<Dynamo>) -> Result<Self, Unset> {
        let (clock, url) = (store.clock.clone(), env.need(GATEWAY)?);
        // An address that is none is told now, and not when the first debit is due.
        HttpGateway::new(&url, None, Patience::default(), clock.clone())
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

    /// A collector with the token of today.
    pub(crate) async fn collector(&self) -> Result<Collector<Dynamo, impl Gateway + use<>>, Failed> {
        let token = self.token.value().await.map_err(Failed::of)?;
        let mut kept = self.gateway.lock().await;
        let gateway = match kept.as_ref().filter(|(known, _)| *known == token) {
            Some((_, gateway)) => gateway.clone(),
            None => {
                let made = HttpGateway::new(&self.url, Some(&token), Patience::default(), self.store.clock.clone()).map_err(Failed::of)?;
                kept.insert((token, made)).1.clone()
            }
        };
        Ok(Collector { store: self.store.clone(), locks: self.locks.clone(), gateway, rules: self.rules.clone() })
    }
}
