//! Waiting for a lock: its holder finishes, or its lease passes and it must be dead. A program that runs once has to look twice to know.

use dues_store::SharedClock;
use dues_store::lock::HEARTBEAT;
use std::time::Duration;

use crate::args::LockArgs;
use crate::output::{self, Error};

/// How long to wait before another look.
pub(crate) const AGAIN: Duration = Duration::from_secs(1);

impl LockArgs {
    /// How long a lock outlives its holder.
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_secs(self.lease)
    }

    /// How often a holder says that it is there: every second, or often enough for a shorter lease.
    pub(crate) fn heartbeat(&self) -> Duration {
        HEARTBEAT.min(self.lease() / 4)
    }

    /// How often to look again.
    pub(crate) fn looks(&self) -> u64 {
        if self.no_wait { 0 } else { self.lease / AGAIN.as_secs() + 2 }
    }

    /// Says to people that there is something to wait for.
    pub(crate) fn say(&self, who: &str) {
        output::say(&format!("{who} with another worker: waiting for it, {} s at the most (--no-wait does not)", self.looks()));
    }
}

/// Does something until it is not kept from it by a lock.
pub(crate) async fn patiently<T>(
    clock: &SharedClock,
    args: &LockArgs,
    who: &str,
    is_locked: impl Fn(&T) -> bool,
    mut work: impl AsyncFnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    let mut done = work().await?;
    for look in 0..args.looks() {
        if !is_locked(&done) {
            break;
        }
        if look == 0 {
            args.say(who);
        }
        clock.sleep(AGAIN).await;
        done = work().await?;
    }
    Ok(done)
}
