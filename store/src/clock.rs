//! Time is injected, so that tests run months in seconds and a simulation controls "now".

use dues_events::Time;
use futures::future::BoxFuture;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A clock that can also sleep.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Time;
    /// Time since a fixed moment. Monotonic: it never jumps when the time is set, so durations are measured
    /// with it.
    fn uptime(&self) -> Duration;
    /// Sleeps for that long.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// A shared clock.
pub type SharedClock = Arc<dyn Clock>;

/// The system clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl SystemClock {
    /// The system clock, shared.
    #[must_use]
    pub fn shared() -> SharedClock {
        Arc::new(Self)
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        std::time::SystemTime::now().into()
    }

    fn uptime(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}
