//! Payment gateways for tests.

pub mod http_service;
pub mod ledger;
