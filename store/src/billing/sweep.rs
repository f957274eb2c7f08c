//! The sweeper: completes interrupted commits when no redelivery does.
//!
//! It finds history rows that are ahead of their primary row and rolls them forward, finishes moves, and
//! applies outstanding follow-ups. It uses the same compare-and-set as every writer, so it may run at any
//! time, repeatedly, and concurrently with the handlers.

use dues_events::attributes;
use dues_events::billing::event::OWN_SOURCE_PREFIX;
use dues_events::billing::record::{History, Record};
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
    /// Records created as follow-ups, such as a next period's.
    pub paid: u64,
    /// History rows of events that lost a race and were never decided again: the event is still on its
    /// stream or parked.
    pub orphans: u64,
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
                None => return Ok(swept),
            }
        }
    }

    /// Sweeps one user.
    pub async fn sweep_user(&self, user: &UserId, swept: &mut SweepReport) -> Result<(), CommitError> {
        swept.users += 1;
        let mut records = self.load_user(user).await?;
        // The whole partition, not only the recent records: history reaches back further.
        for record in self.list_by_user_id(user).await? {
            records.set(record);
        }
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
            for row in rows {
                let Some(token) = &row.token else { continue };
                if current.applied.contains(token) {
                    continue;
                }
                if row.previous_version != current.version {
                    swept.orphans += u64::from(!self.clear_away(row, &current).await?);
                    continue;
                }
                let after = row.apply_to(Some(&current));
                match self.replace(&current, &after).await? {
                    Written::Done => swept.rolled_forward += 1,
                    // Another writer is active here and will finish it.
                    Written::Refused(_) => break,
                }
                current = after;
            }
            records.set(current);
        }
        let before = records.records.len();
        for id in records.records.iter().map(|r| r.subscription_id.clone()).collect::<Vec<_>>() {
            self.apply_followups(&mut records, &id).await?;
        }
        swept.paid += (records.records.len() - before) as u64;
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
            if row.previous_version != current.version {
                let current = current.clone();
                self.clear_away(row, &current).await?;
                continue;
            }
            let after = row.apply_to(Some(current));
            if self.replace(current, &after).await? == Written::Done {
                user.set(after);
            }
        }
        Ok(())
    }

    /// Deletes the history row of an internal event that lost its race: no stream delivers it again. Returns
    /// whether it did.
    async fn clear_away(&self, row: &History, current: &Record) -> Result<bool, StoreError> {
        let ours = row.source.starts_with(OWN_SOURCE_PREFIX) && row.previous_version < current.version;
        if ours {
            self.take_back(row).await?;
        }
        Ok(ours)
    }

    /// Creates a record from its first history row, if its primary row was never written.
    async fn recreate(&self, rows: &[History]) -> Result<Option<Record>, StoreError> {
        let Some(first) = rows.iter().find(|row| row.previous_version == 0 && row.token.is_some()) else {
            return Ok(None);
        };
        let record = first.apply_to(None);
        let written = self.engine.put(&BILLING_ACTIVITY, record.to_item(), Condition::NoItem).await?;
        Ok((written == Written::Done).then_some(record))
    }
}
