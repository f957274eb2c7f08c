//! Running the program, and its input.

pub(crate) mod api_fixtures;
pub(crate) mod kill;
pub(crate) mod records;
pub(crate) mod run;
pub(crate) mod server;
pub(crate) mod workload;
