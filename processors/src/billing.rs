//! Billing handlers: settlements, membership changes, and the feed of record changes.

pub mod ach_handler;
pub mod feeder;
pub mod memberships;
pub mod user_lanes;
