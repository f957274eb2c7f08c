//! Which locks were found held, and since when they have not changed.

use dues_events::Value;
use std::collections::HashMap;
use std::time::Duration;

/// Capacity. Forgetting a sighting only gives its holder another lease.
const MOST: usize = 16 * 1024;

/// Sightings of held locks, by key.
#[derive(Debug, Default)]
pub(super) struct Sightings(HashMap<String, Sighting>);

#[derive(Debug)]
struct Sighting {
    /// `None` for a row without a version: it must not stay locked for ever.
    version: Option<Value>,
    lease: Duration,
    first: Duration,
}

impl Sightings {
    /// Records that the lock is held at that version, and returns whether it has been for its whole lease.
    /// All times are uptime.
    pub(super) fn unchanged_for(
        &mut self,
        key: &str,
        version: Option<&Value>,
        lease: Duration,
        now: Duration,
    ) -> bool {
        if let Some(seen) = self.0.get(key)
            && seen.version.as_ref() == version
        {
            return now.saturating_sub(seen.first) >= lease;
        }
        if self.0.len() >= MOST && !self.0.contains_key(key) {
            self.make_room(now);
        }
        self.0.insert(key.to_owned(), Sighting { version: version.cloned(), lease, first: now });
        false
    }

    /// Forgets a lock that is free, or ours.
    pub(super) fn forget(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// Drops the sightings older than twice their lease, which no caller took over; if that is not enough,
    /// drops the oldest.
    fn make_room(&mut self, now: Duration) {
        self.0.retain(|_, seen| now.saturating_sub(seen.first) < seen.lease.saturating_mul(2));
        if self.0.len() >= MOST
            && let Some(key) = self.0.iter().min_by_key(|(_, seen)| seen.first).map(|(key, _)| key.clone())
        {
            self.0.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn a_version_has_to_stay_for_its_whole_lease() {
        let mut seen = Sightings::default();
        let [one, two] = ["1", "2"].map(Value::text);
        assert!(!seen.unchanged_for("k", Some(&one), 10 * S, 5 * S));
        assert!(!seen.unchanged_for("k", Some(&one), 10 * S, 14 * S));
        assert!(!seen.unchanged_for("k", Some(&two), 10 * S, 15 * S), "another version starts anew");
        assert!(!seen.unchanged_for("k", Some(&two), 10 * S, 24 * S));
        assert!(seen.unchanged_for("k", Some(&two), 10 * S, 25 * S));
        assert!(!seen.unchanged_for("k", None, 10 * S, 26 * S));
        assert!(seen.unchanged_for("k", None, 10 * S, 36 * S), "a row without a version");
        seen.forget("k");
        assert!(!seen.unchanged_for("k", None, Duration::ZERO, 99 * S), "once is never enough");
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut seen = Sightings::default();
        let version = Value::text("v");
        let mut note =
            |key: usize, now: Duration| seen.unchanged_for(&key.to_string(), Some(&version), 10 * S, now);
        note(0, Duration::ZERO);
        for key in 1..MOST {
            note(key, S);
        }
        note(MOST, 2 * S);
        assert!(note(1, 11 * S), "the others stay");
        assert!(!note(0, 11 * S), "the oldest was forgotten");
        note(MOST + 1, 30 * S);
        assert!(seen.0.len() <= 2, "{} that are not requested any more", seen.0.len());
    }
}
