//! Billing handlers: settlements, membership changes, the feed of record changes, and the sweep.

pub mod ach_handler;
pub mod feeder;
pub mod memberships;
pub mod sweeper;
pub mod user_lanes;
