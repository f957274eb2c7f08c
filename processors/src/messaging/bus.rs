//! The event bus to other services: EventBridge on AWS, a durable local stream in `dues`.

use std::future::Future;

use crate::messaging::outbox::PublishError;

pub use dues_projections::billing::feed::Message;

/// `source` of the events.
pub const SOURCE: &str = "dues";
/// The local stream used as the bus.
pub const STREAM: &str = "events";

/// Publishes business events.
pub trait Bus: Send + Sync {
    /// Whether a call is atomic and keeps the order of its messages.
    const IN_ORDER: bool = false;

    /// Publishes messages, at least once each. Returns the result of each, in order.
    fn publish(&self, messages: &[Message]) -> impl Future<Output = Vec<Result<(), PublishError>>> + Send;
}
