//! `collections-worker`: takes users off the queue and visits them.

use dues_events::collect::Ask;
use dues_store::{CommitError, Engine, StoreError};
use futures::stream::{Stream, StreamExt as _};
use std::collections::BTreeMap;

use super::job::Task;
use super::{Collector, Outcome, Visit};
use crate::gateway::Gateway;

/// What many visits came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Users visited.
    pub users: u64,
    /// Users that another worker had: nothing was touched.
    pub locked: u64,
    /// Debits under way.
    pub sent: u64,
    /// Collected at once.
    pub collected: u64,
    /// Refused by the gateway.
    pub refused: u64,
    /// Debits whose answer is not known yet.
    pub in_doubt: u64,
    /// Nothing was to pay.
    pub free: u64,
    /// Cancellations that took effect.
    pub cancelled: u64,
    /// Too old.
    pub stale: u64,
    /// Pauses that ran out.
    pub pause_expired: u64,
    /// Pauses that end soon.
    pub pause_ending: u64,
    /// Left alone, by reason.
    pub left: BTreeMap<&'static str, u64>,
    /// Visits that the store did not let happen.
    pub failed: u64,
}

impl Tally {
    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        let Self { users, locked, sent, collected, refused, in_doubt, free, cancelled, stale, pause_expired, pause_ending, left, failed } =
            other;
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
        self.failed += failed;
        for (reason, count) in left {
            *self.left.entry(reason).or_default() += count;
        }
    }

    /// Counts a visit.
    pub fn count(&mut self, visit: &Result<Visit, CommitError>) {
        let looked = match visit {
            Ok(Visit::Done(looked)) => looked,
            Ok(Visit::Locked) => {
                self.locked += 1;
                return;
            }
            Err(_) => {
                self.failed += 1;
                return;
            }
        };
        self.users += 1;
        for looked in looked {
            match &looked.outcome {
                Outcome::Sent => self.sent += 1,
                Outcome::Collected => self.collected += 1,
                Outcome::Refused(_) => self.refused += 1,
                Outcome::InDoubt(_) => self.in_doubt += 1,
                Outcome::Free => self.free += 1,
                Outcome::Cancelled => self.cancelled += 1,
                Outcome::Stale => self.stale += 1,
                Outcome::PauseExpired => self.pause_expired += 1,
                Outcome::PauseEnding => self.pause_ending += 1,
                Outcome::Left(reason) => *self.left.entry(reason.code()).or_default() += 1,
            }
        }
    }
}

/// Visits one user.
///
/// # Errors
/// What the store could not do: the task has to be delivered again.
pub async fn collections_worker<E: Engine, G: Gateway>(collector: &Collector<E, G>, task: &Task) -> Result<Visit, CommitError> {
    collector.visit(&task.user_id, &Ask::of(task.process.run())).await
}

/// Visits all users that come, so many at once, and tells of each.
pub async fn work_off<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    tasks: impl Stream<Item = Task>,
    parallel: usize,
    mut told: impl FnMut(&Task, &Result<Visit, CommitError>),
) {
    let visits = tasks.map(|task| {
        // A task of its own: visits spread over the cores.
        let (collector, visited) = (collector.clone(), task.clone());
        let visit = tokio::spawn(async move { collections_worker(&collector, &visited).await });
        async move {
            let panicked = |error: tokio::task::JoinError| Err(StoreError::Unavailable(format!("the worker stopped: {error}")).into());
            (task, visit.await.unwrap_or_else(panicked))
        }
    });
    let mut visits = std::pin::pin!(visits.buffer_unordered(parallel.max(1)));
    while let Some((task, visit)) = visits.next().await {
        told(&task, &visit);
    }
}
