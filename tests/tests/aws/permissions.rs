//! Each function's declared permissions equal the calls that it makes. Every function is started as its
//! deployment starts it and driven through every path; its calls are compared with its declaration, in both
//! directions.

mod asking;
mod collecting;
mod entitling;
mod publishing;
mod settling;
mod sweeping;
mod ticking;

use dues_events::billing::attempts::Resolution;
use dues_events::billing::event::{AttemptName, Event, EventKind};
use dues_events::{Record, Status, attributes};
use dues_lambda::Function;
use dues_lambda::permissions::permissions;
use dues_processors::runtime::lanes::Outcome;
use dues_store::Committed;
use dues_store::table::BILLING_ACTIVITY;
use dues_tests::aws::function_recorder::{Made, Site};
use dues_tests::clock::TestClock;
use dues_tests::engines::dynoxide::{CallInfo, Dynoxide, Fault};
use dues_tests::fixtures::company::{Sent, context, deliver, membership, monthly, payment, records, t};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A Monday and a banking day.
const MONDAY: &str = "2026-03-02T12:00:00Z";

async fn site() -> Site {
    Site::new(TestClock::frozen(t(MONDAY)).shared()).await
}

/// The calls that a function declares.
fn declared(function: Function) -> BTreeSet<Made> {
    let all = permissions(function).into_iter();
    all.flat_map(|(resource, actions)| {
        actions.iter().map(move |action| ((*action).to_owned(), resource.name()))
    })
    .collect()
}

/// Asserts that the calls made and the calls declared are the same set.
fn agree(function: Function, site: &Site) {
    let (made, declared) = (site.made(), declared(function));
    let (forbidden, unused): (Vec<_>, Vec<_>) =
        (made.difference(&declared).collect(), declared.difference(&made).collect());
    let name = function.name();
    assert!(
        forbidden.is_empty() && unused.is_empty(),
        "{name} calls what its role forbids: {forbidden:?}; never calls: {unused:?}"
    );
}

/// Members with records due on that day.
async fn members(site: &Site, users: &[&str], day: &str) {
    for user in users {
        let joins = membership(&format!("m-{user}"), "ACTIVATE", user, "2026-01-05T00:00:00Z", monthly(day));
        deliver(&context(site.engine.clone()), &[joins], 1).await;
    }
}

async fn first(site: &Site, user: &str) -> Record {
    records(&site.engine, user).await.remove(0)
}

/// A settlement of less than the record's amount: unapplied money, and the record stays as it is.
fn too_little(id: &str, record: &Record, transaction: &str) -> Sent {
    let (stream, mut body) = payment(id, "COMPLETED", record, transaction, "2026-02-20T00:00:00Z");
    body["payment"]["amount"] = json!("1.00");
    (stream, body)
}

/// Gives a user's record unapplied money.
async fn unapplied_money(site: &Site, user: &str) {
    let paid = too_little(&format!("little-{user}"), &first(site, user).await, &format!("little-{user}"));
    assert_eq!(deliver(&context(site.engine.clone()), &[paid], 1).await, [Outcome::Applied]);
}

/// The same, dismissed by an operator: open money keeps a record from being collected.
async fn dismissed_money(site: &Site, user: &str) {
    unapplied_money(site, user).await;
    let (store, record) = (context(site.engine.clone()).store, first(site, user).await);
    let attempt = AttemptName { transaction_id: Some(format!("little-{user}").into()), number: None };
    let kind = EventKind::MoneyResolved { attempt, resolution: Resolution::Dismissed };
    let event = Event::internal_at(format!("dismiss-{user}").into(), t(MONDAY), "test", None, kind);
    let mut records = store.load_all(&record.user_id).await.unwrap();
    let committed = store.apply(&mut records, &record.subscription_id, &event).await;
    assert_eq!(committed, Ok(Committed::Applied));
}

/// Begins to move a user's record to another due date, and never finishes.
async fn begin_to_move(site: &Site, user: &str) {
    let record = first(site, user).await;
    set(&site.database, &record, attributes::MOVED_TO, &elsewhere(&record));
}

/// The due date, five hours later.
fn elsewhere(record: &Record) -> String {
    record.billing_date.text().replacen("T00", "T05", 1)
}

fn set(database: &Dynoxide, record: &Record, name: &str, value: &str) {
    let key =
        json!({"user_id": {"S": record.user_id.as_str()}, "billing_date": {"S": record.billing_date.text()}});
    let body = json!({"TableName": BILLING_ACTIVITY.name, "Key": key,
        "UpdateExpression": "SET #n = :v ADD version :one",
        "ExpressionAttributeNames": {"#n": name}, "ExpressionAttributeValues": {":v": {"S": value},
            ":one": {"N": "1"}}});
    database.request("UpdateItem", &body).unwrap();
}

/// Makes a concurrent writer win the function's next write of a user's record, and leave it in this status.
async fn overtake(site: &Site, user: &str, status: Status) {
    overtake_with(site, user, attributes::BILLING_STATUS, status.as_str().to_owned()).await;
}

/// The same, with any attribute.
async fn overtake_with(site: &Site, user: &str, name: &'static str, value: String) {
    overtake_put(site, user, |_| true, name, value).await;
}

/// The same, at the first write that puts such a row.
async fn overtake_put(
    site: &Site,
    user: &str,
    is_put: impl Fn(&Value) -> bool + Send + Sync + 'static,
    name: &'static str,
    value: String,
) {
    let (record, database, done) = (first(site, user).await, site.database.clone(), AtomicBool::new(false));
    let id = record.subscription_id.to_string();
    let hook = move |call: &CallInfo| {
        let put = call.operation == "PutItem" && call.tables == [BILLING_ACTIVITY.name];
        if put
            && call.body["Item"]["subscription_id"]["S"] == id.as_str()
            && is_put(&call.body["Item"])
            && !done.swap(true, Ordering::Relaxed)
        {
            set(&database, &record, name, &value);
        }
        Fault::None
    };
    site.database.set_fault(Some(Arc::new(hook)));
}

#[test]
fn no_function_may_do_everything_or_anything_to_all() {
    for function in Function::ALL {
        let declared = declared(function);
        assert!(!declared.is_empty(), "{function:?}");
        for (action, resource) in declared {
            assert!(
                !action.contains('*') && !resource.contains('*') && action.contains(':'),
                "{function:?}: {action} on {resource}"
            );
        }
    }
}
