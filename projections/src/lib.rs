//! Read models: what is told from the billing records, one small file each. Pure: a view, its key, its fold.
//!
//! The first one is the record itself: folding a record's history gives its primary row, and a test says so.

pub mod access;
pub mod billing_record;
pub mod dues;
pub mod entitlement;
pub mod feed;
pub mod figureforge;
pub mod model;
pub mod return_rates;
pub mod serenya;
pub mod standing;
pub mod story;
pub mod usage;
