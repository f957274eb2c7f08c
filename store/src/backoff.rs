//! The workspace's backoff: pauses that grow by a factor up to a cap, with jitter and a retry limit.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::clock::SharedClock;
use crate::engine::StoreError;

/// How long to pause after each failure, and how often to retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackoffPolicy {
    /// Retries after the first attempt.
    pub retries: u32,
    /// The first pause.
    pub initial: Duration,
    /// The factor from each pause to the next.
    pub factor: u32,
    /// The longest pause.
    pub cap: Duration,
    /// Whether concurrent callers spread their pauses.
    pub jitter: Jitter,
}

/// How a pause is randomised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// No jitter.
    None,
    /// Between half the pause and the whole pause, so that two callers do not collide again.
    Half,
}

impl BackoffPolicy {
    /// Contended rows: two hundred concurrent writers take a few seconds on DynamoDB, which admits one at a
    /// time.
    pub const CONTENDED: Self = Self {
        retries: 100,
        initial: Duration::from_millis(10),
        factor: 2,
        cap: Duration::from_secs(1),
        jitter: Jitter::Half,
    };
    /// The unprocessed part of a batch.
    pub const UNPROCESSED: Self = Self {
        retries: 10,
        initial: Duration::from_millis(40),
        factor: 2,
        cap: Duration::from_millis(1280),
        jitter: Jitter::None,
    };
}

/// Uniformly distributed numbers from a range. Injected, so that a simulation is repeatable.
pub type Random = fn(RangeInclusive<u64>) -> u64;

/// Counts the retries of one operation, and pauses between them.
pub struct Backoff<'a> {
    clock: &'a SharedClock,
    policy: BackoffPolicy,
    random: Random,
    retries_left: u32,
    pause: Duration,
}

impl<'a> Backoff<'a> {
    /// A backoff that sleeps on that clock, with jitter from the thread's generator.
    #[must_use]
    pub fn new(clock: &'a SharedClock, policy: BackoffPolicy) -> Self {
        Self {
            clock,
            policy,
            random: |range| fastrand::u64(range),
            retries_left: policy.retries,
            pause: policy.initial.min(policy.cap),
        }
    }

    /// With another source of jitter.
    #[must_use]
    pub fn with_random(self, random: Random) -> Self {
        Self { random, ..self }
    }

    /// Takes a retry and pauses; returns `false` at once when none is left.
    pub async fn retry(&mut self) -> bool {
        if self.take_retry().is_err() {
            return false;
        }
        self.sleep().await;
        true
    }

    /// Takes a retry without a pause; [`StoreError::Contended`] when none is left.
    pub(crate) fn take_retry(&mut self) -> Result<(), StoreError> {
        let left = self.retries_left.checked_sub(1);
        self.retries_left = left.ok_or(StoreError::Contended(self.policy.retries))?;
        Ok(())
    }

    /// Pauses if the error is contention; returns every other error.
    pub(crate) async fn wait_out(&mut self, error: StoreError) -> Result<(), StoreError> {
        if !error.is_busy() {
            return Err(error);
        }
        self.sleep().await;
        Ok(())
    }

    async fn sleep(&mut self) {
        self.clock.sleep(self.next_pause()).await;
    }

    fn next_pause(&mut self) -> Duration {
        let longest = self.pause;
        self.pause = longest.saturating_mul(self.policy.factor).min(self.policy.cap);
        match self.policy.jitter {
            Jitter::None => longest,
            Jitter::Half => {
                let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
                Duration::from_micros((self.random)(micros / 2..=micros))
            }
        }
    }
}

impl std::fmt::Debug for Backoff<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backoff")
            .field("policy", &self.policy)
            .field("retries_left", &self.retries_left)
            .field("pause", &self.pause)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    const POLICY: BackoffPolicy = BackoffPolicy {
        retries: 4,
        initial: Duration::from_micros(10),
        factor: 3,
        cap: Duration::from_micros(50),
        jitter: Jitter::None,
    };

    fn pauses(policy: BackoffPolicy, random: Random) -> Vec<u128> {
        let clock = SystemClock::shared();
        let mut backoff = Backoff::new(&clock, policy).with_random(random);
        (0..4).map(|_| backoff.next_pause().as_micros()).collect()
    }

    #[test]
    fn pauses_grow_by_the_factor_up_to_the_cap() {
        assert_eq!(pauses(POLICY, |_| 0), [10, 30, 50, 50]);
    }

    #[test]
    fn jitter_stays_between_half_and_whole() {
        let jittered = BackoffPolicy { jitter: Jitter::Half, ..POLICY };
        assert_eq!(pauses(jittered, |range| *range.start()), [5, 15, 25, 25]);
        assert_eq!(pauses(jittered, |range| *range.end()), [10, 30, 50, 50]);
    }

    #[tokio::test]
    async fn retries_end() {
        let clock = SystemClock::shared();
        let mut backoff = Backoff::new(&clock, POLICY);
        for _ in 0..4 {
            assert!(backoff.retry().await);
        }
        assert!(!backoff.retry().await);
        assert_eq!(backoff.take_retry(), Err(StoreError::Contended(4)));
    }
}
