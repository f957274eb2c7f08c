//! On emulated AWS: clients, functions, event source mappings, permissions, the template, a deployed stack.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::float_arithmetic, clippy::wildcard_enum_match_arm)]

mod clients;
mod deployed;
mod event_source_mappings;
mod functions;
mod kinesis_batches;
mod permissions;
mod secrets;
mod template;
