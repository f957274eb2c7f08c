//! The bus that tells the rest of the company: EventBridge on AWS, a durable local stream in one program.

#[cfg(feature = "aws")]
pub mod eventbridge;

use std::future::Future;

use crate::outbox::NotTaken;

pub use dues_projections::feed::Message;

/// Who speaks.
pub const SOURCE: &str = "dues";
/// The local stream that stands for the bus.
pub const STREAM: &str = "events";

/// A bus.
pub trait Bus: Send + Sync {
    /// Whether a call takes all of its messages or none, and in their order.
    const IN_ORDER: bool = false;

    /// Tells all messages, at least once each. Gives, for each, why it was not taken.
    fn publish(&self, messages: &[Message]) -> impl Future<Output = Vec<Result<(), NotTaken>>> + Send;
}
