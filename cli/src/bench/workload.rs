//! Members with a debit under way, and the settlements that come back for them.
//!
//! User ids are spread at random over the key space, as real ones are. Settlements come in the order in which the debits were sent, as a bank's file
//! brings them.

use dues_events::membership::{Change, MembershipEvent, NewMembership, Step, plan};
use dues_events::record::{Plan, State, TierName};
use dues_events::stamp::Stamp;
use dues_events::{EventId, Item, Record, Time};
use dues_processors::Incoming;
use dues_store::embedded::Embedded;
use dues_store::table::{BILLING_ACTIVITY, HISTORY};
use dues_store::{Engine as _, Store};
use std::ops::Range;

use crate::output::Error;

/// In which state the members are put.
#[derive(Clone, Copy)]
pub(super) enum Fill {
    /// Long done: ballast.
    Old,
    /// A debit is under way.
    Sent,
    /// It has fallen due.
    Due,
}

const CHUNK: usize = 5000;

/// Fills the store with one record for each member, and its history row.
pub(super) async fn fill(store: &Store<Embedded>, members: Range<u32>, fill: Fill) -> Result<(), Error> {
    let mut members: Vec<u32> = members.collect();
    if matches!(fill, Fill::Old) {
        // Ballast goes in sorted, which is quick; where it lies is the same in the end.
        members.sort_by_cached_key(|member| scattered(*member));
    }
    for chunk in members.chunks(CHUNK) {
        let mut rows = Vec::with_capacity(CHUNK * 2);
        for member in chunk {
            let record = record(*member, fill)?;
            let mut history: Item = record.to_item();
            history.remove(dues_events::attr::APPLIED);
            rows.push((&HISTORY, history));
            rows.push((&BILLING_ACTIVITY, record.to_item()));
        }
        store.engine.put_batch(rows).await?;
    }
    Ok(())
}

/// A settlement as it comes from the stream.
pub(super) fn settlement(member: u32) -> Incoming {
    let data = format!(
        r#"{{"event_id":"pay-{member:08}","type":"SUBSCRIPTION_COMPLETED","occurred_at":"2026-01-07T14:00:{:02}.{:09}Z","payment":{{"payment_id":"p-{member:08}","subscription_id":"{}","user_id":"{}","status":"COMPLETED","amount":"14.99","currency":"USD","processor":"JPM","confirmation_id":"c-{member:08}","payment_type":"ACH","account_mask":"6789","return_code":null,"message":null}}}}"#,
        member % 60,
        member,
        subscription(member),
        user(member),
    );
    Incoming { sequence: member.to_string(), arrived: Time::UNIX_EPOCH, data: data.into_bytes() }
}

/// When they all joined, and what they owe fell due.
pub(super) fn joined() -> Time {
    Time::UNIX_EPOCH + chrono::TimeDelta::days(20_454)
}

fn record(member: u32, fill: Fill) -> Result<Record, Error> {
    let at = joined();
    let id = EventId::from(format!("mem-{member:08}"));
    let terms = NewMembership {
        plan: Plan { amount: dues_events::Money::from_cents(1499), tier: TierName::new("Plus", "v2") },
        term: dues_events::calendar::Term::Monthly,
        billing_date: at,
        billing_week: None,
        provider: None,
    };
    let event = MembershipEvent {
        stamp: Stamp::new(&id, &[]),
        id,
        at,
        user_id: user(member).into(),
        source: "memberships ACTIVATE".into(),
        change: Change::Activate(terms),
    };
    let steps = match plan(&[], &event, false) {
        Ok(dues_events::membership::Course::Steps(steps)) => steps,
        Ok(dues_events::membership::Course::Done | dues_events::membership::Course::Parked) | Err(_) => Vec::new(),
    };
    let Some(Step::Create(record, _)) = steps.into_iter().next() else { return Err(Error::Said("the workload makes no record".into())) };
    let mut record = *record;
    record.subscription_id = subscription(member).into();
    record.applied.push(event.stamp);
    if !matches!(fill, Fill::Due) {
        record.initial_run_date = record.created_date.clone();
    }
    record.version = 2;
    let transaction = Some(format!("c-{member:08}").as_str().into());
    record.state = match fill {
        Fill::Old => State::Completed(dues_events::record::Payment { transaction_id: transaction, at: record.created_date.clone() }),
        Fill::Sent => State::AchSent(transaction),
        Fill::Due => State::Scheduled(None),
    };
    Ok(record)
}

/// Spread over the key space, and the same in every run.
fn scattered(member: u32) -> u64 {
    u64::from(member).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_mul(0xff51_afd7_ed55_8ccd)
}

fn user(member: u32) -> String {
    format!("u-{:016x}", scattered(member))
}

fn subscription(member: u32) -> String {
    let scattered = scattered(member);
    format!("{:08x}-{:04x}-5000-8000-{member:012x}", scattered >> 32, (scattered >> 16) & 0xffff)
}
