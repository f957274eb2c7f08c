//! Billing: the record, its events, the state machine that decides them, and their wire shapes.

pub mod attempts;
pub mod chain;
pub mod decide;
pub mod event;
pub mod event_codec;
pub mod idempotency;
pub mod membership;
pub mod record;
pub mod replay;
pub mod wire;
