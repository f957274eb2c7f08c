//! A small company to test with: records for the streams, a clock that stands still, and a way to look at everything at once.

use chrono::TimeDelta;
use dues_events::{Item, Record, Time, UserId};
use dues_processors::redrive::process_stream;
use dues_processors::{Context, Counts, Fate, Incoming};
use dues_store::table::{BILLING_ACTIVITY, HISTORY, PARKED, Table};
use dues_store::{Clock, Engine, SharedClock, Store, SystemClock};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A clock that stands at a time and never waits.
#[derive(Debug, Clone, Copy)]
pub struct Standing(pub Time);

impl Clock for Standing {
    fn now(&self) -> Time {
        self.0
    }

    fn uptime(&self) -> Duration {
        SystemClock.uptime()
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A time.
pub fn t(text: &str) -> Time {
    dues_events::time::parse(text).unwrap()
}

/// The clock of most tests: 1 March 2026.
pub fn clock() -> SharedClock {
    Arc::new(Standing(t("2026-03-01T00:00:00Z")))
}

/// A store on that engine.
pub fn store<E: Engine>(engine: E) -> Store<E> {
    Store::new(engine, clock())
}

/// Handlers on that engine, which park at once what came too early.
pub fn context<E: Engine>(engine: E) -> Context<E> {
    Context { hold: TimeDelta::zero(), ..Context::new(store(engine)) }
}

/// A stream and one record for it.
pub type Sent = (&'static str, Value);

/// A membership change.
pub fn membership(id: &str, kind: &str, user: &str, at: &str, terms: Value) -> Sent {
    ("memberships", json!({"event_id": id, "type": kind, "occurred_at": at, "user_id": user, "membership": terms}))
}

/// The terms of a monthly membership from that day on.
pub fn monthly(day: &str) -> Value {
    json!({"tier":"Plus","version":"v2","term":"MONTHLY","amount":"14.99","billing_date":format!("{day}T00:00:00Z"),"provider":"cognito"})
}

/// An outcome of a debit.
pub fn payment(id: &str, kind: &str, record: &Record, transaction: &str, at: &str) -> Sent {
    let (status, code) = match kind {
        "SUBMITTED" => ("PENDING", None),
        "COMPLETED" => ("COMPLETED", None),
        "RETURNED" => ("FAILED", Some("R01")),
        "REFUNDED" => ("REFUNDED", None),
        "CHARGED_BACK" => ("CHARGED_BACK", Some("R10")),
        other => panic!("no payment {other}"),
    };
    (
        "site-payments",
        json!({"event_id": id, "type": format!("SUBSCRIPTION_{kind}"), "occurred_at": at, "payment": {"payment_id": format!("p-{id}"),
            "subscription_id": record.subscription_id.as_str(), "user_id": record.user_id.as_str(), "status": status, "amount": "14.99", "currency": "USD",
            "processor": "JPM", "confirmation_id": transaction, "payment_type": "ACH", "account_mask": "6789", "return_code": code, "message": null}}),
    )
}

/// A record as a stream delivers it, with a sequence number of its own.
pub fn incoming(record: &Value, sequence: usize) -> Incoming {
    Incoming { sequence: sequence.to_string(), arrived: t("2026-03-01T00:00:00Z"), data: record.to_string().into_bytes() }
}

/// Delivers records in order, cut into batches where the stream changes and after so many, and gives the fate of each.
pub async fn deliver<E: Engine>(context: &Context<E>, records: &[Sent], batch: usize) -> Vec<Fate> {
    let mut fates = Vec::new();
    for run in records.chunk_by(|a, b| a.0 == b.0) {
        for cut in run.chunks(batch) {
            let batch: Vec<Incoming> = cut.iter().enumerate().map(|(n, (_, record))| incoming(record, n)).collect();
            fates.extend(process_stream(context, cut[0].0, &batch).await.unwrap().fates);
        }
    }
    fates
}

/// How many met which fate.
pub fn counts(fates: &[Fate]) -> Counts {
    let mut counts = Counts::default();
    fates.iter().for_each(|fate| counts.count(fate));
    counts
}

/// A user's records, oldest first.
pub async fn records<E: Engine>(engine: &E, user: &str) -> Vec<Record> {
    store(engine.clone()).list_by_user_id(&UserId::from(user)).await.unwrap()
}

/// Every row of every table, by key: what two runs have to have in common.
pub async fn dump<E: Engine>(engine: &E) -> BTreeMap<String, Value> {
    let mut rows = BTreeMap::new();
    for table in [&BILLING_ACTIVITY, &HISTORY, &PARKED] {
        for mut item in all(engine, table).await {
            let key = format!(
                "{} {} {}",
                table.name,
                item.text(table.partition).unwrap(),
                table.sort.and_then(|s| item.text(s)).unwrap_or_default()
            );
            // Where a record was parked depends on how its batch was cut.
            item.remove("sequence");
            rows.insert(key, item.to_json());
        }
    }
    rows
}

/// Every item of a table.
pub async fn all<E: Engine>(engine: &E, table: &'static Table) -> Vec<Item> {
    let mut items = Vec::new();
    let mut start = None;
    loop {
        let page = engine.scan(table, start, 100).await.unwrap();
        items.extend(page.items);
        match page.next {
            Some(next) => start = Some(next),
            None => return items,
        }
    }
}
