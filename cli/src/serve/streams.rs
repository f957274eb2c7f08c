//! The handlers of the local streams, beside the server: each stream has a task, so that one that fails keeps no other waiting.

use chrono::TimeDelta;
use dues_processors::redrive::release_waiting;
use dues_processors::{Context, STREAMS};
use dues_store::Store;
use dues_store::embedded::Embedded;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::told;
use crate::feeder_run::feed;
use crate::outgoing::LocalStreams;
use crate::output::Error;
use crate::projector_run::project;
use crate::settings;
use crate::stream_run::StreamRun;

/// How often to look for what another program has appended; nothing tells of that.
const LOOK: Duration = Duration::from_millis(200);
/// The pause after a stream failed, beside those that the batch has had already.
const PAUSE: Duration = Duration::from_secs(2);
/// How often records that are done with are forgotten.
const TIDY: Duration = Duration::from_secs(3600);

/// Runs the handlers until the program stops, and then to the end of their batches.
pub(super) fn start(
    store: &Store<Embedded>,
    appended: &watch::Receiver<()>,
    stopping: &watch::Receiver<bool>,
) -> Result<JoinSet<()>, Error> {
    let mut tasks = JoinSet::new();
    let read_models = settings::read_models()?;
    for stream in STREAMS {
        // Nothing is missing on a stream that is in this file: what came too early waits among the parked ones.
        let context = Context { hold: TimeDelta::zero(), read_models: read_models.clone(), ..Context::new(store.clone()) };
        let lane = Lane { context, stream, appended: appended.clone(), stopping: stopping.clone() };
        tasks.spawn(lane.run());
    }
    tasks.spawn(keep_projecting(store.clone(), stopping.clone()));
    tasks.spawn(keep_feeding(store.clone(), stopping.clone()));
    Ok(tasks)
}

/// Does what follows from the changes of the tables, until the program stops.
async fn keep_projecting(store: Store<Embedded>, mut stopping: watch::Receiver<bool>) {
    while !*stopping.borrow() {
        let projected = project(&store).await;
        rest(&store, "what follows from changes", projected, &mut stopping).await;
    }
}

/// Tells others of the changes of the tables, until the program stops.
async fn keep_feeding(store: Store<Embedded>, mut stopping: watch::Receiver<bool>) {
    let streams = LocalStreams::new(store.engine.clone());
    let mut tidied = None;
    while !*stopping.borrow() {
        let mut fed = feed(&store).await;
        if fed.is_ok() && tidied.is_none_or(|at| store.clock.uptime() - at >= TIDY) {
            fed = streams.tidy().await;
            tidied = Some(store.clock.uptime());
        }
        rest(&store, "telling others of changes", fed, &mut stopping).await;
    }
}

/// Waits before the next look, longer when something went wrong.
async fn rest(store: &Store<Embedded>, what: &str, done: Result<(), Error>, stopping: &mut watch::Receiver<bool>) {
    let pause = match done {
        Ok(()) => LOOK,
        Err(error) => {
            eprintln!("{what}: {error}; trying again soon, nothing is lost");
            PAUSE
        }
    };
    tokio::select! {
        () = store.clock.sleep(pause) => {}
        () = told(stopping) => {}
    }
}

/// A stream and its handler.
struct Lane {
    context: Context<Embedded>,
    stream: &'static str,
    appended: watch::Receiver<()>,
    stopping: watch::Receiver<bool>,
}

impl Lane {
    async fn run(mut self) {
        while !*self.stopping.borrow() {
            let Err(error) = self.follow().await else { return };
            eprintln!("stream {}: {error}; trying again soon, nothing is lost", self.stream);
            self.pause(PAUSE).await;
        }
    }

    /// Processes what is there and what comes, until the program stops.
    async fn follow(&mut self) -> Result<(), Error> {
        let clock = self.context.store.clock.clone();
        let mut run = StreamRun::new(self.context.clone(), self.stream)?;
        let mut tidied = None;
        while !*self.stopping.borrow() {
            if tidied.is_none_or(|at| clock.uptime() - at >= TIDY) {
                run.tidy().await?;
                tidied = Some(clock.uptime());
            }
            let mut worked = false;
            while !*self.stopping.borrow() && run.step(|record| format!("seq {}", record.seq), |_, _| {}).await? {
                worked = true;
            }
            if worked {
                release_waiting(&self.context, self.stream).await?;
            }
            self.pause(LOOK).await;
        }
        Ok(())
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
