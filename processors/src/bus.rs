//! The bus that tells the rest of the company: EventBridge on AWS, a durable local stream in one program.

#[cfg(feature = "aws")]
pub mod eventbridge;

use dues_events::Time;
use serde_json::Value;
use std::future::Future;

/// Who speaks.
pub const SOURCE: &str = "dues";

/// Something worth telling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The same for every time that it is told: whoever listens can drop repeats.
    pub id: String,
    /// Such as `SubscriptionDueSoon`.
    pub detail_type: &'static str,
    /// When it became true.
    pub at: Time,
    /// What there is to tell. It carries the id too.
    pub detail: Value,
}

/// A bus.
pub trait Bus: Send + Sync {
    /// Tells all messages, at least once each. Gives, for each, why it was not taken.
    fn publish(&self, messages: &[Message]) -> impl Future<Output = Vec<Result<(), String>>> + Send;
}
