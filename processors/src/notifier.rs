//! `notifier-scheduler`: tells of what falls due soon, once for each record.
//!
//! A message is published first and noted on its record then: a crash between the two repeats it, under the same id, and never loses it.

use dues_events::calendar::banking_day_from;
use dues_events::collect::{Ask, Rules, Run, Verdict, judge, notice_until};
use dues_events::event::{Event, Happening};
use dues_events::record::Status;
use dues_events::{GoTime, Record, Time};
use dues_store::lock::{Acquired, Locks};
use dues_store::user::UserRecords;
use dues_store::{CommitError, Engine, Store, StoreError};
use futures::stream::{StreamExt as _, iter};
use serde::Serialize;
use serde_json::json;

use crate::bus::{Bus, Message};

/// What it says.
pub const DUE_SOON: &str = "SubscriptionDueSoon";
/// The lock that keeps two runs from saying it twice.
const LOCK: &str = "dues:notifier-scheduler";
/// How many records are noted at once.
const PARALLEL: usize = 64;

/// What a run came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Notified {
    /// Records that fall due soon.
    pub due_soon: u64,
    /// Told now.
    pub told: u64,
    /// Told before.
    pub known: u64,
    /// Not told: the bus did not take the message. The next run tries again.
    pub failed: u64,
    /// Another run was under way: nothing was done.
    pub locked: bool,
}

/// Tells of every SCHEDULED record that falls due within the rules' days, and was not told of before.
///
/// # Errors
/// What the store could not do. It can be run again at any time.
pub async fn notifier_scheduler<E: Engine, B: Bus>(
    store: &Store<E>,
    locks: &Locks<E>,
    rules: &Rules,
    bus: &B,
    told: impl FnMut(&Notified),
) -> Result<Notified, StoreError> {
    let lock = match locks.acquire_key(LOCK.to_owned()).await? {
        Acquired::Held(lock) => lock,
        Acquired::LockedElsewhere => return Ok(Notified { locked: true, ..Notified::default() }),
    };
    let notified = lock.run(run(store, rules, bus, told)).await;
    lock.release().await;
    notified
}

async fn run<E: Engine, B: Bus>(store: &Store<E>, rules: &Rules, bus: &B, mut told: impl FnMut(&Notified)) -> Result<Notified, StoreError> {
    let mut notified = Notified::default();
    let now = store.clock.now();
    let Some(until) = notice_until(rules, now) else { return Ok(notified) };
    let mut start = None;
    loop {
        let page = store.notification_page(Status::Scheduled, now, until, start).await?;
        let (known, new): (Vec<Record>, Vec<Record>) =
            page.records.into_iter().partition(|record| record.due_notice.as_ref() == Some(&record.billing_date));
        let users = store.load_users(new.iter().map(|record| &record.user_id)).await;
        let mut ahead: Vec<(Record, UserRecords)> = Vec::with_capacity(new.len());
        for (record, user) in new.into_iter().zip(users) {
            let user = user?;
            if will_be_collected(rules, &record, &user) {
                ahead.push((record, user));
            }
        }
        notified.due_soon += (known.len() + ahead.len()) as u64;
        notified.known += known.len() as u64;
        let messages: Vec<Message> = ahead.iter().map(|(record, _)| message(record, now)).collect();
        let answers = bus.publish(&messages).await;
        let mut taken = Vec::new();
        for ((record, user), answer) in ahead.into_iter().zip(answers) {
            match answer {
                Ok(()) => taken.push((record, user)),
                Err(reason) => {
                    tracing::warn!(subscription = %record.subscription_id, %reason, "a reminder was not taken");
                    notified.failed += 1;
                }
            }
        }
        notified.told += taken.len() as u64;
        let mut notes = iter(taken).map(|(record, user)| note(store, record, user, now)).buffer_unordered(PARALLEL);
        while let Some(noted) = notes.next().await {
            noted?;
        }
        told(&notified);
        match page.next {
            Some(next) => start = Some(next),
            None => return Ok(notified),
        }
    }
}

/// Nobody is reminded of a debit that, as things stand, will not be made.
fn will_be_collected(rules: &Rules, record: &Record, user: &UserRecords) -> bool {
    let due = record.billing_date.at();
    let day = banking_day_from(due.date_naive()).and_time(due.time()).and_utc();
    match judge(rules, &Ask::of(Run::Initial), record, &user.records, day) {
        Verdict::Collect(_) => true,
        Verdict::Complete
        | Verdict::Resolve(_)
        | Verdict::Cancel
        | Verdict::Stale
        | Verdict::Expire
        | Verdict::Remind
        | Verdict::Leave(_) => false,
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

async fn note<E: Engine>(store: &Store<E>, record: Record, mut user: UserRecords, now: Time) -> Result<(), StoreError> {
    let event = Event::made(notice_id(&record).into(), now, "dues notifier", None, Happening::DueSoon);
    match store.apply(&mut user, &record.subscription_id, &event).await {
        // It has moved on since, and needs no note any more.
        Ok(_) | Err(CommitError::Rejected(_)) => Ok(()),
        Err(CommitError::Store(error)) => Err(error),
    }
}
