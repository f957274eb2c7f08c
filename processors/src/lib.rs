//! The handlers: a batch of records in, a batch response out. Each is a plain async function; a Lambda function and the local program call the same one.

pub mod ach_handler;
pub mod api;
pub mod app_events;
pub mod audit;
pub mod batch;
pub mod bus;
pub mod changes;
pub mod collections;
pub mod entitlements;
pub mod eventbridge;
pub mod explain;
pub mod gateway;
pub mod groups;
pub mod inbox;
pub mod kinesis;
pub mod kinesis_feeder;
pub mod log;
pub mod memberships;
pub mod notifier;
pub mod outbox;
pub mod projector;
pub mod queue;
pub mod read_models;
pub mod redrive;
pub mod replay;
pub mod s3_events;
pub mod settings;
pub mod sqs;
pub mod stripe;
pub mod usage_reset;
pub mod webhook;

mod fields;
mod piles;
#[cfg(feature = "aws")]
mod resend;

pub use batch::{Context, Counts, Fate, Handler, Incoming, Report, process};

/// The streams that are read, by name.
pub const STREAMS: [&str; 5] = [ach_handler::STREAM, memberships::STREAM, stripe::STREAM, app_events::STREAM, s3_events::STREAM];
/// The streams that tell others, by the names that they have locally.
pub const OUTGOING: [&str; 2] = [outbox::STREAM, bus::STREAM];
