//! Structured log lines: one JSON object each, the same from Lambda functions and from the local program.

use chrono::SecondsFormat;
use dues_events::Time;
use serde_json::{Map, Value};
use std::fmt::Debug;
use tracing::Event;
use tracing::field::{Field, Visit};

/// Formats a time for the log: RFC 3339 in UTC, with milliseconds.
#[must_use]
pub fn timestamp(at: Time) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// The log line of an event: time, level and its fields, `message` included.
#[must_use]
pub fn line(event: &Event<'_>, at: Time) -> Map<String, Value> {
    let mut line = Line(Map::new());
    line.0.insert("time".into(), timestamp(at).into());
    line.0.insert("level".into(), event.metadata().level().as_str().into());
    event.record(&mut line);
    line.0
}

/// Collects the fields of an event.
struct Line(Map<String, Value>);

impl Line {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Line {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.set(field, format!("{value:?}"));
    }
}
