//! The cost of a settlement and of a debit on DynamoDB: requests and capacity units, counted.

use dues_events::collections::eligibility::{CollectionRequest, Trigger};
use dues_events::{Item, Record};
use dues_processors::Outcome;
use dues_processors::collections::{Collector, UserCollection};
use dues_processors::entitlements::groups::LocalDirectory;
use dues_processors::projector::Projector;
use dues_processors::runtime::changes::Change;
use dues_store::table::GG_CORE;
use dues_store::{Condition, Engine as _, SharedClock, Store};
use dues_tests::clock::TestClock;
use dues_tests::engines;
use dues_tests::engines::dynoxide::{Call, Fault};
use dues_tests::engines::memory::Memory;
use dues_tests::fixtures::company::{
    Sent, context, counts, deliver, incoming, membership, monthly, payment, records, store, t,
};
use dues_tests::gateways::ledger::Ledger;
use std::sync::Arc;
use std::time::Duration;

async fn sent<E: dues_store::Engine>(engine: &E, user: &str) -> Record {
    let context = context(engine.clone());
    deliver(
        &context,
        &[membership(
            &format!("mem-{user}"),
            "ACTIVATE",
            user,
            "2026-01-05T00:00:00Z",
            monthly("2026-01-31"),
        )],
        10,
    )
    .await;
    let record = records(engine, user).await.remove(0);
    deliver(
        &context,
        &[payment(&format!("s-{user}"), "SUBMITTED", &record, &format!("c-{user}"), "2026-02-01T00:00:00Z")],
        10,
    )
    .await;
    records(engine, user).await.remove(0)
}

async fn process<E: dues_store::Engine>(engine: &E, batch: &[Sent]) -> Vec<Outcome> {
    let records: Vec<_> = batch.iter().enumerate().map(|(n, (_, record))| incoming(record, n)).collect();
    dues_processors::runtime::redrive::process_stream(&context(engine.clone()), "site-payments", &records)
        .await
        .unwrap()
        .outcomes
}

fn requests(calls: &[Call], operation: &str) -> usize {
    calls.iter().filter(|call| call.operation == operation).count()
}

#[tokio::test]
async fn a_settlement_is_one_read_and_two_writes() {
    let (engine, server) = engines::dynoxide().await;
    let record = sent(&engine, "u-1").await;
    server.reset_calls();
    assert_eq!(
        process(&engine, &[payment("p-1", "COMPLETED", &record, "c-u-1", "2026-02-03T00:00:00Z")]).await,
        [Outcome::Applied]
    );
    let calls = server.calls();
    assert_eq!(
        (requests(&calls, "Query"), requests(&calls, "PutItem"), calls.len()),
        (1, 2, 3),
        "no lock, no transaction, no index: {calls:?}"
    );
    let units = |operation: &str| {
        calls.iter().filter(|call| call.operation == operation).filter_map(|call| call.capacity).sum::<f64>()
    };
    println!("a settlement: {} read units, {} write units", units("Query"), units("PutItem"));
    // History: the row and one index. Primary: the row, the index by id, and the status index, where the key
    // changes: one delete, one insert.
    assert!(units("PutItem") <= 2.0 + 4.0, "{} write units", units("PutItem"));
    assert!(units("Query") <= 1.0, "{} read units for a new member", units("Query"));
}

#[tokio::test]
async fn groups_of_a_new_tier_are_three_reads_and_two_writes() {
    let (engine, server) = engines::dynoxide().await;
    // The groups are in another store, as with Cognito.
    let projector = Projector::new(store(engine.clone()), Some(LocalDirectory::new(Memory::default())));
    let mut profile = Item::new();
    for (name, text) in [("PK", "USER#u-1"), ("SK", "PROFILE#u-1"), ("tier", "SAGE"), ("provider", "cognito")]
    {
        profile.set_text(name, text);
    }
    engine.put(&GG_CORE, profile.clone(), Condition::Always).await.unwrap();
    let arrived = t("2026-03-01T00:00:00Z");
    let change = Change {
        sequence: "1".into(),
        table: &GG_CORE,
        old: None,
        new: Some(profile),
        arrived,
        by_ttl: false,
    };
    server.reset_calls();
    assert_eq!(projector.project(std::slice::from_ref(&change)).await.outcomes, [Outcome::Applied]);
    let calls = server.calls();
    assert_eq!(
        (requests(&calls, "GetItem"), requests(&calls, "PutItem"), calls.len()),
        (3, 2, 5),
        "{calls:?}"
    );
    let units = |operation: &str| {
        calls.iter().filter(|call| call.operation == operation).filter_map(|call| call.capacity).sum::<f64>()
    };
    assert!(
        units("GetItem") <= 3.0 && units("PutItem") <= 2.0,
        "{} read units, {} write units",
        units("GetItem"),
        units("PutItem")
    );
    server.reset_calls();
    assert_eq!(projector.project(&[change]).await.outcomes, [Outcome::Duplicate]);
    assert_eq!(
        (requests(&server.calls(), "GetItem"), server.calls().len()),
        (2, 2),
        "delivered again, it is read and not written"
    );
}

#[tokio::test]
async fn a_first_debit_is_four_reads_and_eight_writes() {
    let (engine, server) = engines::dynoxide().await;
    let joins = membership("mem-1", "ACTIVATE", "u-1", "2026-01-05T00:00:00Z", monthly("2026-02-01"));
    deliver(&context(engine.clone()), &[joins], 1).await;
    server.reset_calls();
    let store = Store::new(engine, ticking());
    let collector = Collector::new(store, Ledger::default());
    assert!(
        matches!(collector.collect_user(&"u-1".into(), &CollectionRequest::triggered_by(Trigger::Initial)).await, Ok(UserCollection::Done(looked)) if looked.len() == 1)
    );
    let calls = server.calls();
    let operations: Vec<&str> = calls.iter().map(|call| call.operation.as_str()).collect();
    assert_eq!(
        operations,
        [
            // The lock.
            "GetItem",
            "PutItem", //
            // The user's records, and their newest history, for a commit that a crash may have cut short.
            "Query",
            "Query", //
            // The attempt, history first; the next period's record; the user's records once more, for a
            // change that came in between; then the gateway's answer.
            "PutItem",
            "PutItem",
            "PutItem",
            "PutItem",
            "Query",
            "PutItem",
            "PutItem", //
            // The lock again.
            "UpdateItem",
        ]
    );
    let units = |reads: bool| {
        let of = |call: &&Call| matches!(call.operation.as_str(), "GetItem" | "Query") == reads;
        calls.iter().filter(of).filter_map(|call| call.capacity).sum::<f64>()
    };
    println!("a first debit: {} read units, {} write units", units(true), units(false));
    assert!(units(true) <= 4.0, "{} read units", units(true));
    // Three commits (6, 5 for a new record, 5 where no index key changes) and the lock's two writes.
    assert!(units(false) <= 6.0 + 5.0 + 5.0 + 2.0, "{} write units", units(false));
}

#[tokio::test]
async fn one_read_serves_every_event_of_a_user_in_a_batch() {
    let (engine, server) = engines::dynoxide().await;
    let mut batch = Vec::new();
    for user in ["u-1", "u-2"] {
        let record = sent(&engine, user).await;
        let transaction = format!("c-{user}");
        for (n, kind) in ["COMPLETED", "RETURNED", "COMPLETED", "REFUNDED"].iter().enumerate() {
            batch.push(payment(
                &format!("p-{user}-{n}"),
                kind,
                &record,
                &transaction,
                &format!("2026-02-0{}T00:00:00Z", n + 3),
            ));
        }
    }
    server.reset_calls();
    assert_eq!(counts(&process(&engine, &batch).await).applied, 8);
    let calls = server.calls();
    assert_eq!(
        (requests(&calls, "Query"), requests(&calls, "PutItem"), calls.len()),
        (2, 16, 18),
        "one read a user, two writes an event"
    );
    server.reset_calls();
    assert_eq!(counts(&process(&engine, &batch).await).duplicate, 8);
    assert_eq!(
        (requests(&server.calls(), "Query"), server.calls().len()),
        (2, 2),
        "a redelivered batch only reads"
    );
}

#[tokio::test]
async fn the_index_is_asked_only_when_the_record_is_not_among_the_recent_ones() {
    let (engine, server) = engines::dynoxide().await;
    let record = sent(&engine, "u-1").await;
    let old = Record {
        subscription_id: "old".into(),
        billing_date: dues_events::GoTime::read("2020-01-01T00:00:00Z").unwrap().unwrap(),
        version: 0,
        ..record.clone()
    };
    let store = dues_tests::fixtures::company::store(engine.clone());
    store.add(&old, "import").await.unwrap();
    for n in 0..24 {
        let date = format!("2024-01-{:02}T00:00:00Z", n + 1);
        let filler = Record {
            subscription_id: format!("f-{n}").into(),
            billing_date: dues_events::GoTime::read(&date).unwrap().unwrap(),
            ..old.clone()
        };
        store.add(&filler, "import").await.unwrap();
    }
    server.reset_calls();
    assert_eq!(
        process(&engine, &[payment("p-1", "COMPLETED", &old, "c-u-1", "2026-02-03T00:00:00Z")]).await,
        [Outcome::Applied]
    );
    let calls = server.calls();
    assert_eq!((requests(&calls, "Query"), requests(&calls, "PutItem")), (2, 2), "{calls:?}");
}

#[tokio::test]
async fn a_second_transaction_costs_a_commit_and_no_further_read() {
    let (engine, server) = engines::dynoxide().await;
    let record = sent(&engine, "u-1").await;
    server.reset_calls();
    let batch = [
        payment("s-2", "SUBMITTED", &record, "c-2", "2026-02-02T00:00:00Z"),
        payment("p-1", "COMPLETED", &record, "c-u-1", "2026-02-03T00:00:00Z"),
    ];
    // A debit of another service while one is under way is one more attempt, not an error.
    assert_eq!(process(&engine, &batch).await, [Outcome::Applied, Outcome::Applied]);
    let calls = server.calls();
    assert_eq!(
        (requests(&calls, "Query"), requests(&calls, "PutItem"), calls.len()),
        (1, 4, 5),
        "two for the submission, two for the settlement"
    );
}

/// A timeout leaves the caller in doubt: the write may or may not have happened.
#[tokio::test]
async fn throttles_lost_requests_and_lost_answers_end_in_the_same_rows() {
    let (engine, server) = engines::dynoxide().await;
    let record = sent(&engine, "u-1").await;
    let batch = [
        payment("p-1", "COMPLETED", &record, "c-u-1", "2026-02-03T00:00:00Z"),
        payment("p-2", "RETURNED", &record, "c-u-1", "2026-02-09T00:00:00Z"),
    ];
    let (reference, _other) = engines::dynoxide().await;
    let same = sent(&reference, "u-1").await;
    assert_eq!(same, record);
    process(&reference, &batch).await;
    let expected = dues_tests::fixtures::company::dump(&reference).await;
    for fault in [Fault::Throttle, Fault::DropRequest, Fault::DropResponse] {
        for nth in 0..6 {
            let (engine, server) = engines::dynoxide().await;
            sent(&engine, "u-1").await;
            server.reset_calls();
            server
                .set_fault(Some(Arc::new(move |call| if call.number == nth { fault } else { Fault::None })));
            let first = process(&engine, &batch).await;
            server.set_fault(None);
            let failed = first.iter().position(|outcome| matches!(outcome, Outcome::Failed(_)));
            // As a stream does: from the first failure on.
            let again = process(&engine, &batch[failed.unwrap_or(2)..]).await;
            assert_eq!(counts(&again).failed, 0);
            assert_eq!(
                dues_tests::fixtures::company::dump(&engine).await,
                expected,
                "{fault:?} at request {nth}: {first:?}, then {again:?}"
            );
        }
    }
    drop((engine, server));
}

#[tokio::test]
async fn unprocessed_items_are_sent_again() {
    let (engine, server) = engines::dynoxide().await;
    let record = sent(&engine, "u-1").await;
    let many: Vec<Record> = (0..60)
        .map(|n| Record {
            user_id: "u-many".into(),
            subscription_id: format!("s-{n}").into(),
            version: 0,
            ..record.clone()
        })
        .collect();
    server.reset_calls();
    server.set_fault(Some(Arc::new(|call| {
        if call.operation == "BatchWriteItem" && call.number.is_multiple_of(2) {
            Fault::Unprocessed
        } else {
            Fault::None
        }
    })));
    let written = dues_tests::fixtures::company::store(engine.clone()).add_all(many, "import").await.unwrap();
    server.set_fault(None);
    assert!(requests(&server.calls(), "BatchWriteItem") > 6, "some came back");
    assert_eq!((written.len(), records(&engine, "u-many").await.len()), (60, 60));
}

#[tokio::test]
async fn users_go_on_in_parallel_and_one_failing_user_does_not_stop_the_others() {
    let (engine, server) = engines::dynoxide().await;
    let mut batch = Vec::new();
    for n in 0..20 {
        let record = sent(&engine, &format!("u-{n}")).await;
        batch.push(payment(
            &format!("p-{n}"),
            "COMPLETED",
            &record,
            &format!("c-u-{n}"),
            "2026-02-03T00:00:00Z",
        ));
    }
    server.set_fault(Some(Arc::new(|call| {
        if call.operation == "PutItem" && call.body.to_string().contains("\"u-7\"") {
            Fault::Throttle
        } else {
            Fault::None
        }
    })));
    let outcomes = process(&engine, &batch).await;
    server.set_fault(None);
    assert_eq!(
        (
            counts(&outcomes).applied,
            outcomes.iter().position(|outcome| matches!(outcome, Outcome::Failed(_)))
        ),
        (19, Some(7))
    );
}

/// Every reading is a millisecond later, so that each row of a collection gets its own timestamp.
fn ticking() -> SharedClock {
    TestClock::real_time(t("2026-02-03T08:00:00Z")).ticking(Duration::from_millis(1)).shared()
}
