//! The payment gateway: where debits and refunds are submitted.
//!
//! An attempt is committed, under a key derived from the record and the attempt number, before the gateway
//! is called. A caller in doubt looks that key up and resubmits under it: the gateway makes at most one
//! debit per key. The same holds for refunds and their keys.

pub mod http;
pub mod sandbox;

use dues_events::billing::event::Answer;
use dues_events::{AttemptKey, GatewayRefundId, Money, RefundKey, SubscriptionId, TransactionId, UserId};
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

/// A refund to submit: all or a part of what one debit collected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refund {
    /// The debit's transaction.
    pub transaction_id: TransactionId,
    /// The amount in US dollars.
    pub amount: Money,
    /// The member who was debited.
    pub user_id: UserId,
}

/// A payment gateway's answer to a refund.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefundAnswer {
    /// The money goes back; `SUBSCRIPTION_REFUNDED` on `site-payments` reports when it has.
    Refunded {
        /// The gateway's id of the refund.
        refund_id: GatewayRefundId,
    },
    /// Refused: no money moves. The answer to this key is final; another try needs another key.
    Refused {
        /// Why it was refused, for operators and history: it names no account.
        reason: String,
    },
}

/// It is unknown whether the gateway made the debit or the refund. The reason goes to history and logs: it
/// names no account.
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

    /// Submits a refund. Idempotent by key: a repeated key returns the first answer.
    fn refund(
        &self,
        refund: &Refund,
        key: &RefundKey,
    ) -> impl Future<Output = Result<RefundAnswer, OutcomeUnknown>> + Send;

    /// Looks up the refund with that key; `None` when the gateway has never seen it.
    fn lookup_refund(
        &self,
        key: &RefundKey,
    ) -> impl Future<Output = Result<Option<RefundAnswer>, OutcomeUnknown>> + Send;
}
