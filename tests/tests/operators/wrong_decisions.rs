//! Wrong decisions, planted by a forger who knows the format: the record, its history and its chain agree
//! with each other. Only taking the decisions again finds them. And rows that were changed, removed or added
//! by a writer that does not know of the chain.

use dues_events::billing::chain::Chain;
use dues_events::{Item, Record, Value};
use dues_processors::collections::Collector;
use dues_processors::collections::commands::{Command, command};
use dues_processors::operators::audit::{Finding, FindingKind, audit};
use dues_processors::operators::replay::{ReplayTarget, compare};
use dues_processors::read_models::ReadModels;
use dues_projections::entitlements::dues::TierMap;
use dues_store::table::{BILLING_ACTIVITY, HISTORY, Table};
use dues_store::{Condition, Engine as _, Key};
use dues_tests::engines::memory::Memory;
use dues_tests::fixtures::company::{
    Sent, all, context, deliver, dump, membership, monthly, payment, records, store,
};
use dues_tests::gateways::ledger::Ledger;
use serde_json::json;

const JOINED: &str = "2026-01-05T00:00:00Z";

fn with(mut sent: Sent, changes: &[(&str, &str)]) -> Sent {
    for (field, value) in changes {
        sent.1["payment"][*field] = json!(value);
    }
    sent
}

/// What the bank reports on a member's record.
fn reports(user: &str, record: &Record) -> Vec<Sent> {
    let report = |id: &str, kind: &str, at: &str| {
        payment(
            &format!("{id}-{user}"),
            kind,
            record,
            &format!("c-{user}"),
            &format!("2026-02-{at}T00:00:00Z"),
        )
    };
    match user {
        "paid" => vec![report("sent", "SUBMITTED", "01"), report("paid", "COMPLETED", "03")],
        "returned" => vec![report("paid", "COMPLETED", "03"), report("back", "RETURNED", "20")],
        "reordered" => vec![report("back", "RETURNED", "20"), report("paid", "COMPLETED", "03")],
        "waived" => vec![report("paid", "COMPLETED", "03")],
        "cent" => vec![with(report("paid", "COMPLETED", "03"), &[("amount", "0.01")])],
        "barred" => vec![with(report("back", "RETURNED", "03"), &[("return_code", "R10")])],
        "refunded" => vec![
            report("paid", "COMPLETED", "03"),
            with(report("refund", "REFUNDED", "05"), &[("amount", "1.00")]),
        ],
        _ => Vec::new(),
    }
}

/// What members ask for.
fn change(user: &str) -> Option<Sent> {
    let at = "2026-01-10T00:00:00Z";
    let (id, plan) = (format!("change-{user}"), json!({"tier": "Pro", "version": "v2", "amount": "29.99"}));
    match user {
        "pausing" => Some(membership(&id, "PAUSE", user, at, json!({"pause_duration_months": 2}))),
        "leaving" => Some(membership(&id, "CANCEL", user, at, json!({}))),
        "upgrading" => Some(membership(&id, "UPGRADE", user, at, plan)),
        _ => None,
    }
}

const MEMBERS: [&str; 10] = [
    "paid",
    "returned",
    "reordered",
    "waived",
    "cent",
    "barred",
    "refunded",
    "pausing",
    "leaving",
    "upgrading",
];

/// Ten members, each with one decision that is easily taken wrongly.
async fn members() -> Memory {
    let engine = Memory::default();
    let context = context(engine.clone());
    let collector = Collector::new(store(engine.clone()), Ledger::default());
    for user in MEMBERS {
        let join = membership(&format!("join-{user}"), "ACTIVATE", user, JOINED, monthly("2026-01-31"));
        deliver(&context, &[join], 1).await;
        let record = records(&engine, user).await.remove(0);
        if user == "waived" {
            let id = &record.subscription_id;
            command(&collector, &user.into(), id, Command::Waive, "ada").await.unwrap();
        }
        deliver(&context, &reports(user, &record), 1).await;
        deliver(&context, &Vec::from_iter(change(user)), 1).await;
    }
    engine
}

async fn findings(engine: &Memory) -> Vec<Finding> {
    let billing = [HISTORY.name, BILLING_ACTIVITY.name];
    let audited =
        audit(&store(engine.clone()), &TierMap::default(), &ReadModels::default(), |_| {}).await.unwrap();
    audited.findings.into_iter().filter(|found| billing.contains(&found.table)).collect()
}

async fn write(engine: &Memory, table: &'static Table, item: Item) {
    engine.put(table, item, Condition::Always).await.unwrap();
}

/// A record's history, in order.
async fn history_of(engine: &Memory, record: &str) -> Vec<Item> {
    let mut rows = all(engine, &HISTORY).await;
    rows.retain(|row| row.text("subscription_id") == Some(record));
    rows.sort_by_key(|row| row.get("version").and_then(Value::as_u64));
    rows
}

/// Forges a record from one event on: that row, those after it and the primary row get the same edit, and the
/// chain is made anew.
async fn forge(engine: &Memory, event: &str, edit: fn(&mut Item)) {
    let rows = all(engine, &HISTORY).await;
    let forged = rows.iter().find(|row| row.text("event_id") == Some(event));
    let forged = forged.unwrap_or_else(|| panic!("no event {event}"));
    let from = forged.get("version").and_then(Value::as_u64);
    let record = forged.text("subscription_id").unwrap().to_owned();
    let mut head: Option<Chain> = None;
    for mut row in history_of(engine, &record).await {
        if row.get("version").and_then(Value::as_u64) >= from {
            edit(&mut row);
        }
        head = Some(Chain::following(head, &row));
        row.set("data_chain", head.unwrap().to_value());
        write(engine, &HISTORY, row).await;
    }
    let mut rows = all(engine, &BILLING_ACTIVITY).await.into_iter();
    let mut row = rows.find(|row| row.text("subscription_id") == Some(&record)).unwrap();
    edit(&mut row);
    row.set("chain", head.unwrap().to_value());
    write(engine, &BILLING_ACTIVITY, row).await;
}

fn replace(row: &mut Item, attribute: &'static str, from: &str, to: &str) {
    let text = row.text(attribute).unwrap_or_else(|| panic!("no {attribute}: {row:?}"));
    assert!(text.contains(from), "{attribute} is {text}");
    row.set_text(attribute, text.replace(from, to));
}

/// The wrong decision, the event that was decided wrongly, the forgery, and an attribute that the audit names
/// with both values.
type Plant = (&'static str, &'static str, fn(&mut Item), &'static str);

const PLANTS: [Plant; 12] = [
    (
        "a settlement pays a waived record",
        "paid-waived",
        |row| {
            row.set_text("billing_status", "COMPLETED");
            row.set_text("transaction_id", "c-waived");
        },
        r#"billing_status is "COMPLETED" and should be "WAIVED""#,
    ),
    (
        "a cheaper membership than was agreed",
        "join-paid",
        |row| row.set_text("billing_amount", "1.49"),
        r#"billing_amount is "1.49" and should be "14.99""#,
    ),
    (
        "a late return that was swallowed",
        "back-returned",
        |row| {
            row.set_text("billing_status", "COMPLETED");
            row.set_text("usio_error", "");
            row.set_text("completion_date", "2026-02-03T00:00:00Z");
            replace(row, "attempt_log", r#","r":["2026-02-20T00:00:00Z","R01"]"#, "");
        },
        r#"billing_status is "COMPLETED" and should be "ERROR""#,
    ),
    (
        "an older settlement undoes a later return",
        "paid-reordered",
        |row| {
            row.set_text("billing_status", "COMPLETED");
            row.set_text("usio_error", "");
            row.set_text("completion_date", "2026-02-03T00:00:00Z");
            replace(row, "attempt_log", r#","r":["2026-02-20T00:00:00Z","R01"]"#, "");
        },
        r#"billing_status is "COMPLETED" and should be "ERROR""#,
    ),
    (
        "a cent pays for a month",
        "paid-cent",
        |row| {
            row.set_text("billing_status", "COMPLETED");
            row.set_text("transaction_id", "c-cent");
            row.set_text("completion_date", "2026-02-03T00:00:00Z");
            replace(row, "attempt_log", r#""0.01""#, r#""14.99""#);
        },
        r#"billing_status is "COMPLETED" and should be "SCHEDULED""#,
    ),
    (
        "an unauthorised return that sets no bar",
        "back-barred",
        |row| {
            row.remove("collection_bar");
            row.set_text("usio_error", "R01");
            replace(row, "attempt_log", "R10", "R01");
        },
        r#"collection_bar is nothing and should be "R10""#,
    ),
    (
        "a dollar refunds everything",
        "refund-refunded",
        |row| {
            row.set_text("billing_status", "REFUNDED");
            row.set_text("refunded_amount", "14.99");
            replace(row, "attempt_log", r#"["1.00"]"#, r#"["14.99"]"#);
        },
        r#"billing_status is "REFUNDED" and should be "COMPLETED""#,
    ),
    (
        "a longer pause than was asked for",
        "change-pausing",
        |row| row.set("pause_duration_months", Value::number(12)),
        "pause_duration_months is 12 and should be 2",
    ),
    (
        "a cancellation that was forgotten",
        "change-leaving",
        |row| drop(row.remove("cancel_at")),
        r#"cancel_at is nothing and should be "2026-01-31T00:00:00Z""#,
    ),
    (
        "an upgrade at the old price",
        "change-upgrading",
        |row| row.set_text("billing_amount", "14.99"),
        r#"billing_amount is "14.99" and should be "29.99""#,
    ),
    (
        "another record follows than was promised",
        "sent-paid",
        |row| row.set_text("next_subscription_id", "00000000-0000-4000-8000-000000000009"),
        r#"next_subscription_id is "00000000-0000-4000-8000-000000000009" and should be "#,
    ),
    (
        "a settlement with the money of another transaction",
        "paid-paid",
        |row| {
            row.set_text("transaction_id", "c-other");
            replace(row, "attempt_log", "c-paid", "c-other");
        },
        r#"transaction_id is "c-other" and should be "c-paid""#,
    ),
];

#[tokio::test]
async fn what_was_decided_rightly_is_found_right() {
    assert_eq!(findings(&members().await).await, Vec::new());
}

#[tokio::test]
async fn twelve_wrong_decisions_are_named_although_record_history_and_chain_agree() {
    for (what, event, edit, words) in PLANTS {
        let engine = members().await;
        forge(&engine, event, edit).await;
        let found = findings(&engine).await;
        let names = |found: &Finding| {
            found.kind == FindingKind::WrongDecision
                && found.table == HISTORY.name
                && found.detail.contains(&format!("event {event}: wrong decision"))
                && found.detail.contains(words)
        };
        assert!(found.iter().any(names), "{what}: {found:#?}");
        assert!(found.iter().all(|found| found.kind != FindingKind::Chain), "{what}: {found:#?}");
        // Nor is it made true by a rebuild.
        let rebuilt = compare(ReplayTarget::Billing, &store(engine), |_| {}).await.unwrap();
        assert_eq!(rebuilt.unreadable.len(), 1, "{what}: {:?}", rebuilt.unreadable);
    }
}

/// The record of the next period is decided from the one before it.
#[tokio::test]
async fn a_next_record_with_another_amount_is_named() {
    let engine = members().await;
    let next = records(&engine, "paid").await.remove(1);
    let created = history_of(&engine, next.subscription_id.as_str()).await.remove(0);
    let event = created.text("event_id").unwrap().to_owned();
    forge(&engine, &event, |row| row.set_text("billing_amount", "1.49")).await;
    let found = findings(&engine).await;
    let words = r#"billing_amount is "1.49" and should be "14.99""#;
    let names = |found: &Finding| found.kind == FindingKind::WrongDecision && found.detail.contains(words);
    assert!(found.iter().any(names), "{found:#?}");
}

/// Amounts that are rewritten in the event too: the token has the hash of what was on the stream.
#[tokio::test]
async fn terms_that_are_not_those_of_the_stream_are_named() {
    let engine = members().await;
    forge(&engine, "join-paid", |row| {
        row.set_text("billing_amount", "1.49");
        if row.text("event_id") == Some("join-paid") {
            replace(row, "data_event", r#""a":"14.99""#, r#""a":"1.49""#);
        }
    })
    .await;
    let found = findings(&engine).await;
    assert!(found.iter().any(|found| found.kind == FindingKind::WrongDecision), "{found:#?}");
}

/// The second row of the record of "paid": its debit was sent.
async fn sent_row(engine: &Memory) -> Item {
    let row = all(engine, &HISTORY).await.into_iter();
    row.into_iter().find(|row| row.text("event_id") == Some("sent-paid")).unwrap()
}

async fn assert_chain_is_broken(engine: &Memory, kinds: &[FindingKind]) {
    let found = findings(engine).await;
    for kind in kinds {
        assert!(found.iter().any(|found| found.kind == *kind), "{kind:?}: {found:#?}");
    }
    assert!(found.iter().all(|found| found.key.starts_with("paid/")), "{found:#?}");
}

#[tokio::test]
async fn a_row_changed_by_hand_breaks_the_chain() {
    for (attribute, text) in
        [("data_processor", "ACME"), ("data_payment_id", "p-9"), ("source", "elsewhere"), ("note", "added")]
    {
        let engine = members().await;
        let mut row = sent_row(&engine).await;
        row.set_text(attribute, text);
        write(&engine, &HISTORY, row).await;
        assert_chain_is_broken(&engine, &[FindingKind::Chain]).await;
    }
}

#[tokio::test]
async fn the_newest_row_changed_by_hand_breaks_the_chain() {
    let engine = members().await;
    let rows = all(&engine, &HISTORY).await.into_iter();
    let mut row = rows.into_iter().find(|row| row.text("event_id") == Some("paid-paid")).unwrap();
    row.set_text("data_processor", "ACME");
    write(&engine, &HISTORY, row.clone()).await;
    assert_chain_is_broken(&engine, &[FindingKind::Chain]).await;
    // Also when the forger gives the row a link: the record names another one.
    let head = Chain::read(match sent_row(&engine).await.get("data_chain") {
        Some(Value::B(bytes)) => bytes,
        other => panic!("{other:?}"),
    });
    row.set("data_chain", Chain::following(head, &row).to_value());
    write(&engine, &HISTORY, row).await;
    assert_chain_is_broken(&engine, &[FindingKind::Chain]).await;
}

#[tokio::test]
async fn a_row_without_its_event_breaks_the_chain() {
    let engine = members().await;
    let mut row = sent_row(&engine).await;
    row.remove("data_event");
    row.remove("data_chain");
    write(&engine, &HISTORY, row).await;
    assert_chain_is_broken(&engine, &[FindingKind::Chain]).await;
}

#[tokio::test]
async fn a_row_removed_by_hand_breaks_the_chain() {
    for event in ["join-paid", "sent-paid", "paid-paid"] {
        let engine = members().await;
        let rows = all(&engine, &HISTORY).await.into_iter();
        let row = rows.into_iter().find(|row| row.text("event_id") == Some(event)).unwrap();
        engine.delete(&HISTORY, Key::of(&HISTORY, &row).unwrap(), Condition::Always).await.unwrap();
        assert_chain_is_broken(&engine, &[FindingKind::Chain, FindingKind::Gap]).await;
    }
}

#[tokio::test]
async fn a_row_added_by_hand_is_named() {
    let engine = members().await;
    let rows = all(&engine, &HISTORY).await.into_iter();
    let mut row = rows.into_iter().find(|row| row.text("event_id") == Some("paid-paid")).unwrap();
    // A settlement that was not reported, after the record's last version.
    row.set_text("event_id", "made-up");
    row.set("stamp", Value::B(vec![7; 16]));
    row.set("previous_version", Value::number(3));
    row.set("version", Value::number(4));
    row.set_text("last_run_date", "2026-02-04T00:00:00.000000000Z");
    write(&engine, &HISTORY, row).await;
    assert_chain_is_broken(&engine, &[FindingKind::Chain]).await;
    let before = dump(&engine).await;
    store(engine.clone()).sweep(|_| {}).await.unwrap();
    assert_eq!(dump(&engine).await, before, "the sweeper makes nothing true that was not decided");
}

/// An event of a newer program is named, and everything else goes on.
#[tokio::test]
async fn an_event_that_cannot_be_read_is_named() {
    for (from, to, words) in [
        (r#""v":2"#, r#""v":9"#, "schema version 9 is not 1 to 2"),
        (r#""k":"sent""#, r#""k":"teleported""#, r#"unknown kind "teleported""#),
        (r#""k":"sent""#, r#""k":"intended""#, "intended without n"),
        ("{", "[", "data_event: "),
    ] {
        let engine = members().await;
        let mut row = sent_row(&engine).await;
        replace(&mut row, "data_event", from, to);
        write(&engine, &HISTORY, row).await;
        let found = findings(&engine).await;
        let names = |found: &Finding| found.kind == FindingKind::Unreadable && found.detail.contains(words);
        assert!(found.iter().any(names), "{words}: {found:#?}");
    }
}

/// A waiver is killed after its history row, and a settlement overtakes it: the waiver has not happened.
#[tokio::test]
async fn a_row_that_was_overtaken_is_not_made_true_by_a_replay() {
    let engine = Memory::default();
    let context = context(engine.clone());
    deliver(&context, &[membership("join", "ACTIVATE", "paid", JOINED, monthly("2026-01-31"))], 1).await;
    let record = records(&engine, "paid").await.remove(0);
    let (history, primary) = (all(&engine, &HISTORY).await, all(&engine, &BILLING_ACTIVITY).await);
    let collector = Collector::new(store(engine.clone()), Ledger::default());
    let id = &record.subscription_id;
    command(&collector, &"paid".into(), id, Command::Waive, "ada").await.unwrap();
    let waived: Vec<Item> = all(&engine, &HISTORY)
        .await
        .into_iter()
        .filter(|row| row.text("source") == Some("dues waive"))
        .collect();
    assert_eq!(waived.len(), 1);
    // Back to the moment before its compare-and-set.
    for (table, rows) in [(&HISTORY, &history), (&BILLING_ACTIVITY, &primary)] {
        for item in all(&engine, table).await {
            engine.delete(table, Key::of(table, &item).unwrap(), Condition::Always).await.unwrap();
        }
        for item in rows {
            write(&engine, table, item.clone()).await;
        }
    }
    write(&engine, &HISTORY, waived[0].clone()).await;
    deliver(&context, &reports("paid", &record), 1).await;
    let live = all(&engine, &BILLING_ACTIVITY).await;
    let shop = store(engine.clone());
    let rebuilt = compare(ReplayTarget::Billing, &shop, |_| {}).await.unwrap();
    assert_eq!((rebuilt.differences, rebuilt.unreadable), (Vec::new(), Vec::new()));
    let committed = shop.committed_history_of_user(&"paid".into()).await.unwrap();
    assert!(committed.iter().all(|row| row.source != "dues waive"), "{committed:?}");
    let swept = shop.sweep(|_| {}).await.unwrap();
    assert_eq!((swept.removed, swept.faulty), (1, 0));
    assert_eq!(all(&engine, &BILLING_ACTIVITY).await, live);
    assert_eq!(findings(&engine).await, Vec::new());
}
