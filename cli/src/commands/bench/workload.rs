//! Members with a pending debit, and the settlements of those debits.
//!
//! User ids are spread over the key space like random ones. Settlements arrive in the order of the debits,
//! as in a bank file.

use dues_events::billing::idempotency::{IdempotencyToken, ParkedEvents};
use dues_events::billing::membership::{Change, ChangePlan, MembershipEvent, NewMembership, Step, plan};
use dues_events::billing::record::{Plan, State, TierName};
use dues_events::{EventId, Item, Record, Time};
use dues_processors::Delivery;
use dues_store::embedded::Embedded;
use dues_store::table::{BILLING_ACTIVITY, HISTORY};
use dues_store::{Engine as _, Store};
use std::ops::Range;

use crate::output::Error;

/// State of the generated records.
#[derive(Clone, Copy)]
pub(super) enum Fill {
    /// Completed long ago: ballast.
    Old,
    /// A debit is pending.
    Sent,
    /// Due for collection.
    Due,
}

/// Records per write.
const CHUNK_RECORDS: usize = 5000;

/// Writes one record and one history row per member.
pub(super) async fn fill(store: &Store<Embedded>, members: Range<u32>, fill: Fill) -> Result<(), Error> {
    let mut members: Vec<u32> = members.collect();
    if matches!(fill, Fill::Old) {
        // Sorted inserts are faster and end in the same place.
        members.sort_by_cached_key(|member| scattered(*member));
    }
    for chunk in members.chunks(CHUNK_RECORDS) {
        let mut rows = Vec::with_capacity(CHUNK_RECORDS * 2);
        for member in chunk {
            let record = record(*member, fill)?;
            let mut history: Item = record.to_item();
            history.remove(dues_events::attributes::APPLIED);
            rows.push((&HISTORY, history));
            rows.push((&BILLING_ACTIVITY, record.to_item()));
        }
        store.engine.put_batch(rows).await?;
    }
    Ok(())
}

/// A settlement as the stream delivers it.
pub(super) fn settlement(member: u32) -> Delivery {
    let data = format!(
        r#"{{"event_id":"pay-{member:08}","type":"SUBSCRIPTION_COMPLETED","occurred_at":"2026-01-07T14:00:{:02}.{:09}Z","payment":{{"payment_id":"p-{member:08}","subscription_id":"{}","user_id":"{}","status":"COMPLETED","amount":"14.99","currency":"USD","processor":"JPM","confirmation_id":"c-{member:08}","payment_type":"ACH","account_mask":"6789","return_code":null,"message":null}}}}"#,
        member % 60,
        member,
        subscription(member),
        user(member),
    );
    Delivery { sequence: member.to_string(), arrived: Time::UNIX_EPOCH, data: data.into_bytes() }
}

/// Join date and due date of every member.
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
        token: IdempotencyToken::new(&id, &[]),
        id,
        at,
        user_id: user(member).into(),
        source: "memberships ACTIVATE".into(),
        change: Change::Activate(terms),
    };
    let Ok(ChangePlan::Next(Step::Create(record, _))) = plan(&[], &event, ParkedEvents::Keep) else {
        return Err(Error::Message("the workload created no record".into()));
    };
    let mut record = *record;
    record.subscription_id = subscription(member).into();
    record.applied.push(event.token);
    if !matches!(fill, Fill::Due) {
        record.initial_run_date = record.created_date.clone();
        // No next record follows: the workload is settlements, two writes each.
        record.superseded_by = Some("bench".into());
    }
    record.version = 2;
    let transaction = Some(format!("c-{member:08}").as_str().into());
    let state = match fill {
        Fill::Old => State::Completed(dues_events::billing::record::Payment {
            transaction_id: transaction,
            at: record.created_date.clone(),
        }),
        Fill::Sent => State::AchSent(transaction),
        Fill::Due => State::Scheduled,
    };
    Ok(record.in_state(state))
}

/// A deterministic hash that spreads members over the key space.
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
