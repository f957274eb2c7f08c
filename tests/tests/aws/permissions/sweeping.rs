//! The sweep, after every kind of crash.

use dues_events::{Record, Status, attributes};
use dues_lambda::Function;
use dues_processors::runtime::lanes::Outcome;
use dues_store::Table;
use dues_store::table::{BILLING_ACTIVITY, HISTORY, UNAPPLIED_MONEY};
use dues_tests::aws::function_recorder::Site;
use dues_tests::engines::dynoxide::{CallInfo, Fault};
use dues_tests::fixtures::company::{Sent, context, deliver, payment};
use serde_json::{Value, json};
use std::sync::Arc;

use super::{agree, begin_to_move, first, members, overtake, set, site, too_little};

const AT: &str = "2026-03-01T00:00:00Z";

/// Delivers an event to a handler that crashes before it puts a row of the table.
async fn crash(
    site: &Site,
    event: Sent,
    table: &'static Table,
    is_lost: impl Fn(&Value) -> bool + Send + Sync + 'static,
) {
    let hook = move |call: &CallInfo| {
        let put = call.operation == "PutItem" && call.tables == [table.name];
        if put && is_lost(&call.body["Item"]) { Fault::DropRequest } else { Fault::None }
    };
    site.database.set_fault(Some(Arc::new(hook)));
    let outcomes = deliver(&context(site.engine.clone()), &[event], 1).await;
    assert!(matches!(outcomes[..], [Outcome::Failed(_)]), "{outcomes:?}");
    site.database.set_fault(None);
}

fn submitted(id: &str, record: &Record) -> Sent {
    payment(id, "SUBMITTED", record, id, AT)
}

#[tokio::test]
async fn sweep() {
    let site = site().await;
    members(&site, &["u-1", "u-2", "u-3", "u-4", "u-5", "u-6"], "2026-02-28").await;
    let handle = site.start(Function::Sweep);
    // A commit without its primary row, and so without the next period's record.
    crash(&site, submitted("a", &first(&site, "u-1").await), &BILLING_ACTIVITY, |_| true).await;
    // The same, and another event has overtaken it.
    let record = first(&site, "u-2").await;
    crash(&site, submitted("b", &record), &BILLING_ACTIVITY, |_| true).await;
    deliver(&context(site.engine.clone()), &[submitted("c", &record)], 1).await;
    // A payment without the next period's record.
    let record = first(&site, "u-3").await;
    let id = record.subscription_id.to_string();
    let is_next = move |item: &Value| item[attributes::SUBSCRIPTION_ID]["S"] != id.as_str();
    crash(&site, payment("d", "COMPLETED", &record, "d", AT), &HISTORY, is_next).await;
    // Unapplied money that is not listed.
    crash(&site, too_little("e", &first(&site, "u-4").await, "e"), &UNAPPLIED_MONEY, |_| true).await;
    begin_to_move(&site, "u-5").await;
    // A replaced record that is still open; another writer wins the race to close it.
    set(&site.database, &first(&site, "u-6").await, attributes::SUPERSEDED_BY, "another");
    overtake(&site, "u-6", Status::Error).await;
    let swept = handle(json!({})).await.unwrap();
    let counts = json!({"users": 6, "rolled_forward": 1, "created": 0, "followups": 3, "removed": 1});
    assert_eq!(swept, counts);
    agree(Function::Sweep, &site);
    // The race that was lost is run again; then nothing is left.
    handle(json!({})).await.unwrap();
    let swept = handle(json!({})).await.unwrap();
    let counts = json!({"users": 6, "rolled_forward": 0, "created": 0, "followups": 0, "removed": 0});
    assert_eq!(swept, counts);
}
