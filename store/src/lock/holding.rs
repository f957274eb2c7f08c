//! A lock that is held: its heartbeats, and how it ends.

use dues_events::{Item, Value};
use futures::future::{Either, pending, select};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::{debug, warn};

use super::{IS_RELEASED, LEASE_DURATION, Locks, OWNER, RELEASED, VERSION, is_ours, new_version, owner, place};
use crate::clock::{Clock as _, SharedClock, SystemClock};
use crate::engine::{Condition, Edit, Engine, StoreError, Updated};
use crate::table::LOCKS;

/// How many versions a holder that gets no answers keeps apart.
const MOST_TRIED: usize = 32;
/// After this part of the lease, a heartbeat without an answer is left alone and the next one sent.
const PATIENCE: u32 = 4;

/// A lock that is ours. Dropped without [`Lock::release`], as in a crash, it is left for others to take over once its lease has passed.
#[derive(Debug)]
#[must_use]
pub struct Lock<E> {
    locks: Locks<E>,
    key: String,
    held: Held,
}

/// Tells the work below a lock whether the lock is still there. Clones tell the same.
#[derive(Clone)]
pub struct Held {
    clock: SharedClock,
    lease: Duration,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
enum State {
    Ours {
        /// What the row's version can be: the one that is known to be written, and after it those that may have been.
        versions: Vec<String>,
        /// When the write of the first of them was begun, in uptime.
        since: Duration,
    },
    /// It is released, or somebody else has it.
    Over,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("lease", &self.lease).field("state", &self.state).finish_non_exhaustive()
    }
}

impl Held {
    /// Whether the lock is ours: nobody is known to have taken it over, and less than the lease has passed since the last heartbeat that
    /// succeeded was begun. To be asked right before a call that must not be made twice.
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

    /// What the row's version can be; none when the lock is lost.
    fn versions(&self) -> Vec<String> {
        match &*self.state() {
            State::Ours { versions, .. } => versions.clone(),
            State::Over => Vec::new(),
        }
    }

    /// Notes a version before it is sent: from then on it may be in the row, whatever becomes of the answer.
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
        let held = Held { clock: locks.clock.clone(), lease: locks.lease, state: Arc::new(Mutex::new(state)) };
        Self { locks, key, held }
    }

    /// What is locked.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether the lock is still ours: see [`Held::is_held`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.is_held()
    }

    /// For the work, to ask while it runs.
    #[must_use]
    pub fn watch(&self) -> Held {
        self.held.clone()
    }

    /// Does the work, and beside it sends the heartbeats. The work is never cut short: it asks [`Held::is_held`] where it matters.
    ///
    /// Both run in the task that polls this: work that blocks its thread keeps the heartbeats from being sent.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        match select(pin!(work), pin!(self.beat_for_ever())).await {
            Either::Left((done, _)) => done,
            Either::Right((never, _)) => match never {},
        }
    }

    /// Lets go, so that others need not wait for the lease to pass. If the store does not answer, they do.
    pub async fn release(self) {
        let ours = self.held.versions();
        // Whoever watches must not rely on it from now on.
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

    /// A refusal is an answer too: somebody has taken over, and it is theirs now.
    async fn mark_released(&self, ours: &[String]) -> Result<(), StoreError> {
        let released = vec![Edit::Set(IS_RELEASED, Value::text(RELEASED))];
        self.locks.engine.update(&LOCKS, place(&self.key), released, any_of(ours)).await.map(drop)
    }

    async fn beat_for_ever(&self) -> Infallible {
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
            let patience = wait_until(&self.locks.clock, last.saturating_add(self.locks.lease / PATIENCE));
            // Without an answer in that time, the version stays among those that may be in the row.
            let _ = select(pin!(self.beat(&ours, last)), pin!(patience)).await;
        }
    }

    async fn beat(&self, ours: &[String], begun: Duration) {
        let version = new_version();
        self.held.may_be(&version);
        let edits =
            vec![Edit::Set(LEASE_DURATION, Value::text(self.locks.lease_text())), Edit::Set(VERSION, Value::text(version.as_str()))];
        let updated = self.locks.engine.update(&LOCKS, place(&self.key), edits, any_of(ours)).await;
        let there = match updated {
            Ok(Updated::Done(_)) => return self.held.renewed(version, begun),
            Ok(Updated::Refused(there)) => there.map(|row| *row),
            Err(error) => {
                debug!(key = self.key, %error, "a heartbeat is in doubt");
                match self.locks.read(&self.key).await {
                    Ok(there) => there,
                    // The next one will tell.
                    Err(_) => return,
                }
            }
        };
        self.judge(there.as_ref(), version, ours, begun);
    }

    /// What the row says about a heartbeat that was not acknowledged.
    fn judge(&self, there: Option<&Item>, version: String, ours: &[String], begun: Duration) {
        match there {
            Some(row) if is_ours(row, &version) => self.held.renewed(version, begun),
            // It has not arrived, or not yet.
            Some(row) if ours.iter().any(|known| is_ours(row, known)) => {}
            Some(_) | None => {
                warn!(key = self.key, "a lock was lost: its row is no longer ours");
                self.held.over();
            }
        }
    }
}

/// The row is ours, at one of these versions.
fn any_of(versions: &[String]) -> Condition {
    let versions = versions.iter().map(|version| Condition::Equals(VERSION, Value::text(version.as_str()))).collect();
    Condition::All(vec![Condition::Equals(OWNER, Value::text(owner())), Condition::Any(versions)])
}

/// Waits until that much uptime has passed. A clock that does not really wait is not asked again and again: the machine's waits in its place.
async fn wait_until(clock: &SharedClock, due: Duration) {
    let left = || due.saturating_sub(clock.uptime());
    if !left().is_zero() {
        clock.sleep(left()).await;
    }
    while !left().is_zero() {
        SystemClock.sleep(left()).await;
    }
}
