//! The sweeper: completes interrupted commits when no redelivery does.
//!
//! It finds history rows that are ahead of their primary row and rolls them forward, removes rows of events
//! that lost their race (their events are on a stream, parked, or were planned again), finishes moves, and
//! applies outstanding follow-ups. It uses the same compare-and-set as every writer, so it may run at any
//! time, repeatedly, and concurrently with the handlers.

use dues_events::GoTime;
use dues_events::attributes;
use dues_events::billing::record::{History, Record};
use dues_events::billing::replay::{Fault, RowFault, StoredRow, replay, roll_forward};
use dues_events::ids::UserId;

use crate::billing::Store;
use crate::billing::commit::CommitError;
use crate::billing::user_records::UserRecords;
use crate::engine::{Condition, Cursor, Engine, StoreError, Written};
use crate::table::{BILLING_ACTIVITY, HISTORY};

/// What a sweep found and repaired.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Number of users swept.
    pub users: u64,
    /// History rows that were ahead of their record and are now committed.
    pub rolled_forward: u64,
    /// Records that existed only in history and are now in the primary table.
    pub created: u64,
    /// Follow-ups that were outstanding, such as a next period's record.
    pub followups: u64,
    /// History rows of events that lost a race, now removed: they have not happened.
    pub removed: u64,
    /// Histories with a row that is not what its event gives, left alone: `audit` names the rows.
    pub faulty: u64,
}

impl SweepReport {
    /// Whether anything had to be repaired.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.rolled_forward + self.created + self.followups + self.removed == 0
    }
}

impl<E: Engine> Store<E> {
    /// Sweeps every user that has history; reports progress after each page.
    pub async fn sweep(&self, mut progress: impl FnMut(&SweepReport)) -> Result<SweepReport, CommitError> {
        let mut swept = SweepReport::default();
        let mut last: Option<UserId> = None;
        let mut start: Option<Cursor> = None;
        loop {
            let page = self.engine.scan(&HISTORY, start, 1000).await?;
            for item in &page.items {
                let Some(user) = item.text(attributes::USER_ID).map(UserId::from) else { continue };
                // Items of one user are adjacent.
                if last.as_ref() != Some(&user) {
                    self.sweep_user(&user, &mut swept).await?;
                    last = Some(user);
                }
            }
            progress(&swept);
            match page.next {
                Some(next) => start = Some(next),
                None => break,
            }
        }
        swept.followups += self.repair_money_rows().await?;
        Ok(swept)
    }

    /// Sweeps one user.
    pub async fn sweep_user(&self, user: &UserId, swept: &mut SweepReport) -> Result<(), CommitError> {
        swept.users += 1;
        let mut records = self.load_all(user).await?;
        for rows in self
            .history_of_user(user)
            .await?
            .chunk_by(|a, b| a.record.subscription_id == b.record.subscription_id)
        {
            let id = &rows[0].record.subscription_id;
            let mut current = match records.get(id) {
                Some(record) => record.clone(),
                None => match self.recreate(rows).await? {
                    Some(record) => {
                        swept.created += 1;
                        record
                    }
                    None => continue,
                },
            };
            let stored: Vec<StoredRow> = rows.iter().cloned().map(StoredRow::from).collect();
            let replay = replay(&stored, Some(&current));
            // Where history itself is wrong, nothing is removed from it: `audit` names the rows.
            if replay.faults.is_empty() {
                for stored in replay.overtaken.iter().chain(&replay.duplicates) {
                    self.take_back(&stored.row).await?;
                    swept.removed += 1;
                }
            } else {
                swept.faulty += 1;
                warn_of(&current, &replay.faults);
            }
            for stored in &replay.ahead {
                if !is_ahead(&stored.row, &current) {
                    swept.removed += u64::from(self.remove_if_overtaken(&stored.row, &current).await?);
                    continue;
                }
                let after = match roll_forward(Some(&current), stored) {
                    Ok(after) => after,
                    Err(fault) => {
                        swept.faulty += 1;
                        warn_of_row(&current, &fault);
                        continue;
                    }
                };
                if !self.roll_forward(&current, &after).await? {
                    // Another writer is active here and will finish it.
                    break;
                }
                swept.rolled_forward += 1;
                current = after;
            }
            records.set(current);
        }
        swept.followups += self.apply_all_followups(&mut records).await?;
        swept.followups += self.complete_applied_money(&mut records).await?;
        for record in &records.records {
            if !record.unapplied_money().is_empty() {
                self.list_unapplied(&[], record).await?;
            }
        }
        Ok(())
    }

    /// Completes a user's interrupted commits, as far as their newest history rows show them: rows that are
    /// ahead of their record are committed. A worker calls this before it changes a record, so that it
    /// decides on the complete state.
    pub async fn heal(&self, user: &mut UserRecords, newest: &[History]) -> Result<(), StoreError> {
        // Oldest first: a row may build on an earlier one.
        for row in newest.iter().rev() {
            let Some(token) = &row.token else { continue };
            let Some(current) =
                user.get(&row.record.subscription_id).filter(|record| !record.applied.contains(token))
            else {
                continue;
            };
            if !is_ahead(row, current) {
                let current = current.clone();
                self.remove_if_overtaken(row, &current).await?;
                continue;
            }
            let current = current.clone();
            let after = match roll_forward(Some(&current), &StoredRow::from(row.clone())) {
                Ok(after) => after,
                Err(fault) => {
                    warn_of_row(&current, &fault);
                    continue;
                }
            };
            if self.roll_forward(&current, &after).await? {
                user.set(after);
            }
        }
        Ok(())
    }

    /// Deletes the history row of an event that lost its race: it has not happened, and a handler that still
    /// works on it writes another row. Returns whether it did.
    async fn remove_if_overtaken(&self, row: &History, current: &Record) -> Result<bool, StoreError> {
        let is_overtaken = row.previous_version < current.version;
        if is_overtaken {
            self.take_back(row).await?;
        }
        Ok(is_overtaken)
    }

    /// Commits a row that is ahead of its record; a row with another due date goes by way of the mark.
    async fn roll_forward(&self, current: &Record, after: &Record) -> Result<bool, StoreError> {
        if after.billing_date == current.billing_date {
            return Ok(self.replace(current, after).await? == Written::Done);
        }
        let marked = Record {
            billing_date: current.billing_date.clone(),
            moved_to: Some(after.billing_date.clone()),
            ..after.clone()
        };
        let done = self.replace(current, &marked).await? == Written::Done;
        if done {
            self.finish_move(&marked).await?;
        }
        Ok(done)
    }

    /// Creates a record from its first history row, if its primary row was never written.
    async fn recreate(&self, rows: &[History]) -> Result<Option<Record>, StoreError> {
        let Some(first) = rows.iter().find(|row| row.previous_version == 0 && row.token.is_some()) else {
            return Ok(None);
        };
        let record = match roll_forward(None, &StoredRow::from(first.clone())) {
            Ok(record) => record,
            Err(fault) => {
                warn_of_row(&first.record, &fault);
                return Ok(None);
            }
        };
        let written = self.engine.put(&BILLING_ACTIVITY, record.to_item(), Condition::NoItem).await?;
        Ok((written == Written::Done).then_some(record))
    }
}

fn warn_of(record: &Record, faults: &[RowFault]) {
    if let Some(first) = faults.first() {
        warn_of_row(record, &first.fault);
    }
}

fn warn_of_row(record: &Record, fault: &Fault) {
    tracing::error!(subscription = %record.subscription_id, %fault, "history is wrong: run dues audit");
}

/// Whether a history row was decided on the record as it is, and only its commit is missing. A record without
/// a version was written by another writer: only a row that is newer than it can be ahead of it.
fn is_ahead(row: &History, current: &Record) -> bool {
    let at = |record: &Record| record.last_run_date.as_ref().map(GoTime::at);
    row.previous_version == current.version && (current.version > 0 || at(&row.record) > at(current))
}
