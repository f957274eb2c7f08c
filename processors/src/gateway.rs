//! The payment gateway: where debits are submitted.
//!
//! An attempt is on record, under a key that only depends on the record and the number of the attempt, before the gateway is called. Whoever does not
//! know what became of it asks for that key, and submits again under the same one: a gateway makes one debit of it, however often it is asked.

pub mod http;
pub mod sandbox;

use dues_events::event::Answer;
use dues_events::{AttemptKey, Money, SubscriptionId, UserId};
use std::future::Future;

/// A debit to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Debit {
    /// Whose account.
    pub user_id: UserId,
    /// For which record.
    pub subscription_id: SubscriptionId,
    /// How much, in US dollars.
    pub amount: Money,
    /// `MM/YYYY`, for the statement.
    pub period: String,
}

/// The gateway did not say what became of a debit. The reason is for history and logs: it names no account.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unanswered(pub String);

/// A payment gateway.
pub trait Gateway: Clone + Send + Sync + 'static {
    /// Submits a debit. The same key never makes a second one: the answer is that of the first.
    ///
    /// # Errors
    /// [`Unanswered`] when it is not known whether there is a debit.
    fn submit(&self, debit: &Debit, key: &AttemptKey) -> impl Future<Output = Result<Answer, Unanswered>> + Send;

    /// What became of the debit with that key; `None` when the gateway has never seen it.
    ///
    /// # Errors
    /// [`Unanswered`] when the gateway does not say.
    fn lookup(&self, key: &AttemptKey) -> impl Future<Output = Result<Option<Answer>, Unanswered>> + Send;
}
