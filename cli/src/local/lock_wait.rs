//! Waiting for a lock until its holder releases it or its lease expires.

use dues_store::SharedClock;
use dues_store::lock::HEARTBEAT;
use std::time::Duration;

use crate::args::LockArgs;
use crate::output::{self, Error};

/// Pause between two attempts to take a lock.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_secs(1);

impl LockArgs {
    /// Lease of a lock.
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_secs(self.lease)
    }

    /// Heartbeat interval of a lock holder, short enough for the lease.
    pub(crate) fn heartbeat(&self) -> Duration {
        HEARTBEAT.min(self.lease() / 4)
    }

    /// Attempts until the lease of a dead holder has expired.
    pub(crate) fn max_retries(&self) -> u64 {
        if self.no_wait { 0 } else { self.lease / RETRY_INTERVAL.as_secs() + 2 }
    }

    /// Prints that `subject` is locked and how long the command waits.
    pub(crate) fn report_wait(&self, subject: &str) {
        output::notice(&format!(
            "{subject} locked by another worker: waiting up to {} s (--no-wait skips the wait)",
            self.max_retries()
        ));
    }
}

/// Repeats `work` while its result says that a lock is held.
pub(crate) async fn retry_while_locked<T>(
    clock: &SharedClock,
    args: &LockArgs,
    subject: &str,
    is_locked: impl Fn(&T) -> bool,
    mut work: impl AsyncFnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    let mut result = work().await?;
    for attempt in 0..args.max_retries() {
        if !is_locked(&result) {
            break;
        }
        if attempt == 0 {
            args.report_wait(subject);
        }
        clock.sleep(RETRY_INTERVAL).await;
        result = work().await?;
    }
    Ok(result)
}
