//! The access patterns of `billing-activity` and its history, under their names there.

pub mod change;
pub mod commit;
pub mod money;
pub mod pages;
pub mod sweep;
pub mod user_records;

pub(crate) mod admin;

use chrono::TimeDelta;
use dues_events::billing::event::{Creation, Event, EventKind};
use dues_events::billing::idempotency::IdempotencyToken;
use dues_events::billing::record::{APPLIED_OUTCOME, History, Record, State};
use dues_events::billing::replay::{StoredRow, replay};
use dues_events::ids::{SubscriptionId, UserId};
use dues_events::time::GoTime;
use dues_events::{EventId, Item};
use std::collections::BTreeSet;

use crate::backoff::{Backoff, BackoffPolicy};
use crate::billing::user_records::{newest_first, recent};
use crate::clock::SharedClock;
use crate::engine::{BATCH, Condition, Engine, Order, Page, Query, StoreError, Written};
use crate::table::{BILLING_ACTIVITY, BY_SUBSCRIPTION, HISTORY, Table};

/// The store: an engine and a clock.
#[derive(Clone)]
pub struct Store<E> {
    /// The engine that holds the items.
    pub engine: E,
    /// The clock.
    pub clock: SharedClock,
    /// How long credits are valid after the last grant or top-up.
    pub credit_validity: TimeDelta,
}

impl<E: Engine> Store<E> {
    /// A store on that engine and clock.
    pub fn new(engine: E, clock: SharedClock) -> Self {
        Self { engine, clock, credit_validity: dues_events::entitlements::credits::VALIDITY }
    }

    /// `Add`: writes a new record, history first. An existing record is left unchanged.
    pub async fn add(&self, record: &Record, source: &str) -> Result<Written, StoreError> {
        let (history, primary) = self.first_rows(record.clone(), source);
        self.engine.put(&HISTORY, history.to_item(), Condition::Always).await?;
        self.engine.put(&BILLING_ACTIVITY, primary.to_item(), Condition::NoItem).await
    }

    /// `AddAll`: writes many records in batches, all history rows first. Resolves key collisions within a
    /// user: of the records with one due date, all but a SCHEDULED one are moved by hours. Returns the
    /// records as written.
    ///
    /// Batches have no conditions: use this for imports and backfills, not for records that others may be
    /// changing.
    ///
    /// # Errors
    /// [`StoreError::Throttled`] when items stay unprocessed after all retries.
    pub async fn add_all(&self, records: Vec<Record>, source: &str) -> Result<Vec<Record>, StoreError> {
        let (history, primary): (Vec<_>, Vec<_>) =
            apart(records).into_iter().map(|record| self.first_rows(record, source)).unzip();
        self.put_all(&HISTORY, history.iter().map(History::to_item)).await?;
        self.put_all(&BILLING_ACTIVITY, primary.iter().map(Record::to_item)).await?;
        Ok(primary)
    }

    /// `GetByID`: finds a record by its UUID, through the index.
    pub async fn get_by_id(&self, id: &SubscriptionId) -> Result<Option<Record>, StoreError> {
        let page =
            self.engine.query(Query::index(&BILLING_ACTIVITY, BY_SUBSCRIPTION.name, id.as_str())).await?;
        // While an administrator moves a record, it exists in two rows: the one without the mark is the
        // destination.
        let records = records(page)?;
        Ok(records.into_iter().max_by_key(|record| (record.moved_to.is_none(), record.version)))
    }

    /// `ListByUserID`: all records of a user, oldest first.
    pub async fn list_by_user_id(&self, user: &UserId) -> Result<Vec<Record>, StoreError> {
        let items = self.all(Query::partition(&BILLING_ACTIVITY, user.as_str())).await?;
        let mut records = items.into_iter().map(Record::from_item).collect::<Result<Vec<_>, _>>()?;
        // Trimmed timestamps do not sort as text.
        records.sort_by_key(|record| record.billing_date.at());
        Ok(settled(records))
    }

    /// `GetRecentSubscriptions`: a user's newest records, newest first, one page.
    pub async fn get_recent_subscriptions(
        &self,
        user: &UserId,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        newest_first(self.engine.query(recent(user, limit)).await?)
    }

    /// History's `GetByID`: every row of a record, in the order in which they took effect.
    pub async fn history_by_id(&self, id: &SubscriptionId) -> Result<Vec<History>, StoreError> {
        let items = self.all(Query::index(&HISTORY, BY_SUBSCRIPTION.name, id.as_str())).await?;
        sorted(items)
    }

    /// Every history row of a user, by record and then in the order in which they took effect.
    pub async fn history_of_user(&self, user: &UserId) -> Result<Vec<History>, StoreError> {
        let mut rows = sorted(self.all(Query::partition(&HISTORY, user.as_str())).await?)?;
        rows.sort_by(|a, b| a.record.subscription_id.cmp(&b.record.subscription_id));
        Ok(rows)
    }

    /// Every history row of a user that has happened, by record and then in order. Rows that were never
    /// committed are left out.
    pub async fn committed_history_of_user(&self, user: &UserId) -> Result<Vec<History>, StoreError> {
        // Records first: the history of every commit that they show was written before.
        let records = self.list_by_user_id(user).await?;
        let rows: Vec<StoredRow> =
            self.history_of_user(user).await?.into_iter().map(StoredRow::from).collect();
        let same =
            |a: &StoredRow, b: &StoredRow| a.row.record.subscription_id == b.row.record.subscription_id;
        let happened = rows.chunk_by(same).flat_map(|rows| {
            let id = &rows[0].row.record.subscription_id;
            replay(rows, records.iter().find(|record| record.subscription_id == *id)).happened
        });
        Ok(happened.map(|stored| stored.row.clone()).collect())
    }

    /// A user's newest history rows, newest first.
    pub async fn recent_history(&self, user: &UserId, limit: u32) -> Result<Vec<History>, StoreError> {
        let query = Query {
            order: Order::Descending,
            limit: Some(limit),
            ..Query::partition(&HISTORY, user.as_str())
        };
        let page = self.engine.query(query).await?;
        Ok(page.items.into_iter().map(History::from_item).collect::<Result<_, _>>()?)
    }

    /// The items of all pages of a query.
    pub async fn all(&self, mut query: Query) -> Result<Vec<Item>, StoreError> {
        let mut items = Vec::new();
        loop {
            let page = self.engine.query(query.clone()).await?;
            items.extend(page.items);
            match page.next {
                Some(next) => query.start = Some(next),
                None => return Ok(items),
            }
        }
    }

    /// Writes batches until none of their items is unprocessed, with backoff.
    async fn put_all(
        &self,
        table: &'static Table,
        items: impl Iterator<Item = Item>,
    ) -> Result<(), StoreError> {
        let items: Vec<_> = items.map(|item| (table, item)).collect();
        for batch in items.chunks(BATCH) {
            let mut backoff = Backoff::new(&self.clock, BackoffPolicy::UNPROCESSED);
            let mut left = self.engine.put_batch(batch.to_vec()).await?;
            while !left.is_empty() {
                if !backoff.retry().await {
                    return Err(StoreError::Throttled(format!(
                        "{}: {} items stayed unprocessed",
                        table.name,
                        left.len()
                    )));
                }
                left = self.engine.put_batch(left).await?;
            }
        }
        Ok(())
    }

    /// The first history row of a record and its primary row.
    fn first_rows(&self, mut record: Record, source: &str) -> (History, Record) {
        let key = record
            .last_run_date
            .take()
            .or_else(|| record.created_date.clone())
            .map_or_else(|| self.clock.now(), |time| time.at());
        record.last_run_date = Some(GoTime::nine_digits(key));
        record.version = record.version.max(1);
        let id = EventId::from(format!("{source}:{}:{}", record.subscription_id, record.version));
        let kind = EventKind::Created(Creation::Imported(Box::new(record.clone())));
        let event = Event {
            token: IdempotencyToken::new(&id, &[]),
            id,
            at: key,
            source: source.to_owned().into(),
            kind,
            process: None,
            data: std::mem::take(&mut record.data),
            begins: None,
        };
        let previous_version = record.version - 1;
        let mut history = History::of(record.clone(), previous_version, &event, APPLIED_OUTCOME.to_owned());
        history.link(key, &event, None);
        record.applied.push(event.token);
        record.chain = history.chain;
        (history, record)
    }
}

fn records(page: Page) -> Result<Vec<Record>, StoreError> {
    page.items.into_iter().map(|item| Record::from_item(item).map_err(StoreError::from)).collect()
}

fn sorted(items: Vec<Item>) -> Result<Vec<History>, StoreError> {
    let mut rows = items.into_iter().map(History::from_item).collect::<Result<Vec<_>, _>>()?;
    rows.sort_by_key(|row| (row.record.version, row.record.last_run_date.as_ref().map(GoTime::at)));
    Ok(rows)
}

/// Drops the marked rows of moves, where the record exists at its destination already.
fn settled(records: Vec<Record>) -> Vec<Record> {
    let arrived: BTreeSet<SubscriptionId> =
        records.iter().filter(|r| r.moved_to.is_none()).map(|r| r.subscription_id.clone()).collect();
    records.into_iter().filter(|r| r.moved_to.is_none() || !arrived.contains(&r.subscription_id)).collect()
}

/// Resolves key collisions between records of one user that share a due date or an update time.
fn apart(mut records: Vec<Record>) -> Vec<Record> {
    // SCHEDULED ones first: they keep the date on which they will be collected.
    records.sort_by_key(|record| !matches!(record.state, State::Scheduled));
    let (mut dates, mut updates) = (BTreeSet::new(), BTreeSet::new());
    for record in &mut records {
        while !dates.insert((record.user_id.clone(), record.billing_date.text())) {
            record.billing_date = GoTime::trimmed(record.billing_date.at() + TimeDelta::hours(1));
        }
        if let Some(updated) = record.last_run_date.as_ref().or(record.created_date.as_ref()) {
            let mut at = updated.at();
            while !updates.insert((record.user_id.clone(), at)) {
                at += TimeDelta::nanoseconds(1);
            }
            record.last_run_date = Some(GoTime::nine_digits(at));
        }
    }
    records
}
