//! Development tasks: `cargo xtask test`, `check`, `package` and `bench lambda`.
//!
//! Also a library, so that tests start ministack the same way as the test run.

pub mod bench;
pub mod browser;
pub mod hygiene;
pub mod licences;
pub mod ministack;
pub mod package;
pub mod prose;
pub mod python;
pub mod repository;
pub mod step;
pub mod test;
pub mod workspace;
