//! Replay: takes every decision in a record's history again.
//!
//! A history row is the record after an event, with that event. [`decide`] on the record before it must give
//! the row, attribute for attribute; a row that it does not give is a [`Fault`] that names the attributes.
//! Rows of writers that stored no event are baselines: taken as they are.
//!
//! Which rows have happened, the primary row says: its `applied` list has the token of every commit, in
//! order, and its `chain` the link of the newest. A row that it does not hold was never committed.

use std::collections::BTreeMap;
use std::fmt;

use crate::attributes::DATA_PREFIX;
use crate::billing::chain::Chain;
use crate::billing::decide::{Outcome, Rejection, decide, next_record};
use crate::billing::event::{Creation, Event, EventKind, Ignored};
use crate::billing::event_codec::{self, EventError};
use crate::billing::membership::{Change, MembershipEvent, first_record};
use crate::billing::record::{
    APPLIED_OUTCOME, History, Process, ReadError, Receipt, Record, Standing, UpdatedEvent,
};
use crate::billing::wire::memberships;
use crate::ids::{EventId, SubscriptionId};
use crate::item::{Item, Value};
use crate::time::{GoTime, Time};

/// A history row, decoded and as it is stored: the stored columns are checked too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRow {
    /// The row.
    pub row: History,
    /// The row as it is stored.
    pub item: Item,
}

impl StoredRow {
    /// Decodes a stored row.
    ///
    /// # Errors
    /// [`ReadError`] names the attribute and the row.
    pub fn read(item: Item) -> Result<Self, ReadError> {
        Ok(Self { row: History::from_item(item.clone())?, item })
    }

    fn at(&self) -> Option<Time> {
        self.row.record.last_run_date.as_ref().map(GoTime::at)
    }
}

impl From<History> for StoredRow {
    fn from(row: History) -> Self {
        Self { item: row.to_item(), row }
    }
}

/// An attribute that is not what the decision gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The attribute.
    pub attribute: String,
    /// What the decision gives.
    pub expected: Option<Value>,
    /// What the row has.
    pub found: Option<Value>,
}

/// What is wrong with a row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Its event cannot be decoded.
    #[error(transparent)]
    Unreadable(#[from] EventError),
    /// Its event gives another record.
    #[error("wrong decision: {}", Listed(.0))]
    WrongDecision(Vec<Difference>),
    /// The record rejects its event.
    #[error("wrong decision: the event is rejected, {0}")]
    Rejected(#[from] Rejection),
    /// A record that was closed does not change its status any more.
    #[error("wrong decision: {from} is final, and the row says {to}")]
    Reopened {
        /// The status before.
        from: String,
        /// The status after.
        to: String,
    },
    /// The change that it begins is not the one of its event.
    #[error("wrong decision: pending_change is not the change of the row's event")]
    OtherChange,
    /// The record that it follows has no history.
    #[error("wrong decision: it follows record {0}, which has no history")]
    NoPredecessor(SubscriptionId),
    /// It does not follow the row before it.
    #[error("broken chain: this row, or one before it, was changed, added or removed")]
    NotLinked,
    /// The newest row is not the one that the record names.
    #[error(
        "broken chain: the record does not end with this row; it, or one after it, was changed or removed"
    )]
    OtherHead,
    /// The record has taken an event that history does not have.
    #[error("broken chain: the record has taken an event with version {0}, and history has no row of it")]
    Removed(u64),
    /// The first row builds on another one.
    #[error("its history begins after version {0}")]
    NoBeginning(u64),
    /// It builds on a version that history does not have.
    #[error("it builds on version {found}, and history has {before} before it")]
    Gap {
        /// The version it builds on.
        found: u64,
        /// The newest version before it.
        before: u64,
    },
}

struct Listed<'a>(&'a [Difference]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>| {
            value.as_ref().map_or("nothing".to_owned(), |value| value.to_json().to_string())
        };
        for (n, difference) in self.0.iter().enumerate() {
            let separator = if n == 0 { "" } else { "; " };
            let Difference { attribute, expected, found } = difference;
            write!(f, "{separator}{attribute} is {} and should be {}", shown(found), shown(expected))?;
        }
        Ok(())
    }
}

/// A fault and its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFault {
    /// The key of the row; the newest one for a fault of the record itself.
    pub key: Option<GoTime>,
    /// The version that the row says.
    pub version: u64,
    /// The row's event.
    pub event_id: Option<EventId>,
    /// What is wrong.
    pub fault: Fault,
}

impl RowFault {
    fn at(stored: &StoredRow, fault: Fault) -> Self {
        Self {
            key: stored.row.record.last_run_date.clone(),
            version: stored.row.record.version,
            event_id: stored.row.event_id.clone(),
            fault,
        }
    }
}

/// The history of one record, taken again.
#[derive(Debug, Clone, Default)]
pub struct Replay<'a> {
    /// The record that the committed rows give.
    pub record: Option<Record>,
    /// The committed rows, in order.
    pub happened: Vec<&'a StoredRow>,
    /// Rows that build on the record as it is, or on each other: commits that were interrupted.
    pub ahead: Vec<&'a StoredRow>,
    /// Rows of events that lost their race: they have not happened.
    pub overtaken: Vec<&'a StoredRow>,
    /// Second rows of committed events: two handlers completed the same event.
    pub duplicates: Vec<&'a StoredRow>,
    /// What is wrong.
    pub faults: Vec<RowFault>,
    /// The states in which the record promised a next one.
    promises: Vec<Record>,
}

/// Takes the history of one record again. `primary` says what has happened; without it, or without its
/// `applied` list, the chain alone does. Rows come in version order.
#[must_use]
pub fn replay<'a>(rows: &'a [StoredRow], primary: Option<&Record>) -> Replay<'a> {
    let primary = primary.filter(|record| !record.applied.is_empty());
    let mut replay = Replay::default();
    let (events, baselines): (Vec<_>, Vec<_>) = rows.iter().partition(|stored| stored.row.token.is_some());
    let baseline_at = baselines.iter().filter_map(|stored| stored.at()).max();
    let mut candidates: BTreeMap<u64, Vec<&StoredRow>> = BTreeMap::new();
    for stored in events {
        let (row, version) = (&stored.row, stored.row.record.version);
        let Some(record) = primary else {
            candidates.entry(version).or_default().push(stored);
            continue;
        };
        if row.token.is_some_and(|token| record.applied.contains(&token)) {
            candidates.entry(version).or_default().push(stored);
        } else if version > record.version {
            replay.ahead.push(stored);
        } else if stored.at() >= baseline_at {
            replay.overtaken.push(stored);
        }
        // An older writer replaced the record after this row: what came before its own row is a baseline.
    }
    let path = committed_path(&candidates, primary);
    for stored in candidates.into_values().flatten() {
        if !path.rows.iter().any(|row| std::ptr::eq(*row, stored)) {
            replay.duplicates.push(stored);
        }
    }
    replay.faults = path.faults;
    replay.happened = baselines.into_iter().chain(path.rows).collect();
    replay.fold();
    if let Some(record) = primary {
        replay.check_completeness(record);
    }
    replay
}

impl Replay<'_> {
    fn fold(&mut self) {
        let mut record: Option<Record> = None;
        for stored in &self.happened {
            let after = match take_again(record.as_ref(), stored) {
                Ok(after) => after,
                Err(fault) => {
                    self.faults.push(RowFault::at(stored, fault));
                    stored.row.apply_to(record.as_ref())
                }
            };
            if after.next.is_some() {
                self.promises.push(after.clone());
            }
            record = Some(after);
        }
        self.record = record;
    }

    /// Every event that the record has taken must have its row.
    fn check_completeness(&mut self, record: &Record) {
        let first = record.version.saturating_sub(record.applied.len() as u64) + 1;
        let newest = self.happened.last().and_then(|stored| stored.row.record.last_run_date.clone());
        for version in first..=record.version {
            if !self.happened.iter().any(|stored| stored.row.record.version == version) {
                let fault = Fault::Removed(version);
                self.faults.push(RowFault { key: newest.clone(), version, event_id: None, fault });
            }
        }
    }

    /// The record with the interrupted commits completed, as far as they are what would be decided.
    #[must_use]
    pub fn completed(&self) -> Option<Record> {
        let mut record = self.record.clone();
        for stored in &self.ahead {
            match roll_forward(record.as_ref(), stored) {
                Ok(after) => record = Some(after),
                Err(_) => break,
            }
        }
        record
    }
}

/// Checks that each record that follows another one is what that one promised, over all records of a user.
/// Returns the position of each faulty record.
#[must_use]
pub fn check_successors(replays: &[Replay<'_>]) -> Vec<(usize, RowFault)> {
    let mut faults = Vec::new();
    for (n, replay) in replays.iter().enumerate() {
        let Some(stored) = replay.happened.first() else { continue };
        let Ok(Some(event)) = event_codec::decode(&stored.row) else { continue };
        let EventKind::Created(Creation::NextOf(id)) = &event.kind else { continue };
        let is_it = |other: &&Replay<'_>| other.record.as_ref().is_some_and(|r| r.subscription_id == *id);
        let fault = match replays.iter().find(is_it) {
            None => Some(Fault::NoPredecessor(id.clone())),
            Some(predecessor) => check_successor(&predecessor.promises, stored, &event).err(),
        };
        faults.extend(fault.map(|fault| (n, RowFault::at(stored, fault))));
    }
    faults
}

/// The record was created from one of the states in which its predecessor promised it.
fn check_successor(promises: &[Record], stored: &StoredRow, event: &Event) -> Result<(), Fault> {
    let created = &stored.row.record;
    let mut closest: Option<Vec<Difference>> = None;
    for promise in promises.iter().filter(|promise| promise.next.as_ref() == Some(&created.subscription_id)) {
        let Some(next) = next_record(promise) else { continue };
        let next = Record { subscription_id: created.subscription_id.clone(), ..next };
        let expected = History::of(placed(next, created), 0, event, APPLIED_OUTCOME.to_owned());
        let found = differences(&expected, stored);
        if found.is_empty() {
            return Ok(());
        }
        if closest.as_ref().is_none_or(|closest| found.len() < closest.len()) {
            closest = Some(found);
        }
    }
    let unpromised = || {
        let promised = promises.last().and_then(|promise| promise.next.as_ref());
        vec![Difference {
            attribute: crate::attributes::SUBSCRIPTION_ID.to_owned(),
            expected: promised.map(|id| Value::text(id.as_str())),
            found: Some(Value::text(created.subscription_id.as_str())),
        }]
    };
    Err(Fault::WrongDecision(closest.unwrap_or_else(unpromised)))
}

/// The record after a row that builds on it: the row's link and its decision must be right.
///
/// # Errors
/// The row's [`Fault`].
pub fn roll_forward(record: Option<&Record>, stored: &StoredRow) -> Result<Record, Fault> {
    let head = record.and_then(|record| record.chain);
    if !is_linked(head, stored) {
        return Err(Fault::NotLinked);
    }
    take_again(record, stored)
}

/// Whether the row follows that head. A row of a writer that stored no event has no link either.
fn is_linked(head: Option<Chain>, stored: &StoredRow) -> bool {
    match stored.row.chain {
        Some(chain) => chain == Chain::following(head, &stored.item),
        None => stored.item.get(crate::attributes::DATA_EVENT).is_none(),
    }
}

/// The rows that were committed, one for each version, as the links say. Where two rows of one event have the
/// same version, the one that the next row follows, or that the record names, is it.
fn committed_path<'a>(candidates: &BTreeMap<u64, Vec<&'a StoredRow>>, primary: Option<&Record>) -> Path<'a> {
    let mut paths = vec![Path::default()];
    for rows in candidates.values() {
        let mut longer: Vec<Path<'a>> = Vec::new();
        if let ([row], [path]) = (rows.as_slice(), paths.as_mut_slice())
            && is_linked(path.head, row)
        {
            path.push(row);
            continue;
        }
        for path in &paths {
            for row in rows.iter().filter(|row| is_linked(path.head, row)) {
                let mut path = path.clone();
                path.push(row);
                longer.push(path);
            }
        }
        if longer.is_empty()
            && let (Some(path), Some(row)) = (paths.first(), rows.first())
        {
            let mut path = path.clone();
            path.faults.push(RowFault::at(row, Fault::NotLinked));
            path.push(row);
            longer.push(path);
        }
        longer.truncate(MAX_PATHS);
        paths = longer;
    }
    let Some(record) = primary else { return paths.into_iter().next().unwrap_or_default() };
    let named = paths.iter().position(|path| path.head == record.chain);
    let mut path = paths.swap_remove(named.unwrap_or(0));
    if let (None, Some(newest)) = (named, path.rows.last()) {
        let fault = RowFault::at(newest, Fault::OtherHead);
        path.faults.push(fault);
    }
    path
}

/// Rows of one event and version are rare, and more than two have not been seen.
const MAX_PATHS: usize = 16;

#[derive(Debug, Clone, Default)]
struct Path<'a> {
    head: Option<Chain>,
    rows: Vec<&'a StoredRow>,
    faults: Vec<RowFault>,
}

impl<'a> Path<'a> {
    fn push(&mut self, stored: &'a StoredRow) {
        self.head = stored.row.chain.or(self.head);
        self.rows.push(stored);
    }
}

/// Takes a row's decision again, on the record before it. Returns the record after it.
fn take_again(before: Option<&Record>, stored: &StoredRow) -> Result<Record, Fault> {
    let row = &stored.row;
    let after = row.apply_to(before);
    let Some(event) = event_codec::decode(row)? else {
        return check_baseline(before, row).map(|()| after);
    };
    let is_import = matches!(event.kind, EventKind::Created(Creation::Imported(_)));
    let expected = match before {
        None if is_import => return Ok(after),
        None if row.previous_version > 0 => return Err(Fault::NoBeginning(row.previous_version)),
        None => match created(row, &event)? {
            Some(record) => History::of(record, 0, &event, APPLIED_OUTCOME.to_owned()),
            // Decided on the row of a writer that left no history: the first that is known of it.
            None => return Ok(after),
        },
        Some(before) if row.previous_version > before.version => {
            return Err(Fault::Gap { found: row.previous_version, before: before.version });
        }
        Some(before) => decided(before, row, &event)?,
    };
    check_change(row, &event)?;
    let found = differences(&expected, stored);
    if found.is_empty() { Ok(after) } else { Err(Fault::WrongDecision(found)) }
}

/// Without an event there is nothing to decide, but no version of this program reopens a closed record.
fn check_baseline(before: Option<&Record>, row: &History) -> Result<(), Fault> {
    let Some(token) = &row.token else { return Ok(()) };
    match before {
        None if row.previous_version > 0 => Err(Fault::NoBeginning(row.previous_version)),
        Some(before) if row.previous_version > before.version => {
            Err(Fault::Gap { found: row.previous_version, before: before.version })
        }
        Some(before)
            if before.version > 0
                && !token.parked
                && matches!(before.standing, Standing::Closed { .. })
                && row.changed()
                && row.record.status() != before.status() =>
        {
            let (from, to) = (before.status().to_string(), row.record.status().to_string());
            Err(Fault::Reopened { from, to })
        }
        Some(_) | None => Ok(()),
    }
}

/// The row that the event gives on that record. An event that was parked changes nothing.
fn decided(before: &Record, row: &History, event: &Event) -> Result<History, Fault> {
    if event.token.parked {
        return Ok(History::of(before.clone(), before.version, event, row.outcome.clone()));
    }
    // An older version of this program took no notice of a notification of change: its row stands.
    let as_then = Outcome::Ignored(Ignored::NotificationOfChange).to_text();
    if row.outcome == as_then {
        return Ok(History::of(before.clone(), before.version, event, as_then));
    }
    let transition = decide(before, event)?;
    let outcome = transition.outcome.to_text();
    Ok(History::of(transition.record, before.version, event, outcome))
}

/// The record that a creation gives; `None` for an event that creates none.
fn created(row: &History, event: &Event) -> Result<Option<Record>, Fault> {
    match &event.kind {
        EventKind::Created(Creation::Began(new)) => {
            let is_again = event.process == Some(Process::Reactivation);
            let change = if is_again { Change::Reactivate } else { Change::Activate };
            let membership = MembershipEvent {
                id: event.id.clone(),
                at: event.at,
                user_id: row.record.user_id.clone(),
                source: event.source.clone(),
                change: change((**new).clone()),
                token: event.token,
            };
            if !memberships::token(&membership).same_event(&event.token) {
                return Err(Fault::OtherChange);
            }
            let tag = is_again.then_some(UpdatedEvent::UserReactivated);
            Ok(Some(placed(first_record(&[], &membership, new, tag), &row.record)))
        }
        // What it should be is known with its predecessor: see `check_successors`. It is new in any case.
        EventKind::Created(Creation::NextOf(_)) => Ok(Some(as_new(row.record.clone()))),
        EventKind::Created(Creation::Imported(record)) => Ok(Some((**record).clone())),
        EventKind::Reported(_)
        | EventKind::Intended { .. }
        | EventKind::Withdrawn { .. }
        | EventKind::Answered { .. }
        | EventKind::Free
        | EventKind::NewAccount
        | EventKind::MoneyResolved { .. }
        | EventKind::Paused { .. }
        | EventKind::Unpaused
        | EventKind::PauseExpired
        | EventKind::Waived
        | EventKind::Cancelled
        | EventKind::TooOld
        | EventKind::Moved { .. }
        | EventKind::PauseEnding
        | EventKind::DueSoon
        | EventKind::PlanChanged(_)
        | EventKind::DowngradeRequested(_)
        | EventKind::CancelRequested(_)
        | EventKind::CancelRetracted
        | EventKind::Superseded(_)
        | EventKind::ChangeCompleted
        | EventKind::Replaced(_)
        | EventKind::NoChange(_) => Ok(None),
    }
}

/// What depends on the member's other records, as the row has it: whole hours later where another record has
/// that due date, and the member's bar and account.
fn placed(expected: Record, found: &Record) -> Record {
    let hours = found.billing_date.at() - expected.billing_date.at();
    let is_shifted =
        (0..=MAX_HOURS).contains(&hours.num_hours()) && hours == chrono::TimeDelta::hours(hours.num_hours());
    Record {
        billing_date: if is_shifted { found.billing_date.clone() } else { expected.billing_date },
        bar: expected.bar.or_else(|| found.bar.clone()),
        correction: expected.correction.and(found.correction),
        ..expected
    }
}

/// As many hours as a record may have to give way; see `RACES` of the commit.
const MAX_HOURS: i64 = 100;

fn as_new(record: Record) -> Record {
    let mut record = Record {
        attempts: crate::billing::attempts::Attempts::default(),
        standing: match record.standing {
            Standing::Closed { .. } => Standing::Open,
            standing @ (Standing::Open | Standing::Paused { .. }) => standing,
        },
        process: Process::Initial,
        updated_event: None,
        initial_run_date: None,
        receipt: Receipt::default(),
        due_notice: None,
        next: None,
        downgrade: None,
        superseded_by: None,
        pending_change: None,
        pause_passed_on: None,
        original_due_date: None,
        moved_to: None,
        ..record
    };
    record.derive_state();
    record
}

/// A change that the row begins is the one of its event: the token has the hash of its content.
fn check_change(row: &History, event: &Event) -> Result<(), Fault> {
    let Some(change) = &event.begins else { return Ok(()) };
    let decoded = memberships::decode(change.as_bytes()).ok().flatten();
    match decoded.is_some_and(|change| row.token.is_some_and(|token| token.same_event(&change.token))) {
        true => Ok(()),
        false => Err(Fault::OtherChange),
    }
}

/// The attributes in which a row differs from the one that was decided. Its key is the event's own time, or
/// shortly after it where that was taken; `data_` attributes are no part of the decision.
fn differences(expected: &History, stored: &StoredRow) -> Vec<Difference> {
    let mut expected = expected.clone();
    expected.record.last_run_date.clone_from(&stored.row.record.last_run_date);
    let (expected, found) = (expected.to_item(), &stored.item);
    let mut names: Vec<&str> = expected.iter().chain(found.iter()).map(|(name, _)| name.as_ref()).collect();
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .filter(|name| !name.starts_with(DATA_PREFIX) && expected.get(name) != found.get(name))
        .map(|name| Difference {
            attribute: name.to_owned(),
            expected: expected.get(name).cloned(),
            found: found.get(name).cloned(),
        })
        .collect()
}

impl Outcome {
    /// The `outcome` of the event's history row.
    #[must_use]
    pub fn to_text(self) -> String {
        match self {
            Self::Applied => APPLIED_OUTCOME.to_owned(),
            Self::Ignored(reason) => format!("ignored: {}", reason.as_str()),
        }
    }
}
