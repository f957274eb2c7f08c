//! The handlers: a batch of records in, a batch response out. Each is a plain async function that the Lambda
//! function and the local program both call.

pub mod api;
pub mod aws;
pub mod billing;
pub mod collections;
pub mod entitlements;
pub mod figureforge;
pub mod messaging;
pub mod operators;
pub mod outcome;
pub mod projector;
pub mod read_models;
pub mod runtime;
pub mod serenya;
pub mod usage;

pub use crate::billing::user_lanes::process;
pub use crate::runtime::context::Context;
pub use crate::runtime::lanes::{BatchReport, Delivery, Outcome, OutcomeCounts};

/// The streams of facts: their handlers change what is stored.
pub const FACT_STREAMS: [&str; 5] = [
    crate::billing::ach_handler::STREAM,
    crate::billing::memberships::STREAM,
    entitlements::stripe_worker::STREAM,
    read_models::app_events::STREAM,
    serenya::s3_events::STREAM,
];
/// The streams of collection requests: their handlers call the gateway.
pub const COLLECTION_STREAMS: [&str; 3] = [
    dues_events::collections::wire::INCOME,
    dues_events::collections::wire::BALANCE,
    crate::collections::batch_worker::QUEUE,
];
/// All streams that handlers read.
pub const STREAMS: [&str; 8] = {
    let [a, b, c, d, e] = FACT_STREAMS;
    let [f, g, h] = COLLECTION_STREAMS;
    [a, b, c, d, e, f, g, h]
};
/// The published streams, by their local names.
pub const OUTGOING: [&str; 2] = [crate::messaging::outbox::STREAM, crate::messaging::bus::STREAM];
