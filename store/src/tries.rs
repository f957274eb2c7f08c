//! Patience with others who are at the same rows.

use std::time::Duration;

use crate::clock::SharedClock;
use crate::engine::StoreError;

/// How often something is tried. Two hundred at once take a few seconds on DynamoDB, which lets one of them through at a time.
const TRIES: u32 = 100;
/// The pause after the first conflict.
const FIRST: Duration = Duration::from_millis(10);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(1);

/// Counts the tries, and waits longer after each conflict.
pub(crate) struct Tries<'a> {
    clock: &'a SharedClock,
    left: u32,
    pause: Duration,
}

impl<'a> Tries<'a> {
    pub(crate) fn new(clock: &'a SharedClock) -> Self {
        Self { clock, left: TRIES, pause: FIRST }
    }

    /// Takes a try.
    ///
    /// # Errors
    /// [`StoreError::Contended`] when there are none left.
    pub(crate) fn count(&mut self) -> Result<(), StoreError> {
        self.left = self.left.checked_sub(1).ok_or(StoreError::Contended(TRIES))?;
        Ok(())
    }

    /// Waits, if others were in the way. Not all of them for equally long, or they would meet again.
    ///
    /// # Errors
    /// Any other error is given back.
    pub(crate) async fn wait_out(&mut self, error: StoreError) -> Result<(), StoreError> {
        if !error.is_busy() {
            return Err(error);
        }
        let longest = u64::try_from(self.pause.as_micros()).unwrap_or(u64::MAX);
        self.clock.sleep(Duration::from_micros(fastrand::u64(longest / 2..=longest))).await;
        self.pause = (self.pause * 2).min(LONGEST);
        Ok(())
    }
}
