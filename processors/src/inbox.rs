//! Where an event lies safe before its sender is told that it arrived: a Kinesis stream on AWS, a durable local stream in one program.
//!
//! Whoever reads it may meet an event twice: senders repeat what was not answered.

#[cfg(feature = "aws")]
pub mod kinesis;

use std::future::Future;

/// Why an event was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InboxError {
    /// Too many requests, no answer, or one that does not tell whether it was done.
    #[error("the inbox is unavailable: {0}")]
    Unavailable(String),
    /// The request itself is wrong, or the inbox is not there.
    #[error("the inbox refused it: {0}")]
    Refused(String),
}

impl InboxError {
    /// Whether the same event can be taken later, with nobody mending anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Refused(_) => false,
        }
    }
}

/// Takes events.
pub trait Inbox: Clone + Send + Sync + 'static {
    /// Takes one; it is durable when this returns. Those with one key stay in order among themselves.
    ///
    /// # Errors
    /// [`InboxError`]; it may have been taken all the same.
    fn put(&self, key: &str, body: &[u8]) -> impl Future<Output = Result<(), InboxError>> + Send;
}
