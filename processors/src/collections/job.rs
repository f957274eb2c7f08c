//! `collections-job`: pages through the status index and queues the users with records to collect.

use chrono::TimeDelta;
use dues_events::collections::eligibility::{
    CollectionRequest, Eligibility, Reason, Rules, Trigger, bank_closure, eligibility,
};
use dues_events::{Record, Status, Time, UserId};
use dues_store::billing::pages::StatusPage;
use dues_store::{Cursor, Engine, Store, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use crate::messaging::queue::{Queue, QueueError};

/// A queued user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The user.
    pub user_id: UserId,
    /// The run that queued the user.
    pub process: JobRun,
}

/// The runs of the job, named after their `process`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum JobRun {
    /// Collects what is due.
    Initial,
    /// Retries what failed.
    Retry,
    /// Ends pauses.
    Pause,
}

impl JobRun {
    /// Every run.
    pub const ALL: [Self; 3] = [Self::Initial, Self::Retry, Self::Pause];

    /// The name in tasks and schedules.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Initial => "INITIAL",
            Self::Retry => "RETRY",
            Self::Pause => "PAUSE",
        }
    }

    /// The trigger of its collections.
    #[must_use]
    pub fn trigger(self) -> Trigger {
        match self {
            Self::Initial => Trigger::Initial,
            Self::Retry => Trigger::Retry,
            Self::Pause => Trigger::Pause,
        }
    }
}

/// The job's progress.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records read.
    pub read: u64,
    /// Users queued.
    pub queued: u64,
    /// Rows that could not be decoded.
    pub unreadable: Vec<String>,
    /// Records that are not eligible, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
    /// Why the run was skipped: banks are closed.
    pub closed: Option<Reason>,
}

/// The job failed.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// Reading records failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Queueing users failed.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// So many records would become STALE that it is not the members.
    #[error(
        "{stale} of {read} records are too old to collect: that is a clock or a missing month, not members; \
         nothing was made STALE (use --force if it is right)"
    )]
    MassStaleness {
        /// Records that would become STALE.
        stale: u64,
        /// Records that the run read.
        read: u64,
    },
}

/// Fewer than this are no share of a run.
const FEWEST_STALE: u64 = 2;

/// Whether a run may make any number of records STALE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Staleness {
    /// It stops when too many would become STALE.
    #[default]
    Guarded,
    /// An operator says that it is right.
    Forced,
}

/// Runs the job, one page at a time, and reports progress after each page. Idempotent: a user queued twice
/// is collected once. Users with records that are too old are queued last, once their share is known.
pub async fn collections_job<E: Engine, Q: Queue>(
    store: &Store<E>,
    rules: &Rules,
    queue: &Q,
    process: JobRun,
    staleness: Staleness,
    mut on_progress: impl FnMut(&Progress),
) -> Result<Progress, JobError> {
    let mut progress = Progress::default();
    let mut stale: Vec<UserId> = Vec::new();
    let now = store.clock.now();
    // Pauses end on any day; debits are made when banks are open.
    if let (JobRun::Initial | JobRun::Retry, Some(closed)) = (process, bank_closure(now.date_naive())) {
        progress.closed = Some(closed);
        return Ok(progress);
    }
    for list in status_lists(process) {
        let mut start = None;
        loop {
            let page = list.page(store, now, start).await?;
            progress.read += (page.records.len() + page.unreadable.len()) as u64;
            let mut users: BTreeMap<&UserId, JobRun> = BTreeMap::new();
            for record in &page.records {
                let run = run_of(process, record);
                match prescreen(rules, run, record, now) {
                    Ok(Prescreened::Queue) => drop(users.insert(&record.user_id, run)),
                    Ok(Prescreened::TooOld) => stale.push(record.user_id.clone()),
                    Err(reason) => progress.count_skipped(&reason),
                }
            }
            progress.queued += users.len() as u64;
            queue
                .send(
                    users
                        .into_iter()
                        .map(|(user, run)| Task { user_id: user.clone(), process: run })
                        .collect(),
                )
                .await?;
            for unreadable in &page.unreadable {
                tracing::error!(%unreadable, "unreadable billing record");
                progress.unreadable.push(unreadable.to_string());
            }
            on_progress(&progress);
            match page.next {
                Some(next) => start = Some(next),
                None => break,
            }
        }
    }
    let too_old = stale.len() as u64;
    if staleness == Staleness::Guarded
        && too_old >= FEWEST_STALE
        && too_old * 100 > progress.read * u64::from(rules.stale_percent)
    {
        return Err(JobError::MassStaleness { stale: too_old, read: progress.read });
    }
    let stale: BTreeSet<UserId> = stale.into_iter().collect();
    progress.queued += stale.len() as u64;
    let mut tasks = stale.into_iter().map(|user_id| Task { user_id, process }).peekable();
    while tasks.peek().is_some() {
        queue.send(tasks.by_ref().take(STALE_TASKS).collect()).await?;
    }
    on_progress(&progress);
    Ok(progress)
}

/// Users queued at once.
const STALE_TASKS: usize = 1000;

/// What the job does with a record.
enum Prescreened {
    /// Queue its user.
    Queue,
    /// Queue its user if not too many are too old.
    TooOld,
}

/// The index pages that a run reads.
#[derive(Debug, Clone, Copy)]
enum StatusList {
    InDoubt,
    Due,
    Failed,
    Paused,
}

fn status_lists(process: JobRun) -> &'static [StatusList] {
    match process {
        JobRun::Initial => &[StatusList::InDoubt, StatusList::Due],
        JobRun::Retry => &[StatusList::InDoubt, StatusList::Failed],
        JobRun::Pause => &[StatusList::Paused],
    }
}

impl StatusList {
    async fn page<E: Engine>(
        self,
        store: &Store<E>,
        now: Time,
        start: Option<Cursor>,
    ) -> Result<StatusPage, StoreError> {
        // The upper bound is exclusive; due now is due.
        let just_after = now + TimeDelta::nanoseconds(1);
        match self {
            Self::InDoubt => store.in_doubt_page(start).await,
            Self::Due => store.scheduled_page(just_after, start).await,
            Self::Failed => store.failed_page(start).await,
            Self::Paused => store.paused_page(just_after, start).await,
        }
    }
}

/// The run that collects a record of this run's pages. A row that an older writer left SCHEDULED with a
/// failed attempt is an ERROR record, but only the pages of SCHEDULED records show it.
fn run_of(process: JobRun, record: &Record) -> JobRun {
    match (process, record.status()) {
        (JobRun::Initial, Status::Error) => JobRun::Retry,
        (JobRun::Initial | JobRun::Retry | JobRun::Pause, _) => process,
    }
}

/// Whether collecting could act on the record. The index shows one record; the worker checks the user's
/// others, and plans with the user's incomes: here a retry is skipped only if it is too early by any plan.
fn prescreen(rules: &Rules, process: JobRun, record: &Record, now: Time) -> Result<Prescreened, Reason> {
    match eligibility(rules, &CollectionRequest::triggered_by(process.trigger()), record, &[], now) {
        Eligibility::Collect(_)
        | Eligibility::Complete
        | Eligibility::Resolve(_)
        | Eligibility::Cancel
        | Eligibility::Expire
        | Eligibility::Remind => Ok(Prescreened::Queue),
        Eligibility::Stale => Ok(Prescreened::TooOld),
        // Another record's later payment can lift the stop, and its new account the wait for a correction.
        Eligibility::Skip(Reason::Stopped(_) | Reason::AwaitsCorrection(_)) => Ok(Prescreened::Queue),
        Eligibility::Skip(reason) => Err(reason),
    }
}

impl Progress {
    fn count_skipped(&mut self, reason: &Reason) {
        if !reason.is_out_of_scope() {
            *self.skipped.entry(reason.code()).or_default() += 1;
        }
    }
}
