//! The daily jobs; they call the same functions as the commands.

use dues_processors::collections::Collector;
use dues_processors::collections::job::{JobRun, Staleness};
use dues_processors::collections::notifier::notifier_scheduler;
use dues_processors::usage::reset::usage_reset;
use dues_store::embedded::Embedded;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

use super::app::App;
use super::schedule::{Schedule, Timetable, Work, Worker};
use crate::args::LockArgs;
use crate::commands::clock::book_timers;
use crate::commands::collect::collect_all;
use crate::commands::serve::stop_requested;
use crate::local::gateway::AnyGateway;
use crate::local::settings;
use crate::local::streams::LocalStreams;
use crate::output::{Error, grouped};

/// Name under which schedule failures are reported.
const SCHEDULE: &str = "schedule";
/// Delay after the schedule could not be read.
const PAUSE: Duration = Duration::from_secs(30);

/// Runs jobs on schedule until shutdown; a job in progress is completed.
pub(crate) async fn run(
    app: Arc<App>,
    timetable: Timetable,
    lock: LockArgs,
    mut stopping: watch::Receiver<bool>,
) {
    while !*stopping.borrow() {
        let Err(error) = follow(&app, &timetable, &lock, &mut stopping).await else { return };
        app.monitor.report_failure(SCHEDULE, &error);
        let sleep = app.store.clock.sleep(PAUSE);
        tokio::select! {
            () = sleep => {}
            () = stop_requested(&mut stopping) => {}
        }
    }
}

async fn follow(
    app: &Arc<App>,
    timetable: &Timetable,
    lock: &LockArgs,
    stopping: &mut watch::Receiver<bool>,
) -> Result<(), Error> {
    let office = Office { collector: app.api.collector.clone(), lock: lock.clone() };
    let schedule = Schedule::begin(app.store.clone(), timetable.clone(), office).await?;
    while !*stopping.borrow() {
        schedule
            .run_due(|job, done| match done {
                Ok(said) => {
                    tracing::info!(job = job.name, outcome = said, "job done");
                    app.monitor.report_recovery(job.name);
                }
                Err(error) => {
                    // Log every failure, even a repeated one.
                    tracing::warn!(job = job.name, %error, "job failed: trying again soon");
                    app.monitor.record_failure(job.name, &error);
                }
            })
            .await?;
        app.monitor.report_recovery(SCHEDULE);
        let sleep = app.store.clock.sleep(schedule.pause());
        tokio::select! {
            () = sleep => {}
            () = stop_requested(stopping) => {}
        }
    }
    Ok(())
}

/// Runs the jobs.
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
            Work::Sweep => self.sweep().await,
            Work::BookTimers => self.book_timers().await,
        }
    }
}

impl Office {
    async fn reset_usage(&self) -> Result<String, Error> {
        let reset = usage_reset(&self.collector.store, &settings::usage()?, |_| {}).await?;
        Ok(format!("{} counts of {} days forgotten", grouped(reset.rows), grouped(reset.days)))
    }

    async fn sweep(&self) -> Result<String, Error> {
        let swept = self.collector.store.sweep(|_| {}).await?;
        Ok(crate::commands::sweep::summary(&swept))
    }

    async fn book_timers(&self) -> Result<String, Error> {
        let store = &self.collector.store;
        let report = book_timers(store).await?;
        report.check().map_err(Error::Message)?;
        Ok(dues_processors::entitlements::clock::summary(&report, store.clock.now()))
    }

    async fn collect(&self, process: JobRun) -> Result<String, Error> {
        let waits = |members| {
            tracing::info!(?process, members, "other workers have some of the members: waiting for them")
        };
        let (collected, _) =
            collect_all(&self.collector, (process, Staleness::Guarded), &self.lock, |_, _| {}, waits).await?;
        collected.check()?;
        let (sent, read) = (grouped(collected.tally.sent), grouped(collected.progress.read));
        Ok(match &collected.progress.closed {
            Some(closed) => format!("nothing is collected today: {closed}"),
            None => format!("{sent} debits sent, {read} records looked at"),
        })
    }

    async fn notify(&self) -> Result<String, Error> {
        let Collector { store, locks, rules, .. } = &self.collector;
        let notified =
            notifier_scheduler(store, locks, rules, &LocalStreams::new(store.engine.clone()), |_| {}).await?;
        if notified.locked {
            return Err(Error::Message("another run is under way".to_owned()));
        }
        Ok(format!(
            "published {} reminders, {} were published before",
            grouped(notified.published),
            grouped(notified.known)
        ))
    }
}
