//! Clients of AWS services behind the ports in [`crate::messaging`] and [`crate::entitlements::groups`].

#[cfg(feature = "aws")]
pub mod cognito_groups;
#[cfg(feature = "aws")]
pub mod eventbridge_bus;
#[cfg(feature = "aws")]
pub mod kinesis_inbox;
#[cfg(feature = "aws")]
pub mod kinesis_outbox;
#[cfg(feature = "aws")]
pub mod sqs_queue;
