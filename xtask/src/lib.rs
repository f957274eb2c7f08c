//! The project's own chores: `cargo xtask test`, `check`, `package` and `bench lambda`.
//!
//! It is a library too, so that the tests start ministack with the same lines as the test run does.

pub mod bench;
pub mod browser;
pub mod hygiene;
pub mod licences;
pub mod ministack;
pub mod package;
pub mod python;
pub mod repository;
pub mod step;
pub mod test;
pub mod workspace;
