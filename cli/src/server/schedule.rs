//! The job schedule: each job once a day, once an hour or every five minutes, at its time, in UTC.
//!
//! The store has a checkpoint per job with the due time of its last run. A job that was missed while the
//! server was down runs later on the same day, and an interrupted job is due again. Every job is idempotent.

use chrono::{Datelike as _, NaiveTime, TimeDelta, Timelike as _, Weekday};
use dues_events::Time;
use dues_processors::collections::job::JobRun;
use dues_store::embedded::Embedded;
use dues_store::{Store, StoreError};
use std::future::Future;
use std::time::Duration;

use crate::output::Error;

/// Consumer name of the checkpoints.
const CONSUMER: &str = "schedule";
/// Maximum pause between two readings of the clock, which may be set meanwhile.
const LOOK: Duration = Duration::from_secs(30);

/// The work of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// A collections run.
    Collect(JobRun),
    /// Publishes reminders for records that are due soon.
    Notify,
    /// Deletes the usage counters of past days.
    ResetUsage,
    /// Completes interrupted commits.
    Sweep,
    /// Books the timers of entitlements.
    BookTimers,
}

/// Days on which a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Days {
    All,
    Weekdays,
    /// Every hour of every day, at the minute of its time.
    Hourly,
    /// Every five minutes of every day.
    FiveMinutely,
}

/// A scheduled job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(super) name: &'static str,
    pub(super) work: Work,
    days: Days,
    at: NaiveTime,
}

/// All jobs at their default times. A new job is a line here and an arm where jobs are run.
fn usual() -> Vec<Job> {
    [
        ("notifier", Days::All, 6, Work::Notify),
        ("retry", Days::Weekdays, 7, Work::Collect(JobRun::Retry)),
        ("scheduled", Days::Weekdays, 8, Work::Collect(JobRun::Initial)),
        ("pause", Days::Weekdays, 22, Work::Collect(JobRun::Pause)),
        ("usage-reset", Days::All, 1, Work::ResetUsage),
        ("sweep", Days::Hourly, 0, Work::Sweep),
        ("entitlement-clock", Days::FiveMinutely, 0, Work::BookTimers),
    ]
    .into_iter()
    .map(|(name, days, hour, work)| Job {
        name,
        work,
        days,
        at: NaiveTime::from_hms_opt(hour, 0, 0).unwrap_or(NaiveTime::MIN),
    })
    .collect()
}

/// The jobs of a deployment, by time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Timetable(Vec<Job>);

impl Timetable {
    /// Parses changes to the default times, such as `retry=06:30,notifier=off`, or `off` for no jobs.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.trim() == "off" {
            return Ok(Self(Vec::new()));
        }
        let mut jobs = usual();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (name, at) = entry.split_once('=').ok_or_else(|| format!("{entry:?} is not JOB=HH:MM"))?;
            let place = jobs.iter().position(|job| job.name == name);
            let known = || usual().iter().map(|job| job.name).collect::<Vec<_>>().join(", ");
            let place =
                place.ok_or_else(|| format!("{name:?} is not one of {}, or is named twice", known()))?;
            match at {
                "off" => drop(jobs.remove(place)),
                _ => {
                    jobs[place].at = NaiveTime::parse_from_str(at, "%H:%M")
                        .map_err(|_| format!("{name}: {at:?} is not HH:MM"))?
                }
            }
        }
        jobs.sort_by_key(|job| job.at);
        Ok(Self(jobs))
    }
}

impl Job {
    /// When the job is due on that day; an hourly one, in that hour; a five-minutely one, in those minutes.
    fn on(&self, day: Time) -> Option<Time> {
        let time = match self.days {
            Days::All => Some(self.at),
            Days::Weekdays => (!matches!(day.weekday(), Weekday::Sat | Weekday::Sun)).then_some(self.at),
            Days::Hourly => NaiveTime::from_hms_opt(day.hour(), self.at.minute(), 0),
            Days::FiveMinutely => NaiveTime::from_hms_opt(day.hour(), day.minute() / 5 * 5, 0),
        };
        Some(day.date_naive().and_time(time?).and_utc())
    }

    /// When the job was last due today, unless it has run since.
    fn due(&self, last: u64, now: Time) -> Option<Time> {
        self.on(now).filter(|at| *at <= now && seconds(*at) > last)
    }
}

/// Performs the work of jobs.
pub(super) trait Worker: Send + Sync {
    /// Runs a job; returns a summary for the log.
    fn work(&self, work: Work) -> impl Future<Output = Result<String, Error>> + Send;
}

/// Runs jobs at their times.
pub(super) struct Schedule<W> {
    store: Store<Embedded>,
    jobs: Vec<Job>,
    worker: W,
}

impl<W: Worker> Schedule<W> {
    /// Due times before a job's first checkpoint are skipped.
    pub(super) async fn begin(
        store: Store<Embedded>,
        Timetable(jobs): Timetable,
        worker: W,
    ) -> Result<Self, StoreError> {
        let now = store.clock.now();
        for job in &jobs {
            if store.engine.checkpoint(CONSUMER, job.name)? == 0 {
                store.engine.set_checkpoint(CONSUMER, job.name, seconds(now)).await?;
            }
        }
        Ok(Self { store, jobs, worker })
    }

    /// Runs the jobs that are due, one after another, and reports each result.
    pub(super) async fn run_due(
        &self,
        mut report: impl FnMut(&Job, Result<String, Error>),
    ) -> Result<(), StoreError> {
        for job in &self.jobs {
            let last = self.store.engine.checkpoint(CONSUMER, job.name)?;
            let Some(at) = job.due(last, self.store.clock.now()) else { continue };
            let done = self.worker.work(job.work).await;
            if done.is_ok() {
                self.store.engine.set_checkpoint(CONSUMER, job.name, seconds(at)).await?;
            }
            report(job, done);
        }
        Ok(())
    }

    /// The time for which no job is due, at most [`LOOK`].
    pub(super) fn pause(&self) -> Duration {
        let now = self.store.clock.now();
        let next = self.jobs.iter().filter_map(|job| job.on(now)).filter(|at| *at > now).min();
        let pause = next.and_then(|at| (at - now).to_std().ok()).unwrap_or(LOOK);
        // Wake after the due time, never before it.
        (pause + Duration::from_millis(1)).min(LOOK)
    }
}

fn seconds(at: Time) -> u64 {
    // Rounded up: a checkpoint within the second of a due time covers it.
    let whole = at + TimeDelta::seconds(i64::from(at.nanosecond() > 0));
    u64::try_from(whole.timestamp()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::clock::SimulatedClock;
    use std::sync::{Arc, Mutex};

    /// Records the work it is given, or fails if the flag is set.
    #[derive(Clone, Default)]
    struct Notebook(Arc<Mutex<(Vec<Work>, bool)>>);

    impl Worker for Notebook {
        async fn work(&self, work: Work) -> Result<String, Error> {
            let mut book = self.0.lock().unwrap();
            if book.1 {
                return Err(Error::Message("no".to_owned()));
            }
            book.0.push(work);
            Ok(String::new())
        }
    }

    struct Office {
        store: Store<Embedded>,
        clock: Arc<SimulatedClock>,
        notes: Notebook,
        _folder: tempfile::TempDir,
    }

    impl Office {
        fn at(time: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let clock = SimulatedClock::at(time.parse().unwrap());
            let store = Store::new(Embedded::open(&folder.path().join("dues.db")).unwrap(), clock.clone());
            Self { store, clock, notes: Notebook::default(), _folder: folder }
        }

        /// Starts the schedule.
        async fn start(&self, timetable: &str) -> Schedule<Notebook> {
            Schedule::begin(self.store.clone(), Timetable::parse(timetable).unwrap(), self.notes.clone())
                .await
                .unwrap()
        }

        /// Advances the clock to `end`, waking whenever the schedule asks to; returns the jobs that ran,
        /// with their times.
        async fn until(&self, schedule: &Schedule<Notebook>, end: &str) -> Vec<String> {
            let mut done = self.all_until(schedule, end).await;
            // What runs more often than daily has tests of its own.
            done.retain(|job| !job.contains("sweep"));
            done
        }

        /// All jobs but the entitlement clock.
        async fn all_until(&self, schedule: &Schedule<Notebook>, end: &str) -> Vec<String> {
            let mut done = self.every_until(schedule, end).await;
            done.retain(|job| !job.contains("entitlement-clock"));
            done
        }

        async fn every_until(&self, schedule: &Schedule<Notebook>, end: &str) -> Vec<String> {
            let end: Time = end.parse().unwrap();
            let mut done = Vec::new();
            loop {
                schedule
                    .run_due(|job, result| {
                        done.push(format!(
                            "{} {}{}",
                            self.store.clock.now().format("%a %H:%M"),
                            job.name,
                            if result.is_ok() { "" } else { " failed" }
                        ))
                    })
                    .await
                    .unwrap();
                let next = self.store.clock.now() + schedule.pause();
                if next > end {
                    self.clock.set(end);
                    return done;
                }
                self.clock.set(next);
            }
        }
    }

    #[tokio::test]
    async fn each_job_runs_once_at_its_time_and_collections_rest_on_weekends() {
        // A Thursday.
        let office = Office::at("2026-11-12T00:00:00Z");
        let schedule = office.start("").await;
        let done = office.until(&schedule, "2026-11-16T12:00:00Z").await;
        let day = |day: &str| {
            ["01:00 usage-reset", "06:00 notifier", "07:00 retry", "08:00 scheduled", "22:00 pause"]
                .map(|job| format!("{day} {job}"))
        };
        assert_eq!(
            done,
            [&day("Thu")[..], &day("Fri"), &day("Sat")[..2], &day("Sun")[..2], &day("Mon")[..4]].concat()
        );
    }

    #[tokio::test]
    async fn a_job_that_was_missed_runs_once_at_the_start_if_its_day_is_still_today() {
        let office = Office::at("2026-11-12T05:00:00Z");
        let first = office.start("").await;
        assert_eq!(
            office.until(&first, "2026-11-12T07:30:00Z").await,
            ["Thu 06:00 notifier", "Thu 07:00 retry"]
        );
        // Stopped from 07:30 to 10:00.
        office.clock.set("2026-11-12T10:00:00Z".parse().unwrap());
        let second = office.start("").await;
        assert_eq!(office.until(&second, "2026-11-12T11:00:00Z").await, ["Thu 10:00 scheduled"]);
        // After a restart nothing is due; Thursday's missed pause run is not made up on another day.
        let third = office.start("").await;
        assert_eq!(office.until(&third, "2026-11-12T12:00:00Z").await, [""; 0]);
        office.clock.set("2026-11-13T05:00:00Z".parse().unwrap());
        let fourth = office.start("").await;
        assert_eq!(
            office.until(&fourth, "2026-11-13T06:30:00Z").await,
            ["Fri 05:00 usage-reset", "Fri 06:00 notifier"]
        );
    }

    #[tokio::test]
    async fn a_store_that_is_served_for_the_first_time_has_missed_nothing() {
        let office = Office::at("2026-11-12T10:00:00Z");
        let schedule = office.start("").await;
        assert_eq!(office.until(&schedule, "2026-11-12T21:59:00Z").await, [""; 0]);
        assert_eq!(office.until(&schedule, "2026-11-12T22:01:00Z").await, ["Thu 22:00 pause"]);
    }

    #[tokio::test]
    async fn a_run_that_fails_is_tried_again_while_its_day_lasts() {
        let office = Office::at("2026-11-12T21:59:50Z");
        let schedule = office.start("notifier=off").await;
        office.notes.0.lock().unwrap().1 = true;
        let failed = office.until(&schedule, "2026-11-12T22:01:00Z").await;
        assert!(failed.len() > 1 && failed.iter().all(|line| line.ends_with("pause failed")), "{failed:?}");
        office.notes.0.lock().unwrap().1 = false;
        assert_eq!(office.until(&schedule, "2026-11-12T23:00:00Z").await, ["Thu 22:01 pause"]);
        let worked: Vec<Work> = office.notes.0.lock().unwrap().0.clone();
        assert_eq!(
            worked.iter().filter(|work| !matches!(work, Work::Sweep | Work::BookTimers)).count(),
            1,
            "{worked:?}"
        );
        assert!(worked.contains(&Work::Collect(JobRun::Pause)));
    }

    #[tokio::test]
    async fn the_sweep_runs_every_hour_and_not_twice_in_one() {
        let office = Office::at("2026-11-14T10:20:00Z");
        let schedule = office.start("").await;
        let sweeps = ["Sat 11:00 sweep", "Sat 12:00 sweep", "Sat 13:00 sweep"];
        assert_eq!(office.all_until(&schedule, "2026-11-14T13:59:00Z").await, sweeps);
        let again = office.start("").await;
        assert_eq!(office.all_until(&again, "2026-11-14T14:10:00Z").await, ["Sat 14:00 sweep"]);
    }

    #[tokio::test]
    async fn the_entitlement_clock_runs_every_five_minutes_and_once_after_an_outage() {
        let office = Office::at("2026-11-14T10:21:00Z");
        let schedule = office.start("sweep=off").await;
        let runs = ["Sat 10:25 entitlement-clock", "Sat 10:30 entitlement-clock"];
        assert_eq!(office.every_until(&schedule, "2026-11-14T10:34:00Z").await, runs);
        office.clock.set("2026-11-14T12:02:00Z".parse().unwrap());
        let again = office.start("sweep=off").await;
        let runs = ["Sat 12:02 entitlement-clock", "Sat 12:05 entitlement-clock"];
        assert_eq!(office.every_until(&again, "2026-11-14T12:09:00Z").await, runs);
    }

    #[test]
    fn times_can_be_changed_and_what_is_wrong_is_named() {
        let names = |text: &str| {
            Timetable::parse(text).map(|Timetable(jobs)| {
                jobs.iter().map(|job| format!("{} {}", job.name, job.at)).collect::<Vec<_>>().join(", ")
            })
        };
        assert_eq!(
            names("").unwrap(),
            "sweep 00:00:00, entitlement-clock 00:00:00, usage-reset 01:00:00, notifier 06:00:00, \
             retry 07:00:00, scheduled 08:00:00, pause 22:00:00"
        );
        assert_eq!(
            names("retry=23:30, notifier=off").unwrap(),
            "sweep 00:00:00, entitlement-clock 00:00:00, usage-reset 01:00:00, scheduled 08:00:00, \
             pause 22:00:00, retry 23:30:00"
        );
        assert_eq!(names("off").unwrap(), "");
        for (wrong, why) in [
            ("retry", "is not JOB=HH:MM"),
            ("retri=1:00", "\"retri\" is not one of notifier, retry"),
            ("retry=24:00", "retry: \"24:00\" is not HH:MM"),
        ] {
            assert!(names(wrong).unwrap_err().contains(why), "{wrong}");
        }
    }
}
