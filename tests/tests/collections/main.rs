//! Collections: one debit per attempt, refunds, gateways that fail, signals and reminders.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::float_arithmetic, clippy::wildcard_enum_match_arm)]

mod debits;
mod gateway;
mod planned_debits;
mod refunds;
mod sandbox;
mod signals;
