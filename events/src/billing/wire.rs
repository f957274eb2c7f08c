//! Wire shapes of the billing streams, one file per stream.

pub mod memberships;
pub mod site_payments;
