//! The payment gateway: where debits are submitted.
//!
//! An attempt is committed, under a key derived from the record and the attempt number, before the gateway
//! is called. A caller in doubt looks that key up and resubmits under it: the gateway makes at most one
//! debit per key.

pub mod http;
pub mod sandbox;

use dues_events::billing::event::Answer;
use dues_events::{AttemptKey, Money, SubscriptionId, UserId};
use std::future::Future;

/// A debit to submit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Debit {
    /// The member to debit.
    pub user_id: UserId,
    /// The billing record.
    pub subscription_id: SubscriptionId,
    /// The amount in US dollars.
    pub amount: Money,
    /// `MM/YYYY`, for the statement.
    pub period: String,
}

/// It is unknown whether the gateway made the debit. The reason goes to history and logs: it names no
/// account.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OutcomeUnknown(pub String);

/// A payment gateway.
pub trait Gateway: Clone + Send + Sync + 'static {
    /// Submits a debit. Idempotent by key: a repeated key returns the first answer.
    fn submit(
        &self,
        debit: &Debit,
        key: &AttemptKey,
    ) -> impl Future<Output = Result<Answer, OutcomeUnknown>> + Send;

    /// Looks up the debit with that key; `None` when the gateway has never seen it.
    fn lookup(&self, key: &AttemptKey)
    -> impl Future<Output = Result<Option<Answer>, OutcomeUnknown>> + Send;
}
