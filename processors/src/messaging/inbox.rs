//! The inbox persists an event before its sender gets the acknowledgement: a Kinesis stream on AWS, a
//! durable local stream in `dues`.
//!
//! Consumers must be idempotent: senders retry when they get no acknowledgement.

use std::future::Future;

/// Why an event was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InboxError {
    /// Throttled, no response, or a response that leaves the result unknown.
    #[error("the inbox is unavailable: {0}")]
    Unavailable(String),
    /// The request is invalid, or the inbox does not exist.
    #[error("the inbox refused it: {0}")]
    Refused(String),
}

impl InboxError {
    /// Whether a retry can succeed without a fix by an operator.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Refused(_) => false,
        }
    }
}

/// Persists events.
pub trait Inbox: Clone + Send + Sync + 'static {
    /// Puts one event; it is durable when this returns. Events with the same key stay in order.
    ///
    /// # Errors
    /// [`InboxError`]; the event may have been persisted nevertheless.
    fn put(&self, key: &str, body: &[u8]) -> impl Future<Output = Result<(), InboxError>> + Send;
}
