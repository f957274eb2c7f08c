//! What the daily jobs do, by the same functions as the commands.

use dues_processors::collections::Collector;
use dues_processors::collections::job::Process;
use dues_processors::notifier::notifier_scheduler;
use dues_processors::usage_reset::usage_reset;
use dues_store::embedded::Embedded;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

use super::app::App;
use super::schedule::{Schedule, Timetable, Work, Worker};
use super::told;
use crate::args::LockArgs;
use crate::collect::collect_all;
use crate::gateway::AnyGateway;
use crate::outgoing::LocalStreams;
use crate::output::{Error, grouped};
use crate::settings;

/// Whose troubles they are.
const SCHEDULE: &str = "schedule";
/// The pause after the schedule could not be read.
const PAUSE: Duration = Duration::from_secs(30);

/// Runs the jobs at their times until the program stops, and then to the end of the one that is under way.
pub(super) async fn run(app: Arc<App>, timetable: Timetable, lock: LockArgs, mut stopping: watch::Receiver<bool>) {
    while !*stopping.borrow() {
        let Err(error) = follow(&app, &timetable, &lock, &mut stopping).await else { return };
        app.monitor.trouble(SCHEDULE, &error);
        let sleep = app.store.clock.sleep(PAUSE);
        tokio::select! {
            () = sleep => {}
            () = told(&mut stopping) => {}
        }
    }
}

async fn follow(app: &Arc<App>, timetable: &Timetable, lock: &LockArgs, stopping: &mut watch::Receiver<bool>) -> Result<(), Error> {
    let office = Office { collector: app.api.collector.clone(), lock: lock.clone() };
    let schedule = Schedule::begin(app.store.clone(), timetable.clone(), office).await?;
    while !*stopping.borrow() {
        schedule
            .run_due(|job, done| match done {
                Ok(said) => {
                    tracing::info!(job = job.name, outcome = said, "job done");
                    app.monitor.recovered(job.name);
                }
                Err(error) => {
                    // Every run is told of, also one that fails as the one before it did.
                    tracing::warn!(job = job.name, %error, "job failed: trying again soon");
                    app.monitor.remember(job.name, &error);
                }
            })
            .await?;
        app.monitor.recovered(SCHEDULE);
        let sleep = app.store.clock.sleep(schedule.pause());
        tokio::select! {
            () = sleep => {}
            () = told(stopping) => {}
        }
    }
    Ok(())
}

/// Does the jobs' work.
struct Office {
    collector: Collector<Embedded, AnyGateway>,
    lock: LockArgs,
}

impl Worker for Office {
    async fn work(&self, work: Work) -> Result<String, Error> {
        match work {
            Work::Collect(process) => self.collect(process).await,
            Work::Notify => self.notify().await,
            Work::ResetUsage => self.reset_usage().await,
        }
    }
}

impl Office {
    async fn reset_usage(&self) -> Result<String, Error> {
        let reset = usage_reset(&self.collector.store, &settings::usage()?, |_| {}).await?;
        Ok(format!("{} counts of {} days forgotten", grouped(reset.rows), grouped(reset.days)))
    }

    async fn collect(&self, process: Process) -> Result<String, Error> {
        let waits = |members| tracing::info!(?process, members, "other workers have some of the members: waiting for them");
        let (collected, _) = collect_all(&self.collector, process, &self.lock, |_, _| {}, waits).await?;
        collected.failed()?;
        let (sent, read) = (grouped(collected.tally.sent), grouped(collected.progress.read));
        Ok(match &collected.progress.closed {
            Some(closed) => format!("nothing is collected today: {closed}"),
            None => format!("{sent} debits sent, {read} records looked at"),
        })
    }

    async fn notify(&self) -> Result<String, Error> {
        let Collector { store, locks, rules, .. } = &self.collector;
        let notified = notifier_scheduler(store, locks, rules, &LocalStreams::new(store.engine.clone()), |_| {}).await?;
        if notified.locked {
            return Err(Error::Said("another run is under way".to_owned()));
        }
        Ok(format!("told of {} records, {} were told before", grouped(notified.told), grouped(notified.known)))
    }
}
