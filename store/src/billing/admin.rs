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
use dues_events::billing::event::Event;
use dues_events::billing::record::{APPLIED_OUTCOME, History, Record};
use dues_events::time::GoTime;
use dues_events::{EventId, EventKind, Item};

use crate::billing::Store;
use crate::billing::commit::unchanged;
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
        let event = Event::internal(id, at, "dues admin-update", EventKind::Created);
        let mut record = updated;
        record.user_id = original.user_id.clone();
        record.subscription_id = original.subscription_id.clone();
        record.version = original.version + 1;
        record.data = Item::new();
        record.data.set_text("data_admin", who);
        let row = self.admin_history(record, original.version, &event).await?;
        let after = row.apply_to(Some(original));
        if after.billing_date == original.billing_date {
            return match self.engine.put(&BILLING_ACTIVITY, after.to_item(), unchanged(original)).await? {
                Written::Done => Ok(Some(after)),
                // The update did not happen, and will not be redelivered.
                Written::Refused(_) => self.take_back(&row).await.map(|()| None),
            };
        }
        let marked = Record {
            billing_date: original.billing_date.clone(),
            moved_to: Some(after.billing_date.clone()),
            ..after
        };
        match self.engine.put(&BILLING_ACTIVITY, marked.to_item(), unchanged(original)).await? {
            Written::Done => self.finish_move(&marked).await.map(Some),
            Written::Refused(_) => self.take_back(&row).await.map(|()| None),
        }
    }

    async fn admin_history(
        &self,
        record: Record,
        previous_version: u64,
        event: &Event,
    ) -> Result<History, StoreError> {
        let mut row = History {
            record,
            event_id: Some(event.id.clone()),
            source: event.source.to_string(),
            previous_version,
            outcome: APPLIED_OUTCOME.to_owned(),
            token: Some(event.token),
        };
        let mut at = event.at;
        loop {
            row.record.last_run_date = Some(GoTime::nine_digits(at));
            if self.engine.put(&HISTORY, row.to_item(), Condition::NoItem).await? == Written::Done {
                return Ok(row);
            }
            at += TimeDelta::nanoseconds(1);
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
