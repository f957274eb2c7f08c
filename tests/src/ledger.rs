//! A payment gateway that keeps books: what it was asked, and which debits it made. It takes a key once, as every gateway must.

use dues_events::event::Answer;
use dues_events::{AttemptKey, Money, SubscriptionId};
use dues_processors::gateway::{Debit, Gateway, Unanswered};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::faulty::Plug;

/// The gateway. Clones share the books.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    books: Arc<Mutex<BTreeMap<AttemptKey, Booked>>>,
    /// Pulled, it answers nobody; what it did before stays done.
    plug: Option<Plug>,
}

/// For which record, how much, and how often it was asked for.
type Booked = (SubscriptionId, Money, u64);

impl Ledger {
    /// The same books behind a connection that can be cut.
    pub fn behind(&self, plug: Plug) -> Self {
        Self { plug: Some(plug), ..self.clone() }
    }

    /// How many debits were made for a record.
    pub fn debits(&self, id: &SubscriptionId) -> usize {
        self.books.lock().unwrap().values().filter(|(of, ..)| of == id).count()
    }

    /// How many debits were made at all.
    pub fn all_debits(&self) -> usize {
        self.books.lock().unwrap().len()
    }

    fn reach(&self) -> Result<(), Unanswered> {
        let cut = self.plug.as_ref().is_some_and(Plug::is_pulled);
        if cut { Err(Unanswered("the connection was cut".into())) } else { Ok(()) }
    }

    fn step(&self) -> Result<(), Unanswered> {
        if let Some(plug) = &self.plug {
            plug.step();
        }
        self.reach()
    }
}

/// The confirmation of a debit.
pub fn confirmation(key: &AttemptKey) -> String {
    format!("conf-{key}")
}

impl Gateway for Ledger {
    async fn submit(&self, debit: &Debit, key: &AttemptKey) -> Result<Answer, Unanswered> {
        self.reach()?;
        // Somebody else gets a word in.
        tokio::task::yield_now().await;
        let first = || (debit.subscription_id.clone(), debit.amount, 0);
        self.books.lock().unwrap().entry(key.clone()).or_insert_with(first).2 += 1;
        self.step()?;
        Ok(Answer::Accepted { transaction_id: confirmation(key).into() })
    }

    async fn lookup(&self, key: &AttemptKey) -> Result<Option<Answer>, Unanswered> {
        self.reach()?;
        tokio::task::yield_now().await;
        let known = self.books.lock().unwrap().contains_key(key);
        Ok(known.then(|| Answer::Accepted { transaction_id: confirmation(key).into() }))
    }
}
