//! Usage of a subscription: actions per period of thirty days, counted from the user's creation.

use chrono::TimeDelta;
use dues_events::{EventId, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::rows;

/// The feature that is counted.
pub const DOCUMENT_PROCESSING: &str = "document_processing";
/// The most actions counted in thirty days, also for unlimited tiers: the state must stay small.
pub const MAX_COUNTED: usize = 5000;
/// Length of a period.
const PERIOD: TimeDelta = TimeDelta::days(30);

/// The actions of the last thirty days, by a prefix of each id's SHA-256. Older ones belong to a closed
/// period.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Counted(BTreeMap<String, Time>);

/// The usage of one period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Documents processed in the period.
    pub documents_processed: usize,
    /// Start of the period, inclusive.
    pub period_start: Time,
    /// End of the period, exclusive.
    pub period_end: Time,
}

impl Counted {
    /// Counts an action once.
    pub(super) fn add(&mut self, id: &EventId, at: Time) {
        let key: String = rows::sha256(id.as_str()).chars().take(16).collect();
        let known = self.0.entry(key).or_insert(at);
        *known = at.max(*known);
        if let Some(last) = self.last() {
            self.0.retain(|_, at| *at > last - PERIOD);
        }
        while self.0.len() > MAX_COUNTED {
            let oldest = self.0.iter().map(|(key, at)| (*at, key.clone())).min();
            oldest.and_then(|(_, key)| self.0.remove(&key));
        }
    }

    /// How many actions are kept.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Time of the latest action.
    pub(super) fn last(&self) -> Option<Time> {
        self.0.values().max().copied()
    }

    /// The usage of the period that contains `at`. The first period begins at the user's creation.
    pub(super) fn period(&self, since: Time, at: Time) -> Usage {
        let number = |at: Time| (at - since).num_seconds().max(0) / PERIOD.num_seconds();
        let this = number(at);
        let start = since + TimeDelta::seconds(this.saturating_mul(PERIOD.num_seconds()));
        let documents_processed = self.0.values().filter(|at| number(**at) == this).count();
        Usage { documents_processed, period_start: start, period_end: start + PERIOD }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_that_has_ended_begins_anew_with_the_next_action() {
        let t = |text: &str| dues_events::time::parse(text).unwrap();
        let since = t("2026-01-01T10:00:00Z");
        let mut counted = Counted::default();
        for (id, at) in
            [("a", "2026-01-02T00:00:00Z"), ("b", "2026-01-31T09:59:59Z"), ("b", "2026-01-31T09:59:59Z")]
        {
            counted.add(&id.into(), t(at));
        }
        assert_eq!(counted.period(since, t("2026-01-31T09:59:59Z")).documents_processed, 2);
        let next = counted.period(since, t("2026-01-31T10:00:00Z"));
        assert_eq!(
            (next.documents_processed, next.period_start, next.period_end),
            (0, t("2026-01-31T10:00:00Z"), t("2026-03-02T10:00:00Z"))
        );
        counted.add(&"c".into(), t("2026-02-01T00:00:00Z"));
        assert_eq!(
            (counted.period(since, t("2026-02-01T00:00:00Z")).documents_processed, counted.len()),
            (1, 2),
            "a is older than thirty days"
        );
    }
}
