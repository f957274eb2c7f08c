//! The commands, one file each.

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod cancel;
pub(crate) mod collect;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod ingest;
pub(crate) mod notify;
pub(crate) mod parked;
pub(crate) mod pause;
pub(crate) mod pay;
mod record_command;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod risk;
pub(crate) mod sandbox;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod tail;
pub(crate) mod usage;
pub(crate) mod waive;
