//! Counting: all billing records once, as they were at one moment, and then each change after that moment.

use chrono::{Days, NaiveDate, NaiveTime};
use dues_events::attr::SOURCE;
use dues_events::record::{History, Record};
use dues_events::{GoTime, Value};
use dues_processors::STREAMS;
use dues_processors::changes;
use dues_projections::return_rates::{DAYS, ReturnRates};
use dues_store::embedded::{Change, Embedded};
use dues_store::parked::PARTS;
use dues_store::table::{BILLING_ACTIVITY, HISTORY, PARKED};
use dues_store::{Condition, Store, StoreError};
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use super::publish::{Move, Snapshot, StreamLag};
use crate::console::sums::Sums;
use crate::follow::PROJECTOR;

/// How many changes, and rows of history, are read at once.
const CHANGES: usize = 1000;
const ROWS: u32 = 5000;
/// After so many records the first count says how far it is.
const TOLD: u64 = 2000;
/// How many transitions are remembered, and how far back the log is read for the first of them.
const MOVES: usize = 12;
const BACK: u64 = 400;
/// How many seconds of events a second are remembered.
const PULSE: usize = 60;
/// Sources of history rows that [`ReturnRates`] counts.
const COUNTED: [&str; 5] = [
    "dues attempt",
    "dues gateway",
    "site-payments SUBSCRIPTION_SUBMITTED",
    "site-payments SUBSCRIPTION_RETURNED",
    "site-payments SUBSCRIPTION_CHARGED_BACK",
];

/// Returns by the day on which they were heard of.
pub(super) type Rates = BTreeMap<NaiveDate, ReturnRates>;

/// How far everything is counted.
#[derive(Default)]
pub(super) struct Counter {
    sums: Sums,
    /// The last change that is in the sums; `None` before the first count.
    change: Option<u64>,
    rates: Rates,
    /// The last row of history that is in the rates.
    row: u64,
    moves: VecDeque<Move>,
    /// How far the streams' handlers were, and when that was.
    reached: Option<(Duration, BTreeMap<&'static str, u64>, u64)>,
    pulse: VecDeque<u64>,
}

impl Counter {
    /// Counts what is new, and publishes it; nothing, when the program stops on the way.
    pub(super) fn catch_up(
        &mut self,
        store: &Store<Embedded>,
        stopping: impl Fn() -> bool,
        publish: impl Fn(Arc<Snapshot>),
    ) -> Result<(), StoreError> {
        let engine = &store.engine;
        if self.change.is_none() {
            self.count_all(store, &stopping, &publish)?;
        }
        while !stopping() && self.follow(engine)? {}
        while !stopping() && self.read_history(engine)? {}
        if !stopping() {
            let snapshot = self.snapshot(store)?;
            publish(Arc::new(snapshot));
        }
        Ok(())
    }

    fn count_all(
        &mut self,
        store: &Store<Embedded>,
        stopping: impl Fn() -> bool,
        publish: impl Fn(Arc<Snapshot>),
    ) -> Result<(), StoreError> {
        let (mut sums, mut counted) = (Sums::default(), 0_u64);
        let beginning = Snapshot { parked: parked(&store.engine)?, ..Snapshot::empty(store) };
        let place = store.engine.snapshot(&BILLING_ACTIVITY, |item| {
            sums.add(item);
            counted += 1;
            if counted.is_multiple_of(TOLD) {
                publish(Arc::new(Snapshot { counting: Some(counted), ..beginning.clone() }));
                if stopping() {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        self.sums = sums;
        self.change = Some(place);
        for change in store.engine.changes(place.saturating_sub(BACK), CHANGES)?.into_iter().filter(|change| change.seq <= place) {
            if let Some((old, new)) = billing(change) {
                self.remember(old.and_then(|item| Record::from_item(item).ok()), new.and_then(|item| Record::from_item(item).ok()));
            }
        }
        Ok(())
    }

    /// Adds some changes; `false` when there are no more.
    fn follow(&mut self, engine: &Embedded) -> Result<bool, StoreError> {
        let Some(place) = self.change else { return Ok(false) };
        let changes = engine.changes(place, CHANGES)?;
        let newest = engine.last_change()?;
        let first = changes.first().map_or(newest + 1, |change| change.seq);
        if place < newest && first > place + 1 {
            // Changes were forgotten before they were read here: only counting again helps.
            return Err(StoreError::Unavailable(format!("changes {} to {} are gone", place + 1, first - 1)));
        }
        let Some(last) = changes.last().map(|change| change.seq) else { return Ok(false) };
        for (old, new) in changes.into_iter().filter_map(billing) {
            let old = old.and_then(|item| self.sums.take(item));
            let new = new.and_then(|item| self.sums.add(item));
            self.remember(old, new);
        }
        self.change = Some(last);
        Ok(true)
    }

    fn remember(&mut self, old: Option<Record>, new: Option<Record>) {
        let Some(new) = new else { return };
        let from = old.map(|old| old.status());
        // Each debit brings the next period's record: that it is new is no news.
        let is_next = from.is_none() && new.since() < new.created_date.as_ref().map(GoTime::at);
        if from != Some(new.status()) && !is_next {
            self.moves.truncate(MOVES - 1);
            self.moves.push_front(Move::of(from, &new));
        }
    }

    /// Adds some rows of history to the rates; `false` when there are no more.
    fn read_history(&mut self, engine: &Embedded) -> Result<bool, StoreError> {
        let filter = Condition::Any(COUNTED.iter().map(|source| Condition::Equals(SOURCE, Value::text(*source))).collect());
        let rows = engine.written_after(&HISTORY, self.row, ROWS, &filter)?;
        let Some(last) = rows.last else { return Ok(false) };
        // A row that cannot be read is no debit that can be told of; the audit finds it.
        for row in rows.items.into_iter().filter_map(|item| History::from_item(item).ok()) {
            let Some(day) = row.record.last_run_date.as_ref().map(|run| run.at().date_naive()) else { continue };
            let end = (day + Days::new(1)).and_time(NaiveTime::MIN).and_utc();
            self.rates.entry(day).or_insert_with(|| ReturnRates::until(end)).add(&row);
        }
        self.row = last;
        Ok(true)
    }

    fn snapshot(&mut self, store: &Store<Embedded>) -> Result<Snapshot, StoreError> {
        let (engine, now, uptime) = (&store.engine, store.clock.now(), store.clock.uptime());
        let mut streams = Vec::new();
        let mut reached = BTreeMap::new();
        let mut passed = 0;
        for stream in STREAMS {
            let at = engine.checkpoint(stream, stream)?;
            let (waiting, oldest) = engine.records_between(stream, at, u64::MAX)?;
            if let Some(before) = self.reached.as_ref().and_then(|(_, reached, _)| reached.get(stream)) {
                passed += engine.records_between(stream, *before, at)?.0;
            }
            reached.insert(stream, at);
            streams.push(StreamLag::new(stream, waiting, oldest.map(|at| now.timestamp_millis() - at)));
        }
        let changed = engine.last_change()?;
        let projected = engine.checkpoint(PROJECTOR, changes::STREAM)?;
        streams.push(StreamLag::new(changes::STREAM, changed.saturating_sub(projected), None));
        let since = self.reached.as_ref().map_or(Duration::ZERO, |(at, ..)| uptime.saturating_sub(*at));
        let per_second = |count: u64| u64::try_from(u128::from(count) * 1000 / since.as_millis().max(1)).unwrap_or(u64::MAX);
        let moved = self.reached.as_ref().map_or(0, |(_, _, before)| changed.saturating_sub(*before));
        let (events, changes) = if since.is_zero() { (0, 0) } else { (per_second(passed), per_second(moved)) };
        self.reached = Some((uptime, reached, changed));
        self.pulse.truncate(PULSE - 1);
        self.pulse.push_front(events);
        Ok(Snapshot {
            at: now,
            uptime,
            counting: None,
            sums: Arc::new(self.sums.clone()),
            rates: Arc::new(self.rates.clone()),
            streams,
            events_a_second: events,
            changes_a_second: changes,
            pulse: self.pulse.iter().rev().copied().collect(),
            parked: parked(engine)?,
            moves: self.moves.iter().cloned().collect(),
        })
    }
}

/// How many records are parked, by stream; long ones have parts in partitions of their own.
fn parked(engine: &Embedded) -> Result<Vec<(String, u64)>, StoreError> {
    Ok(engine.partition_sizes(&PARKED)?.into_iter().filter(|(stream, _)| !stream.starts_with(PARTS)).collect())
}

/// The images of a change, if it is one of a billing record.
fn billing(change: Change) -> Option<(Option<dues_events::Item>, Option<dues_events::Item>)> {
    (change.table.name == BILLING_ACTIVITY.name).then_some((change.old, change.new))
}

/// What came back in the sixty days that end with a day.
pub(super) fn until(rates: &Rates, day: NaiveDate) -> ReturnRates {
    let mut sum = ReturnRates::until((day + Days::new(1)).and_time(NaiveTime::MIN).and_utc());
    let first = day - chrono::TimeDelta::days(DAYS - 1);
    rates.range(first..=day).for_each(|(_, rates)| sum.merge(rates));
    sum
}

impl Move {
    fn of(from: Option<dues_events::Status>, record: &Record) -> Self {
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
