//! The Kinesis streams of the billing records.

use dues_events::{Status, attributes};
use dues_lambda::{Function, Handle};
use dues_tests::aws::function_recorder::kinesis_batch;
use dues_tests::fixtures::company::{Sent, membership, payment};
use serde_json::{Value, json};

use super::{
    agree, begin_to_move, first, members, overtake, overtake_put, set, site, too_little, unapplied_money,
};

const DAY: &str = "2026-02-28";

async fn batch(handle: &Handle, records: &[Value]) {
    let answer = handle(kinesis_batch(records)).await.unwrap();
    assert_eq!(answer, json!({"batchItemFailures": []}));
}

async fn one(handle: &Handle, (_, record): Sent) {
    batch(handle, &[record]).await;
}

#[tokio::test]
async fn ach_handler() {
    let site = site().await;
    let handle = site.start(Function::AchHandler);
    members(&site, &["u-1", "u-2", "u-3", "u-4", "u-5"], DAY).await;
    let at = "2026-03-01T00:00:00Z";
    one(&handle, payment("a", "SUBMITTED", &first(&site, "u-1").await, "c-1", at)).await;
    one(&handle, payment("b", "COMPLETED", &first(&site, "u-1").await, "c-1", at)).await;
    // A record that does not exist, and a body that is no record.
    let mut stranger = first(&site, "u-1").await;
    stranger.subscription_id = "00000000-0000-0000-0000-000000000000".into();
    one(&handle, payment("c", "COMPLETED", &stranger, "c-1", at)).await;
    batch(&handle, &[json!("poison")]).await;
    overtake(&site, "u-2", Status::Error).await;
    one(&handle, payment("d", "SUBMITTED", &first(&site, "u-2").await, "c-2", at)).await;
    overtake(&site, "u-3", Status::Cancelled).await;
    one(&handle, payment("e", "SUBMITTED", &first(&site, "u-3").await, "c-3", at)).await;
    begin_to_move(&site, "u-4").await;
    one(&handle, payment("f", "SUBMITTED", &first(&site, "u-4").await, "c-4", at)).await;
    // A cancellation waits for its debit; another writer wins the race for it.
    one(&handle, payment("i", "SUBMITTED", &first(&site, "u-5").await, "c-6", at)).await;
    set(&site.database, &first(&site, "u-5").await, attributes::CANCEL_AT, "2026-02-28T12:00:00Z");
    let is_cancelled = |item: &Value| item[attributes::BILLING_STATUS]["S"] == Status::Cancelled.as_str();
    let error = Status::Error.as_str().to_owned();
    overtake_put(&site, "u-5", is_cancelled, attributes::BILLING_STATUS, error).await;
    one(&handle, payment("j", "RETURNED", &first(&site, "u-5").await, "c-6", at)).await;
    // Money that pays for nothing: for a record, and without one.
    one(&handle, too_little("g", &first(&site, "u-4").await, "c-5")).await;
    one(&handle, payment("h", "RETURNED", &stranger, "c-1", at)).await;
    agree(Function::AchHandler, &site);
}

#[tokio::test]
async fn memberships() {
    let site = site().await;
    let handle = site.start(Function::Memberships);
    members(&site, &["u-1", "u-2", "u-3", "u-4"], "2026-04-30").await;
    let at = "2026-03-01T00:00:00Z";
    let pause = |id: &str, user: &str| membership(id, "PAUSE", user, at, json!({"pause_duration_months": 2}));
    one(&handle, pause("a", "u-1")).await;
    batch(&handle, &[json!("poison")]).await;
    overtake(&site, "u-2", Status::Error).await;
    one(&handle, pause("b", "u-2")).await;
    overtake(&site, "u-3", Status::Cancelled).await;
    one(&handle, pause("c", "u-3")).await;
    unapplied_money(&site, "u-1").await;
    one(&handle, membership("e", "CANCEL", "u-1", at, json!({}))).await;
    begin_to_move(&site, "u-4").await;
    one(&handle, pause("d", "u-4")).await;
    agree(Function::Memberships, &site);
}
