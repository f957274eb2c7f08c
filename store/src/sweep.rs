//! The sweeper: finishes what a crash cut short when no redelivery comes to do it.
//!
//! It finds history rows that are ahead of their primary row and rolls them forward, finishes moves, and pays what records owe. It uses the same
//! compare-and-set as everybody else, so it may run at any time, also twice, also beside the handlers.

use dues_events::attr;
use dues_events::event::OWN_SOURCE;
use dues_events::ids::UserId;
use dues_events::record::{History, Record};

use crate::billing::Store;
use crate::commit::CommitError;
use crate::engine::{Condition, Cursor, Engine, StoreError, Written};
use crate::table::{BILLING_ACTIVITY, HISTORY};
use crate::user::UserRecords;

/// What a sweep found and mended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Users looked at.
    pub users: u64,
    /// History rows that were ahead and are now committed.
    pub rolled_forward: u64,
    /// Records that their history knew and the primary table did not.
    pub created: u64,
    /// Records that were owed, such as a next period's.
    pub paid: u64,
    /// History rows whose event lost a race and was never decided again: their event is still on its stream or parked.
    pub orphans: u64,
}

impl<E: Engine> Store<E> {
    /// Sweeps every user that has history, telling of progress after each page.
    ///
    /// # Errors
    /// What the engine could not do.
    pub async fn sweep(&self, mut progress: impl FnMut(&Swept)) -> Result<Swept, CommitError> {
        let mut swept = Swept::default();
        let mut last: Option<UserId> = None;
        let mut start: Option<Cursor> = None;
        loop {
            let page = self.engine.scan(&HISTORY, start, 1000).await?;
            for item in &page.items {
                let Some(user) = item.text(attr::USER_ID).map(UserId::from) else { continue };
                // Items of one user come together.
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
    ///
    /// # Errors
    /// What the engine could not do.
    pub async fn sweep_user(&self, user: &UserId, swept: &mut Swept) -> Result<(), CommitError> {
        swept.users += 1;
        let mut records = self.load_user(user).await?;
        // The partition, not only the recent ones: history reaches back further.
        for record in self.list_by_user_id(user).await? {
            records.set(record);
        }
        for rows in self.history_of_user(user).await?.chunk_by(|a, b| a.record.subscription_id == b.record.subscription_id) {
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
                let Some(stamp) = &row.stamp else { continue };
                if current.applied.holds(stamp) {
                    continue;
                }
                if row.previous_version != current.version {
                    swept.orphans += u64::from(!self.clear_away(row, &current).await?);
                    continue;
                }
                let after = row.onto(Some(&current));
                match self.replace(&current, &after).await? {
                    Written::Done => swept.rolled_forward += 1,
                    // Somebody is at work here; they finish it.
                    Written::Refused(_) => break,
                }
                current = after;
            }
            records.set(current);
        }
        let before = records.records.len();
        for id in records.records.iter().map(|r| r.subscription_id.clone()).collect::<Vec<_>>() {
            self.pay_debts(&mut records, &id).await?;
        }
        swept.paid += (records.records.len() - before) as u64;
        Ok(())
    }

    /// Finishes what a crash cut short for one user, as far as their newest history rows tell: those that are ahead of their record are committed.
    /// A worker that is about to change a record does this first, so that what it decides on is the whole truth.
    ///
    /// # Errors
    /// What the engine could not do.
    pub async fn heal(&self, user: &mut UserRecords, newest: &[History]) -> Result<(), StoreError> {
        // Oldest first: one may build on the other.
        for row in newest.iter().rev() {
            let Some(stamp) = &row.stamp else { continue };
            let Some(current) = user.get(&row.record.subscription_id).filter(|record| !record.applied.holds(stamp)) else { continue };
            if row.previous_version != current.version {
                let current = current.clone();
                self.clear_away(row, &current).await?;
                continue;
            }
            let after = row.onto(Some(current));
            if self.replace(current, &after).await? == Written::Done {
                user.set(after);
            }
        }
        Ok(())
    }

    /// Removes the row of an event of our own that was overtaken: no stream brings it again. Tells whether it did.
    async fn clear_away(&self, row: &History, current: &Record) -> Result<bool, StoreError> {
        let ours = row.source.starts_with(OWN_SOURCE) && row.previous_version < current.version;
        if ours {
            self.take_back(row).await?;
        }
        Ok(ours)
    }

    /// The first row of a record whose primary row was never written.
    async fn recreate(&self, rows: &[History]) -> Result<Option<Record>, StoreError> {
        let Some(first) = rows.iter().find(|row| row.previous_version == 0 && row.stamp.is_some()) else { return Ok(None) };
        let record = first.onto(None);
        let written = self.engine.put(&BILLING_ACTIVITY, record.to_item(), Condition::NoItem).await?;
        Ok((written == Written::Done).then_some(record))
    }
}
