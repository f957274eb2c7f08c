//! A payment gateway that records requests, debits and refunds. It accepts a key once, as every gateway must.

use dues_events::billing::event::Answer;
use dues_events::{AttemptKey, Money, RefundKey, SubscriptionId, TransactionId};
use dues_processors::collections::gateway::{Debit, Gateway, OutcomeUnknown, Refund, RefundAnswer};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::engines::faulty::Plug;

/// The gateway. Clones share the ledger.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    books: Arc<Mutex<BTreeMap<AttemptKey, Booked>>>,
    refunds: Arc<Mutex<Refunds>>,
    /// Once pulled, no request is answered; earlier debits remain.
    plug: Option<Plug>,
}

type Refunds = BTreeMap<RefundKey, (Refund, RefundAnswer)>;

fn refunded(refunds: &Refunds, transaction: &TransactionId) -> Money {
    refunds
        .values()
        .filter(|(refund, answer)| {
            refund.transaction_id == *transaction && matches!(answer, RefundAnswer::Refunded { .. })
        })
        .fold(Money::ZERO, |sum, (refund, _)| sum.checked_add(refund.amount).unwrap())
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

    /// What was refunded of a transaction.
    pub fn refunded(&self, transaction: &TransactionId) -> Money {
        refunded(&self.refunds.lock().unwrap(), transaction)
    }

    /// The answer to a new refund: no more goes back than was debited.
    fn decide(&self, made: &Refunds, refund: &Refund, key: &RefundKey) -> RefundAnswer {
        let refused = |reason: &str| RefundAnswer::Refused { reason: reason.to_owned() };
        let books = self.books.lock().unwrap();
        let debit = books.iter().find(|(key, _)| confirmation(key) == refund.transaction_id.as_str());
        let Some((_, (_, debited, _))) = debit else { return refused("unknown transaction") };
        match refunded(made, &refund.transaction_id).checked_add(refund.amount) {
            Ok(all) if all <= *debited => RefundAnswer::Refunded { refund_id: format!("ref-{key}").into() },
            Ok(_) | Err(_) => refused("more than was collected"),
        }
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

    async fn refund(&self, refund: &Refund, key: &RefundKey) -> Result<RefundAnswer, OutcomeUnknown> {
        self.reach()?;
        tokio::task::yield_now().await;
        let answer = {
            let mut refunds = self.refunds.lock().unwrap();
            let answer = match refunds.get(key) {
                Some((first, answer)) => {
                    assert_eq!(first, refund, "one key stands for one refund");
                    answer.clone()
                }
                None => self.decide(&refunds, refund, key),
            };
            refunds.insert(key.clone(), (refund.clone(), answer.clone()));
            answer
        };
        self.step()?;
        Ok(answer)
    }

    async fn lookup_refund(&self, key: &RefundKey) -> Result<Option<RefundAnswer>, OutcomeUnknown> {
        self.reach()?;
        tokio::task::yield_now().await;
        Ok(self.refunds.lock().unwrap().get(key).map(|(_, answer)| answer.clone()))
    }
}
