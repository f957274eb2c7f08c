//! A payment gateway that records requests and debits. It accepts a key once, as every gateway must.

use dues_events::billing::event::Answer;
use dues_events::{AttemptKey, Money, SubscriptionId};
use dues_processors::collections::gateway::{Debit, Gateway, OutcomeUnknown};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::engines::faulty::Plug;

/// The gateway. Clones share the ledger.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    books: Arc<Mutex<BTreeMap<AttemptKey, Booked>>>,
    /// Once pulled, no request is answered; earlier debits remain.
    plug: Option<Plug>,
}

/// Record, amount, and number of requests.
type Booked = (SubscriptionId, Money, u64);

impl Ledger {
    /// The same ledger behind a connection that can be cut.
    pub fn behind(&self, plug: Plug) -> Self {
        Self { plug: Some(plug), ..self.clone() }
    }

    /// The number of debits for a record.
    pub fn debits(&self, id: &SubscriptionId) -> usize {
        self.books.lock().unwrap().values().filter(|(of, ..)| of == id).count()
    }

    /// The number of all debits.
    pub fn all_debits(&self) -> usize {
        self.books.lock().unwrap().len()
    }

    fn reach(&self) -> Result<(), OutcomeUnknown> {
        let cut = self.plug.as_ref().is_some_and(Plug::is_pulled);
        if cut { Err(OutcomeUnknown("the connection was cut".into())) } else { Ok(()) }
    }

    fn step(&self) -> Result<(), OutcomeUnknown> {
        if let Some(plug) = &self.plug {
            plug.step();
        }
        self.reach()
    }
}

/// The confirmation id of a debit.
pub fn confirmation(key: &AttemptKey) -> String {
    format!("conf-{key}")
}

impl Gateway for Ledger {
    async fn submit(&self, debit: &Debit, key: &AttemptKey) -> Result<Answer, OutcomeUnknown> {
        self.reach()?;
        // Let concurrent tasks run.
        tokio::task::yield_now().await;
        let first = || (debit.subscription_id.clone(), debit.amount, 0);
        self.books.lock().unwrap().entry(key.clone()).or_insert_with(first).2 += 1;
        self.step()?;
        Ok(Answer::Accepted { transaction_id: confirmation(key).into() })
    }

    async fn lookup(&self, key: &AttemptKey) -> Result<Option<Answer>, OutcomeUnknown> {
        self.reach()?;
        tokio::task::yield_now().await;
        let known = self.books.lock().unwrap().contains_key(key);
        Ok(known.then(|| Answer::Accepted { transaction_id: confirmation(key).into() }))
    }
}
