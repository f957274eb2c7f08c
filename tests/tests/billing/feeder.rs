//! `kinesis-feeder`: consumers see every change of a user in order, at least once; repeats have the same id.

mod batch;
mod fan_out;
mod log;
mod ministack;

use dues_events::billing::record::Record;
use dues_events::{EventId, Item, Movement, Time, UserId, Value};
use dues_processors::runtime::changes::Change;
use dues_store::Table;
use dues_store::table::{BILLING_ACTIVITY, GG_CORE};
use dues_tests::fixtures::company::t;
use serde_json::{Value as Json, json};

const ARN: &str = "arn:aws:dynamodb:eu-central-1:123456789012:table/NAME/stream/2026-03-01T00:00:00.000";

/// A user's only billing record, at that version.
fn billing(user: &str, status: &str, version: u64) -> Item {
    let mut item = Item::new();
    for (name, text) in [
        ("user_id", user),
        ("billing_date", "2026-02-01T00:00:00Z"),
        ("subscription_id", &format!("s-{user}")),
        ("billing_amount", "14.99"),
        ("billing_status", status),
        ("process", "INITIAL"),
        ("term", "MONTHLY"),
        ("receipt_tier_name", "Plus:v2"),
        ("last_run_date", "2026-02-02T08:00:00.000000000Z"),
    ] {
        item.set_text(name.to_owned(), text);
    }
    item.set("pause_duration_months", Value::number(u64::from(status == "PAUSED")));
    item.set("version", Value::number(version));
    // The row is readable in every status.
    Record::from_item(item).unwrap().to_item()
}

/// A user's profile as another service writes it, for the n-th time.
fn profile(user: &str, tier: &str, n: u64) -> Item {
    let mut item = Item::new();
    for (name, text) in
        [("PK", format!("USER#{user}")), ("SK", format!("PROFILE#{user}")), ("tier", tier.to_owned())]
    {
        item.set_text(name, text);
    }
    item.set("n", Value::number(n));
    item
}

/// A user's n-th credit purchase.
fn top_up(user: &str, n: u64, at: Time) -> Item {
    Movement::top_up(&format!("pi_{user}_{n}"), 5, at, EventId::from("evt")).to_item(&UserId::from(user))
}

fn change(table: &'static Table, old: Option<Item>, new: Option<Item>, sequence: &str) -> Change {
    Change {
        sequence: sequence.to_owned(),
        table,
        old,
        new,
        arrived: t("2026-03-01T00:00:00Z"),
        by_ttl: false,
    }
}

/// A new billing record.
fn joined(user: &str, sequence: &str) -> Change {
    change(&BILLING_ACTIVITY, None, Some(billing(user, "SCHEDULED", 1)), sequence)
}

/// The record's debit is submitted.
fn sent(user: &str, sequence: &str) -> Change {
    change(
        &BILLING_ACTIVITY,
        Some(billing(user, "SCHEDULED", 1)),
        Some(billing(user, "ACHSENT", 2)),
        sequence,
    )
}

/// A stream record, as Lambda delivers it.
fn record(change: &Change) -> Json {
    let mut record = change.to_json();
    record["eventSourceARN"] = json!(ARN.replace("NAME", change.table.name));
    record
}
