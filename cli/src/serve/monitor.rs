//! What the server knows of itself: how far behind its streams are, what became of records and requests, and what does not work at the moment.

use dues_events::Time;
use dues_processors::changes::STREAM as CHANGES;
use dues_processors::{Counts, STREAMS};
use dues_store::Store;
use dues_store::embedded::Embedded;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

use super::metrics::{Histogram, Page};
use super::told;
use crate::follow::PROJECTOR;
use crate::memory;
use crate::output::Error;

/// The checkpoint that is written to see whether anything can be.
pub(super) const PROBE: &str = "ready";
/// How often to look how far behind the streams are.
const LOOK: Duration = Duration::from_secs(1);
/// How many looks at the change log are remembered: an hour of them.
const REMEMBERED: usize = 3600;
/// A stream whose oldest record has waited longer is far behind.
const FAR_BEHIND: Duration = Duration::from_secs(300);
/// The writer's queue is full for newcomers before it is full: what is under way needs places too.
const MOST_WAITING: usize = Embedded::MOST_WAITING / 4 * 3;

/// So many times as many changes of the tables may wait for what follows from them as records of a stream: they wait while records come.
const CHANGES_WAIT: u64 = 10;

/// Why more work is not taken at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Busy {
    /// In words.
    pub(super) why: String,
    /// Seconds after which it is worth trying again.
    pub(super) retry_after: u64,
}

/// What the server knows of itself.
pub(super) struct Monitor {
    store: Store<Embedded>,
    most_backlog: u64,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    lags: BTreeMap<&'static str, Lag>,
    /// When the change log had grown to which place.
    changes: VecDeque<(Time, u64)>,
    fates: BTreeMap<&'static str, Counts>,
    requests: BTreeMap<(&'static str, &'static str), BTreeMap<u16, Histogram>>,
    /// What does not work at the moment, by who says so.
    troubles: BTreeMap<String, String>,
    last_error: Option<(Time, String)>,
}

/// How far behind a stream is.
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

    /// Looks how far behind the streams are, until the program stops.
    pub(super) async fn watch(&self, mut stopping: watch::Receiver<bool>) {
        while !*stopping.borrow() {
            match self.look() {
                Ok(()) => self.recovered("lag"),
                Err(error) => self.trouble("lag", &error),
            }
            tokio::select! {
                () = self.store.clock.sleep(LOOK) => {}
                () = told(&mut stopping) => {}
            }
        }
    }

    /// Looks how far behind the streams are.
    pub(super) fn look(&self) -> Result<(), Error> {
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
            // The log does not say when a change was made: what was there at a look was made before it.
            while known.changes.len() > REMEMBERED || known.changes.front().is_some_and(|(_, place)| *place <= done) {
                known.changes.pop_front();
            }
            let time = known.changes.front().and_then(|(seen, _)| (now - seen).to_std().ok()).unwrap_or_default();
            known.lags.insert(CHANGES, Lag { records: last.saturating_sub(done), time });
        });
        Ok(())
    }

    /// Whether the writer has enough to do as it is.
    pub(super) fn writer_is_busy(&self) -> Result<(), Busy> {
        if self.store.engine.waiting() < MOST_WAITING {
            return Ok(());
        }
        Err(Busy { why: "too many writes are waiting: try again soon".to_owned(), retry_after: 1 })
    }

    /// Whether a stream has enough to do as it is.
    pub(super) fn stream_is_busy(&self, stream: &str) -> Result<(), Busy> {
        let waiting = |stream: &str| self.with(|known| known.lags.get(stream).map_or(0, |lag| lag.records));
        let (records, changes) = (waiting(stream), waiting(CHANGES));
        let (most, most_changes) = (self.most_backlog, self.most_backlog * CHANGES_WAIT);
        if records >= most {
            return Err(Busy { why: format!("{records} records of {stream} wait to be processed, the most is {most}"), retry_after: 5 });
        }
        if changes >= most_changes {
            let why = format!("{changes} changes of the tables wait for what follows from them, the most is {most_changes}");
            return Err(Busy { why, retry_after: 5 });
        }
        Ok(())
    }

    /// Whether records of any stream wait to be processed.
    pub(super) fn records_wait(&self) -> bool {
        self.with(|known| known.lags.iter().any(|(stream, lag)| *stream != CHANGES && lag.records > 0))
    }

    /// Records came onto a stream.
    pub(super) fn came(&self, stream: &str, records: u64) {
        self.with(|known| {
            if let Some(lag) = known.lags.get_mut(stream) {
                lag.records += records;
            }
        });
    }

    /// Records of a stream, or changes of the tables, met their fates.
    pub(super) fn went(&self, stream: &'static str, counts: &Counts) {
        let done: u64 = counts.named().iter().filter(|(name, _)| *name != "failed").map(|(_, count)| count).sum();
        self.with(|known| {
            known.fates.entry(stream).or_default().add(counts);
            if let Some(lag) = known.lags.get_mut(stream) {
                lag.records = lag.records.saturating_sub(done);
            }
        });
    }

    /// A request was answered.
    pub(super) fn answered(&self, route: &'static str, method: &'static str, status: u16, took: Duration) {
        self.with(|known| known.requests.entry((route, method)).or_default().entry(status).or_default().observe(took));
    }

    /// Something does not work; whoever says so says when it works again. The log is told when it is news, and not with every try.
    pub(super) fn trouble(&self, who: &str, error: &Error) {
        if self.remember(who, error) {
            tracing::warn!(who, %error, "does not work: trying again, nothing is lost");
        }
    }

    /// The same without the log; `true` when it is news.
    pub(super) fn remember(&self, who: &str, error: &Error) -> bool {
        let (now, error) = (self.store.clock.now(), error.to_string());
        self.with(|known| {
            known.last_error = Some((now, format!("{who}: {error}")));
            known.troubles.insert(who.to_owned(), error.clone()).is_none_or(|before| before != error)
        })
    }

    /// It works.
    pub(super) fn recovered(&self, who: &str) {
        if self.with(|known| known.troubles.remove(who)).is_some() {
            tracing::info!(who, "works again");
        }
    }

    /// Whether the server can do its work: nothing fails, no stream is far behind. Who asks adds whether the store can be written.
    pub(super) fn ready(&self, writable: bool) -> (bool, Value) {
        self.with(|known| {
            let behind = |lag: &Lag| lag.records >= self.most_backlog || lag.time >= FAR_BEHIND;
            let streams = known.lags.iter().filter(|(stream, _)| **stream != CHANGES);
            let ready = writable && known.troubles.is_empty() && !streams.into_iter().any(|(_, lag)| behind(lag));
            let lags: BTreeMap<&str, Value> = known
                .lags
                .iter()
                .map(|(stream, lag)| (*stream, json!({"lag_records": lag.records, "lag_seconds": lag.time.as_secs()})))
                .collect();
            let last_error = known.last_error.as_ref().map(|(at, what)| json!({"at": at.to_rfc3339(), "what": what}));
            (ready, json!({"ready": ready, "writable": writable, "streams": lags, "troubles": known.troubles, "last_error": last_error}))
        })
    }

    /// The page for Prometheus.
    pub(super) fn page(&self) -> Result<String, Error> {
        self.look()?;
        let engine = &self.store.engine;
        let mut page = Page::default();
        page.family("dues_parked_records", "gauge", "Records that could not be processed, by stream.");
        for (stream, count) in engine.parked_by_stream()? {
            page.sample("dues_parked_records", &[("stream", &stream)], count);
        }
        page.family("dues_writer_queue_depth", "gauge", "Writes that wait for the store's one writer.");
        page.sample("dues_writer_queue_depth", &[], engine.waiting());
        page.family("process_resident_memory_bytes", "gauge", "Memory that the program holds.");
        page.sample("process_resident_memory_bytes", &[], memory::held_kb() * 1024);
        self.with(|known| known.write(&mut page));
        Ok(page.text())
    }
}

impl Known {
    fn write(&self, page: &mut Page) {
        page.family("dues_records_total", "counter", "Records and changes that were processed since the start, by stream and fate.");
        for (stream, counts) in &self.fates {
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
        page.family("dues_troubles", "gauge", "What does not work at the moment.");
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
