//! The program as a user runs it: the built binary, its files, its output, its exit codes.
//!
//! `DUES_BIN` names the binary when `cargo xtask test` runs this; otherwise it is built here.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bad_input;
mod bench;
mod browser;
mod clients;
mod collect;
mod collection_streams;
mod completions;
mod console;
mod duplicates;
mod entitlements;
mod exit_codes;
mod export_import;
mod followers;
mod http_gateway;
mod ingest_http;
mod kill_at_sync;
mod kill_collect;
mod kill_ingest;
mod kill_serve;
mod localstripe;
mod log;
mod login;
mod memberships;
mod messages;
mod money;
mod monitoring;
mod notify;
mod openapi;
mod operators;
mod outside_cases;
mod payments;
mod published;
mod record_commands;
mod risk;
mod sandbox_ledger;
mod schemathesis;
mod serve;
mod settlement;
mod support;
mod tail;
mod two_processes;
mod usage;
