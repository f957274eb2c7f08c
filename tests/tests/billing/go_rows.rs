//! Rows written by Go, changed by us, read by Go, written back by Go, and changed by us again. The fixtures
//! are what `attributevalue` makes of the `Subscription` struct of billing-activity: empty strings, zero
//! times, trimmed fractions, `nil` pointers, no version. Go's reader is reimplemented here from its
//! documentation, independent of our code.

use chrono::DateTime;
use dues_events::{Item, Status};
use dues_processors::Outcome;
use dues_processors::runtime::changes::{read_item, write_item};
use dues_store::table::BILLING_ACTIVITY;
use dues_store::{Condition, Engine, Key};
use dues_tests::fixtures::company::{Sent, context, deliver, membership, payment, records};
use serde_json::{Value, json};
use std::collections::BTreeMap;

dues_tests::on_engines! {
    a_row_of_go_goes_back_and_forth_between_go_and_us,
}

/// The fields of Go's `Subscription`, as its `dynamodbav` tags name them.
const TEXTS: [&str; 13] = [
    "user_id",
    "subscription_id",
    "billing_amount",
    "billing_status",
    "billing_period",
    "transaction_id",
    "usio_error",
    "process",
    "updated_event",
    "term",
    "receipt_account_mask",
    "receipt_tier_name",
    "receipt_payment_type",
];
const TIMES: [&str; 5] =
    ["billing_date", "initial_run_date", "completion_date", "last_run_date", "created_date"];
const ZERO: &str = "0001-01-01T00:00:00Z";

/// `attributevalue.UnmarshalMap` into that struct: a missing field keeps Go's zero value, an unknown one is
/// ignored, and a type that does not fit is an error.
fn go_reads(row: &Value) -> Result<BTreeMap<&'static str, Value>, String> {
    let mut read = BTreeMap::new();
    let unfit = |name: &str, value: &Value, kind: &str| {
        format!("{name}: cannot unmarshal {value} into Go value type {kind}")
    };
    for name in TEXTS {
        let text = row
            .get(name)
            .map_or(Ok(""), |value| value["S"].as_str().ok_or_else(|| unfit(name, value, "string")))?;
        read.insert(name, json!(text));
    }
    for name in TIMES {
        let time = row
            .get(name)
            .map_or(Ok(ZERO), |value| value["S"].as_str().ok_or_else(|| unfit(name, value, "time.Time")))?;
        DateTime::parse_from_rfc3339(time)
            .map_err(|error| format!("{name}: parsing time {time:?}: {error}"))?;
        read.insert(name, json!(time));
    }
    let number = |name: &str| match row.get(name).filter(|value| value["NULL"] != true) {
        None => Ok(None),
        Some(value) => {
            let number = value["N"].as_str().and_then(|text| text.parse::<i64>().ok());
            number.map(Some).ok_or_else(|| unfit(name, value, "int"))
        }
    };
    read.insert("billing_week", json!(number("billing_week")?));
    read.insert("pause_duration_months", json!(number("pause_duration_months")?.unwrap_or(0)));
    let flag = "is_pending_downgrade";
    let set = row
        .get(flag)
        .map_or(Ok(false), |value| value["BOOL"].as_bool().ok_or_else(|| unfit(flag, value, "bool")))?;
    read.insert(flag, json!(set));
    Ok(read)
}

/// `attributevalue.MarshalMap`: every field except an unset flag (`omitzero`), and nothing that Go does not
/// know.
fn go_writes(read: &BTreeMap<&'static str, Value>) -> Value {
    let mut row = json!({});
    for (name, value) in read {
        row[*name] = match value {
            Value::String(text) => json!({"S": text}),
            Value::Number(number) => json!({"N": number.to_string()}),
            Value::Bool(false) => continue,
            Value::Bool(true) => json!({"BOOL": true}),
            Value::Null | Value::Array(_) | Value::Object(_) => json!({"NULL": true}),
        };
    }
    row
}

fn fixture(name: &str) -> Value {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/billing/go_rows/{name}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn item(row: &Value) -> Item {
    read_item(row, "fixture").unwrap()
}

async fn row<E: Engine>(engine: &E) -> Value {
    let key = Key { partition: "u-go".to_owned(), sort: Some("2026-02-01T05:00:00.1Z".to_owned()) };
    write_item(&engine.get(&BILLING_ACTIVITY, key).await.unwrap().expect("the key is kept to the letter"))
}

/// Two events for each fixture, with the status after each; in between Go writes the row again.
async fn a_row_of_go_goes_back_and_forth_between_go_and_us<E: Engine>(engine: E) {
    let context = context(engine.clone());
    for (name, before, after) in [
        ("scheduled", "SUBMITTED", "COMPLETED"),
        ("achsent", "RETURNED", "SUBMITTED"),
        ("failed", "SUBMITTED", "COMPLETED"),
    ] {
        let steps =
            |kind: &str, n: u32| (kind.to_owned(), format!("{name}-{n}"), format!("2026-02-1{n}T00:00:00Z"));
        there_and_back(&engine, name, &[steps(before, 1), steps(after, 2)], &context).await;
    }
    // Resumed before the due date, and after it: months of the pause are not billed.
    for (event, at, status, months) in [
        ("m-1", "2026-01-31T00:00:00Z", "SCHEDULED", 0),
        ("m-2", "2026-02-11T00:00:00Z", "PAUSED_SKIPPED", 3),
    ] {
        engine.put(&BILLING_ACTIVITY, item(&fixture("paused")), Condition::Always).await.unwrap();
        let resumed: Sent = membership(event, "UNPAUSE", "u-go", at, json!({}));
        assert_eq!(deliver(&context, &[resumed], 1).await, [Outcome::Applied]);
        let read = go_reads(&row(&engine).await).unwrap();
        let expected = (&json!(status), &json!("pause-resume"), &json!(2), &json!(months));
        assert_eq!(
            (
                &read["billing_status"],
                &read["updated_event"],
                &read["billing_week"],
                &read["pause_duration_months"]
            ),
            expected
        );
    }
    let due: Vec<String> = records(&engine, "u-go").await.iter().map(|r| r.billing_date.text()).collect();
    assert_eq!(
        due,
        ["2026-02-01T05:00:00.1Z", "2026-03-13T05:00:00.1Z"],
        "the second Friday of a later month"
    );
}

async fn there_and_back<E: Engine>(
    engine: &E,
    name: &str,
    steps: &[(String, String, String)],
    context: &dues_processors::Context<E>,
) {
    let original = fixture(name);
    let id = original["subscription_id"]["S"].as_str().unwrap().to_owned();
    assert_eq!(go_writes(&go_reads(&original).unwrap()), original, "{name}: the fixture is Go's own");
    engine.put(&BILLING_ACTIVITY, item(&original), Condition::Always).await.unwrap();
    for (kind, event, at) in steps {
        let ours = records(engine, "u-go")
            .await
            .into_iter()
            .find(|record| record.subscription_id.as_str() == id)
            .unwrap();
        let before = go_reads(&row(engine).await).unwrap();
        // A new debit has a new confirmation; the outcome of a debit names that debit's confirmation.
        let confirmation = ours.state.transaction_id().map_or(event.as_str(), |id| id.as_str());
        let sent = payment(event, kind, &ours, if kind == "SUBMITTED" { event } else { confirmation }, at);
        assert_eq!(
            deliver(context, std::slice::from_ref(&sent), 1).await,
            [Outcome::Applied],
            "{name} {kind}"
        );
        let changed = row(engine).await;
        let read = go_reads(&changed).unwrap_or_else(|why| panic!("{name} {kind}: {why}"));
        let status = match kind.as_str() {
            "SUBMITTED" => Status::AchSent,
            "COMPLETED" => Status::Completed,
            _ => Status::Error,
        };
        assert_eq!(read["billing_status"], status.as_str(), "{name} {kind}");
        for kept in [
            "user_id",
            "subscription_id",
            "billing_date",
            "billing_amount",
            "billing_period",
            "created_date",
            "term",
            "receipt_tier_name",
            "billing_week",
        ] {
            assert_eq!(read[kept], before[kept], "{name} {kind}: {kept}");
        }
        // Redelivered, it is a duplicate, as long as the row is ours.
        assert_eq!(deliver(context, &[sent], 1).await, [Outcome::Duplicate], "{name} {kind}");
        // Go writes its struct, without a version.
        let theirs = go_writes(&read);
        assert_eq!((theirs.get("version"), theirs.get("applied")), (None, None));
        engine.put(&BILLING_ACTIVITY, item(&theirs), Condition::Always).await.unwrap();
    }
    // The next fixture has the same key.
    for record in records(engine, "u-go").await {
        let key = Key { partition: "u-go".to_owned(), sort: Some(record.billing_date.text()) };
        engine.delete(&BILLING_ACTIVITY, key, Condition::Always).await.unwrap();
    }
}
