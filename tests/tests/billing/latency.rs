//! How long a batch takes when every call to DynamoDB takes five milliseconds: users in parallel, the events
//! of one user in order. tokio's paused clock advances only while every task waits, so this measures how
//! many calls are sequential.

use dues_events::Status;
use dues_processors::billing::ach_handler::ach_handler;
use dues_processors::billing::memberships::memberships;
use dues_tests::aws::function_recorder::kinesis_batch;
use dues_tests::engines::dynoxide;
use dues_tests::fixtures::company::{context, deliver, membership, monthly, payment, records, store};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

const LATENCY: Duration = Duration::from_millis(5);

#[tokio::test(start_paused = true)]
async fn a_hundred_settlements_of_a_hundred_users_take_no_longer_than_ten_calls() {
    let (engine, server) = dynoxide().await;
    let context = context(engine.clone());
    let users: Vec<String> = (0..100).map(|n| format!("u-{n}")).collect();
    let mut settled: Vec<Value> = Vec::new();
    for user in &users {
        deliver(
            &context,
            &[membership(
                &format!("m-{user}"),
                "ACTIVATE",
                user,
                "2026-01-05T00:00:00Z",
                monthly("2026-01-31"),
            )],
            1,
        )
        .await;
        let record = records(&engine, user).await.remove(0);
        deliver(
            &context,
            &[payment(&format!("s-{user}"), "SUBMITTED", &record, user, "2026-02-01T00:00:00Z")],
            1,
        )
        .await;
        settled.push(payment(&format!("p-{user}"), "COMPLETED", &record, user, "2026-02-03T00:00:00Z").1);
    }
    let batch = serde_json::from_value(kinesis_batch(&settled)).unwrap();
    server.set_latency(LATENCY);
    let started = Instant::now();
    let answer = ach_handler(&context, batch).await;
    let taken = started.elapsed();
    server.set_latency(Duration::ZERO);
    assert_eq!(answer.batch_item_failures.len(), 0);
    for user in &users {
        assert_eq!(records(&engine, user).await[0].status(), Status::Completed, "{user}");
    }
    assert!(taken <= LATENCY * 10, "{taken:?}");
    assert!(taken >= LATENCY * 3, "read, history, record: {taken:?} would not be the truth");
}

#[tokio::test(start_paused = true)]
async fn a_hundred_events_of_one_user_stay_in_order() {
    let (engine, server) = dynoxide().await;
    let context = context(engine.clone());
    deliver(&context, &[membership("m", "ACTIVATE", "u", "2026-01-05T00:00:00Z", monthly("2026-04-30"))], 1)
        .await;
    let event = |n: u32| {
        let (kind, at) = (
            if n.is_multiple_of(2) { "PAUSE" } else { "UNPAUSE" },
            format!("2026-02-01T00:{:02}:{:02}Z", n / 60, n % 60),
        );
        membership(&format!("e-{n:02}"), kind, "u", &at, json!({"pause_duration_months": 1})).1
    };
    let batch = serde_json::from_value(kinesis_batch(&(0..100).map(event).collect::<Vec<_>>())).unwrap();
    server.set_latency(LATENCY);
    assert_eq!(memberships(&context, batch).await.batch_item_failures.len(), 0);
    server.set_latency(Duration::ZERO);
    assert_eq!(context.store.parked().await.unwrap(), vec![]);
    let record = records(&engine, "u").await.remove(0);
    assert_eq!((record.status(), record.version), (Status::Scheduled, 101));
    let history = store(engine).history_by_id(&record.subscription_id).await.unwrap();
    let order: Vec<String> =
        history.iter().skip(1).map(|row| row.event_id.as_ref().unwrap().to_string()).collect();
    assert_eq!(order, (0..100).map(|n| format!("e-{n:02}")).collect::<Vec<_>>());
}
