//! The project's own chores: `cargo xtask test` and `cargo xtask check`.
//!
//! It is a library too, so that the tests start ministack with the same lines as the test run does.

pub mod browser;
pub mod hygiene;
pub mod licences;
pub mod ministack;
pub mod python;
pub mod repository;
pub mod step;
pub mod test;
pub mod workspace;
