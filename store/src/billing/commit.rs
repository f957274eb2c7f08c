//! The commit protocol: effects exactly once, without a dedupe table, a transaction or a lock.
//!
//! 1. If the primary row's `applied` list holds the event, it is a duplicate: nothing is written.
//! 2. Decide the event, as a pure function: see [`decide`].
//! 3. Put the history row, under a key derived from the event, if that key is free. The row carries the
//!    event, the version it found and the record after it. If the key is taken:
//!    - by the same event, and the primary row is still at the version that the row found: roll that row
//!      forward;
//!    - by the same event, and the primary row has moved on: decide the event again and overwrite the row;
//!    - by the same event, and the row found a later version than we read: our read is stale, restart
//!      at step 1;
//!    - by another event: try the next nanosecond.
//! 4. Write the primary row if its version is still the one that was read. If the race is lost, restart at
//!    step 1.
//!
//! A bank's report may be decided again after a lost race: its outcome does not depend on the order. What was
//! planned or found eligible on records that have changed is not committed: [`Store::apply_at`] gives up
//! instead, and its caller reads and decides again.
//!
//! The compare-and-set on the primary row is the only commit; its history row is always written before it.
//! If a process crashes between the two, redelivery or [`crate::billing::sweep`] completes the commit.

use chrono::TimeDelta;
use dues_events::billing::attempts::UnappliedMoney;
use dues_events::billing::decide::{Followup, Outcome, Rejection, decide, followups};
use dues_events::billing::event::{Event, EventKind, Ignored};
use dues_events::billing::idempotency::{Lookup, MAX_EVENTS, ParkedEvents};
use dues_events::billing::record::{APPLIED_OUTCOME, History, Record, State};
use dues_events::billing::replay::{StoredRow, roll_forward};
use dues_events::ids::{SubscriptionId, UserId};
use dues_events::time::GoTime;
use dues_events::{Time, Value, attributes};
use std::cmp::Ordering;

use crate::billing::Store;
use crate::billing::user_records::UserRecords;
use crate::engine::{Condition, Engine, Key, StoreError, Written};
use crate::table::{BILLING_ACTIVITY, HISTORY};

/// Outcome of committing an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// It changed the record.
    Applied,
    /// It changed nothing; history records the reason.
    Ignored(Ignored),
    /// It was applied before; nothing was written.
    Duplicate,
    /// It was parked before; nothing was written.
    Parked,
    /// The record has changed since the event was planned; nothing was written.
    Overtaken,
}

/// Why an event was not committed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The event is not valid for that record.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The engine failed, or the row was contended.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Maximum number of lost races; more indicate a fault.
const RACES: u32 = 100;

impl<E: Engine> Store<E> {
    /// Applies an event to one of a user's records, then the record's follow-ups.
    ///
    /// # Errors
    /// [`CommitError::Rejected`] where the state table has a dash; [`CommitError::Store`] when the event has
    /// to be redelivered.
    pub async fn apply(
        &self,
        user: &mut UserRecords,
        id: &SubscriptionId,
        event: &Event,
    ) -> Result<Committed, CommitError> {
        let current = match user.get(id) {
            Some(record) => Box::new(record.clone()),
            None => Box::new(Box::pin(self.find(&user.user_id, id)).await?),
        };
        // The same event id on another record of the user is a different fact under a used id.
        if user.records.iter().any(|record| record.applied.lookup(&event.token) == Lookup::ConflictingContent)
        {
            return Err(Rejection::ConflictingContent.into());
        }
        let commit = Commit { event, parked_events: user.parked_events, at_version: None };
        let unapplied = current.unapplied_money();
        let (record, committed) = self.commit(current, &commit).await?;
        self.list_changed_money(&unapplied, &record).await?;
        user.set(*record);
        // Not only of this record: a crash may have left the follow-up of a record that followed it.
        if user.records.iter().any(|record| needs_followup(user, record)) {
            Box::pin(self.apply_record_followups(user)).await?;
        }
        Ok(committed)
    }

    /// Applies an event that was planned or found eligible on a version of a record, and only at that
    /// version. Its follow-ups are left to the caller, who reads everything again anyway.
    ///
    /// # Errors
    /// As for [`Self::apply`].
    pub async fn apply_at(
        &self,
        user: &mut UserRecords,
        id: &SubscriptionId,
        version: u64,
        event: &Event,
    ) -> Result<Committed, CommitError> {
        let current = match user.get(id) {
            Some(record) => Box::new(record.clone()),
            None => Box::new(Box::pin(self.find(&user.user_id, id)).await?),
        };
        if let EventKind::Moved { to } = event.kind {
            return Box::pin(self.move_record(user, *current, to, event)).await;
        }
        let commit = Commit { event, parked_events: user.parked_events, at_version: Some(version) };
        let unapplied = current.unapplied_money();
        let (record, committed) = self.commit(current, &commit).await?;
        self.list_changed_money(&unapplied, &record).await?;
        user.set(*record);
        Ok(committed)
    }

    /// Lists the record's unapplied money. Costs nothing where there is none, which is nearly everywhere.
    async fn list_changed_money(
        &self,
        before: &[UnappliedMoney],
        record: &Record,
    ) -> Result<(), CommitError> {
        if before.is_empty() && record.unapplied_money().is_empty() {
            return Ok(());
        }
        Ok(Box::pin(self.list_unapplied(before, record)).await?)
    }

    /// Creates a record, unless it exists.
    pub async fn create(
        &self,
        user: &mut UserRecords,
        record: Record,
        event: &Event,
    ) -> Result<Committed, CommitError> {
        let (record, committed) = self.commit_new(record, event).await?;
        user.set(record);
        Ok(committed)
    }

    /// Completes what others have begun and applies the outstanding follow-ups of all of a user's records.
    /// Returns how many there were.
    pub async fn apply_all_followups(&self, user: &mut UserRecords) -> Result<u64, CommitError> {
        let mut done = 0;
        while user.records.iter().any(|record| record.pending_change.is_some())
            && Box::pin(self.complete_pending_changes(user, None)).await?
        {
            done += 1;
        }
        Ok(done + self.apply_record_followups(user).await?)
    }

    /// Applies the outstanding follow-ups of each of a user's records. Returns how many there were.
    pub(crate) async fn apply_record_followups(&self, user: &mut UserRecords) -> Result<u64, CommitError> {
        let outstanding: Vec<SubscriptionId> = user
            .records
            .iter()
            .filter(|record| needs_followup(user, record))
            .map(|record| record.subscription_id.clone())
            .collect();
        let mut done = 0;
        for id in outstanding {
            done += self.apply_followups(user, &id).await?;
        }
        Ok(done)
    }

    /// Applies a record's follow-ups: the next period's record, or a cancellation that waited for its debit.
    /// Returns how many were outstanding. Costs nothing when there are none, because the user's records are
    /// in memory.
    pub async fn apply_followups(
        &self,
        user: &mut UserRecords,
        id: &SubscriptionId,
    ) -> Result<u64, CommitError> {
        let Some(record) = user.get(id).cloned() else { return Ok(0) };
        let mut done = 0;
        for followup in followups(&record) {
            match followup {
                Followup::CreateNext(mut next, event) => {
                    if !has_next(user, &record, &next.subscription_id) {
                        // A bar or a notification of change may be newer than the promise of the next
                        // record: it applies to the user, so every following record inherits it.
                        next.bar =
                            next.bar.or_else(|| user.records.iter().find_map(|record| record.bar.clone()));
                        next.correction = user
                            .records
                            .iter()
                            .fold(next.correction, |known, record| known.and(record.correction));
                        let next_id = next.subscription_id.clone();
                        self.create(user, *next, &event).await?;
                        done += 1;
                        // It may inherit a cancellation that is due.
                        if user.get(&next_id).is_some_and(|next| needs_followup(user, next)) {
                            done += Box::pin(self.apply_followups(user, &next_id)).await?;
                        }
                    }
                }
                Followup::Apply(event) => {
                    let commit = Commit {
                        event: &event,
                        parked_events: ParkedEvents::Keep,
                        at_version: Some(record.version),
                    };
                    let (record, _) = self.commit(Box::new(record.clone()), &commit).await?;
                    done += 1;
                    user.set(*record);
                }
            }
        }
        Ok(done)
    }

    /// Records on a billing record that it rejected an event, which was parked. History keeps the reason,
    /// and a redelivery of the event after the record has changed is not applied by accident. Does nothing
    /// if the record is unknown or already lists the event.
    pub async fn refuse(
        &self,
        user: &mut UserRecords,
        id: &SubscriptionId,
        event: &Event,
        rejection: &Rejection,
    ) -> Result<(), CommitError> {
        let mut current = match user.get(id) {
            Some(record) => record.clone(),
            None => match self.find(&user.user_id, id).await {
                Ok(record) => record,
                Err(CommitError::Rejected(_)) => return Ok(()),
                Err(error) => return Err(error),
            },
        };
        let noted = Event { token: event.token.as_parked(), ..event.clone() };
        for _ in 0..RACES {
            if current.applied.lookup(&event.token) != Lookup::Unknown || current.applied.len() >= MAX_EVENTS
            {
                user.set(current);
                return Ok(());
            }
            let row = History::of(current.clone(), current.version, &noted, format!("parked: {rejection}"));
            let row = self.write_history(Box::new(row), &noted, Some(&current)).await?;
            if let Some(row) = &row {
                let after = row.apply_to(Some(&current));
                if self.replace(&current, &after).await? == Written::Done {
                    user.set(after);
                    return Ok(());
                }
            }
            current = self.reread(&current).await?;
            // Another handler applied the event after all: the rejection is no longer true.
            if let Some(row) = row
                && matches!(current.applied.lookup(&event.token), Lookup::Known { .. })
                && !current.applied.contains(&noted.token)
            {
                self.take_back(&row).await?;
            }
        }
        Err(StoreError::Contended(RACES).into())
    }

    /// Finds a record that is not among the user's recent ones, through the index.
    async fn find(&self, user: &UserId, id: &SubscriptionId) -> Result<Record, CommitError> {
        let record = self.get_by_id(id).await?.ok_or_else(|| Rejection::UnknownSubscription(id.clone()))?;
        if record.user_id != *user {
            return Err(Rejection::WrongUser(id.clone()).into());
        }
        Ok(record)
    }

    /// Runs the commit protocol for an existing record.
    async fn commit(
        &self,
        mut current: Box<Record>,
        commit: &Commit<'_>,
    ) -> Result<(Box<Record>, Committed), CommitError> {
        let event = commit.event;
        let mut overtaken: Option<Box<History>> = None;
        for _ in 0..RACES {
            match current.applied.lookup(&event.token) {
                // The seal of a change that this record has taken.
                Lookup::Known { sealed: false } if is_seal(event) => {}
                Lookup::Known { .. } => {
                    // Another handler committed the same event from a history row under another key: ours is
                    // a second record of it.
                    if let Some(row) =
                        overtaken.filter(|row| row.changed() && row.record.version == current.version)
                        && row.record.last_run_date != current.last_run_date
                    {
                        self.take_back(&row).await?;
                    }
                    return Ok((current, Committed::Duplicate));
                }
                Lookup::ConflictingContent => {
                    return self.give_up(overtaken, Rejection::ConflictingContent).await;
                }
                Lookup::Parked if commit.parked_events == ParkedEvents::Keep => {
                    return Ok((current, Committed::Parked));
                }
                Lookup::Unknown | Lookup::Parked if is_beyond_limit(&current, event) => {
                    return self.give_up(overtaken, Rejection::TooManyEvents).await;
                }
                Lookup::Unknown | Lookup::Parked => {}
            }
            if commit.at_version.is_some_and(|version| version != current.version) {
                if let Some(row) = overtaken {
                    self.take_back(&row).await?;
                }
                return Ok((current, Committed::Overtaken));
            }
            let transition = match decide(&current, event) {
                Ok(transition) => transition,
                Err(rejection) => return self.give_up(overtaken, rejection).await,
            };
            let committed = match transition.outcome {
                Outcome::Applied => Committed::Applied,
                Outcome::Ignored(reason) => Committed::Ignored(reason),
            };
            let outcome = transition.outcome.to_text();
            let row = Box::new(History::of(transition.record, current.version, event, outcome));
            if let Some(row) = self.write_history(row, event, Some(&current)).await? {
                let after = Box::new(row.apply_to(Some(&current)));
                if self.replace(&current, &after).await? == Written::Done {
                    return Ok((after, committed));
                }
                overtaken = Some(row);
            }
            tracing::info!(
                subscription = %current.subscription_id,
                event = %event.id,
                conflicts = 1_u64,
                "lost a race for the primary row"
            );
            *current = Box::pin(self.reread(&current)).await?;
        }
        Err(StoreError::Contended(RACES).into())
    }

    /// Deletes the history row of an event that lost its race and is now rejected. No writer can commit that
    /// row, because the record has moved past the version that it found.
    async fn give_up<T>(&self, row: Option<Box<History>>, rejection: Rejection) -> Result<T, CommitError> {
        if let Some(row) = row {
            self.take_back(&row).await?;
        }
        Err(rejection.into())
    }

    /// Runs the commit protocol for a new record: the compare-and-set is "no such item".
    async fn commit_new(
        &self,
        mut record: Record,
        event: &Event,
    ) -> Result<(Record, Committed), CommitError> {
        for _ in 0..RACES {
            let row = Box::new(History::of(record.clone(), 0, event, APPLIED_OUTCOME.to_owned()));
            let Some(row) = self.write_history(row, event, None).await? else { continue };
            let after = row.apply_to(None);
            match self
                .engine
                .put(&BILLING_ACTIVITY, after.to_item(), Condition::NoItem)
                .await
                .map_err(|e| e.during(&doing("create", &after)))?
            {
                Written::Done => return Ok((after, Committed::Applied)),
                Written::Refused(Some(there)) => {
                    let there = Record::from_item(*there).map_err(StoreError::from)?;
                    if there.subscription_id == record.subscription_id {
                        // Another writer created it, from its own history row: ours records nothing.
                        if there.version == after.version && there.last_run_date != after.last_run_date {
                            self.take_back(&row).await?;
                        }
                        return Ok((there, Committed::Duplicate));
                    }
                    // Another record of the user has that due date: move this one by an hour.
                    record.billing_date = GoTime::trimmed(after.billing_date.at() + TimeDelta::hours(1));
                }
                Written::Refused(None) => {}
            }
        }
        Err(StoreError::Contended(RACES).into())
    }

    /// Puts a history row, decided on `before`, and returns the effective one: this row, or the one that an
    /// interrupted commit of the same event left, if its decision is still the right one. `None` when
    /// the existing row found a later version than ours: the record has to be read again.
    async fn write_history(
        &self,
        mut row: Box<History>,
        event: &Event,
        before: Option<&Record>,
    ) -> Result<Option<Box<History>>, CommitError> {
        let head = before.and_then(|before| before.chain);
        let mut at = first_key(event, &row.record);
        let mut condition = Condition::NoItem;
        for _ in 0..RACES {
            let item = row.link(at, event, head);
            let written = self.engine.put(&HISTORY, item, condition).await;
            let written = written.map_err(|e| e.during(&doing("history row", &row.record)))?;
            let Written::Refused(there) = written else { return Ok(Some(row)) };
            condition = Condition::NoItem;
            let Some(there) = there else { continue };
            let there = Box::new(History::from_item(*there).map_err(StoreError::from)?);
            // Not the same: a row that records the same event's rejection (it is committed), and a row with
            // the same id but other content.
            let same = there.record.subscription_id == row.record.subscription_id
                && there.token.is_some_and(|token| {
                    token.same_event(&event.token) && token.parked == event.token.parked
                });
            if !same {
                at += TimeDelta::nanoseconds(1);
                continue;
            }
            match there.previous_version.cmp(&row.previous_version) {
                // The writer of that row read a newer version than ours, and may have committed it.
                Ordering::Greater => return Ok(None),
                Ordering::Equal if there.record.billing_date.at() >= row.record.billing_date.at() => {
                    let stored = StoredRow::from(*there);
                    if roll_forward(before, &stored).is_ok() {
                        return Ok(Some(Box::new(stored.row)));
                    }
                    // An older writer changed the record since, or the row was edited: decided again.
                    condition = exactly(event, &stored.row);
                }
                // Not committed, or the record that was read would list the event. It never will be, because
                // the record has moved on.
                Ordering::Equal | Ordering::Less => condition = exactly(event, &there),
            }
        }
        Err(StoreError::Contended(RACES).into())
    }

    /// Deletes the history row of an event that was not committed, unless another row has replaced it.
    pub(crate) async fn take_back(&self, row: &History) -> Result<(), StoreError> {
        let key = Key {
            partition: row.record.user_id.to_string(),
            sort: row.record.last_run_date.as_ref().map(GoTime::text),
        };
        let token = row.token.map_or(Value::Null, |token| Value::B(token.to_bytes().to_vec()));
        // The same event may have written another record's row under the same key meanwhile.
        let record = Value::text(row.record.subscription_id.as_str());
        let ours = Condition::All(vec![
            Condition::Equals(attributes::SUBSCRIPTION_ID, record),
            Condition::Equals(attributes::TOKEN, token),
            Condition::Equals(attributes::PREVIOUS_VERSION, Value::number(row.previous_version)),
        ]);
        self.engine.delete(&HISTORY, key, ours).await.map(drop)
    }

    /// The compare-and-set on the primary row.
    pub(crate) async fn replace(&self, current: &Record, after: &Record) -> Result<Written, StoreError> {
        let written = self.engine.put(&BILLING_ACTIVITY, after.to_item(), unchanged(current)).await;
        written.map_err(|e| e.during(&doing("primary row", after)))
    }

    /// Reads the record's current state; it may have moved to another due date.
    async fn reread(&self, record: &Record) -> Result<Record, CommitError> {
        let key = Key { partition: record.user_id.to_string(), sort: Some(record.billing_date.text()) };
        let there = match self.engine.get(&BILLING_ACTIVITY, key).await? {
            Some(item) => Some(Record::from_item(item).map_err(StoreError::from)?),
            None => None,
        };
        match there.filter(|there| there.subscription_id == record.subscription_id) {
            Some(there) if there.moved_to.is_none() => Ok(there),
            Some(moving) => Ok(self.finish_move(&moving).await?),
            // Moved away: a consistent read of the user's partition finds it.
            None => {
                let records = self.list_by_user_id(&record.user_id).await?;
                let found = records.into_iter().find(|r| r.subscription_id == record.subscription_id);
                found.ok_or_else(|| Rejection::UnknownSubscription(record.subscription_id.clone()).into())
            }
        }
    }
}

/// An event to commit, and what it was decided on.
struct Commit<'a> {
    event: &'a Event,
    parked_events: ParkedEvents,
    /// The version on which it was planned or found eligible; `None` where any version will do.
    at_version: Option<u64>,
}

fn is_seal(event: &Event) -> bool {
    event.token.sealed && event.kind == EventKind::ChangeCompleted
}

/// Whether the record has taken all the events it may. Only what can be repeated without end is limited: what
/// the bank reports, what is debited, and what ends a record is always taken.
fn is_beyond_limit(record: &Record, event: &Event) -> bool {
    let is_limited = match event.kind {
        EventKind::PlanChanged(_)
        | EventKind::DowngradeRequested(_)
        | EventKind::Paused { .. }
        | EventKind::Unpaused
        | EventKind::PauseEnding
        | EventKind::DueSoon
        | EventKind::Moved { .. }
        | EventKind::Replaced(_)
        | EventKind::NoChange(_) => true,
        EventKind::Reported(_)
        | EventKind::Intended { .. }
        | EventKind::Withdrawn { .. }
        | EventKind::Answered { .. }
        | EventKind::Free
        | EventKind::MoneyResolved { .. }
        | EventKind::NewAccount
        | EventKind::PauseExpired
        | EventKind::Waived
        | EventKind::Cancelled
        | EventKind::TooOld
        | EventKind::CancelRequested(_)
        | EventKind::CancelRetracted
        | EventKind::Superseded(_)
        | EventKind::ChangeCompleted
        | EventKind::Created(_) => false,
    };
    is_limited && record.applied.len() >= MAX_EVENTS
}

/// The first key to try for an event's history row. A change of several records has a row for each, and any
/// reader may be completing it: each record has a place of its own, so that all of them try the same key.
fn first_key(event: &Event, record: &Record) -> Time {
    if event.token.sealed {
        return event.at;
    }
    let id = record.subscription_id.as_str().bytes();
    let place = id.fold(0_i64, |sum, byte| (sum * 31 + i64::from(byte)) % 99_991);
    event.at + TimeDelta::nanoseconds(1 + place)
}

/// Whether the record has an outstanding follow-up. Runs after every event, so it does not build the
/// follow-up.
fn needs_followup(user: &UserRecords, record: &Record) -> bool {
    record.next.as_ref().is_some_and(|next| !has_next(user, record, next))
        || record.cancel_at.is_some()
        || record.superseded_by.is_some()
}

/// Whether the next period has its record: the promised one, or one that another writer created for the same
/// purpose.
fn has_next(user: &UserRecords, record: &Record, promised: &SubscriptionId) -> bool {
    let waits =
        |r: &Record| matches!(r.state, State::Scheduled | State::Paused(_)) && r.superseded_by.is_none();
    user.get(promised).is_some()
        || user.records.iter().any(|r| waits(r) && r.billing_date.at() > record.billing_date.at())
}

/// Condition: the exact history row that was read. Two handlers may be overwriting it.
fn exactly(event: &Event, there: &History) -> Condition {
    Condition::All(vec![
        Condition::Equals(attributes::EVENT_ID, Value::text(event.id.as_str())),
        Condition::Equals(attributes::PREVIOUS_VERSION, Value::number(there.previous_version)),
        Condition::Equals(attributes::BILLING_DATE, Value::text(there.record.billing_date.text())),
        match there.chain {
            Some(chain) => Condition::Equals(attributes::DATA_CHAIN, chain.to_value()),
            None => Condition::Missing(attributes::DATA_CHAIN),
        },
    ])
}

/// Condition: the row is still the one that was read. The version alone does not say so: a record that made
/// room for another one has left its key to it. Rows of older writers have no version; their last update
/// identifies them.
pub(crate) fn unchanged(current: &Record) -> Condition {
    let same_record =
        Condition::Equals(attributes::SUBSCRIPTION_ID, Value::text(current.subscription_id.as_str()));
    if current.version > 0 {
        let same_version = Condition::Equals(attributes::VERSION, Value::number(current.version));
        return Condition::All(vec![same_version, same_record]);
    }
    let same_update = match &current.last_run_date {
        Some(time) => Condition::Equals(attributes::LAST_RUN_DATE, Value::text(time.text())),
        None => Condition::Any(vec![
            Condition::Missing(attributes::LAST_RUN_DATE),
            Condition::Equals(attributes::LAST_RUN_DATE, Value::text("0001-01-01T00:00:00Z")),
            Condition::Equals(attributes::LAST_RUN_DATE, Value::text("")),
        ]),
    };
    Condition::All(vec![Condition::Missing(attributes::VERSION), same_record, same_update])
}

fn doing(what: &str, record: &Record) -> String {
    format!("commit {what} {} of {}", record.version, record.subscription_id)
}
