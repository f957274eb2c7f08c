//! Time is passed in, so that months can be run in seconds and a simulation decides what "now" is.

use dues_events::Time;
use futures::future::BoxFuture;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Tells the time and waits.
pub trait Clock: Send + Sync {
    /// The time.
    fn now(&self) -> Time;
    /// How long ago some fixed moment was. It only grows, and never jumps when somebody sets the time: what lasts is measured with this.
    fn uptime(&self) -> Duration;
    /// Waits.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// A clock that many share.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl SystemClock {
    /// The machine's clock, to be shared.
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
