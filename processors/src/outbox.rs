//! The streams that tell others: Kinesis on AWS, durable local streams in one program.

#[cfg(feature = "aws")]
pub mod kinesis;

use std::future::Future;

pub use dues_projections::feed::Outgoing;

/// The stream of all changes of billing records.
pub const STREAM: &str = "subscriptions";

/// Why a message was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// Too many requests, no answer, or something around it that somebody has to mend: the same message can be taken later.
    #[error("{0}")]
    Later(String),
    /// The message itself is wrong, such as too large.
    #[error("{0}")]
    Never(String),
}

/// Sends messages.
pub trait Outbox: Send + Sync {
    /// Whether a call takes all of its messages or none, and in their order. Otherwise whoever calls sees to it that no call has two messages of one
    /// key, since the second could be taken and the first not.
    const IN_ORDER: bool = false;

    /// Sends all messages, at least once each; those that are taken are durable when this returns. Gives, for each, why it was not taken.
    fn put_many(&self, messages: &[Outgoing]) -> impl Future<Output = Vec<Result<(), NotTaken>>> + Send;
}
