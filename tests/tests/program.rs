//! The program as a user runs it: the built binary, its files, its output, its exit codes.
//!
//! `DUES_BIN` names the binary when `cargo xtask test` runs this; otherwise it is built here.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "program/act.rs"]
mod act;
#[path = "program/asked.rs"]
mod asked;
#[path = "program/bad_input.rs"]
mod bad_input;
#[path = "program/bench.rs"]
mod bench;
#[path = "program/books.rs"]
mod books;
#[path = "program/browser.rs"]
mod browser;
#[path = "program/caught_up.rs"]
mod caught_up;
#[path = "program/collect.rs"]
mod collect;
#[path = "program/completions.rs"]
mod completions;
#[path = "program/console.rs"]
mod console;
#[path = "program/crowd.rs"]
mod crowd;
#[path = "program/entitled.rs"]
mod entitled;
#[path = "program/exits.rs"]
mod exits;
#[path = "program/explain.rs"]
mod explain;
#[path = "program/happy.rs"]
mod happy;
#[path = "program/kill.rs"]
mod kill;
#[path = "program/logged.rs"]
mod logged;
#[path = "program/members.rs"]
mod members;
#[path = "program/moved.rs"]
mod moved;
#[path = "program/openapi.rs"]
mod openapi;
#[path = "program/payments.rs"]
mod payments;
#[path = "program/plug.rs"]
mod plug;
#[path = "program/records.rs"]
mod records;
#[path = "program/remind.rs"]
mod remind;
#[path = "program/risky.rs"]
mod risky;
#[path = "program/run.rs"]
mod run;
#[path = "program/serve.rs"]
mod serve;
#[path = "program/service.rs"]
mod service;
#[path = "program/serving.rs"]
mod serving;
#[path = "program/signed_in.rs"]
mod signed_in;
#[path = "program/stand_in.rs"]
mod stand_in;
#[path = "program/storm.rs"]
mod storm;
#[path = "program/streams.rs"]
mod streams;
#[path = "program/tail.rs"]
mod tail;
#[path = "program/things.rs"]
mod things;
#[path = "program/together.rs"]
mod together;
#[path = "program/told.rs"]
mod told;
#[path = "program/twice.rs"]
mod twice;
#[path = "program/usage.rs"]
mod usage;
#[path = "program/watched.rs"]
mod watched;
#[path = "program/words.rs"]
mod words;
