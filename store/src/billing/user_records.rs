//! A user's records during a batch: one consistent query serves every event of that user.

use dues_events::ids::{SubscriptionId, UserId};
use dues_events::{ParkedEvents, Record};

use crate::billing::Store;
use crate::billing::commit::unchanged;
use crate::engine::{Engine, Key, Order, Page, Query, StoreError};
use crate::table::BILLING_ACTIVITY;

/// How many of a user's newest records are read at once: two years of monthly dues.
pub const RECENT: u32 = 24;

/// The records, as last read or written.
#[derive(Debug, Clone)]
pub struct UserRecords {
    /// The user.
    pub user_id: UserId,
    /// The records, newest first.
    pub records: Vec<Record>,
    /// Whether parked events are being redriven.
    pub parked_events: ParkedEvents,
}

impl UserRecords {
    /// Finds one of the records.
    #[must_use]
    pub fn get(&self, id: &SubscriptionId) -> Option<&Record> {
        self.records.iter().find(|record| record.subscription_id == *id)
    }

    /// Replaces a record by its new state, or adds it.
    pub fn set(&mut self, record: Record) {
        match self.records.iter_mut().find(|known| known.subscription_id == record.subscription_id) {
            Some(known) => *known = record,
            None => self.records.push(record),
        }
    }
}

impl<E: Engine> Store<E> {
    /// Reads a user's recent records. Finishes an interrupted move to another due date first.
    pub async fn load_user(&self, user: &UserId) -> Result<UserRecords, StoreError> {
        let page = self.engine.query(recent(user, RECENT)).await;
        self.user_records(user, page).await
    }

    /// Reads the recent records of many users, in their order.
    pub async fn load_users<'a>(
        &self,
        users: impl Iterator<Item = &'a UserId>,
    ) -> Vec<Result<UserRecords, StoreError>> {
        let users: Vec<&UserId> = users.collect();
        let pages = self.engine.query_many(users.iter().map(|user| recent(user, RECENT)).collect()).await;
        let mut all = Vec::with_capacity(users.len());
        for (user, page) in users.into_iter().zip(pages) {
            all.push(self.user_records(user, page).await);
        }
        all
    }

    /// Reads all of a user's records, however old: a membership change is planned over them.
    pub async fn load_all(&self, user: &UserId) -> Result<UserRecords, StoreError> {
        let items = self.all(Query::partition(&BILLING_ACTIVITY, user.as_str())).await?;
        self.user_records(user, Ok(Page { items, next: None })).await
    }

    /// A record that was created late, after others had created it and moved it to another due date, stands
    /// in two rows: the one with fewer commits is removed.
    async fn without_copies(&self, records: Vec<Record>) -> Result<Vec<Record>, StoreError> {
        let mut kept: Vec<Record> = Vec::with_capacity(records.len());
        for record in records {
            let Some(other) = kept.iter_mut().find(|r| r.subscription_id == record.subscription_id) else {
                kept.push(record);
                continue;
            };
            let copy = if other.version < record.version { std::mem::replace(other, record) } else { record };
            let key = Key { partition: copy.user_id.to_string(), sort: Some(copy.billing_date.text()) };
            self.engine.delete(&BILLING_ACTIVITY, key, unchanged(&copy)).await?;
        }
        Ok(kept)
    }

    async fn user_records(
        &self,
        user: &UserId,
        page: Result<Page, StoreError>,
    ) -> Result<UserRecords, StoreError> {
        let mut records = newest_first(page?)?;
        if records.iter().any(|record| record.moved_to.is_some()) {
            for moving in records.iter().filter(|record| record.moved_to.is_some()) {
                Box::pin(self.finish_move(moving)).await?;
            }
            let again = self.all(Query::partition(&BILLING_ACTIVITY, user.as_str())).await?;
            records = newest_first(Page { items: again, next: None })?;
        }
        let records = self.without_copies(records).await?;
        Ok(UserRecords { user_id: user.clone(), records, parked_events: ParkedEvents::Keep })
    }
}

/// The query for a user's newest records.
pub(crate) fn recent(user: &UserId, limit: u32) -> Query {
    Query {
        order: Order::Descending,
        limit: Some(limit),
        ..Query::partition(&BILLING_ACTIVITY, user.as_str())
    }
}

/// Decodes a page of records and sorts it; trimmed timestamps do not sort as text.
pub(crate) fn newest_first(page: Page) -> Result<Vec<Record>, StoreError> {
    let mut records = page.items.into_iter().map(Record::from_item).collect::<Result<Vec<_>, _>>()?;
    records.sort_by_key(|record| std::cmp::Reverse(record.billing_date.at()));
    Ok(records)
}
