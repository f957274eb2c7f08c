//! Payment gateways for tests.

pub mod http_service;
pub mod ledger;
pub mod stepped;
