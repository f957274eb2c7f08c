//! Shared runtime of all handlers: lanes per key, parking, redrive, followers of change streams, retries.

pub mod changes;
pub mod context;
pub mod lanes;
pub mod log;
pub mod parking;
pub mod redrive;
pub mod settings;

pub(crate) mod followers;
pub(crate) mod json_fields;
#[cfg(feature = "aws")]
pub(crate) mod partial_retry;
pub(crate) mod partition_scan;
