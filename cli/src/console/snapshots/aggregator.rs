//! Aggregation: one consistent scan of all billing records, then every later change of the log.

use chrono::{Days, NaiveDate, NaiveTime};
use dues_events::attributes::SOURCE;
use dues_events::billing::record::{History, Record};
use dues_events::{GoTime, Value};
use dues_processors::STREAMS;
use dues_processors::runtime::changes;
use dues_projections::collections::return_rates::{DAYS, ReturnRates};
use dues_store::embedded::{Change, Embedded};
use dues_store::parked::PARTS;
use dues_store::table::{BILLING_ACTIVITY, HISTORY, PARKED};
use dues_store::{Condition, Store, StoreError, TableId};
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use super::snapshot::{Snapshot, StreamLag, Transition};
use crate::console::aggregates::Aggregates;
use crate::local::followers::PROJECTOR;

/// Changes, and history rows, read at once.
const CHANGES_BATCH: usize = 1000;
const ROWS_BATCH: u32 = 5000;
/// Records between two progress reports of the first scan.
const PROGRESS_STEP: u64 = 2000;
/// Latest transitions shown, and changes read before the scan to find them.
const MAX_TRANSITIONS: usize = 12;
const LOOKBACK_CHANGES: u64 = 400;
/// Seconds of event rates shown.
const RATE_HISTORY: usize = 60;
/// Sources of history rows that [`ReturnRates`] counts.
const RATE_SOURCES: [&str; 5] = [
    "dues attempt",
    "dues gateway",
    "site-payments SUBSCRIPTION_SUBMITTED",
    "site-payments SUBSCRIPTION_RETURNED",
    "site-payments SUBSCRIPTION_CHARGED_BACK",
];

/// Debits and returns by the day of their event.
pub(super) type RatesByDay = BTreeMap<NaiveDate, ReturnRates>;

/// The aggregates and the positions up to which they are complete.
#[derive(Default)]
pub(super) struct Aggregator {
    aggregates: Aggregates,
    /// The last change in `aggregates`; `None` before the first scan.
    change: Option<u64>,
    rates: RatesByDay,
    /// The last history row in `rates`.
    row: u64,
    transitions: VecDeque<Transition>,
    /// Positions at the previous snapshot, for the rates.
    previous: Option<Positions>,
    events_history: VecDeque<u64>,
}

struct Positions {
    uptime: Duration,
    streams: BTreeMap<&'static str, u64>,
    change: u64,
}

impl Aggregator {
    /// Processes all changes since the last call, then publishes a snapshot, unless the program stops.
    pub(super) fn catch_up(
        &mut self,
        store: &Store<Embedded>,
        stopping: impl Fn() -> bool,
        publish: impl Fn(Arc<Snapshot>),
    ) -> Result<(), StoreError> {
        let engine = &store.engine;
        if self.change.is_none() {
            self.scan_all(store, &stopping, &publish)?;
        }
        while !stopping() && self.follow(engine)? {}
        while !stopping() && self.read_history(engine)? {}
        if !stopping() {
            let snapshot = self.snapshot(store)?;
            publish(Arc::new(snapshot));
        }
        Ok(())
    }

    fn scan_all(
        &mut self,
        store: &Store<Embedded>,
        stopping: impl Fn() -> bool,
        publish: impl Fn(Arc<Snapshot>),
    ) -> Result<(), StoreError> {
        let (mut aggregates, mut counted) = (Aggregates::default(), 0_u64);
        let empty = Snapshot {
            parked: parked(&store.engine)?,
            unapplied_money: store.engine.open_unapplied_money()?,
            ..Snapshot::empty(store)
        };
        let position = store.engine.snapshot(&BILLING_ACTIVITY, |item| {
            aggregates.add(item);
            counted += 1;
            if counted.is_multiple_of(PROGRESS_STEP) {
                publish(Arc::new(Snapshot { counting: Some(counted), ..empty.clone() }));
                if stopping() {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        self.aggregates = aggregates;
        self.change = Some(position);
        for change in store
            .engine
            .changes(position.saturating_sub(LOOKBACK_CHANGES), CHANGES_BATCH)?
            .into_iter()
            .filter(|change| change.seq <= position)
        {
            if let Some((old, new)) = billing(change) {
                self.add_transition(
                    old.and_then(|item| Record::from_item(item).ok()),
                    new.and_then(|item| Record::from_item(item).ok()),
                );
            }
        }
        Ok(())
    }

    /// Processes a batch of changes; `false` when there are no more.
    fn follow(&mut self, engine: &Embedded) -> Result<bool, StoreError> {
        let Some(position) = self.change else { return Ok(false) };
        let changes = engine.changes(position, CHANGES_BATCH)?;
        let newest = engine.last_change()?;
        let first = changes.first().map_or(newest + 1, |change| change.seq);
        if position < newest && first > position + 1 {
            // The log was truncated past our position: start over with a scan.
            return Err(StoreError::Unavailable(format!(
                "changes {} to {} are gone",
                position + 1,
                first - 1
            )));
        }
        let Some(last) = changes.last().map(|change| change.seq) else { return Ok(false) };
        for (old, new) in changes.into_iter().filter_map(billing) {
            let old = old.and_then(|item| self.aggregates.remove(item));
            let new = new.and_then(|item| self.aggregates.add(item));
            self.add_transition(old, new);
        }
        self.change = Some(last);
        Ok(true)
    }

    fn add_transition(&mut self, old: Option<Record>, new: Option<Record>) {
        let Some(new) = new else { return };
        let from = old.map(|old| old.status());
        // Every debit creates the next period's record: not worth showing.
        let is_next = from.is_none() && new.since() < new.created_date.as_ref().map(GoTime::at);
        if from != Some(new.status()) && !is_next {
            self.transitions.truncate(MAX_TRANSITIONS - 1);
            self.transitions.push_front(Transition::new(from, &new));
        }
    }

    /// Adds a batch of history rows to the rates; `false` when there are no more.
    fn read_history(&mut self, engine: &Embedded) -> Result<bool, StoreError> {
        let filter = Condition::Any(
            RATE_SOURCES.iter().map(|source| Condition::Equals(SOURCE, Value::text(*source))).collect(),
        );
        let rows = engine.written_after(&HISTORY, self.row, ROWS_BATCH, &filter)?;
        let Some(last) = rows.last else { return Ok(false) };
        // Unreadable rows are left to the audit.
        for row in rows.items.into_iter().filter_map(|item| History::from_item(item).ok()) {
            let Some(day) = row.record.last_run_date.as_ref().map(|run| run.at().date_naive()) else {
                continue;
            };
            let end = (day + Days::new(1)).and_time(NaiveTime::MIN).and_utc();
            self.rates.entry(day).or_insert_with(|| ReturnRates::until(end)).add(&row);
        }
        self.row = last;
        Ok(true)
    }

    fn snapshot(&mut self, store: &Store<Embedded>) -> Result<Snapshot, StoreError> {
        let (engine, now, uptime) = (&store.engine, store.clock.now(), store.clock.uptime());
        let mut lags = Vec::new();
        let mut streams = BTreeMap::new();
        let mut processed = 0;
        for name in STREAMS {
            let at = engine.checkpoint(name, name)?;
            let (waiting, oldest) = engine.records_between(name, at, u64::MAX)?;
            if let Some(before) = self.previous.as_ref().and_then(|previous| previous.streams.get(name)) {
                processed += engine.records_between(name, *before, at)?.0;
            }
            streams.insert(name, at);
            let oldest_millis = oldest.map(|at| now.timestamp_millis() - at);
            lags.push(StreamLag { name, waiting, oldest_millis });
        }
        let change = engine.last_change()?;
        let waiting = change.saturating_sub(engine.checkpoint(PROJECTOR, changes::STREAM)?);
        lags.push(StreamLag { name: changes::STREAM, waiting, oldest_millis: None });
        let (mut events_per_second, mut changes_per_second) = (0, 0);
        if let Some(previous) = &self.previous {
            let millis = uptime.saturating_sub(previous.uptime).as_millis();
            let per_second = |count: u64| {
                let rate = (u128::from(count) * 1000).checked_div(millis).unwrap_or(0);
                u64::try_from(rate).unwrap_or(u64::MAX)
            };
            events_per_second = per_second(processed);
            changes_per_second = per_second(change.saturating_sub(previous.change));
        }
        self.previous = Some(Positions { uptime, streams, change });
        self.events_history.truncate(RATE_HISTORY - 1);
        self.events_history.push_front(events_per_second);
        Ok(Snapshot {
            at: now,
            uptime,
            counting: None,
            aggregates: Arc::new(self.aggregates.clone()),
            rates: Arc::new(self.rates.clone()),
            streams: lags,
            events_per_second,
            changes_per_second,
            events_history: self.events_history.iter().rev().copied().collect(),
            parked: parked(engine)?,
            unapplied_money: engine.open_unapplied_money()?,
            transitions: self.transitions.iter().cloned().collect(),
        })
    }
}

/// Parked records by stream, without the partitions that hold parts of long ones.
fn parked(engine: &Embedded) -> Result<Vec<(String, u64)>, StoreError> {
    Ok(engine
        .partition_sizes(&PARKED)?
        .into_iter()
        .filter(|(stream, _)| !stream.starts_with(PARTS))
        .collect())
}

/// The old and new image of a change to a billing record.
fn billing(change: Change) -> Option<(Option<dues_events::Item>, Option<dues_events::Item>)> {
    (change.table.id == TableId::BillingActivity).then_some((change.old, change.new))
}

/// Return rates of the sixty days up to and including `day`.
pub(super) fn rates_until(rates: &RatesByDay, day: NaiveDate) -> ReturnRates {
    let mut sum = ReturnRates::until((day + Days::new(1)).and_time(NaiveTime::MIN).and_utc());
    let first = day - chrono::TimeDelta::days(DAYS - 1);
    rates.range(first..=day).for_each(|(_, rates)| sum.merge(rates));
    sum
}

impl Transition {
    fn new(from: Option<dues_events::Status>, record: &Record) -> Self {
        Self {
            at: record.last_run_date.as_ref().map(GoTime::at),
            user: record.user_id.clone(),
            subscription: record.subscription_id.clone(),
            from,
            to: record.status(),
            amount: record.plan.amount,
        }
    }
}
