//! What the tests run against and with: engines, faults, and a small company.

// A test may stop at the first surprise, and so may what tests are made of.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::float_arithmetic)]

pub mod contract;
pub mod dynoxide;
pub mod edges;
pub mod engines;
pub mod faulty;
pub mod heard;
pub mod impatient;
pub mod knock;
pub mod ledger;
pub mod manual;
pub mod memory;
pub mod ministack;
pub mod payments;
pub mod pool;
pub mod stripe;
pub mod world;

#[cfg(test)]
mod tables;
