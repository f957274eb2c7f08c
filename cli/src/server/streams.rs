//! The handlers of the local streams, concurrent with the server. Each stream has a task, so that a failing
//! one does not block the others.

use dues_processors::collections::Collector;
use dues_processors::runtime::changes::STREAM as CHANGES;
use dues_processors::{COLLECTION_STREAMS, Context, OutcomeCounts, STREAMS};
use dues_store::Store;
use dues_store::embedded::Embedded;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::app::App;
use super::monitor::Monitor;
use crate::commands::serve::stop_requested;
use crate::local::feeder::feed_while;
use crate::local::gateway::AnyGateway;
use crate::local::projector::project_while;
use crate::local::settings;
use crate::local::stream_runner::StreamRunner;
use crate::local::streams::LocalStreams;
use crate::output::Error;

/// Records and table changes per batch: small, so that decoding them does not delay requests.
const BATCH: usize = 500;
const CHANGES_BATCH: usize = 300;
/// While records wait, followers pause for this multiple of the time they worked: ingested records have
/// priority.
const RESPITE: u32 = 2;
/// Polling interval: appends by another process send no signal.
const LOOK: Duration = Duration::from_millis(200);
/// Intervals of WAL checkpoints while the log grows, and while it does not. Acknowledgements share the disk
/// with the checkpoint: frequent small ones keep latency low.
const COPY: Duration = Duration::from_millis(50);
const COPY_IDLE: Duration = Duration::from_millis(500);
/// WAL pages above which to checkpoint at once: at [`Embedded::LONGEST_LOG`] the writer checkpoints the rest
/// itself and blocks every write.
const LONG_LOG: u64 = Embedded::LONGEST_LOG / 4 * 3;
const COPY_LONG: Duration = Duration::from_millis(1);
/// Delay after a stream failed, in addition to the retries of its batch.
const PAUSE: Duration = Duration::from_secs(2);
/// Interval at which processed records are deleted.
const TIDY: Duration = Duration::from_secs(3600);

/// Starts the handlers; they stop at shutdown, after their current batches.
pub(crate) fn start(app: &Arc<App>, stopping: &watch::Receiver<bool>) -> Result<JoinSet<()>, Error> {
    let mut tasks = JoinSet::new();
    let read_models = settings::read_models()?;
    for stream in STREAMS {
        // A local stream has no late shards to wait for: records that arrive too early are parked at once.
        let context =
            Context { parallel: BATCH, read_models: read_models.clone(), ..Context::new(app.store.clone()) };
        let lane = Lane {
            context,
            stream,
            collector: COLLECTION_STREAMS.contains(&stream).then(|| app.api.collector.clone()),
            monitor: app.monitor.clone(),
            appended: app.appended(),
            stopping: stopping.clone(),
        };
        tasks.spawn(lane.run());
    }
    tasks.spawn(keep_projecting(app.store.clone(), app.monitor.clone(), stopping.clone()));
    tasks.spawn(keep_feeding(app.store.clone(), app.monitor.clone(), stopping.clone()));
    tasks.spawn(checkpoint_wal(app.store.clone(), stopping.clone()));
    let (monitor, stopping) = (app.monitor.clone(), stopping.clone());
    tasks.spawn(async move { monitor.poll_lags(stopping).await });
    Ok(tasks)
}

/// Runs the projector until shutdown.
async fn keep_projecting(store: Store<Embedded>, monitor: Arc<Monitor>, mut stopping: watch::Receiver<bool>) {
    while !*stopping.borrow() {
        let begun = store.clock.uptime();
        let projected = project_while(&store, CHANGES_BATCH, |counts| {
            monitor.records_processed(CHANGES, counts);
            !*stopping.borrow() && !monitor.has_waiting_records()
        });
        let projected = projected.await;
        match &projected {
            Ok(()) => monitor.report_recovery(CHANGES),
            Err(error) => monitor.report_failure(CHANGES, error),
        }
        rest(&store, if projected.is_ok() { look(&store, &monitor, begun) } else { PAUSE }, &mut stopping)
            .await;
    }
}

/// Pause of a follower that started at `begun`: while records wait it yields to them.
fn look(store: &Store<Embedded>, monitor: &Monitor, begun: Duration) -> Duration {
    if monitor.has_waiting_records() { (store.clock.uptime() - begun) * RESPITE } else { LOOK }
}

/// Runs the feeder until shutdown.
async fn keep_feeding(store: Store<Embedded>, monitor: Arc<Monitor>, mut stopping: watch::Receiver<bool>) {
    let streams = LocalStreams::new(store.engine.clone());
    let mut tidied = None;
    while !*stopping.borrow() {
        let begun = store.clock.uptime();
        let mut fed =
            feed_while(&store, CHANGES_BATCH, |_| !*stopping.borrow() && !monitor.has_waiting_records())
                .await;
        if fed.is_ok() && tidied.is_none_or(|at| store.clock.uptime() - at >= TIDY) {
            fed = streams.trim().await;
            tidied = Some(store.clock.uptime());
        }
        if let Err(error) = &fed {
            tracing::warn!(%error, "changes could not be published, retrying");
        }
        rest(&store, if fed.is_ok() { look(&store, &monitor, begun) } else { PAUSE }, &mut stopping).await;
    }
}

/// Sleeps until `pause` is over or the program stops.
async fn rest(store: &Store<Embedded>, pause: Duration, stopping: &mut watch::Receiver<bool>) {
    tokio::select! {
        () = store.clock.sleep(pause) => {}
        () = stop_requested(stopping) => {}
    }
}

/// Checkpoints the WAL concurrently with the writer, until shutdown.
async fn checkpoint_wal(store: Store<Embedded>, mut stopping: watch::Receiver<bool>) {
    let mut before = 0;
    while !*stopping.borrow() {
        let engine = store.engine.clone();
        // Pages that could not be copied are left to the next checkpoint or the writer.
        let pages = tokio::task::spawn_blocking(move || engine.checkpoint_wal())
            .await
            .map_or(Ok(0), |pages| pages)
            .unwrap_or(0);
        let pause = match pages {
            LONG_LOG.. => COPY_LONG,
            _ if pages == before => COPY_IDLE,
            _ => COPY,
        };
        rest(&store, pause, &mut stopping).await;
        before = pages;
    }
}

/// A stream and its handler.
struct Lane {
    context: Context<Embedded>,
    stream: &'static str,
    /// For streams of collection requests.
    collector: Option<Collector<Embedded, AnyGateway>>,
    monitor: Arc<Monitor>,
    appended: watch::Receiver<()>,
    stopping: watch::Receiver<bool>,
}

impl Lane {
    async fn run(mut self) {
        while !*self.stopping.borrow() {
            let Err(error) = self.follow().await else { return };
            self.monitor.report_failure(self.stream, &error);
            self.pause(PAUSE).await;
        }
    }

    /// Processes records until shutdown.
    async fn follow(&mut self) -> Result<(), Error> {
        let clock = self.context.store.clock.clone();
        let mut run = StreamRunner::new(self.context.clone(), self.stream)?.with_batch_size(BATCH);
        if let Some(collector) = &self.collector {
            run = run.with_collector(collector.clone(), false);
        }
        let (mut tidied, mut done) = (None, OutcomeCounts::default());
        while !*self.stopping.borrow() {
            if tidied.is_none_or(|at| clock.uptime() - at >= TIDY) {
                run.trim().await?;
                tidied = Some(clock.uptime());
            }
            let mut counts = OutcomeCounts::default();
            let noted = run.checkpoint();
            let more =
                run.step(|record| format!("seq {}", record.seq), |_, fate| counts.count(&fate)).await?;
            if more {
                let OutcomeCounts { applied, duplicate, ignored, skipped, parked, failed } = counts;
                tracing::debug!(
                    stream = self.stream,
                    applied,
                    duplicate,
                    ignored,
                    skipped,
                    parked,
                    failed,
                    "batch"
                );
            }
            done.add(&counts);
            // Records that the checkpoint has not passed may be redelivered: they still count as waiting.
            if run.checkpoint() > noted || !more {
                self.monitor.records_processed(self.stream, &std::mem::take(&mut done));
            }
            self.monitor.report_recovery(self.stream);
            if !more {
                self.pause(LOOK).await;
            }
        }
        let finished = run.finish(|_, fate| done.count(&fate)).await;
        self.monitor.records_processed(self.stream, &done);
        finished
    }

    /// Waits for `longest`, an append or shutdown.
    async fn pause(&mut self, longest: Duration) {
        let sleep = self.context.store.clock.sleep(longest);
        tokio::select! {
            () = sleep => {}
            // A closed channel disables this branch.
            Ok(()) = self.appended.changed() => {}
            () = stop_requested(&mut self.stopping) => {}
        }
    }
}
