//! `AdminUpdate`: an administrator changes a record, perhaps its due date, which is part of its key.
//!
//! The seed deletes and then puts; between the two the record would be nowhere, and the stream would tell of a removal. Here:
//!
//! 1. the history row is written, as for every event;
//! 2. the old row is marked with where the record goes: from then on no event can change it there;
//! 3. the new row is put; 4. the old row, still marked, is removed.
//!
//! There is always at least one row; whoever finds a marked one finishes the move first; and the removed image carries the mark, so that nobody who
//! reads the stream takes it for a cancellation.

use chrono::TimeDelta;
use dues_events::event::Event;
use dues_events::record::{APPLIED_OUTCOME, History, Record};
use dues_events::time::GoTime;
use dues_events::{EventId, Happening, Item};

use crate::billing::Store;
use crate::commit::unchanged;
use crate::engine::{Condition, Engine, Key, StoreError, Written};
use crate::table::{BILLING_ACTIVITY, HISTORY};

impl<E: Engine> Store<E> {
    /// Replaces `original` by `updated`. Gives the record as it is now, or `None` when somebody else has changed `original` meanwhile.
    ///
    /// # Errors
    /// What the engine could not do.
    pub async fn admin_update(&self, original: &Record, updated: Record, who: &str) -> Result<Option<Record>, StoreError> {
        let at = self.clock.now();
        let id = EventId::from(format!("admin:{}:{}", original.subscription_id, original.version + 1));
        let event = Event::own(id, at, "dues admin-update", Happening::Created);
        let mut record = updated;
        record.user_id = original.user_id.clone();
        record.subscription_id = original.subscription_id.clone();
        record.version = original.version + 1;
        record.data = Item::new();
        record.data.set_text("data_admin", who);
        let row = self.admin_history(record, original.version, &event).await?;
        let after = row.onto(Some(original));
        if after.billing_date == original.billing_date {
            return match self.engine.put(&BILLING_ACTIVITY, after.to_item(), unchanged(original)).await? {
                Written::Done => Ok(Some(after)),
                // The update did not happen, and nobody will deliver it again.
                Written::Refused(_) => self.take_back(&row).await.map(|()| None),
            };
        }
        let marked = Record { billing_date: original.billing_date.clone(), moved_to: Some(after.billing_date.clone()), ..after };
        match self.engine.put(&BILLING_ACTIVITY, marked.to_item(), unchanged(original)).await? {
            Written::Done => self.finish_move(&marked).await.map(Some),
            Written::Refused(_) => self.take_back(&row).await.map(|()| None),
        }
    }

    async fn admin_history(&self, record: Record, previous_version: u64, event: &Event) -> Result<History, StoreError> {
        let mut row = History {
            record,
            event_id: Some(event.id.clone()),
            source: event.source.to_string(),
            previous_version,
            outcome: APPLIED_OUTCOME.to_owned(),
            stamp: Some(event.stamp),
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

    /// Finishes the move of a marked row, whoever began it. Gives the record at its new place.
    ///
    /// # Errors
    /// What the engine could not do.
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
                        // Somebody was faster; it may have gone on since.
                        arrived = there;
                        break;
                    }
                    // Another record has that due date: an hour later, like every collision.
                    arrived.billing_date = GoTime::trimmed(arrived.billing_date.at() + TimeDelta::hours(1));
                }
                Written::Refused(None) => {}
            }
        }
        self.engine.delete(&BILLING_ACTIVITY, old, unchanged(marked)).await?;
        Ok(arrived)
    }
}
