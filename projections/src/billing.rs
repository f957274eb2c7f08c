//! Billing read models: the primary row, and the messages published for its changes.

pub mod feed;
pub mod record;
