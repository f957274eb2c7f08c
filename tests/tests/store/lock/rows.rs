//! Rows as `dynamolock` writes and reads them.

use dues_events::{Item, Value};
use dues_store::table::LOCKS;
use dues_store::{Condition, Engine};
use dues_tests::engines;
use serde_json::json;
use std::time::Duration;

use super::{KEY, NANO, S, acquire, beaten, locks, manual, row};

on_stored_engines! {
    a_lock_has_these_attributes_and_no_others,
    leases_of_go_are_kept_to_the_nanosecond,
    a_lease_that_cannot_be_read_counts_as_ours,
    rows_that_go_released_are_free,
}

async fn a_lock_has_these_attributes_and_no_others<E: Engine>(engine: E) {
    let clock = manual();
    let lock = acquire(&locks(&engine, &clock)).await.unwrap();
    let fresh = row(&engine).await;
    let random = |row: &Item, name: &str| {
        let text = row.text(name).unwrap().to_owned();
        assert!(
            text.len() == 36 && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()),
            "{name} is {text}"
        );
        text
    };
    let expected = |row: &Item, nanos: &str| -> Item {
        [
            ("PartitionKey", Value::text(KEY)),
            ("ownerName", Value::text(random(row, "ownerName"))),
            ("leaseDuration", Value::text("1m0s")),
            ("recordVersionNumber", Value::text(random(row, "recordVersionNumber"))),
            ("data", Value::B(nanos.into())),
        ]
        .into_iter()
        .map(|(name, value)| (name.into(), value))
        .collect()
    };
    assert_eq!(fresh, expected(&fresh, "1772323200000000000"));
    assert_ne!(fresh.text("ownerName"), fresh.text("recordVersionNumber"));

    lock.run(beaten(&engine, &clock)).await;
    let beaten = row(&engine).await;
    assert_eq!(beaten, expected(&beaten, "1772323200000000000"), "the time is that of acquiring");
    assert_eq!(beaten.text("ownerName"), fresh.text("ownerName"));
    assert_ne!(beaten.text("recordVersionNumber"), fresh.text("recordVersionNumber"));

    lock.release().await;
    let mut released = beaten.clone();
    released.set_text("isReleased", "1");
    assert_eq!(row(&engine).await, released, "kept, and marked");

    clock.advance(NANO);
    let _lock = acquire(&locks(&engine, &clock)).await.unwrap();
    let again = row(&engine).await;
    assert_eq!(again, expected(&again, "1772323201000000001"), "the mark is gone");
    assert_ne!(again.text("recordVersionNumber"), beaten.text("recordVersionNumber"));
}

/// A row as Go writes it.
fn of_go(lease: Option<&str>, version: Option<&str>, released: Option<&str>) -> Item {
    let mut row = Item::new();
    row.set_text("PartitionKey", KEY);
    row.set_text("ownerName", "ip-10-0-0-1-6Y2hyZWxsbw");
    row.set("data", Value::B(b"1700000000000000000".to_vec()));
    for (name, text) in [("leaseDuration", lease), ("recordVersionNumber", version), ("isReleased", released)]
    {
        if let Some(text) = text {
            row.set_text(name, text);
        }
    }
    row
}

async fn kept_for<E: Engine>(engine: &E, found: Item, lease: Duration) {
    let clock = manual();
    let locks = locks(engine, &clock);
    engine.put(&LOCKS, found.clone(), Condition::Always).await.unwrap();
    assert!(acquire(&locks).await.is_none(), "{found:?}");
    clock.advance(lease - NANO);
    assert!(acquire(&locks).await.is_none(), "{found:?}");
    assert_eq!(row(engine).await, found, "looking changes nothing");
    clock.advance(NANO);
    let lock = acquire(&locks).await.unwrap_or_else(|| panic!("{found:?}"));
    assert!(lock.is_held());
    assert_eq!(row(engine).await.text("leaseDuration"), Some("1m0s"), "ours in its place");
}

async fn leases_of_go_are_kept_to_the_nanosecond<E: Engine>(engine: E) {
    for (text, nanos) in [
        ("1m0s", 60_000_000_000),
        ("1.5s", 1_500_000_000),
        ("500ms", 500_000_000),
        ("2h45m30.5s", 9_930_500_000_000),
        ("1\u{b5}s", 1_000),
        ("1\u{3bc}s", 1_000),
        ("20s", 20_000_000_000),
    ] {
        kept_for(&engine, of_go(Some(text), Some("a1b2c3d4e5f6"), None), Duration::from_nanos(nanos)).await;
    }
}

async fn a_lease_that_cannot_be_read_counts_as_ours<E: Engine>(engine: E) {
    for lease in [Some("60"), Some("soon"), Some(""), None] {
        kept_for(&engine, of_go(lease, Some("a1b2c3d4e5f6"), None), 60 * S).await;
    }
    kept_for(&engine, of_go(Some("5s"), None, None), 5 * S).await;
    kept_for(&engine, of_go(Some("5s"), Some("a1b2c3d4e5f6"), Some("0")), 5 * S).await;
}

async fn rows_that_go_released_are_free<E: Engine>(engine: E) {
    engine
        .put(&LOCKS, of_go(Some("1h0m0s"), Some("a1b2c3d4e5f6"), Some("1")), Condition::Always)
        .await
        .unwrap();
    let lock = acquire(&locks(&engine, &manual())).await.unwrap();
    assert_eq!(row(&engine).await.get("isReleased"), None);
    lock.release().await;
}

/// The row as a `dynamolock` client sees it: DynamoDB's own JSON, read without our code.
#[tokio::test]
async fn the_row_on_the_wire() {
    let (engine, server) = engines::dynoxide().await;
    let clock = manual();
    let lock = acquire(&locks(&engine, &clock)).await.unwrap();
    let read = || {
        let asked =
            json!({"TableName": "locks", "Key": {"PartitionKey": {"S": KEY}}, "ConsistentRead": true});
        server.request("GetItem", &asked).unwrap()["Item"].clone()
    };
    let with = |row: &serde_json::Value, more: serde_json::Value| {
        let mut expected = json!({
            "PartitionKey": {"S": KEY}, "ownerName": {"S": row["ownerName"]["S"]},
            "leaseDuration": {"S": "1m0s"},
            "recordVersionNumber": {"S": row["recordVersionNumber"]["S"]},
            // The base64 of 1772323200000000000.
            "data": {"B": "MTc3MjMyMzIwMDAwMDAwMDAwMA=="},
        });
        expected.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        expected
    };
    let fresh = read();
    assert_eq!(fresh, with(&fresh, json!({})));
    lock.run(beaten(&engine, &clock)).await;
    let beaten = read();
    assert_eq!(beaten, with(&beaten, json!({})));
    lock.release().await;
    assert_eq!(read(), with(&beaten, json!({"isReleased": {"S": "1"}})));
}
