//! `AdminUpdate`: an administrator changes a record, perhaps its due date, which is part of its key.
//!
//! The original `AdminUpdate` of billing-activity deletes and then puts; between the two the record would
//! not exist, and the stream would show a removal. Here:
//!
//! 1. the history row is written, as for every event;
//! 2. the old row is marked with the record's destination: from then on no event can change it there;
//! 3. the new row is put;
//! 4. the old row, still marked, is removed.
//!
//! There is always at least one row; a reader of a marked row finishes the move first; and the removed image
//! carries the mark, so that no consumer of the stream takes it for a cancellation.

use chrono::TimeDelta;
use dues_events::billing::decide::decide;
use dues_events::billing::event::Event;
use dues_events::billing::idempotency::{IdempotencyToken, Lookup};
use dues_events::billing::record::{History, Record};
use dues_events::time::GoTime;
use dues_events::{EventId, EventKind, Time};

use crate::billing::Store;
use crate::billing::commit::{CommitError, Committed, unchanged};
use crate::billing::user_records::UserRecords;
use crate::engine::{Condition, Engine, Key, StoreError, Written};
use crate::table::{BILLING_ACTIVITY, HISTORY};

impl<E: Engine> Store<E> {
    /// Replaces `original` by `updated`. Returns the current record, or `None` if another writer has changed
    /// `original` in the meantime.
    pub async fn admin_update(
        &self,
        original: &Record,
        updated: Record,
        who: &str,
    ) -> Result<Option<Record>, StoreError> {
        let at = self.clock.now();
        let id = EventId::from(format!("admin:{}:{}", original.subscription_id, original.version + 1));
        let mut record = updated;
        record.user_id = original.user_id.clone();
        record.subscription_id = original.subscription_id.clone();
        if record.billing_date != original.billing_date && record.original_due_date.is_none() {
            record.original_due_date = Some(original.scheduled_date().clone());
        }
        // Two administrators who change the same version make two different events.
        let content = record.to_item().to_json().to_string();
        let token = IdempotencyToken::new(&id, &[&content, who]);
        let kind = EventKind::Replaced(Box::new(record));
        let event = Event { token, ..Event::internal(id, at, "dues admin-update", kind) }.by(Some(who));
        let Ok(transition) = decide(original, &event) else { return Ok(None) };
        let outcome = transition.outcome.to_text();
        let row = History::of(transition.record, original.version, &event, outcome);
        self.replace_row(original, row, &event).await
    }

    /// Moves a record to another due date. Does nothing if the record has changed since it was read.
    pub async fn move_record(
        &self,
        user: &mut UserRecords,
        current: Record,
        to: Time,
        event: &Event,
    ) -> Result<Committed, CommitError> {
        if matches!(current.applied.lookup(&event.token), Lookup::Known { .. }) {
            return Ok(Committed::Duplicate);
        }
        let transition = decide(&current, event)?;
        debug_assert_eq!(transition.record.billing_date.at(), to);
        let row = History::of(transition.record, current.version, event, transition.outcome.to_text());
        match self.replace_row(&current, row, event).await? {
            Some(record) => {
                user.set(record);
                Ok(Committed::Applied)
            }
            None => Ok(Committed::Overtaken),
        }
    }

    /// Writes a history row and the record as it says, under the record's new key where that has changed.
    async fn replace_row(
        &self,
        original: &Record,
        row: History,
        event: &Event,
    ) -> Result<Option<Record>, StoreError> {
        let row = self.put_history(row, event, original).await?;
        let after = row.apply_to(Some(original));
        let primary = if after.billing_date == original.billing_date {
            after
        } else {
            Record {
                billing_date: original.billing_date.clone(),
                moved_to: Some(after.billing_date.clone()),
                ..after
            }
        };
        match self.engine.put(&BILLING_ACTIVITY, primary.to_item(), unchanged(original)).await? {
            Written::Done if primary.moved_to.is_some() => self.finish_move(&primary).await.map(Some),
            Written::Done => Ok(Some(primary)),
            // Another process committed the same event, or the update did not happen and will not be
            // redelivered.
            Written::Refused(_) => {
                let now = self.list_by_user_id(&original.user_id).await?;
                let now = now.into_iter().find(|record| record.subscription_id == original.subscription_id);
                let is_committed =
                    |record: &Record| row.token.is_some_and(|token| record.applied.contains(&token));
                match now.filter(is_committed) {
                    Some(record) => Ok(Some(record)),
                    None => self.take_back(&row).await.map(|()| None),
                }
            }
        }
    }

    /// Puts a history row under the first free key from the event's time on.
    async fn put_history(
        &self,
        mut row: History,
        event: &Event,
        before: &Record,
    ) -> Result<History, StoreError> {
        let mut at = event.at;
        loop {
            let item = row.link(at, event, before.chain);
            match self.engine.put(&HISTORY, item.clone(), Condition::NoItem).await? {
                Written::Done => return Ok(row),
                // A crash left this very row, before the record was changed.
                Written::Refused(Some(there)) if *there == item => return Ok(row),
                Written::Refused(_) => at += TimeDelta::nanoseconds(1),
            }
        }
    }

    /// Finishes the move of a marked row; any process may. Returns the record at its destination.
    pub async fn finish_move(&self, marked: &Record) -> Result<Record, StoreError> {
        let old = Key { partition: marked.user_id.to_string(), sort: Some(marked.billing_date.text()) };
        let mut arrived = Record {
            billing_date: marked.moved_to.clone().unwrap_or_else(|| marked.billing_date.clone()),
            moved_to: None,
            ..marked.clone()
        };
        loop {
            match self.engine.put(&BILLING_ACTIVITY, arrived.to_item(), Condition::NoItem).await? {
                Written::Done => break,
                Written::Refused(Some(there)) => {
                    let there = Record::from_item(*there)?;
                    if there.subscription_id == marked.subscription_id {
                        // Another process finished the move; the record may have changed since.
                        arrived = there;
                        break;
                    }
                    // Another record has that due date: move by an hour, like every collision.
                    arrived.billing_date = GoTime::trimmed(arrived.billing_date.at() + TimeDelta::hours(1));
                }
                Written::Refused(None) => {}
            }
        }
        self.engine.delete(&BILLING_ACTIVITY, old, unchanged(marked)).await?;
        Ok(arrived)
    }
}
