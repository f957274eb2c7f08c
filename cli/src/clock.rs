//! What time it is, when somebody says otherwise.

use dues_events::Time;
use dues_store::{Clock, SharedClock, SystemClock};
use futures::future::BoxFuture;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The clock that a command runs by: the machine's, or one that starts at the time that was named.
pub(crate) fn clock(as_of: Option<Time>) -> SharedClock {
    match as_of {
        None => SystemClock::shared(),
        Some(start) => Arc::new(From { start, since: SystemClock.uptime() }),
    }
}

/// Goes on from a time that was named.
struct From {
    start: Time,
    since: Duration,
}

impl Clock for From {
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

/// Stands until it is set: months in seconds.
pub(crate) struct Simulated(Mutex<Time>);

impl Simulated {
    pub(crate) fn at(time: Time) -> Arc<Self> {
        Arc::new(Self(Mutex::new(time)))
    }

    pub(crate) fn set(&self, time: Time) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = time;
    }
}

impl Clock for Simulated {
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
