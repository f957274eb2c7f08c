//! `collections-job`: pages through the status index and puts the users on the queue for whom there is something to do.

use chrono::TimeDelta;
use dues_events::collect::{Ask, Reason, Rules, Run, Verdict, closed_banks, judge};
use dues_events::{Record, Time, UserId};
use dues_store::pages::StatusPage;
use dues_store::{Cursor, Engine, Store, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use crate::queue::{Queue, QueueError};

/// A user to visit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Whom.
    pub user_id: UserId,
    /// For which run.
    pub process: Process,
}

/// The runs of the job, by the names of their processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Process {
    /// What has fallen due.
    Initial,
    /// What has failed.
    Retry,
    /// What is paused.
    Pause,
}

impl Process {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Initial, Self::Retry, Self::Pause];

    /// Its name, as tasks and schedules have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Initial => "INITIAL",
            Self::Retry => "RETRY",
            Self::Pause => "PAUSE",
        }
    }

    /// The run that it stands for.
    #[must_use]
    pub fn run(self) -> Run {
        match self {
            Self::Initial => Run::Initial,
            Self::Retry => Run::Retry,
            Self::Pause => Run::Pause,
        }
    }
}

/// How far the job has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records read.
    pub read: u64,
    /// Users put on the queue.
    pub queued: u64,
    /// Rows that could not be read, each named.
    pub unreadable: Vec<String>,
    /// Records that no visit could do anything about, by reason.
    pub left: BTreeMap<&'static str, u64>,
    /// Why there was nothing to do at all.
    pub closed: Option<Reason>,
}

/// Why the job stopped.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The records could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The users could not be queued.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// Runs the job, telling of progress after every page. Only one page is held at a time.
///
/// # Errors
/// The job can be run again at any time: what it queued twice is done once.
pub async fn collections_job<E: Engine, Q: Queue>(
    store: &Store<E>,
    rules: &Rules,
    queue: &Q,
    process: Process,
    mut told: impl FnMut(&Progress),
) -> Result<Progress, JobError> {
    let mut progress = Progress::default();
    let now = store.clock.now();
    // Pauses end on any day; debits are made when banks are open.
    if let (Process::Initial | Process::Retry, Some(closed)) = (process, closed_banks(now.date_naive())) {
        progress.closed = Some(closed);
        return Ok(progress);
    }
    for list in lists(process) {
        let mut start = None;
        loop {
            let page = list.page(store, now, start).await?;
            progress.read += (page.records.len() + page.unreadable.len()) as u64;
            let mut users: BTreeSet<&UserId> = BTreeSet::new();
            for record in &page.records {
                match worth_a_visit(rules, process, record, now) {
                    Ok(()) => drop(users.insert(&record.user_id)),
                    Err(reason) => progress.leave(&reason),
                }
            }
            progress.queued += users.len() as u64;
            queue.send(users.into_iter().map(|user| Task { user_id: user.clone(), process }).collect()).await?;
            for unreadable in &page.unreadable {
                tracing::error!(%unreadable, "a billing record cannot be read");
                progress.unreadable.push(unreadable.to_string());
            }
            told(&progress);
            match page.next {
                Some(next) => start = Some(next),
                None => break,
            }
        }
    }
    Ok(progress)
}

/// What the job pages through.
#[derive(Debug, Clone, Copy)]
enum List {
    InDoubt,
    Due,
    Failed,
    Paused,
}

fn lists(process: Process) -> &'static [List] {
    match process {
        Process::Initial => &[List::InDoubt, List::Due],
        Process::Retry => &[List::InDoubt, List::Failed],
        Process::Pause => &[List::Paused],
    }
}

impl List {
    async fn page<E: Engine>(self, store: &Store<E>, now: Time, start: Option<Cursor>) -> Result<StatusPage, StoreError> {
        // Due at this very moment is due.
        let just_after = now + TimeDelta::nanoseconds(1);
        match self {
            Self::InDoubt => store.in_doubt_page(start).await,
            Self::Due => store.scheduled_page(just_after, start).await,
            Self::Failed => store.failed_page(start).await,
            Self::Paused => store.paused_page(just_after, start).await,
        }
    }
}

/// Whether a visit could come to anything. The index shows one record; what the user's others say is for the worker to find out.
fn worth_a_visit(rules: &Rules, process: Process, record: &Record, now: Time) -> Result<(), Reason> {
    match judge(rules, &Ask::of(process.run()), record, &[], now) {
        Verdict::Collect(_)
        | Verdict::Complete
        | Verdict::Resolve(_)
        | Verdict::Cancel
        | Verdict::Stale
        | Verdict::Expire
        | Verdict::Remind => Ok(()),
        // A later payment of another record can lift it.
        Verdict::Leave(Reason::Stopped(_)) => Ok(()),
        Verdict::Leave(reason) => Err(reason),
    }
}

impl Progress {
    fn leave(&mut self, reason: &Reason) {
        if !reason.is_beside_the_point() {
            *self.left.entry(reason.code()).or_default() += 1;
        }
    }
}
