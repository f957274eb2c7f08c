//! AWS adapters, without domain logic.

pub mod clients;
pub mod triggers;
