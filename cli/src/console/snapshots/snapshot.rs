//! A snapshot: the aggregates, stream lags and latest transitions at one moment.

use chrono::NaiveDate;
use dues_events::billing::record::Status;
use dues_events::{Money, SubscriptionId, Time, UserId};
use dues_projections::collections::return_rates::ReturnRates;
use dues_store::Store;
use dues_store::embedded::Embedded;
use std::sync::Arc;
use std::time::Duration;

use super::aggregator::{RatesByDay, rates_until};
use crate::console::aggregates::Aggregates;

/// The state of the store at one moment.
#[derive(Clone)]
pub(in crate::console) struct Snapshot {
    pub(in crate::console) at: Time,
    pub(super) uptime: Duration,
    /// Records counted so far during the first scan; the other fields are empty until it is done.
    pub(in crate::console) counting: Option<u64>,
    pub(in crate::console) aggregates: Arc<Aggregates>,
    pub(super) rates: Arc<RatesByDay>,
    pub(in crate::console) streams: Vec<StreamLag>,
    pub(in crate::console) events_per_second: u64,
    pub(in crate::console) changes_per_second: u64,
    /// Events per second in the last minute, oldest first.
    pub(in crate::console) events_history: Vec<u64>,
    /// Parked records by stream.
    pub(in crate::console) parked: Vec<(String, u64)>,
    /// Amounts of unapplied money that await a decision.
    pub(in crate::console) unapplied_money: u64,
    /// The latest transitions, newest first.
    pub(in crate::console) transitions: Vec<Transition>,
}

/// The backlog of a stream's consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::console) struct StreamLag {
    pub(in crate::console) name: &'static str,
    /// Unprocessed records.
    pub(in crate::console) waiting: u64,
    /// The age of the oldest unprocessed record.
    pub(in crate::console) oldest_millis: Option<i64>,
}

/// A record that changed its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::console) struct Transition {
    pub(in crate::console) at: Option<Time>,
    pub(in crate::console) user: UserId,
    pub(in crate::console) subscription: SubscriptionId,
    /// `None` for a new record.
    pub(in crate::console) from: Option<Status>,
    pub(in crate::console) to: Status,
    pub(in crate::console) amount: Money,
}

impl Snapshot {
    /// Before the first scan.
    pub(super) fn empty(store: &Store<Embedded>) -> Self {
        Self {
            at: store.clock.now(),
            uptime: store.clock.uptime(),
            counting: Some(0),
            aggregates: Arc::default(),
            rates: Arc::default(),
            streams: Vec::new(),
            events_per_second: 0,
            changes_per_second: 0,
            events_history: Vec::new(),
            parked: Vec::new(),
            unapplied_money: 0,
            transitions: Vec::new(),
        }
    }

    /// Parked records in all streams.
    pub(in crate::console) fn parked(&self) -> u64 {
        self.parked.iter().map(|(_, count)| count).sum()
    }

    /// Return rates of the sixty days up to and including `day`.
    pub(in crate::console) fn return_rates(&self, day: NaiveDate) -> ReturnRates {
        rates_until(&self.rates, day)
    }
}
