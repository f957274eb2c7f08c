//! `notifier-scheduler`: publishes a notice for each record that falls due soon, once.
//!
//! The message is published first and marked on the record afterwards: a crash in between repeats it under
//! the same id, and never loses it.

use dues_events::billing::event::{Event, EventKind};
use dues_events::billing::record::Status;
use dues_events::calendar::banking_day_from;
use dues_events::collections::eligibility::{
    CollectionRequest, Eligibility, Rules, Trigger, eligibility, notice_window_end,
};
use dues_events::{GoTime, Record, Time};
use dues_store::billing::user_records::UserRecords;
use dues_store::lock::{Acquired, Locks};
use dues_store::{CommitError, Engine, Store, StoreError};
use futures::stream::{StreamExt as _, iter};
use serde::Serialize;
use serde_json::json;

use crate::messaging::bus::{Bus, Message};

/// `detail-type` of the notice.
pub const DUE_SOON: &str = "SubscriptionDueSoon";
/// The lock that serialises runs.
const LOCK: &str = "dues:notifier-scheduler";
/// Records marked concurrently.
const PARALLEL: usize = 64;

/// Counts of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NotifierSummary {
    /// Records that fall due soon.
    pub due_soon: u64,
    /// Published now.
    #[serde(rename = "told")]
    pub published: u64,
    /// Published before.
    pub known: u64,
    /// Rejected by the bus; the next run retries.
    pub failed: u64,
    /// Another run holds the lock: nothing was done.
    pub locked: bool,
}

/// Publishes a notice for every SCHEDULED record due within the notice period, unless published before.
///
/// # Errors
/// Any [`StoreError`]. The job is idempotent: run it again.
pub async fn notifier_scheduler<E: Engine, B: Bus>(
    store: &Store<E>,
    locks: &Locks<E>,
    rules: &Rules,
    bus: &B,
    on_progress: impl FnMut(&NotifierSummary),
) -> Result<NotifierSummary, StoreError> {
    let lock = match locks.acquire_key(LOCK.to_owned()).await? {
        Acquired::Held(lock) => lock,
        Acquired::LockedElsewhere => {
            return Ok(NotifierSummary { locked: true, ..NotifierSummary::default() });
        }
    };
    let notified = lock.run(run(store, rules, bus, on_progress)).await;
    lock.release().await;
    notified
}

async fn run<E: Engine, B: Bus>(
    store: &Store<E>,
    rules: &Rules,
    bus: &B,
    mut on_progress: impl FnMut(&NotifierSummary),
) -> Result<NotifierSummary, StoreError> {
    let mut notified = NotifierSummary::default();
    let now = store.clock.now();
    let Some(until) = notice_window_end(rules, now) else { return Ok(notified) };
    let mut start = None;
    loop {
        let page = store.notification_page(Status::Scheduled, now, until, start).await?;
        let (known, new): (Vec<Record>, Vec<Record>) = page
            .records
            .into_iter()
            .partition(|record| record.due_notice.as_ref() == Some(&record.billing_date));
        let users = store.load_users(new.iter().map(|record| &record.user_id)).await;
        let mut due: Vec<(Record, UserRecords)> = Vec::with_capacity(new.len());
        for (record, user) in new.into_iter().zip(users) {
            let user = user?;
            if will_be_collected(rules, &record, &user) {
                due.push((record, user));
            }
        }
        notified.due_soon += (known.len() + due.len()) as u64;
        notified.known += known.len() as u64;
        let messages: Vec<Message> = due.iter().map(|(record, _)| message(record, now)).collect();
        let answers = bus.publish(&messages).await;
        let mut published = Vec::new();
        for ((record, user), answer) in due.into_iter().zip(answers) {
            match answer {
                Ok(()) => published.push((record, user)),
                Err(reason) => {
                    let id = &record.subscription_id;
                    tracing::warn!(subscription = %id, %reason, "due notice not published");
                    notified.failed += 1;
                }
            }
        }
        notified.published += published.len() as u64;
        let mut marks = iter(published)
            .map(|(record, user)| mark_published(store, record, user, now))
            .buffer_unordered(PARALLEL);
        while let Some(marked) = marks.next().await {
            marked?;
        }
        on_progress(&notified);
        match page.next {
            Some(next) => start = Some(next),
            None => return Ok(notified),
        }
    }
}

/// No notice for a debit that would not be made on its day.
fn will_be_collected(rules: &Rules, record: &Record, user: &UserRecords) -> bool {
    let due_at = record.billing_date.at();
    let day = banking_day_from(due_at.date_naive()).and_time(due_at.time()).and_utc();
    match eligibility(rules, &CollectionRequest::triggered_by(Trigger::Initial), record, &user.records, day) {
        Eligibility::Collect(_) => true,
        Eligibility::Complete
        | Eligibility::Resolve(_)
        | Eligibility::Cancel
        | Eligibility::Stale
        | Eligibility::Expire
        | Eligibility::Remind
        | Eligibility::Skip(_) => false,
    }
}

fn message(record: &Record, now: Time) -> Message {
    let id = notice_id(record);
    let detail = json!({
        "id": id,
        "user_id": record.user_id,
        "subscription_id": record.subscription_id,
        "billing_date": record.billing_date.text(),
        "billing_amount": record.plan.amount.to_string(),
        "billing_period": record.period(),
        "term": record.term.as_str(),
        "tier": record.plan.tier.as_str(),
    });
    Message { id: id.into(), detail_type: DUE_SOON, at: Some(now), detail }
}

fn notice_id(record: &Record) -> String {
    format!("due-soon:{}:{}", record.subscription_id, GoTime::trimmed(record.billing_date.at()).text())
}

async fn mark_published<E: Engine>(
    store: &Store<E>,
    record: Record,
    mut user: UserRecords,
    now: Time,
) -> Result<(), StoreError> {
    let event = Event::internal_at(notice_id(&record).into(), now, "dues notifier", None, EventKind::DueSoon);
    match store.apply(&mut user, &record.subscription_id, &event).await {
        // The record has changed since: no mark needed.
        Ok(_) | Err(CommitError::Rejected(_)) => Ok(()),
        Err(CommitError::Store(error)) => Err(error),
    }
}
