//! How often an address may be wrong: guessing has to be slow.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How many tries an address has in a minute.
const MOST: u32 = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// How many addresses are remembered. When there are more, nobody new is let try: this must not grow with who knocks.
const ADDRESSES: usize = 10_000;

/// Who has tried how often since when. What counts is an address, so that one who guesses keeps no other from signing in.
#[derive(Default)]
pub(super) struct Tries(Mutex<HashMap<IpAddr, (Duration, u32)>>);

impl Tries {
    /// Counts a try before it is looked at, so that many at once are not one; or says for how long there are none left.
    pub(super) fn take(&self, from: IpAddr, now: Duration) -> Result<(), Duration> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= ADDRESSES && !known.contains_key(&from) {
            known.retain(|_, (since, _)| now.saturating_sub(*since) < MINUTE);
            if known.len() >= ADDRESSES {
                return Err(MINUTE);
            }
        }
        let (since, count) = known.entry(from).or_insert((now, 0));
        if now.saturating_sub(*since) >= MINUTE {
            (*since, *count) = (now, 0);
        }
        if *count >= MOST {
            return Err((*since + MINUTE).saturating_sub(now));
        }
        *count += 1;
        Ok(())
    }

    /// Whoever was right has all tries again.
    pub(super) fn forget(&self, from: IpAddr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn second(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn ten_tries_a_minute_for_each_address() {
        let tries = Tries::default();
        assert!((0..10).all(|n| tries.take(HERE, second(100 + n)).is_ok()));
        assert_eq!(tries.take(HERE, second(110)), Err(second(50)));
        assert_eq!(tries.take("192.0.2.1".parse().unwrap(), second(110)), Ok(()), "another one is not kept out");
        assert_eq!(tries.take(HERE, second(159)), Err(second(1)));
        assert_eq!(tries.take(HERE, second(160)), Ok(()));
    }

    #[test]
    fn whoever_was_right_begins_anew() {
        let tries = Tries::default();
        assert!((0..10).all(|_| tries.take(HERE, second(0)).is_ok()));
        tries.forget(HERE);
        assert_eq!(tries.take(HERE, second(0)), Ok(()));
    }

    #[test]
    fn what_is_remembered_does_not_grow_without_end() {
        let tries = Tries::default();
        let address = |n: u32| IpAddr::from(n.to_be_bytes());
        assert!((0..10_000).all(|n| tries.take(address(n), second(0)).is_ok()));
        assert_eq!(tries.take(address(10_000), second(59)), Err(MINUTE));
        assert_eq!(tries.take(address(10_000), second(60)), Ok(()), "those of a minute ago are forgotten");
    }
}
