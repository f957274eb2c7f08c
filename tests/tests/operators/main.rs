//! Audit and replay.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::float_arithmetic, clippy::wildcard_enum_match_arm)]

mod audit;
mod rebuild;
mod wrong_decisions;
