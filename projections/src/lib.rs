//! Read models, one small file each: a view, its key, its fold. Pure.
//!
//! The first one is the billing record: folding a record's history gives its primary row, and a test proves
//! it.

pub mod billing;
pub mod collections;
pub mod entitlements;
pub mod figureforge;
pub mod model;
pub mod serenya;
pub mod timeline;
pub mod usage;
