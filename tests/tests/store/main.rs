//! The engines, the lock table and regions.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::float_arithmetic, clippy::wildcard_enum_match_arm)]

mod contract;
mod embedded;
mod lock;
mod regions;
