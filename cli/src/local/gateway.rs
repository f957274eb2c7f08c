//! The payment gateway: a payments service over HTTP, or the built-in ACH sandbox.

use dues_events::billing::event::Answer;
use dues_events::collections::eligibility::Rules;
use dues_events::{AttemptKey, RefundKey};
use dues_processors::collections::Collector;
use dues_processors::collections::gateway::http::{HttpGateway, RetryPolicy};
use dues_processors::collections::gateway::sandbox::{Odds, Sandbox};
use dues_processors::collections::gateway::{Debit, Gateway, OutcomeUnknown, Refund, RefundAnswer};
use dues_store::Store;
use dues_store::embedded::Embedded;
use std::sync::Arc;

use crate::args::{AgeArgs, GatewayArgs, LockArgs, OddsArg};
use crate::output::Error;

#[derive(Clone)]
pub(crate) enum AnyGateway {
    Http(HttpGateway),
    Sandbox(Sandbox<Embedded>),
}

impl AnyGateway {
    pub(crate) fn new(store: &Store<Embedded>, args: &GatewayArgs) -> Result<Self, Error> {
        if let Some(url) = &args.url {
            let gateway =
                HttpGateway::new(url, args.token.as_deref(), RetryPolicy::default(), store.clock.clone());
            return gateway.map(Self::Http).map_err(|error| Error::Message(format!("--gateway: {error}")));
        }
        let odds = match args.sandbox_odds {
            OddsArg::None => Odds::NONE,
            OddsArg::Usual => Odds::USUAL,
        };
        Ok(Self::Sandbox(Sandbox::new(store.clone(), Odds { seed: args.sandbox_seed, ..odds })))
    }
}

impl Gateway for AnyGateway {
    async fn submit(&self, debit: &Debit, key: &AttemptKey) -> Result<Answer, OutcomeUnknown> {
        match self {
            Self::Http(service) => service.submit(debit, key).await,
            Self::Sandbox(sandbox) => sandbox.submit(debit, key).await,
        }
    }

    async fn lookup(&self, key: &AttemptKey) -> Result<Option<Answer>, OutcomeUnknown> {
        match self {
            Self::Http(service) => service.lookup(key).await,
            Self::Sandbox(sandbox) => sandbox.lookup(key).await,
        }
    }

    async fn refund(&self, refund: &Refund, key: &RefundKey) -> Result<RefundAnswer, OutcomeUnknown> {
        match self {
            Self::Http(service) => service.refund(refund, key).await,
            Self::Sandbox(sandbox) => sandbox.refund(refund, key).await,
        }
    }

    async fn lookup_refund(&self, key: &RefundKey) -> Result<Option<RefundAnswer>, OutcomeUnknown> {
        match self {
            Self::Http(service) => service.lookup_refund(key).await,
            Self::Sandbox(sandbox) => sandbox.lookup_refund(key).await,
        }
    }
}

/// The collector with the gateway, rules and locks of the command line.
pub(crate) fn collector(
    store: &Store<Embedded>,
    gateway: &GatewayArgs,
    age: &AgeArgs,
    lock: &LockArgs,
) -> Result<Collector<Embedded, AnyGateway>, Error> {
    let mut collector = Collector::new(store.clone(), AnyGateway::new(store, gateway)?);
    collector.rules = Arc::new(Rules { old_days: age.old_days, ..Rules::default() });
    collector.locks = collector.locks.with_lease(lock.lease()).with_heartbeat(lock.heartbeat());
    Ok(collector)
}
