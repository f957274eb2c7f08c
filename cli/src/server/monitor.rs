//! Self-monitoring: stream lags, counts of records and requests, and current failures.

use dues_events::Time;
use dues_processors::runtime::changes::STREAM as CHANGES;
use dues_processors::{OutcomeCounts, STREAMS};
use dues_store::Store;
use dues_store::embedded::Embedded;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

use super::metrics::{Histogram, Page};
use crate::commands::serve::stop_requested;
use crate::local::followers::PROJECTOR;
use crate::memory;
use crate::output::Error;

/// The checkpoint that the readiness probe writes.
pub(super) const PROBE: &str = "ready";
/// Interval at which lags are measured.
const LOOK: Duration = Duration::from_secs(1);
/// Measurements of the change log that are retained: one hour.
const REMEMBERED: usize = 3600;
/// Age of the oldest unprocessed record beyond which a stream is not ready.
const FAR_BEHIND: Duration = Duration::from_secs(300);
/// Queued writes beyond which new requests are rejected; the rest of the queue is for work in progress.
const MOST_WAITING: usize = Embedded::MOST_WAITING / 4 * 3;

/// Limit of unprocessed table changes, as a multiple of a stream's limit: the projector yields to ingest.
const CHANGES_WAIT: u64 = 10;

/// Why new work is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Overload {
    /// The reason, for the client.
    pub(super) why: String,
    /// Seconds after which the client should retry.
    pub(super) retry_after: u64,
}

/// Collects lags, counts and failures.
pub(crate) struct Monitor {
    store: Store<Embedded>,
    most_backlog: u64,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    lags: BTreeMap<&'static str, Lag>,
    /// When the change log was first seen at which sequence number.
    changes: VecDeque<(Time, u64)>,
    outcomes: BTreeMap<&'static str, OutcomeCounts>,
    requests: BTreeMap<(&'static str, &'static str), BTreeMap<u16, Histogram>>,
    /// Current failures by component.
    troubles: BTreeMap<String, String>,
    last_error: Option<(Time, String)>,
}

/// The backlog of a stream.
#[derive(Debug, Clone, Copy, Default)]
struct Lag {
    records: u64,
    time: Duration,
}

impl Monitor {
    pub(super) fn new(store: Store<Embedded>, most_backlog: u64) -> Self {
        Self { store, most_backlog, known: Mutex::default() }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Known) -> T) -> T {
        work(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Measures lags until shutdown.
    pub(super) async fn poll_lags(&self, mut stopping: watch::Receiver<bool>) {
        while !*stopping.borrow() {
            match self.refresh_lags() {
                Ok(()) => self.report_recovery("lag"),
                Err(error) => self.report_failure("lag", &error),
            }
            tokio::select! {
                () = self.store.clock.sleep(LOOK) => {}
                () = stop_requested(&mut stopping) => {}
            }
        }
    }

    /// Measures the lags of all streams and of the change log.
    pub(super) fn refresh_lags(&self) -> Result<(), Error> {
        let (engine, now) = (&self.store.engine, self.store.clock.now());
        for stream in STREAMS {
            let backlog = engine.backlog(stream, stream, self.most_backlog * 2)?;
            let since = backlog.since_millis.and_then(Time::from_timestamp_millis);
            let time = since.and_then(|since| (now - since).to_std().ok()).unwrap_or_default();
            self.with(|known| known.lags.insert(stream, Lag { records: backlog.records, time }));
        }
        let (last, done) = (engine.last_change()?, engine.checkpoint(PROJECTOR, CHANGES)?);
        self.with(|known| {
            if known.changes.back().is_none_or(|(_, seen)| *seen < last) {
                known.changes.push_back((now, last));
            }
            // Changes have no timestamp: one is at least as old as the first measurement that saw it.
            while known.changes.len() > REMEMBERED
                || known.changes.front().is_some_and(|(_, place)| *place <= done)
            {
                known.changes.pop_front();
            }
            let time =
                known.changes.front().and_then(|(seen, _)| (now - seen).to_std().ok()).unwrap_or_default();
            known.lags.insert(CHANGES, Lag { records: last.saturating_sub(done), time });
        });
        Ok(())
    }

    /// Rejects new work if the writer's queue is too long.
    pub(super) fn check_writer_queue(&self) -> Result<(), Overload> {
        if self.store.engine.waiting() < MOST_WAITING {
            return Ok(());
        }
        Err(Overload { why: "too many writes are waiting: try again soon".to_owned(), retry_after: 1 })
    }

    /// Rejects new records if the stream or the change log is too far behind.
    pub(super) fn check_backlog(&self, stream: &str) -> Result<(), Overload> {
        let waiting = |stream: &str| self.with(|known| known.lags.get(stream).map_or(0, |lag| lag.records));
        let (records, changes) = (waiting(stream), waiting(CHANGES));
        let (most, most_changes) = (self.most_backlog, self.most_backlog * CHANGES_WAIT);
        if records >= most {
            return Err(Overload {
                why: format!("{records} records of {stream} wait to be processed, the most is {most}"),
                retry_after: 5,
            });
        }
        if changes >= most_changes {
            let why = format!(
                "{changes} changes of the tables wait for what follows from them, the most is {most_changes}"
            );
            return Err(Overload { why, retry_after: 5 });
        }
        Ok(())
    }

    /// Whether any stream has unprocessed records.
    pub(super) fn has_waiting_records(&self) -> bool {
        self.with(|known| known.lags.iter().any(|(stream, lag)| *stream != CHANGES && lag.records > 0))
    }

    /// Adds ingested records to a stream's lag.
    pub(super) fn records_ingested(&self, stream: &str, records: u64) {
        self.with(|known| {
            if let Some(lag) = known.lags.get_mut(stream) {
                lag.records += records;
            }
        });
    }

    /// Counts the outcomes of a batch of a stream or of the change log.
    pub(super) fn records_processed(&self, stream: &'static str, counts: &OutcomeCounts) {
        let done: u64 =
            counts.named().iter().filter(|(name, _)| *name != "failed").map(|(_, count)| count).sum();
        self.with(|known| {
            known.outcomes.entry(stream).or_default().add(counts);
            if let Some(lag) = known.lags.get_mut(stream) {
                lag.records = lag.records.saturating_sub(done);
            }
        });
    }

    /// Counts a request.
    pub(super) fn observe_request(
        &self,
        route: &'static str,
        method: &'static str,
        status: u16,
        took: Duration,
    ) {
        self.with(|known| {
            known.requests.entry((route, method)).or_default().entry(status).or_default().observe(took)
        });
    }

    /// Records a component's failure until it reports its recovery. Logged only when it is new.
    pub(super) fn report_failure(&self, who: &str, error: &Error) {
        if self.record_failure(who, error) {
            tracing::warn!(who, %error, "consumer stalled, retrying");
        }
    }

    /// Records a failure without logging it; `true` if it is new.
    pub(super) fn record_failure(&self, who: &str, error: &Error) -> bool {
        let (now, error) = (self.store.clock.now(), error.to_string());
        self.with(|known| {
            known.last_error = Some((now, format!("{who}: {error}")));
            known.troubles.insert(who.to_owned(), error.clone()).is_none_or(|before| before != error)
        })
    }

    /// Clears a component's failure.
    pub(super) fn report_recovery(&self, who: &str) {
        if self.with(|known| known.troubles.remove(who)).is_some() {
            tracing::info!(who, "consumer recovered");
        }
    }

    /// Readiness: the store is writable (which the caller probes), nothing fails, and no stream is far
    /// behind.
    pub(super) fn ready(&self, writable: bool) -> (bool, Value) {
        self.with(|known| {
            let behind = |lag: &Lag| lag.records >= self.most_backlog || lag.time >= FAR_BEHIND;
            let streams = known.lags.iter().filter(|(stream, _)| **stream != CHANGES);
            let ready =
                writable && known.troubles.is_empty() && !streams.into_iter().any(|(_, lag)| behind(lag));
            let lags: BTreeMap<&str, Value> = known
                .lags
                .iter()
                .map(|(stream, lag)| {
                    (
                        *stream,
                        json!({"lag_records": lag.records,
                    "lag_seconds": lag.time.as_secs()}),
                    )
                })
                .collect();
            let last_error =
                known.last_error.as_ref().map(|(at, what)| json!({"at": at.to_rfc3339(), "what": what}));
            (
                ready,
                json!({"ready": ready, "writable": writable, "streams": lags, "troubles": known.troubles,
                "last_error": last_error}),
            )
        })
    }

    /// The metrics page for Prometheus.
    pub(super) fn render_metrics(&self) -> Result<String, Error> {
        self.refresh_lags()?;
        let engine = &self.store.engine;
        let mut page = Page::default();
        page.family("dues_parked_records", "gauge", "Records that could not be processed, by stream.");
        for (stream, count) in engine.parked_by_stream()? {
            page.sample("dues_parked_records", &[("stream", &stream)], count);
        }
        page.family("dues_unapplied_money_open", "gauge", "Unapplied money that awaits a decision.");
        page.sample("dues_unapplied_money_open", &[], engine.open_unapplied_money()?);
        page.family("dues_attention_open", "gauge", "Subscriptions at Stripe with an overdue renewal.");
        page.sample("dues_attention_open", &[], engine.open_attention()?);
        page.family("dues_writer_queue_depth", "gauge", "Writes that wait for the store's one writer.");
        page.sample("dues_writer_queue_depth", &[], engine.waiting());
        page.family("process_resident_memory_bytes", "gauge", "Memory that the program holds.");
        page.sample("process_resident_memory_bytes", &[], memory::resident_kb() * 1024);
        self.with(|known| known.write(&mut page));
        Ok(page.text())
    }
}

impl Known {
    fn write(&self, page: &mut Page) {
        page.family(
            "dues_records_total",
            "counter",
            "Records and changes that were processed since the start, by stream and fate.",
        );
        for (stream, counts) in &self.outcomes {
            for (fate, count) in counts.named() {
                page.sample("dues_records_total", &[("stream", stream), ("fate", fate)], count);
            }
        }
        page.family("dues_stream_lag_records", "gauge", "Records that wait to be processed, by stream.");
        for (stream, lag) in &self.lags {
            page.sample("dues_stream_lag_records", &[("stream", stream)], lag.records);
        }
        page.family("dues_stream_lag_seconds", "gauge", "How long the first of them has waited.");
        for (stream, lag) in &self.lags {
            page.sample("dues_stream_lag_seconds", &[("stream", stream)], lag.time.as_secs_f64());
        }
        page.family("dues_troubles", "gauge", "Consumers that are stalled, and jobs that failed last time.");
        page.sample("dues_troubles", &[], self.troubles.len());
        page.family("dues_http_requests_total", "counter", "Requests that were answered.");
        for ((route, method), statuses) in &self.requests {
            for (status, histogram) in statuses {
                let labels = [("route", *route), ("method", *method), ("status", &status.to_string())];
                page.sample("dues_http_requests_total", &labels, histogram.count());
            }
        }
        page.family("dues_http_request_duration_seconds", "histogram", "How long requests took.");
        for ((route, method), statuses) in &self.requests {
            for (status, histogram) in statuses {
                let labels = [("route", *route), ("method", *method), ("status", &status.to_string())];
                page.histogram("dues_http_request_duration_seconds", &labels, histogram);
            }
        }
    }
}
