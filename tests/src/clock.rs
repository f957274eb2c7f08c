//! The fake clock of every test. Time moves only when the test, a sleep or a tick moves it.

use dues_events::Time;
use dues_store::{Clock, SharedClock, SystemClock};
use futures::future::BoxFuture;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::watch;

use crate::fixtures::company::t;

/// A clock under a test's control. Clones share one time.
#[derive(Debug, Clone)]
pub struct TestClock {
    hands: Arc<Mutex<Hands>>,
    advanced: watch::Sender<Duration>,
    on_sleep: OnSleep,
    tick: Duration,
    started: Duration,
}

/// Wall time can be set both ways; the sleeps are recorded for tests of backoff.
#[derive(Debug)]
struct Hands {
    now: Time,
    sleeps: Vec<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnSleep {
    /// Returns at once; wall time stands still and uptime is the machine's.
    Return,
    /// Returns at once; the time slept has passed.
    Advance,
    /// Waits until [`TestClock::advance`] has moved time far enough.
    Wait,
    /// Really sleeps; wall time runs on from its start at the machine's pace.
    RealTime,
}

impl TestClock {
    /// A clock that stands still; sleeps return at once.
    pub fn frozen(now: Time) -> Self {
        Self::new(now, OnSleep::Return)
    }

    /// Sleeping returns at once and moves the time: for tests of backoff and rate limits.
    pub fn skipping() -> Self {
        Self::new(t("2026-03-02T12:00:00Z"), OnSleep::Advance)
    }

    /// Sleepers wait until the test advances the time.
    pub fn manual(now: Time) -> Self {
        Self::new(now, OnSleep::Wait)
    }

    /// Runs on from a time at the machine's pace.
    pub fn real_time(now: Time) -> Self {
        Self::new(now, OnSleep::RealTime)
    }

    /// Moves on by `tick` with every reading, so that no two rows share a timestamp.
    #[must_use]
    pub fn ticking(self, tick: Duration) -> Self {
        Self { tick, ..self }
    }

    fn new(now: Time, on_sleep: OnSleep) -> Self {
        let hands = Arc::new(Mutex::new(Hands { now, sleeps: Vec::new() }));
        let advanced = watch::Sender::new(Duration::ZERO);
        Self { hands, advanced, on_sleep, tick: Duration::ZERO, started: SystemClock.uptime() }
    }

    /// As a store takes it.
    pub fn shared(&self) -> SharedClock {
        Arc::new(self.clone())
    }

    /// Moves wall time and uptime, and wakes the sleepers that are due.
    pub fn advance(&self, by: Duration) {
        self.hands().now += by;
        self.advanced.send_modify(|advanced| *advanced += by);
    }

    /// Sets wall time alone, as an operator or NTP does.
    pub fn set_now(&self, now: Time) {
        self.hands().now = now;
    }

    /// Every sleep so far, in milliseconds.
    pub fn sleeps_ms(&self) -> Vec<u64> {
        self.hands().sleeps.iter().map(|sleep| u64::try_from(sleep.as_millis()).unwrap()).collect()
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.hands.lock().unwrap()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Time {
        let mut hands = self.hands();
        let now = hands.now;
        hands.now += self.tick;
        match self.on_sleep {
            OnSleep::RealTime => now + (SystemClock.uptime() - self.started),
            OnSleep::Return | OnSleep::Advance | OnSleep::Wait => now,
        }
    }

    fn uptime(&self) -> Duration {
        match self.on_sleep {
            OnSleep::Return | OnSleep::RealTime => SystemClock.uptime(),
            // Not zero, as on a machine that has just booted: code may subtract.
            OnSleep::Advance | OnSleep::Wait => Duration::from_secs(1000) + *self.advanced.borrow(),
        }
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.hands().sleeps.push(duration);
        let due = *self.advanced.borrow() + duration;
        match self.on_sleep {
            OnSleep::Return => {}
            OnSleep::RealTime => return SystemClock.sleep(duration),
            OnSleep::Advance => self.advance(duration),
            OnSleep::Wait => {
                let mut advanced = self.advanced.subscribe();
                return Box::pin(async move {
                    if advanced.wait_for(|advanced| *advanced >= due).await.is_err() {
                        // The clock is gone, so the sleep never ends.
                        std::future::pending().await
                    }
                });
            }
        }
        Box::pin(std::future::ready(()))
    }
}
