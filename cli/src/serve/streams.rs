//! The handlers of the local streams, beside the server: each stream has a task, so that one that fails keeps no other waiting.

use chrono::TimeDelta;
use dues_processors::changes::STREAM as CHANGES;
use dues_processors::redrive::release_waiting;
use dues_processors::{Context, Counts, STREAMS};
use dues_store::Store;
use dues_store::embedded::Embedded;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::app::App;
use super::monitor::Monitor;
use super::told;
use crate::feeder_run::feed_while;
use crate::outgoing::LocalStreams;
use crate::output::Error;
use crate::projector_run::project_while;
use crate::settings;
use crate::stream_run::StreamRun;

/// How many records of a stream, and changes of the tables, are worked on at once: their decoding must not keep requests waiting.
const BATCH: usize = 500;
const CHANGES_BATCH: usize = 300;
/// While records wait, what follows from changes rests for so many times as long as it has worked: records are what somebody waits for.
const RESPITE: u32 = 2;
/// How often to look for what another program has appended; nothing tells of that.
const LOOK: Duration = Duration::from_millis(200);
/// How often the store's log is copied back while it grows, and while it does not. Whoever waits for an acknowledgement waits for the disk, which copies
/// meanwhile: often and little keeps nobody waiting for long.
const COPY: Duration = Duration::from_millis(50);
const COPY_IDLE: Duration = Duration::from_millis(500);
/// When the log has so many pages the writer will soon copy what is left itself, and everybody waits for that: so there is to be little left.
const LONG_LOG: u64 = Embedded::LONGEST_LOG / 4 * 3;
const COPY_LONG: Duration = Duration::from_millis(1);
/// The pause after a stream failed, beside those that the batch has had already.
const PAUSE: Duration = Duration::from_secs(2);
/// How often records that are done with are forgotten.
const TIDY: Duration = Duration::from_secs(3600);

/// Runs the handlers until the program stops, and then to the end of their batches.
pub(super) fn start(app: &Arc<App>, stopping: &watch::Receiver<bool>) -> Result<JoinSet<()>, Error> {
    let mut tasks = JoinSet::new();
    let read_models = settings::read_models()?;
    for stream in STREAMS {
        // Nothing is missing on a stream that is in this file: what came too early waits among the parked ones.
        let context =
            Context { hold: TimeDelta::zero(), parallel: BATCH, read_models: read_models.clone(), ..Context::new(app.store.clone()) };
        let lane = Lane { context, stream, monitor: app.monitor.clone(), appended: app.appended(), stopping: stopping.clone() };
        tasks.spawn(lane.run());
    }
    tasks.spawn(keep_projecting(app.store.clone(), app.monitor.clone(), stopping.clone()));
    tasks.spawn(keep_feeding(app.store.clone(), app.monitor.clone(), stopping.clone()));
    tasks.spawn(copy_back(app.store.clone(), stopping.clone()));
    let (monitor, stopping) = (app.monitor.clone(), stopping.clone());
    tasks.spawn(async move { monitor.watch(stopping).await });
    Ok(tasks)
}

/// Does what follows from the changes of the tables, until the program stops.
async fn keep_projecting(store: Store<Embedded>, monitor: Arc<Monitor>, mut stopping: watch::Receiver<bool>) {
    while !*stopping.borrow() {
        let begun = store.clock.uptime();
        let projected = project_while(&store, CHANGES_BATCH, |counts| {
            monitor.went(CHANGES, counts);
            !*stopping.borrow() && !monitor.records_wait()
        });
        let projected = projected.await;
        match &projected {
            Ok(()) => monitor.recovered(CHANGES),
            Err(error) => monitor.trouble(CHANGES, error),
        }
        rest(&store, if projected.is_ok() { look(&store, &monitor, begun) } else { PAUSE }, &mut stopping).await;
    }
}

/// How long whoever follows the changes rests, who began then: records that wait go first, what follows from them can come later.
fn look(store: &Store<Embedded>, monitor: &Monitor, begun: Duration) -> Duration {
    if monitor.records_wait() { (store.clock.uptime() - begun) * RESPITE } else { LOOK }
}

/// Tells others of the changes of the tables, until the program stops.
async fn keep_feeding(store: Store<Embedded>, monitor: Arc<Monitor>, mut stopping: watch::Receiver<bool>) {
    let streams = LocalStreams::new(store.engine.clone());
    let mut tidied = None;
    while !*stopping.borrow() {
        let begun = store.clock.uptime();
        let mut fed = feed_while(&store, CHANGES_BATCH, |_| !*stopping.borrow() && !monitor.records_wait()).await;
        if fed.is_ok() && tidied.is_none_or(|at| store.clock.uptime() - at >= TIDY) {
            fed = streams.tidy().await;
            tidied = Some(store.clock.uptime());
        }
        if let Err(error) = &fed {
            tracing::warn!(%error, "others could not be told of changes: trying again, nothing is lost");
        }
        rest(&store, if fed.is_ok() { look(&store, &monitor, begun) } else { PAUSE }, &mut stopping).await;
    }
}

/// Waits before the next look, unless the program stops.
async fn rest(store: &Store<Embedded>, pause: Duration, stopping: &mut watch::Receiver<bool>) {
    tokio::select! {
        () = store.clock.sleep(pause) => {}
        () = told(stopping) => {}
    }
}

/// Copies the store's log back while the writer works, until the program stops.
async fn copy_back(store: Store<Embedded>, mut stopping: watch::Receiver<bool>) {
    let mut before = 0;
    while !*stopping.borrow() {
        let engine = store.engine.clone();
        // What could not be copied is copied the next time, or by the writer.
        let pages = tokio::task::spawn_blocking(move || engine.copy_back()).await.map_or(Ok(0), |pages| pages).unwrap_or(0);
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
    monitor: Arc<Monitor>,
    appended: watch::Receiver<()>,
    stopping: watch::Receiver<bool>,
}

impl Lane {
    async fn run(mut self) {
        while !*self.stopping.borrow() {
            let Err(error) = self.follow().await else { return };
            self.monitor.trouble(self.stream, &error);
            self.pause(PAUSE).await;
        }
    }

    /// Processes what is there and what comes, until the program stops.
    async fn follow(&mut self) -> Result<(), Error> {
        let clock = self.context.store.clock.clone();
        let mut run = StreamRun::new(self.context.clone(), self.stream)?.in_batches_of(BATCH);
        let (mut tidied, mut released, mut worked, mut done) = (None, clock.uptime(), false, Counts::default());
        while !*self.stopping.borrow() {
            if tidied.is_none_or(|at| clock.uptime() - at >= TIDY) {
                run.tidy().await?;
                tidied = Some(clock.uptime());
            }
            let mut counts = Counts::default();
            let noted = run.noted();
            let more = run.step(|record| format!("seq {}", record.seq), |_, fate| counts.count(&fate)).await?;
            if more {
                let Counts { applied, duplicate, ignored, skipped, parked, failed } = counts;
                tracing::debug!(stream = self.stream, applied, duplicate, ignored, skipped, parked, failed, "batch");
            }
            done.add(&counts);
            // What the checkpoint has not passed would come again: it still waits.
            if run.noted() > noted || !more {
                self.monitor.went(self.stream, &std::mem::take(&mut done));
            }
            self.monitor.recovered(self.stream);
            worked |= more;
            // Whatever came too early is looked for among all that is parked: not after every record.
            if worked && clock.uptime() - released >= LOOK {
                release_waiting(&self.context, self.stream).await?;
                (released, worked) = (clock.uptime(), false);
            }
            if !more {
                self.pause(LOOK).await;
            }
        }
        let finished = run.finish(|_, fate| done.count(&fate)).await;
        self.monitor.went(self.stream, &done);
        finished
    }

    /// Waits so long, or until something was appended or the program stops.
    async fn pause(&mut self, longest: Duration) {
        let sleep = self.context.store.clock.sleep(longest);
        tokio::select! {
            () = sleep => {}
            // Without an inbox nothing is ever told, and with no program there is nothing to wait for.
            Ok(()) = self.appended.changed() => {}
            () = told(&mut self.stopping) => {}
        }
    }
}
