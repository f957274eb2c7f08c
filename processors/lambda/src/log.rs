//! The log: one JSON object per line, each with the invocation's request id.
//!
//! A line with watched figures is also a metric (CloudWatch's embedded metric format): the handlers log the
//! result of each batch anyway, and CloudWatch extracts the metric from that line, without a call.
//! `tracing-subscriber` could not put that into the line, and would add spans that nothing here uses. The
//! request id belongs to the process, not to a task: Lambda gives an environment one invocation at a time,
//! and handlers spread their work over tasks.

use chrono::DateTime;
use dues_processors::runtime::log::line;
use dues_store::{Clock as _, SystemClock};
use serde_json::{Map, Value, json};
use std::sync::{Mutex, PoisonError, RwLock};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The watched figures, with their units.
pub const METRICS: [(&str, &str); 16] = [
    ("applied", "Count"),
    ("duplicate", "Count"),
    ("ignored", "Count"),
    ("skipped", "Count"),
    ("parked", "Count"),
    ("failed", "Count"),
    ("lag_ms", "Milliseconds"),
    ("conflicts", "Count"),
    ("debits", "Count"),
    ("refused", "Count"),
    ("in_doubt", "Count"),
    ("returned", "Count"),
    ("unauthorised", "Count"),
    ("administrative", "Count"),
    ("unreadable", "Count"),
    ("unapplied_money", "Count"),
];

/// Prefixes of the targets of our crates and of the binary.
const OURS: [&str; 2] = ["dues", "bootstrap"];

/// Targets that repeat at length what is already logged: that an invocation failed or panicked.
const REPEATED: [&str; 1] = ["lambda_runtime::layers"];

static REQUEST: RwLock<String> = RwLock::new(String::new());

/// Sets the request id of all further lines.
pub fn set_request(id: &str) {
    *REQUEST.write().unwrap_or_else(PoisonError::into_inner) = id.to_owned();
}

/// Logs to standard output, under the function's name and the metrics' namespace. A panic is logged with its
/// location but without its message, which may contain data of a record.
pub fn install(function: &'static str, namespace: String) {
    let log = Log { function, namespace, out: Mutex::new(std::io::stdout()) };
    if tracing::subscriber::set_global_default(log).is_ok() {
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            tracing::error!(place, "panicked");
        }));
    }
}

struct Log<W> {
    function: &'static str,
    namespace: String,
    out: Mutex<W>,
}

impl<W: std::io::Write + Send + 'static> Subscriber for Log<W> {
    /// Our own events from INFO on, those of dependencies from WARN on.
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_of = |names: &[&str]| names.iter().any(|name| metadata.target().starts_with(name));
        let least = if is_of(&OURS) { Level::INFO } else { Level::WARN };
        metadata.is_event() && *metadata.level() <= least && !is_of(&REPEATED)
    }

    fn event(&self, event: &Event<'_>) {
        let now = SystemClock.now();
        let request = REQUEST.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut line = line(event, now);
        line.insert("function".into(), self.function.into());
        line.insert("request_id".into(), request.into());
        if let Some(metrics) = self.metrics(&line, now) {
            line.insert("_aws".into(), metrics);
        }
        let mut text = Value::Object(line).to_string();
        text.push('\n');
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // A failure to write the log cannot be reported anywhere.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl<W> Log<W> {
    /// The directive that turns a line's figures into metrics: per function, and over all functions.
    fn metrics(&self, line: &Map<String, Value>, now: DateTime<chrono::Utc>) -> Option<Value> {
        let watched = METRICS.iter().filter(|(name, _)| line.get(*name).is_some_and(Value::is_number));
        let watched: Vec<Value> = watched.map(|(name, unit)| json!({"Name": name, "Unit": unit})).collect();
        let directive =
            || json!([{"Namespace": self.namespace, "Dimensions": [["function"], []], "Metrics": watched}]);
        (!watched.is_empty())
            .then(|| json!({"Timestamp": now.timestamp_millis(), "CloudWatchMetrics": directive()}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn said(say: impl FnOnce()) -> Vec<Value> {
        let paper = Paper::default();
        let log =
            Log { function: "ach-handler", namespace: "dues-test".into(), out: Mutex::new(paper.clone()) };
        tracing::subscriber::with_default(log, say);
        let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_line_has_its_request_and_its_figures_are_metrics() {
        set_request("r-7");
        let lines = said(|| {
            tracing::info!(target: "dues_processors::aws::triggers::kinesis", stream = "site-payments",
                applied = 3_u64, parked = 0_u64, lag_ms = 1200_u64, "batch");
            tracing::warn!(target: "dues_store::parked", parked = %"id-1", code = "malformed",
                "parked a record");
        });
        assert_eq!(lines.len(), 2);
        let batch = &lines[0];
        assert_eq!(
            (&batch["message"], &batch["request_id"], &batch["function"]),
            (&json!("batch"), &json!("r-7"), &json!("ach-handler"))
        );
        assert_eq!((&batch["applied"], &batch["level"]), (&json!(3), &json!("INFO")));
        let directive = &batch["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(
            (&directive["Namespace"], &directive["Dimensions"]),
            (&json!("dues-test"), &json!([["function"], []]))
        );
        let metrics = json!([{"Name": "applied", "Unit": "Count"}, {"Name": "parked", "Unit": "Count"},
            {"Name": "lag_ms", "Unit": "Milliseconds"}]);
        assert_eq!(directive["Metrics"], metrics);
        assert!(batch["_aws"]["Timestamp"].as_i64().unwrap() > 1_700_000_000_000);
        assert_eq!((&lines[1]["parked"], lines[1].get("_aws")), (&json!("id-1"), None), "an id is no figure");
    }

    #[test]
    fn what_others_say_in_passing_is_not_written() {
        let lines = said(|| {
            tracing::info!(target: "hyper", "a connection");
            tracing::debug!(target: "dues_store", "a detail");
            tracing::warn!(target: "aws_smithy_runtime", "a warning");
            tracing::error!(target: "lambda_runtime::layers::panic", "the same again");
        });
        assert_eq!(
            lines.iter().map(|line| line["message"].as_str().unwrap()).collect::<Vec<_>>(),
            ["a warning"]
        );
    }
}
