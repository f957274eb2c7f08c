//! Per-user locks in the `locks` table, in the format of `cirello.io/dynamolock/v2`, so that both can share
//! the table.
//!
//! A lock saves work and keeps two programs from calling a payment processor for the same user at once. It
//! does **not** make writes safe: a holder that was suspended for longer than its lease proceeds without
//! knowing that another process has taken the lock. The version condition on the primary row makes writes
//! safe, see [`crate::billing::commit`].
//!
//! Acquiring never waits for a held row. It remembers the row's version; a holder writes a new version with
//! every heartbeat, so a version that has not changed after the lease in the row has passed *here*, on
//! [`Clock::uptime`](crate::Clock::uptime), belongs to a holder that is gone. No other machine's clock is
//! trusted, and no clock that can be set.

pub mod go_duration;

mod holding;
mod sightings;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use dues_events::{Item, UserId, Value};

use crate::clock::SharedClock;
use crate::engine::{Condition, Engine, Key, StoreError, Written};
use crate::table::LOCKS;
use crate::unique_name::unique;
use go_duration::GoDuration;
use sightings::Sightings;

pub use holding::{Held, Lock};

/// How long a lock is valid after a heartbeat.
pub const LEASE: Duration = Duration::from_secs(60);
/// The interval between heartbeats.
pub const HEARTBEAT: Duration = Duration::from_secs(1);

const OWNER: &str = "ownerName";
const LEASE_DURATION: &str = "leaseDuration";
const VERSION: &str = "recordVersionNumber";
const DATA: &str = "data";
const IS_RELEASED: &str = "isReleased";
/// The only value of `isReleased`.
const RELEASED: &str = "1";

/// The locks of a store. Clones share the sightings of held locks; a process should use one instance and its
/// clones.
#[derive(Clone)]
pub struct Locks<E> {
    engine: E,
    clock: SharedClock,
    lease: Duration,
    heartbeat: Duration,
    sightings: Arc<Mutex<Sightings>>,
}

/// Outcome of an attempt to lock.
#[derive(Debug)]
#[must_use]
pub enum Acquired<E> {
    /// The lock is ours until it is released or lost.
    Held(Lock<E>),
    /// Another process holds it.
    LockedElsewhere,
}

impl<E: std::fmt::Debug> std::fmt::Debug for Locks<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { engine, clock: _, lease, heartbeat, sightings: _ } = self;
        f.debug_struct("Locks")
            .field("engine", engine)
            .field("lease", lease)
            .field("heartbeat", heartbeat)
            .finish_non_exhaustive()
    }
}

impl<E: Engine> Locks<E> {
    /// Locks in that engine's table, timed by that clock.
    #[must_use]
    pub fn new(engine: E, clock: SharedClock) -> Self {
        Self { engine, clock, lease: LEASE, heartbeat: HEARTBEAT, sightings: Arc::default() }
    }

    /// With another lease. It is written to the rows, so other processes respect it.
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// With another heartbeat interval, at least a millisecond; a lease should have room for several.
    #[must_use]
    pub fn with_heartbeat(self, heartbeat: Duration) -> Self {
        Self { heartbeat: heartbeat.max(Duration::from_millis(1)), ..self }
    }

    /// Locks the billing of a user; does not wait if another process holds the lock.
    ///
    /// # Errors
    /// When it is unknown whether the lock is ours; the row may then stay locked, without a holder, for a
    /// lease.
    pub async fn acquire(&self, user: &UserId) -> Result<Acquired<E>, StoreError> {
        self.acquire_key(format!("subscription-billing:user_id:{user}")).await
    }

    /// Locks any key; does not wait if another process holds the lock.
    ///
    /// # Errors
    /// As [`Self::acquire`].
    pub async fn acquire_key(&self, key: String) -> Result<Acquired<E>, StoreError> {
        let doing = |e: StoreError| e.during(&format!("lock {key}"));
        let there = self.read(&key).await.map_err(doing)?;
        match self.way_in(&key, there.as_ref()) {
            Some(condition) => self.take(&key, condition).await.map_err(doing),
            None => Ok(Acquired::LockedElsewhere),
        }
    }

    /// The condition under which the lock can be taken now (it is free, or its holder is gone); `None` if it
    /// is held.
    fn way_in(&self, key: &str, there: Option<&Item>) -> Option<Condition> {
        match there.filter(|row| !is_released(row)) {
            None => {
                self.sightings().forget(key);
                Some(Condition::Any(vec![
                    Condition::NoItem,
                    Condition::Equals(IS_RELEASED, Value::text(RELEASED)),
                ]))
            }
            Some(held) => self.has_run_out(key, held).then(|| match held.get(VERSION) {
                Some(seen) => Condition::Equals(VERSION, seen.clone()),
                None => Condition::Missing(VERSION),
            }),
        }
    }

    /// Remembers a held row, and returns whether it has not changed for its whole lease.
    fn has_run_out(&self, key: &str, held: &Item) -> bool {
        let lease = held.text(LEASE_DURATION).and_then(|text| text.parse::<GoDuration>().ok());
        let lease = lease.map_or(self.lease, GoDuration::length);
        self.sightings().unchanged_for(key, held.get(VERSION), lease, self.clock.uptime())
    }

    async fn take(&self, key: &str, condition: Condition) -> Result<Acquired<E>, StoreError> {
        let version = new_version();
        let begun = self.clock.uptime();
        let ours = match self.engine.put(&LOCKS, self.row(key, &version), condition).await {
            Ok(Written::Done) => true,
            Ok(Written::Refused(there)) => {
                // Remember it at once: the next attempt may find its lease expired.
                self.way_in(key, there.as_deref());
                // Our own write causes the refusal when its answer was lost and a lower layer sent the
                // request again.
                there.is_some_and(|row| is_ours(&row, &version))
            }
            Err(error) if error.is_transient() => match self.read(key).await {
                Ok(Some(row)) if is_ours(&row, &version) => true,
                // The write has not arrived, or not yet.
                Ok(_) | Err(_) => return Err(error),
            },
            Err(error) => return Err(error),
        };
        if !ours {
            return Ok(Acquired::LockedElsewhere);
        }
        self.sightings().forget(key);
        Ok(Acquired::Held(Lock::new(self.clone(), key.to_owned(), version, begun)))
    }

    fn row(&self, key: &str, version: &str) -> Item {
        let mut row = Item::new();
        row.set_text(LOCKS.partition, key);
        row.set_text(OWNER, owner());
        row.set_text(LEASE_DURATION, self.lease_text());
        row.set_text(VERSION, version);
        let nanos = self.clock.now().timestamp_nanos_opt().unwrap_or_default();
        row.set(DATA, Value::B(nanos.to_string().into_bytes()));
        row
    }

    fn lease_text(&self) -> String {
        GoDuration::from(self.lease).to_string()
    }

    async fn read(&self, key: &str) -> Result<Option<Item>, StoreError> {
        self.engine.get(&LOCKS, place(key)).await
    }

    fn sightings(&self) -> std::sync::MutexGuard<'_, Sightings> {
        self.sightings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(key: &str) -> Key {
    Key { partition: key.to_owned(), sort: None }
}

fn is_released(row: &Item) -> bool {
    row.text(IS_RELEASED) == Some(RELEASED)
}

fn is_ours(row: &Item, version: &str) -> bool {
    row.text(OWNER) == Some(owner()) && row.text(VERSION) == Some(version)
}

/// Identifies this process.
fn owner() -> &'static str {
    static OWNER: OnceLock<String> = OnceLock::new();
    OWNER.get_or_init(unique)
}

fn new_version() -> String {
    unique()
}
