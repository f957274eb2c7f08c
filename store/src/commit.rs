//! The commit protocol: effects exactly once, without a dedupe table, a transaction or a lock.
//!
//! 1. The primary row's `applied` list holds the event: it is done, nothing is written.
//! 2. The event is decided, purely: see [`decide`].
//! 3. The history row is put, under a key that comes from the event, if that key is free. It carries the event, the version it found and the record
//!    after it. If the key is taken:
//!    by the same event, and the primary row is still at the version that it found: that row is rolled forward;
//!    by the same event, and the primary row has moved on: the event is decided again and the row restamped;
//!    by the same event, and it found a later version than we read: we are behind, from 1;
//!    by another event: the next nanosecond is tried.
//! 4. The primary row is written if its version is still the one that was read. Lost the race: from 1.
//!
//! The compare-and-set on the primary row is the only commit; its history row is always written before it. A crash between the two is healed by
//! redelivery, or by [`crate::sweep`].

use chrono::TimeDelta;
use dues_events::decide::{Outcome, Owed, Rejection, decide, owed};
use dues_events::event::{Event, Ignored};
use dues_events::ids::{SubscriptionId, UserId};
use dues_events::record::{APPLIED_OUTCOME, History, Record, State};
use dues_events::stamp::{MOST_EVENTS, Seen};
use dues_events::time::GoTime;
use dues_events::{Value, attr};
use std::cmp::Ordering;

use crate::billing::Store;
use crate::engine::{Condition, Engine, Key, StoreError, Written};
use crate::table::{BILLING_ACTIVITY, HISTORY};
use crate::user::UserRecords;

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// It changed the record.
    Applied,
    /// It changed nothing, and history says why.
    Ignored(Ignored),
    /// It had been taken before; nothing was written.
    Duplicate,
    /// It had been parked before; nothing was written.
    Parked,
}

/// Why an event was not committed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// It cannot happen to that record.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The store could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// After so many lost races something is wrong.
const RACES: u32 = 100;

impl<E: Engine> Store<E> {
    /// Applies an event to one of a user's records, and then whatever that record owes.
    ///
    /// # Errors
    /// [`CommitError::Rejected`] where the state table has a dash; [`CommitError::Store`] when the event has to be delivered again.
    pub async fn apply(&self, user: &mut UserRecords, id: &SubscriptionId, event: &Event) -> Result<Committed, CommitError> {
        let current = match user.get(id) {
            Some(record) => Box::new(record.clone()),
            None => Box::new(Box::pin(self.find(&user.user_id, id)).await?),
        };
        // The same id on another record of the user is another fact under a used name.
        if user.records.iter().any(|record| record.applied.seen(&event.stamp) == Seen::Different) {
            return Err(Rejection::DifferentContent.into());
        }
        let (record, committed) = self.commit(current, event, user.redriving).await?;
        user.set(*record);
        if user.get(id).is_some_and(|record| owes(user, record)) {
            Box::pin(self.pay_debts(user, id)).await?;
        }
        Ok(committed)
    }

    /// Creates a record, unless it is there.
    ///
    /// # Errors
    /// What the engine could not do.
    pub async fn create(&self, user: &mut UserRecords, record: Record, event: &Event) -> Result<Committed, CommitError> {
        let (record, committed) = self.commit_new(record, event).await?;
        user.set(record);
        Ok(committed)
    }

    /// Finishes what any of a user's records owes.
    ///
    /// # Errors
    /// What the engine could not do.
    pub async fn pay_all_debts(&self, user: &mut UserRecords) -> Result<(), CommitError> {
        let owing: Vec<SubscriptionId> =
            user.records.iter().filter(|record| owes(user, record)).map(|record| record.subscription_id.clone()).collect();
        for id in owing {
            self.pay_debts(user, &id).await?;
        }
        Ok(())
    }

    /// Finishes what a record owes: the next period's record, a cancellation that waited for its debit. Costs nothing when nothing is owed,
    /// because the user's records are at hand.
    ///
    /// # Errors
    /// What the engine could not do.
    pub async fn pay_debts(&self, user: &mut UserRecords, id: &SubscriptionId) -> Result<(), CommitError> {
        let Some(record) = user.get(id).cloned() else { return Ok(()) };
        for debt in owed(&record) {
            match debt {
                Owed::Next(mut next, event) => {
                    if !has_next(user, &record, &next.subscription_id) {
                        // A bar came after the record that follows was promised: it is for the user, and goes on from record to record.
                        next.bar = next.bar.or_else(|| user.records.iter().find_map(|record| record.bar.clone()));
                        self.create(user, *next, &event).await?;
                    }
                }
                Owed::Step(event) => {
                    let (record, _) = self.commit(Box::new(record.clone()), &event, false).await?;
                    user.set(*record);
                }
            }
        }
        Ok(())
    }

    /// Notes on a record that it refused an event, which was parked: history says why, and the event, delivered again when the record has changed,
    /// does not happen by accident. A record that is not known, or has noted it before, is left alone.
    ///
    /// # Errors
    /// What the engine could not do.
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
        let noted = Event { stamp: event.stamp.refused(), ..event.clone() };
        for _ in 0..RACES {
            if current.applied.seen(&event.stamp) != Seen::Never || current.applied.len() >= MOST_EVENTS {
                user.set(current);
                return Ok(());
            }
            let row = history_row(current.clone(), current.version, &noted, format!("parked: {rejection}"));
            let row = self.write_history(row, &noted).await?;
            if let Some(row) = &row {
                let after = row.onto(Some(&current));
                if self.replace(&current, &after).await? == Written::Done {
                    user.set(after);
                    return Ok(());
                }
            }
            current = self.reread(&current).await?;
            // It happened after all, on another handler: that it was refused is not true any more.
            if let Some(row) = row
                && matches!(current.applied.seen(&event.stamp), Seen::Same { .. })
                && !current.applied.holds(&noted.stamp)
            {
                self.take_back(&row).await?;
            }
        }
        Err(StoreError::Contended(RACES).into())
    }

    /// The record that is not among a user's recent ones, through the index.
    async fn find(&self, user: &UserId, id: &SubscriptionId) -> Result<Record, CommitError> {
        let record = self.get_by_id(id).await?.ok_or_else(|| Rejection::UnknownSubscription(id.clone()))?;
        if record.user_id != *user {
            return Err(Rejection::WrongUser(id.clone()).into());
        }
        Ok(record)
    }

    /// The protocol itself.
    async fn commit(&self, mut current: Box<Record>, event: &Event, redriving: bool) -> Result<(Box<Record>, Committed), CommitError> {
        let mut overtaken: Option<Box<History>> = None;
        for _ in 0..RACES {
            match current.applied.seen(&event.stamp) {
                Seen::Same { .. } => {
                    // Somebody else committed the same event, from a history row in another place: ours tells of it a second time.
                    if let Some(row) = overtaken.filter(|row| row.changed() && row.record.version == current.version)
                        && row.record.last_run_date != current.last_run_date
                    {
                        self.take_back(&row).await?;
                    }
                    return Ok((current, Committed::Duplicate));
                }
                Seen::Different => return self.give_up(overtaken, Rejection::DifferentContent).await,
                Seen::Parked if !redriving => return Ok((current, Committed::Parked)),
                Seen::Never | Seen::Parked if current.applied.len() >= MOST_EVENTS => return Err(Rejection::TooManyEvents.into()),
                Seen::Never | Seen::Parked => {}
            }
            let transition = match decide(&current, event) {
                Ok(transition) => transition,
                Err(rejection) => return self.give_up(overtaken, rejection).await,
            };
            let (committed, outcome) = match transition.outcome {
                Outcome::Applied => (Committed::Applied, APPLIED_OUTCOME.to_owned()),
                Outcome::Ignored(reason) => (Committed::Ignored(reason), format!("ignored: {}", reason.as_str())),
            };
            if let Some(row) = self.write_history(history_row(transition.record, current.version, event, outcome), event).await? {
                let after = Box::new(row.onto(Some(&current)));
                if self.replace(&current, &after).await? == Written::Done {
                    return Ok((after, committed));
                }
                overtaken = Some(row);
            }
            tracing::info!(subscription = %current.subscription_id, event = %event.id, conflicts = 1_u64, "lost a race for the primary row");
            *current = Box::pin(self.reread(&current)).await?;
        }
        Err(StoreError::Contended(RACES).into())
    }

    /// An event that was overtaken and cannot happen any more: the history row that it had written tells of nothing, and goes. Nobody can commit it,
    /// because the record has moved past the version that it found.
    async fn give_up<T>(&self, row: Option<Box<History>>, rejection: Rejection) -> Result<T, CommitError> {
        if let Some(row) = row {
            self.take_back(&row).await?;
        }
        Err(rejection.into())
    }

    /// The same for a record that is not there yet: the compare-and-set is "nobody has it".
    async fn commit_new(&self, mut record: Record, event: &Event) -> Result<(Record, Committed), CommitError> {
        for _ in 0..RACES {
            let row = history_row(record.clone(), 0, event, APPLIED_OUTCOME.to_owned());
            let Some(row) = self.write_history(row, event).await? else { continue };
            let after = row.onto(None);
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
                        // Somebody else created it, from a history row of their own: ours tells of nothing.
                        if there.version == after.version && there.last_run_date != after.last_run_date {
                            self.take_back(&row).await?;
                        }
                        return Ok((there, Committed::Duplicate));
                    }
                    // Another record of the user has that due date: this one goes an hour later.
                    record.billing_date = GoTime::trimmed(after.billing_date.at() + TimeDelta::hours(1));
                }
                Written::Refused(None) => {}
            }
        }
        Err(StoreError::Contended(RACES).into())
    }

    /// Puts a history row and gives the row that counts: this one, or the one that the same event left when it was cut short. `None` when the row
    /// that is there tells of a later version than was read: the record has to be read again.
    async fn write_history(&self, mut row: Box<History>, event: &Event) -> Result<Option<Box<History>>, CommitError> {
        let mut at = event.at;
        let mut condition = Condition::NoItem;
        for _ in 0..RACES {
            row.record.last_run_date = Some(GoTime::nine_digits(at));
            let written = self.engine.put(&HISTORY, row.to_item(), condition).await;
            let written = written.map_err(|e| e.during(&doing("history row", &row.record)))?;
            let Written::Refused(there) = written else { return Ok(Some(row)) };
            condition = Condition::NoItem;
            let Some(there) = there else { continue };
            let there = Box::new(History::from_item(*there).map_err(StoreError::from)?);
            // A row that tells of the same event's refusal is committed, and another row; so is one of the same id with other content.
            let same = there.record.subscription_id == row.record.subscription_id
                && there.stamp.is_some_and(|stamp| stamp.same_event(&event.stamp) && stamp.parked == event.stamp.parked);
            if !same {
                at += TimeDelta::nanoseconds(1);
                continue;
            }
            match there.previous_version.cmp(&row.previous_version) {
                // Whoever wrote it has seen more than we have, and may have committed it.
                Ordering::Greater => return Ok(None),
                Ordering::Equal if there.record.billing_date.at() >= row.record.billing_date.at() => return Ok(Some(there)),
                // Not committed, or the record that was read would hold the event; and never to be, for the record has moved on.
                Ordering::Equal | Ordering::Less => {
                    // Only over the very row that was seen: two handlers may be restamping it.
                    condition = Condition::All(vec![
                        Condition::Equals(attr::EVENT_ID, Value::text(event.id.as_str())),
                        Condition::Equals(attr::PREVIOUS_VERSION, Value::number(there.previous_version)),
                        Condition::Equals(attr::BILLING_DATE, Value::text(there.record.billing_date.text())),
                    ]);
                }
            }
        }
        Err(StoreError::Contended(RACES).into())
    }

    /// Removes the history row of something that did not happen, unless another has taken its place.
    pub(crate) async fn take_back(&self, row: &History) -> Result<(), StoreError> {
        let key = Key { partition: row.record.user_id.to_string(), sort: row.record.last_run_date.as_ref().map(GoTime::text) };
        let stamp = row.stamp.map_or(Value::Null, |stamp| Value::B(stamp.to_bytes().to_vec()));
        let ours = Condition::All(vec![
            Condition::Equals(attr::STAMP, stamp),
            Condition::Equals(attr::PREVIOUS_VERSION, Value::number(row.previous_version)),
        ]);
        self.engine.delete(&HISTORY, key, ours).await.map(drop)
    }

    /// The compare-and-set on the primary row.
    pub(crate) async fn replace(&self, current: &Record, after: &Record) -> Result<Written, StoreError> {
        let written = self.engine.put(&BILLING_ACTIVITY, after.to_item(), unchanged(current)).await;
        written.map_err(|e| e.during(&doing("primary row", after)))
    }

    /// The record as it is now; it may have been moved to another due date.
    async fn reread(&self, record: &Record) -> Result<Record, CommitError> {
        let key = Key { partition: record.user_id.to_string(), sort: Some(record.billing_date.text()) };
        let there = match self.engine.get(&BILLING_ACTIVITY, key).await? {
            Some(item) => Some(Record::from_item(item).map_err(StoreError::from)?),
            None => None,
        };
        match there.filter(|there| there.subscription_id == record.subscription_id) {
            Some(there) if there.moved_to.is_none() => Ok(there),
            Some(moving) => Ok(self.finish_move(&moving).await?),
            // Gone from here: the user's partition, read consistently, tells where to.
            None => {
                let records = self.list_by_user_id(&record.user_id).await?;
                let found = records.into_iter().find(|r| r.subscription_id == record.subscription_id);
                found.ok_or_else(|| Rejection::UnknownSubscription(record.subscription_id.clone()).into())
            }
        }
    }
}

/// Whether the record owes anything that is not there: told without building it, because it is asked after every event.
fn owes(user: &UserRecords, record: &Record) -> bool {
    record.next.as_ref().is_some_and(|next| !has_next(user, record, next)) || record.cancel_at.is_some()
}

/// Whether the following period has its record: the promised one, or one that another writer made for the same purpose.
fn has_next(user: &UserRecords, record: &Record, promised: &SubscriptionId) -> bool {
    let waits = |r: &Record| matches!(r.state, State::Scheduled(_) | State::Paused(_)) && r.superseded_by.is_none();
    user.get(promised).is_some() || user.records.iter().any(|r| waits(r) && r.billing_date.at() > record.billing_date.at())
}

fn history_row(mut record: Record, previous_version: u64, event: &Event, outcome: String) -> Box<History> {
    record.version = previous_version + 1;
    record.data = event.data.clone();
    Box::new(History {
        record,
        event_id: Some(event.id.clone()),
        source: event.source.to_string(),
        previous_version,
        outcome,
        stamp: Some(event.stamp),
    })
}

/// The row is still the one that was read. Rows of older writers have no version: they are told by their last update.
pub(crate) fn unchanged(current: &Record) -> Condition {
    if current.version > 0 {
        return Condition::Equals(attr::VERSION, Value::number(current.version));
    }
    let same_update = match &current.last_run_date {
        Some(time) => Condition::Equals(attr::LAST_RUN_DATE, Value::text(time.text())),
        None => Condition::Any(vec![
            Condition::Missing(attr::LAST_RUN_DATE),
            Condition::Equals(attr::LAST_RUN_DATE, Value::text("0001-01-01T00:00:00Z")),
            Condition::Equals(attr::LAST_RUN_DATE, Value::text("")),
        ]),
    };
    let same_record = Condition::Equals(attr::SUBSCRIPTION_ID, Value::text(current.subscription_id.as_str()));
    Condition::All(vec![Condition::Missing(attr::VERSION), same_record, same_update])
}

fn doing(what: &str, record: &Record) -> String {
    format!("commit {what} {} of {}", record.version, record.subscription_id)
}
