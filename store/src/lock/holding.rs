//! A held lock: its heartbeats, and how it ends.

use dues_events::{Item, Value};
use futures::future::{Either, pending, select};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::{debug, warn};

use super::{
    IS_RELEASED, LEASE_DURATION, Locks, OWNER, RELEASED, VERSION, is_ours, new_version, owner, place,
};
use crate::clock::{Clock as _, SharedClock, SystemClock};
use crate::engine::{Condition, Edit, Engine, StoreError, Updated};
use crate::table::LOCKS;

/// Maximum number of possible row versions that a holder without answers tracks.
const MOST_TRIED: usize = 32;
/// A heartbeat without an answer is abandoned after this fraction (1/n) of the lease, and the next one sent.
const ANSWER_SHARE: u32 = 4;

/// A lock that this process holds. If it is dropped without [`Lock::release`], as in a crash, others can
/// take it once its lease has passed.
#[derive(Debug)]
#[must_use]
pub struct Lock<E> {
    locks: Locks<E>,
    key: String,
    held: Held,
}

/// Shows the work under a lock whether the lock is still held. Clones share the state.
#[derive(Clone)]
pub struct Held {
    clock: SharedClock,
    lease: Duration,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
enum State {
    Ours {
        /// The possible versions of the row: the one known to be written, then those that may have been.
        versions: Vec<String>,
        /// When the write of the first version started, in uptime.
        since: Duration,
    },
    /// Released, or taken by another process.
    Over,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("lease", &self.lease).field("state", &self.state).finish_non_exhaustive()
    }
}

impl Held {
    /// Whether the lock is held: it is not known to be taken by another process, and less than the lease has
    /// passed since the start of the last successful heartbeat. Check it right before a call that must not
    /// be made twice.
    #[must_use]
    pub fn is_held(&self) -> bool {
        match &*self.state() {
            State::Ours { since, .. } => self.clock.uptime().saturating_sub(*since) < self.lease,
            State::Over => false,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The possible versions of the row; empty when the lock is lost.
    fn versions(&self) -> Vec<String> {
        match &*self.state() {
            State::Ours { versions, .. } => versions.clone(),
            State::Over => Vec::new(),
        }
    }

    /// Adds a version before it is sent: from then on it may be in the row, whether or not an answer
    /// arrives.
    fn may_be(&self, version: &str) {
        if let State::Ours { versions, .. } = &mut *self.state() {
            if versions.len() >= MOST_TRIED {
                versions.remove(1);
            }
            versions.push(version.to_owned());
        }
    }

    fn renewed(&self, version: String, since: Duration) {
        *self.state() = State::Ours { versions: vec![version], since };
    }

    fn over(&self) {
        *self.state() = State::Over;
    }
}

impl<E: Engine> Lock<E> {
    pub(super) fn new(locks: Locks<E>, key: String, version: String, since: Duration) -> Self {
        let state = State::Ours { versions: vec![version], since };
        let held =
            Held { clock: locks.clock.clone(), lease: locks.lease, state: Arc::new(Mutex::new(state)) };
        Self { locks, key, held }
    }

    /// The key of the lock.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether the lock is still held: see [`Held::is_held`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.is_held()
    }

    /// A handle with which the work checks the lock while it runs.
    #[must_use]
    pub fn watch(&self) -> Held {
        self.held.clone()
    }

    /// Runs the work, and sends heartbeats concurrently. The work is never cancelled: it checks
    /// [`Held::is_held`] where it matters.
    ///
    /// Both run in the task that polls this: work that blocks its thread also blocks the heartbeats.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        match select(pin!(work), pin!(self.send_heartbeats())).await {
            Either::Left((done, _)) => done,
            Either::Right((never, _)) => match never {},
        }
    }

    /// Releases the lock, so that others need not wait for the lease to pass. If the store does not answer,
    /// they do.
    pub async fn release(self) {
        let ours = self.held.versions();
        // Watchers must not rely on the lock from now on.
        self.held.over();
        if ours.is_empty() {
            return;
        }
        let mut tried = self.mark_released(&ours).await;
        if tried.as_ref().is_err_and(StoreError::is_transient) {
            tried = self.mark_released(&ours).await;
        }
        if let Err(error) = tried {
            warn!(key = self.key, %error, "a lock was not released; others wait for its lease");
        }
    }

    /// A refusal is fine: another process has taken the lock.
    async fn mark_released(&self, ours: &[String]) -> Result<(), StoreError> {
        let released = vec![Edit::Set(IS_RELEASED, Value::text(RELEASED))];
        self.locks.engine.update(&LOCKS, place(&self.key), released, any_of(ours)).await.map(drop)
    }

    async fn send_heartbeats(&self) -> Infallible {
        let mut last = match &*self.held.state() {
            State::Ours { since, .. } => *since,
            State::Over => Duration::ZERO,
        };
        loop {
            wait_until(&self.locks.clock, last.saturating_add(self.locks.heartbeat)).await;
            let ours = self.held.versions();
            if ours.is_empty() {
                return pending().await;
            }
            last = self.locks.clock.uptime();
            let timeout = wait_until(&self.locks.clock, last.saturating_add(self.locks.lease / ANSWER_SHARE));
            // Without an answer in that time, the version stays among the possible ones.
            let _ = select(pin!(self.send_heartbeat(&ours, last)), pin!(timeout)).await;
        }
    }

    async fn send_heartbeat(&self, ours: &[String], begun: Duration) {
        let version = new_version();
        self.held.may_be(&version);
        let edits = vec![
            Edit::Set(LEASE_DURATION, Value::text(self.locks.lease_text())),
            Edit::Set(VERSION, Value::text(version.as_str())),
        ];
        let updated = self.locks.engine.update(&LOCKS, place(&self.key), edits, any_of(ours)).await;
        let there = match updated {
            Ok(Updated::Done(_)) => return self.held.renewed(version, begun),
            Ok(Updated::Refused(there)) => there.map(|row| *row),
            Err(error) => {
                debug!(key = self.key, %error, "a heartbeat is in doubt");
                match self.locks.read(&self.key).await {
                    Ok(there) => there,
                    // The next heartbeat will show.
                    Err(_) => return,
                }
            }
        };
        self.judge(there.as_ref(), version, ours, begun);
    }

    /// Resolves a heartbeat that was not acknowledged, from the current row.
    fn judge(&self, there: Option<&Item>, version: String, ours: &[String], begun: Duration) {
        match there {
            Some(row) if is_ours(row, &version) => self.held.renewed(version, begun),
            // The heartbeat has not arrived, or not yet.
            Some(row) if ours.iter().any(|known| is_ours(row, known)) => {}
            Some(_) | None => {
                warn!(key = self.key, "a lock was lost: its row is no longer ours");
                self.held.over();
            }
        }
    }
}

/// Condition: the row is ours, at one of these versions.
fn any_of(versions: &[String]) -> Condition {
    let versions =
        versions.iter().map(|version| Condition::Equals(VERSION, Value::text(version.as_str()))).collect();
    Condition::All(vec![Condition::Equals(OWNER, Value::text(owner())), Condition::Any(versions)])
}

/// Waits until that uptime. If the clock returns early (a simulated one), waits on the system clock instead
/// of polling it.
async fn wait_until(clock: &SharedClock, due: Duration) {
    let left = || due.saturating_sub(clock.uptime());
    if !left().is_zero() {
        clock.sleep(left()).await;
    }
    while !left().is_zero() {
        SystemClock.sleep(left()).await;
    }
}
