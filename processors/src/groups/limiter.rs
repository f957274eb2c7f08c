//! One call after another, never more of them in a second than the directory takes.

use dues_store::SharedClock;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Calls a second, unless somebody says otherwise. Cognito takes about 25 for the account and region; the rest is for the others there.
pub const DEFAULT_RATE: u32 = 20;
/// The most calls a second that can be configured.
pub const HIGHEST_RATE: u32 = 24;
/// A second.
const NANOS: u64 = 1_000_000_000;

/// A token bucket that holds one token: calls are spread evenly, so that no second has more than the rate, wherever it starts.
///
/// It limits one process. Processes that work on one pool at once have to share the rate between them.
#[derive(Clone)]
pub struct Limiter {
    clock: SharedClock,
    gap: Duration,
    /// From which uptime on the next call may be made. The lock gives turns in the order in which they were asked for, and who stops
    /// waiting takes nobody's turn.
    next: Arc<Mutex<Duration>>,
}

impl Limiter {
    /// At most that many calls a second, from 1 to [`HIGHEST_RATE`]; what is outside is moved to the nearer end. Clones share it.
    #[must_use]
    pub fn new(clock: SharedClock, per_second: u32) -> Self {
        // Rounded up: as many gaps as the rate are never less than a second.
        let gap = Duration::from_nanos(NANOS.div_ceil(u64::from(per_second.clamp(1, HIGHEST_RATE))));
        Self { clock, gap, next: Arc::default() }
    }

    /// At most [`DEFAULT_RATE`] calls a second.
    #[must_use]
    pub fn with_default_rate(clock: SharedClock) -> Self {
        Self::new(clock, DEFAULT_RATE)
    }

    /// As many as there are: for a directory in the same program.
    #[must_use]
    pub fn unlimited(clock: SharedClock) -> Self {
        Self { clock, gap: Duration::ZERO, next: Arc::default() }
    }

    /// What it measures and waits with.
    #[must_use]
    pub fn clock(&self) -> &SharedClock {
        &self.clock
    }

    /// Waits until one call may be made.
    pub async fn turn(&self) {
        if self.gap.is_zero() {
            return;
        }
        let mut next = self.next.lock().await;
        let wait = next.saturating_sub(self.clock.uptime());
        if !wait.is_zero() {
            self.clock.sleep(wait).await;
        }
        // Who wakes late does not hurry the next one.
        *next = self.clock.uptime().max(*next) + self.gap;
    }
}
