//! Limits sign-in attempts per address, so that guessing the token is slow.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Attempts per address and minute.
const MOST: u32 = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Addresses remembered. Beyond that, new addresses are rejected: memory must not grow with the number of
/// clients.
const ADDRESSES: usize = 10_000;

/// Start of the current minute and number of attempts, by address. Limits are per address so that an
/// attacker cannot lock others out.
#[derive(Default)]
pub(super) struct LoginRateLimit(Mutex<HashMap<IpAddr, (Duration, u32)>>);

impl LoginRateLimit {
    /// Counts an attempt before the token is checked, so that concurrent attempts count too. `Err` is the
    /// time until the next attempt is allowed.
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

    /// Resets the limit of an address after a successful sign-in.
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
        let limit = LoginRateLimit::default();
        assert!((0..10).all(|n| limit.take(HERE, second(100 + n)).is_ok()));
        assert_eq!(limit.take(HERE, second(110)), Err(second(50)));
        assert_eq!(
            limit.take("192.0.2.1".parse().unwrap(), second(110)),
            Ok(()),
            "another one is not kept out"
        );
        assert_eq!(limit.take(HERE, second(159)), Err(second(1)));
        assert_eq!(limit.take(HERE, second(160)), Ok(()));
    }

    #[test]
    fn a_successful_login_resets_the_limit() {
        let limit = LoginRateLimit::default();
        assert!((0..10).all(|_| limit.take(HERE, second(0)).is_ok()));
        limit.forget(HERE);
        assert_eq!(limit.take(HERE, second(0)), Ok(()));
    }

    #[test]
    fn what_is_remembered_does_not_grow_without_end() {
        let limit = LoginRateLimit::default();
        let address = |n: u32| IpAddr::from(n.to_be_bytes());
        assert!((0..10_000).all(|n| limit.take(address(n), second(0)).is_ok()));
        assert_eq!(limit.take(address(10_000), second(59)), Err(MINUTE));
        assert_eq!(limit.take(address(10_000), second(60)), Ok(()), "those of a minute ago are forgotten");
    }
}
