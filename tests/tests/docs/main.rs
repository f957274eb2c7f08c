//! The documents are correct: their links and paths exist, the code and tests that `docs/spec` names exist,
//! every environment variable is documented, and the examples of `docs/streams.md` and the README are real.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod examples;
mod links;
mod names;
mod pages;
mod readme;
