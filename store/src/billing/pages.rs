//! Pages of records by status. The index holds only the status; due dates are compared as instants here,
//! because Go's timestamps do not sort as text. A text filter, two days wider on either side, avoids the
//! transfer of distant records.

use chrono::{NaiveDate, TimeDelta};
use dues_events::billing::record::{ReadError, Record, Status};
use dues_events::{Time, Value, attributes};

use crate::billing::Store;
use crate::engine::{Condition, Cursor, Engine, Query, StoreError};
use crate::table::{BILLING_ACTIVITY, BY_STATUS};

/// A page of records in a status.
#[derive(Debug, Clone, Default)]
pub struct StatusPage {
    /// The records with a matching due date.
    pub records: Vec<Record>,
    /// Rows that could not be decoded: they do not fail the page, and are not silently dropped.
    pub unreadable: Vec<ReadError>,
    /// Where the next page starts.
    pub next: Option<Cursor>,
}

/// How far a timestamp's text can be from its instant: offsets and trimmed fractions stay well within.
const SLACK: TimeDelta = TimeDelta::days(2);

impl<E: Engine> Store<E> {
    /// `GetScheduledSubscriptionPage`: SCHEDULED and due before a date.
    pub async fn scheduled_page(
        &self,
        before: Time,
        start: Option<Cursor>,
    ) -> Result<StatusPage, StoreError> {
        self.status_page(Status::Scheduled, None, Some(before), start).await
    }

    /// `GetRetrySubscriptionPage`: ERROR and due after a date.
    pub async fn retry_page(&self, after: Time, start: Option<Cursor>) -> Result<StatusPage, StoreError> {
        let mut page = self.status_page(Status::Error, Some(after), None, start).await?;
        page.records.retain(|record| record.billing_date.at() > after);
        Ok(page)
    }

    /// `GetPausedSubscriptionPage`: PAUSED and due before a date.
    pub async fn paused_page(&self, before: Time, start: Option<Cursor>) -> Result<StatusPage, StoreError> {
        self.status_page(Status::Paused, None, Some(before), start).await
    }

    /// `GetNotificationSubscriptionPage`: in a status, due in `[from, to)`.
    pub async fn notification_page(
        &self,
        status: Status,
        from: Time,
        to: Time,
        start: Option<Cursor>,
    ) -> Result<StatusPage, StoreError> {
        self.status_page(status, Some(from), Some(to), start).await
    }

    /// All failed records (ERROR), to be retried or given up.
    pub async fn failed_page(&self, start: Option<Cursor>) -> Result<StatusPage, StoreError> {
        self.status_page(Status::Error, None, None, start).await
    }

    /// Attempts in doubt: ACHSENT without a confirmation, under an attempt key of ours.
    pub async fn in_doubt_page(&self, start: Option<Cursor>) -> Result<StatusPage, StoreError> {
        let unnamed = Condition::Equals(attributes::TRANSACTION_ID, Value::text(""));
        let mut page = self.filtered_page(Status::AchSent, None, None, vec![unnamed], start).await?;
        page.records.retain(|record| record.in_doubt().is_some());
        Ok(page)
    }

    async fn status_page(
        &self,
        status: Status,
        from: Option<Time>,
        to: Option<Time>,
        start: Option<Cursor>,
    ) -> Result<StatusPage, StoreError> {
        self.filtered_page(status, from, to, Vec::new(), start).await
    }

    async fn filtered_page(
        &self,
        status: Status,
        from: Option<Time>,
        to: Option<Time>,
        mut filter: Vec<Condition>,
        start: Option<Cursor>,
    ) -> Result<StatusPage, StoreError> {
        let day = |time: Option<Time>, slack| {
            Value::text(
                time.and_then(|t| t.checked_add_signed(slack))
                    .map_or(NaiveDate::MAX, |t| t.date_naive())
                    .to_string(),
            )
        };
        if from.is_some() {
            filter.push(Condition::AtLeast(attributes::BILLING_DATE, day(from, -SLACK)));
        }
        if to.is_some() {
            filter.push(Condition::Less(attributes::BILLING_DATE, day(to, SLACK)));
        }
        let filter = if filter.is_empty() { Condition::Always } else { Condition::All(filter) };
        let query =
            Query { filter, start, ..Query::index(&BILLING_ACTIVITY, BY_STATUS.name, status.as_str()) };
        let page = self.engine.query(query).await?;
        let mut answer = StatusPage { next: page.next, ..StatusPage::default() };
        for item in page.items {
            match Record::from_item(item) {
                Ok(record) => {
                    let due = record.billing_date.at();
                    if from.is_none_or(|from| due >= from)
                        && to.is_none_or(|to| due < to)
                        && record.moved_to.is_none()
                    {
                        answer.records.push(record);
                    }
                }
                Err(error) => answer.unreadable.push(error),
            }
        }
        Ok(answer)
    }
}
