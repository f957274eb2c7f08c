//! Collections read models.

pub mod return_rates;
