//! A clock that nobody has to move: whoever sleeps on it wakes at once, and the time has passed.

use dues_events::Time;
use dues_store::{Clock, SharedClock};
use futures::future::BoxFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::world::t;

/// Does not wait, and remembers how long it should have. Clones are the same clock.
#[derive(Debug, Clone, Default)]
pub struct Impatient(Arc<Mutex<Vec<Duration>>>);

impl Impatient {
    /// To be given to what sleeps.
    pub fn shared(&self) -> SharedClock {
        Arc::new(self.clone())
    }

    /// How long it was slept on each time, in milliseconds.
    pub fn pauses(&self) -> Vec<u64> {
        self.0.lock().unwrap().iter().map(|pause| u64::try_from(pause.as_millis()).unwrap()).collect()
    }
}

impl Clock for Impatient {
    fn now(&self) -> Time {
        t("2026-03-02T12:00:00Z") + self.uptime()
    }

    fn uptime(&self) -> Duration {
        self.0.lock().unwrap().iter().sum()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.lock().unwrap().push(duration);
        Box::pin(std::future::ready(()))
    }
}
