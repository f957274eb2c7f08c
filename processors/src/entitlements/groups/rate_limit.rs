//! Rate limit for directory calls.

use dues_store::SharedClock;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Default calls per second. Cognito allows about 25 per account and region; the rest is for other callers.
pub const DEFAULT_CALLS_PER_SECOND: u32 = 20;
/// Highest configurable rate.
pub const MAX_CALLS_PER_SECOND: u32 = 24;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A token bucket with one token: calls are spaced evenly, so that no window of a second exceeds the rate.
///
/// Limits one process; processes on one pool must share the rate.
#[derive(Clone)]
pub struct RateLimiter {
    clock: SharedClock,
    gap: Duration,
    /// Uptime of the next permitted call. The lock is fair, and a cancelled waiter consumes nothing.
    next: Arc<Mutex<Duration>>,
}

impl RateLimiter {
    /// At most that many calls a second, clamped to 1..=[`MAX_CALLS_PER_SECOND`]. Clones share the limit.
    #[must_use]
    pub fn new(clock: SharedClock, per_second: u32) -> Self {
        // Rounded up: `per_second` gaps are never shorter than a second.
        let gap = Duration::from_nanos(
            NANOS_PER_SECOND.div_ceil(u64::from(per_second.clamp(1, MAX_CALLS_PER_SECOND))),
        );
        Self { clock, gap, next: Arc::default() }
    }

    /// At most [`DEFAULT_CALLS_PER_SECOND`] calls a second.
    #[must_use]
    pub fn with_default_rate(clock: SharedClock) -> Self {
        Self::new(clock, DEFAULT_CALLS_PER_SECOND)
    }

    /// No limit: for a directory in the same process.
    #[must_use]
    pub fn unlimited(clock: SharedClock) -> Self {
        Self { clock, gap: Duration::ZERO, next: Arc::default() }
    }

    /// Its clock.
    #[must_use]
    pub fn clock(&self) -> &SharedClock {
        &self.clock
    }

    /// Waits until one call may be made.
    pub async fn acquire(&self) {
        if self.gap.is_zero() {
            return;
        }
        let mut next = self.next.lock().await;
        let wait = next.saturating_sub(self.clock.uptime());
        if !wait.is_zero() {
            self.clock.sleep(wait).await;
        }
        // A late wake-up does not shorten the next gap.
        *next = self.clock.uptime().max(*next) + self.gap;
    }
}
