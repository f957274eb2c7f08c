//! `collections-worker`: collects from the queued users.

use dues_events::collections::eligibility::CollectionRequest;
use dues_store::{CommitError, Engine, StoreError};
use futures::stream::{Stream, StreamExt as _};
use std::collections::BTreeMap;

use super::job::Task;
use super::{Collector, Outcome, UserCollection};
use crate::collections::gateway::Gateway;

/// Counts over many collections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Users spawned.
    pub users: u64,
    /// Users locked by another worker.
    pub locked: u64,
    /// Debits accepted.
    pub sent: u64,
    /// Collected at once.
    pub collected: u64,
    /// Refused by the gateway.
    pub refused: u64,
    /// Debits with an unknown outcome.
    pub in_doubt: u64,
    /// Zero amounts.
    pub free: u64,
    /// Cancellations that took effect.
    pub cancelled: u64,
    /// Too old.
    pub stale: u64,
    /// Pauses that expired.
    pub pause_expired: u64,
    /// Pauses that end soon.
    pub pause_ending: u64,
    /// Attempts withdrawn because the member's records changed before the gateway was called.
    pub withdrawn: u64,
    /// Not eligible, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
    /// Collections that failed in the store.
    pub failed: u64,
}

impl Tally {
    /// Adds the counts of another tally.
    pub fn add(&mut self, other: &Self) {
        let Self {
            users,
            locked,
            sent,
            collected,
            refused,
            in_doubt,
            free,
            cancelled,
            stale,
            pause_expired,
            pause_ending,
            withdrawn,
            skipped,
            failed,
        } = other;
        self.users += users;
        self.locked += locked;
        self.sent += sent;
        self.collected += collected;
        self.refused += refused;
        self.in_doubt += in_doubt;
        self.free += free;
        self.cancelled += cancelled;
        self.stale += stale;
        self.pause_expired += pause_expired;
        self.pause_ending += pause_ending;
        self.withdrawn += withdrawn;
        self.failed += failed;
        for (reason, count) in skipped {
            *self.skipped.entry(reason).or_default() += count;
        }
    }

    /// Counts one user.
    pub fn count(&mut self, collection: &Result<UserCollection, CommitError>) {
        let record = match collection {
            Ok(UserCollection::Done(record)) => record,
            Ok(UserCollection::Locked) => {
                self.locked += 1;
                return;
            }
            Err(_) => {
                self.failed += 1;
                return;
            }
        };
        self.users += 1;
        for record in record {
            match &record.outcome {
                Outcome::Sent => self.sent += 1,
                Outcome::Collected => self.collected += 1,
                Outcome::Refused(_) => self.refused += 1,
                Outcome::InDoubt(_) => self.in_doubt += 1,
                Outcome::Free => self.free += 1,
                Outcome::Cancelled => self.cancelled += 1,
                Outcome::Stale => self.stale += 1,
                Outcome::PauseExpired => self.pause_expired += 1,
                Outcome::PauseEnding => self.pause_ending += 1,
                Outcome::Withdrawn(_) => self.withdrawn += 1,
                Outcome::Skipped(reason) => *self.skipped.entry(reason.code()).or_default() += 1,
            }
        }
    }
}

/// Collects from one user. On an error the task must be redelivered.
pub async fn collections_worker<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    task: &Task,
) -> Result<UserCollection, CommitError> {
    collector.collect_user(&task.user_id, &CollectionRequest::triggered_by(task.process.trigger())).await
}

/// Collects from all queued users, `parallel` at a time, and reports each result.
pub async fn collect_tasks<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    tasks: impl Stream<Item = Task>,
    parallel: usize,
    mut on_result: impl FnMut(&Task, &Result<UserCollection, CommitError>),
) {
    let collections = tasks.map(|task| {
        // Spawned, so that collections use all cores.
        let (collector, spawned) = (collector.clone(), task.clone());
        let collection = tokio::spawn(async move { collections_worker(&collector, &spawned).await });
        async move {
            let panicked = |error: tokio::task::JoinError| {
                Err(StoreError::Unavailable(format!("collection task failed: {error}")).into())
            };
            (task, collection.await.unwrap_or_else(panicked))
        }
    });
    let mut collections = std::pin::pin!(collections.buffer_unordered(parallel.max(1)));
    while let Some((task, collection)) = collections.next().await {
        on_result(&task, &collection);
    }
}
