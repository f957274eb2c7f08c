//! Outgoing streams: Kinesis on AWS, durable local streams in `dues`.

use std::future::Future;

pub use dues_projections::billing::feed::Outgoing;

/// The stream of all changes of billing records.
pub const STREAM: &str = "subscriptions";

/// Why a message was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// Throttled, no response, or a configuration that an operator has to fix: the same message can be
    /// accepted later.
    #[error("{0}")]
    Transient(String),
    /// The message itself is invalid, such as too large.
    #[error("{0}")]
    Rejected(String),
}

/// Publishes to a stream.
pub trait Outbox: Send + Sync {
    /// Whether a call is atomic and keeps the order of its messages. Otherwise the caller must not put two
    /// messages of one key into a call: the second could be accepted without the first.
    const IN_ORDER: bool = false;

    /// Publishes messages, at least once each; accepted ones are durable when this returns. Returns the
    /// result of each, in order.
    fn put_many(&self, messages: &[Outgoing]) -> impl Future<Output = Vec<Result<(), PublishError>>> + Send;
}
