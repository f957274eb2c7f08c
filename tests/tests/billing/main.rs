//! Billing: access patterns, the commit protocol under crashes and races, rows shared with Go, the feeder,
//! costs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::float_arithmetic, clippy::wildcard_enum_match_arm)]

mod access_patterns;
mod cost;
mod crash;
mod feeder;
mod go_rows;
mod interleavings;
mod latency;
mod properties;
mod report_orders;
