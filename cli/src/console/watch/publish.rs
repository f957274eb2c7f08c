//! What is published: how everything stands at one moment.

use chrono::NaiveDate;
use dues_events::record::Status;
use dues_events::{Money, SubscriptionId, Time, UserId};
use dues_projections::return_rates::ReturnRates;
use dues_store::Store;
use dues_store::embedded::Embedded;
use std::sync::Arc;
use std::time::Duration;

use super::count::{Rates, until};
use crate::console::sums::Sums;

/// How everything stood.
#[derive(Clone)]
pub(in crate::console) struct Snapshot {
    /// When.
    pub(in crate::console) at: Time,
    pub(super) uptime: Duration,
    /// How many records are counted so far, while the first count is under way: nothing else is known then.
    pub(in crate::console) counting: Option<u64>,
    pub(in crate::console) sums: Arc<Sums>,
    pub(super) rates: Arc<Rates>,
    pub(in crate::console) streams: Vec<StreamLag>,
    pub(in crate::console) events_a_second: u64,
    pub(in crate::console) changes_a_second: u64,
    /// Events a second in the last minute, oldest first.
    pub(in crate::console) pulse: Vec<u64>,
    /// How many records are parked, by stream.
    pub(in crate::console) parked: Vec<(String, u64)>,
    /// The latest transitions, newest first.
    pub(in crate::console) moves: Vec<Move>,
}

/// How far behind a stream's handler is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::console) struct StreamLag {
    pub(in crate::console) name: &'static str,
    /// How many records wait.
    pub(in crate::console) waiting: u64,
    /// For how long the oldest of them has waited, in milliseconds.
    pub(in crate::console) oldest: Option<i64>,
}

/// A record that went from one status to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::console) struct Move {
    pub(in crate::console) at: Option<Time>,
    pub(in crate::console) user: UserId,
    pub(in crate::console) subscription: SubscriptionId,
    /// `None` for a new record.
    pub(in crate::console) from: Option<Status>,
    pub(in crate::console) to: Status,
    pub(in crate::console) amount: Money,
}

impl StreamLag {
    pub(super) fn new(name: &'static str, waiting: u64, oldest: Option<i64>) -> Self {
        Self { name, waiting, oldest }
    }
}

impl Snapshot {
    /// Nothing is known yet.
    pub(super) fn empty(store: &Store<Embedded>) -> Self {
        Self {
            at: store.clock.now(),
            uptime: store.clock.uptime(),
            counting: Some(0),
            sums: Arc::default(),
            rates: Arc::default(),
            streams: Vec::new(),
            events_a_second: 0,
            changes_a_second: 0,
            pulse: Vec::new(),
            parked: Vec::new(),
            moves: Vec::new(),
        }
    }

    /// How many records are parked.
    pub(in crate::console) fn parked(&self) -> u64 {
        self.parked.iter().map(|(_, count)| count).sum()
    }

    /// What came back in the sixty days that end with a day.
    pub(in crate::console) fn rates(&self, day: NaiveDate) -> ReturnRates {
        until(&self.rates, day)
    }
}
