//! The HTTP server behind `dues serve`: ingest, REST API, console, metrics, scheduled jobs.

pub(crate) mod app;
pub(crate) mod auth;
pub(crate) mod inbox;
pub(crate) mod ingest;
pub(crate) mod instance_lock;
pub(crate) mod jobs;
pub(crate) mod login;
pub(crate) mod login_rate_limit;
pub(crate) mod metrics;
pub(crate) mod monitor;
pub(crate) mod openapi;
pub(crate) mod routes;
pub(crate) mod schedule;
pub(crate) mod session;
pub(crate) mod streams;
