//! Clocks for `--as-of` and for simulated time.

use dues_events::Time;
use dues_store::{Clock, SharedClock, SystemClock};
use futures::future::BoxFuture;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The clock of a command: the system clock, or one that starts at `as_of`.
pub(crate) fn clock(as_of: Option<Time>) -> SharedClock {
    match as_of {
        None => SystemClock::shared(),
        Some(start) => Arc::new(OffsetClock { start, since: SystemClock.uptime() }),
    }
}

/// Ticks like the system clock, from another start.
struct OffsetClock {
    start: Time,
    since: Duration,
}

impl Clock for OffsetClock {
    fn now(&self) -> Time {
        self.start + (self.uptime() - self.since)
    }

    fn uptime(&self) -> Duration {
        SystemClock.uptime()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        SystemClock.sleep(duration)
    }
}

/// Stands still until it is set.
pub(crate) struct SimulatedClock(Mutex<Time>);

impl SimulatedClock {
    pub(crate) fn at(time: Time) -> Arc<Self> {
        Arc::new(Self(Mutex::new(time)))
    }

    pub(crate) fn set(&self, time: Time) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = time;
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Time {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn uptime(&self) -> Duration {
        SystemClock.uptime()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        SystemClock.sleep(duration)
    }
}
