//! `collections-job`: pages through the status index and queues the users with records to collect.

use chrono::TimeDelta;
use dues_events::collections::eligibility::{
    CollectionRequest, Eligibility, Reason, Rules, Trigger, bank_closure, eligibility,
};
use dues_events::{Record, Time, UserId};
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
}

/// Runs the job, one page at a time, and reports progress after each page. Idempotent: a user queued twice
/// is collected once.
pub async fn collections_job<E: Engine, Q: Queue>(
    store: &Store<E>,
    rules: &Rules,
    queue: &Q,
    process: JobRun,
    mut on_progress: impl FnMut(&Progress),
) -> Result<Progress, JobError> {
    let mut progress = Progress::default();
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
            let mut users: BTreeSet<&UserId> = BTreeSet::new();
            for record in &page.records {
                match prescreen(rules, process, record, now) {
                    Ok(()) => drop(users.insert(&record.user_id)),
                    Err(reason) => progress.count_skipped(&reason),
                }
            }
            progress.queued += users.len() as u64;
            queue
                .send(users.into_iter().map(|user| Task { user_id: user.clone(), process }).collect())
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
    Ok(progress)
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

/// Whether collecting could act on the record. The index shows one record; the worker checks the user's
/// others.
fn prescreen(rules: &Rules, process: JobRun, record: &Record, now: Time) -> Result<(), Reason> {
    match eligibility(rules, &CollectionRequest::triggered_by(process.trigger()), record, &[], now) {
        Eligibility::Collect(_)
        | Eligibility::Complete
        | Eligibility::Resolve(_)
        | Eligibility::Cancel
        | Eligibility::Stale
        | Eligibility::Expire
        | Eligibility::Remind => Ok(()),
        // A later payment of another record can lift the stop.
        Eligibility::Skip(Reason::Stopped(_)) => Ok(()),
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
