//! The collections engine, for every trigger.

use dues_events::{Feature, Status, attributes};
use dues_lambda::{Function, Handle};
use dues_processors::Context;
use dues_store::Store;
use dues_tests::aws::function_recorder::{Site, sqs_batch};
use dues_tests::clock::TestClock;
use dues_tests::fixtures::company::{context, deliver, payment, t};
use dues_tests::fixtures::stripe::checkout;
use serde_json::{Value, json};

use super::{
    agree, asking, begin_to_move, dismissed_money, elsewhere, first, members, overtake, overtake_with, site,
};

const DUE: &str = "2026-02-28";
const USERS: [&str; 4] = ["u-1", "u-2", "u-3", "u-4"];

/// Collects from four users: undisturbed and with dismissed money, with a concurrent writer, with a record
/// cancelled meanwhile, and with a record that is being moved.
async fn visit_all(site: &Site, handle: &Handle, ask: impl AsyncFn(&str) -> Value) {
    let [peaceful, raced, late, moving] = USERS;
    dismissed_money(site, peaceful).await;
    handle(ask(peaceful).await).await.unwrap();
    overtake(site, raced, Status::Error).await;
    handle(ask(raced).await).await.unwrap();
    overtake(site, late, Status::Cancelled).await;
    handle(ask(late).await).await.unwrap();
    begin_to_move(site, moving).await;
    handle(ask(moving).await).await.unwrap();
}

/// Members with a returned debit.
async fn failed_members(site: &Site) {
    members(site, &USERS, DUE).await;
    for user in USERS {
        let record = first(site, user).await;
        let sent = payment(&format!("s-{user}"), "SUBMITTED", &record, user, "2026-02-28T01:00:00Z");
        let returned = payment(&format!("r-{user}"), "RETURNED", &record, user, "2026-03-01T01:00:00Z");
        deliver(&context(site.engine.clone()), &[sent, returned], 1).await;
    }
}

#[tokio::test]
async fn collections_worker() {
    let site = site().await;
    members(&site, &USERS, DUE).await;
    let handle = site.start(Function::CollectionsWorker);
    visit_all(&site, &handle, async |user| sqs_batch(&[json!({"user_id": user, "process": "INITIAL"})]))
        .await;
    handle(sqs_batch(&[json!("poison")])).await.unwrap();
    // A retry that is not too early by any plan is planned with the member's incomes.
    members(&site, &["u-5"], "2026-02-02").await;
    let record = first(&site, "u-5").await;
    let returned = payment("r-u-5", "RETURNED", &record, "u-5", "2026-02-03T01:00:00Z");
    deliver(&context(site.engine.clone()), &[returned], 1).await;
    handle(sqs_batch(&[json!({"user_id": "u-5", "process": "RETRY"})])).await.unwrap();
    agree(Function::CollectionsWorker, &site);
    assert!(!site.payments.debits().is_empty(), "debits were made");
}

#[tokio::test]
async fn batch_worker() {
    let site = site().await;
    failed_members(&site).await;
    let handle = site.start(Function::BatchWorker);
    let list = async |user: &str| {
        sqs_batch(&[json!({"subscription_ids": [first(&site, user).await.subscription_id.as_str()]})])
    };
    visit_all(&site, &handle, list).await;
    handle(sqs_batch(&[json!("poison")])).await.unwrap();
    agree(Function::BatchWorker, &site);
}

fn signal(kind: &str, user: &str, amount: &str, at: &str) -> Value {
    let detail = json!({"event_id": format!("{kind}-{user}"), "user_id": user, amount: "500.00",
        at: "2026-03-02T11:00:00Z"});
    json!({"id": "delivery", "source": "company.income", "detail-type": kind, "time": "2026-03-02T11:00:00Z",
        "detail": detail})
}

#[tokio::test]
async fn webhook_worker() {
    let site = site().await;
    failed_members(&site).await;
    let handle = site.start(Function::WebhookWorker);
    visit_all(&site, &handle, async |user| signal("income-detected", user, "amount", "detected_at")).await;
    handle(json!({"id": "d", "detail": {}})).await.unwrap();
    agree(Function::WebhookWorker, &site);
}

#[tokio::test]
async fn webhook_balance_worker() {
    let site = site().await;
    failed_members(&site).await;
    let handle = site.start(Function::WebhookBalanceWorker);
    visit_all(&site, &handle, async |user| signal("account-balance", user, "available", "observed_at")).await;
    handle(json!({"id": "d", "detail": {}})).await.unwrap();
    agree(Function::WebhookBalanceWorker, &site);
}

#[tokio::test]
async fn collections_job() {
    let site = site().await;
    members(&site, &USERS, DUE).await;
    let summary = site.start(Function::CollectionsJob)(json!({"process": "INITIAL"})).await.unwrap();
    assert_eq!(summary["queued"], 4);
    agree(Function::CollectionsJob, &site);
}

#[tokio::test]
async fn notifier_scheduler() {
    let site = site().await;
    members(&site, &USERS, "2026-03-05").await;
    dismissed_money(&site, "u-1").await;
    let handle = site.start(Function::NotifierScheduler);
    overtake_with(&site, "u-2", attributes::MOVED_TO, elsewhere(&first(&site, "u-2").await)).await;
    assert_eq!(handle(json!({})).await.unwrap()["told"], 4);
    members(&site, &["u-5"], "2026-03-05").await;
    overtake(&site, "u-5", Status::Cancelled).await;
    handle(json!({})).await.unwrap();
    agree(Function::NotifierScheduler, &site);
}

pub(super) fn request(method: &str, path: &str, body: &Value) -> Value {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    json!({"version": "2.0", "rawPath": path, "rawQueryString": query, "headers": {},
        "requestContext": {"stage": "$default", "http": {"method": method}},
        "body": body.to_string(), "isBase64Encoded": false})
}

#[tokio::test]
async fn api() {
    let site = site().await;
    failed_members(&site).await;
    let handle = site.start(Function::Api);
    let pay = async |user: &str| {
        let id = first(&site, user).await.subscription_id;
        request("POST", &format!("/{user}/subscriptions/{id}/pay"), &json!({}))
    };
    visit_all(&site, &handle, pay).await;
    // Not among the user's recent records: the function looks it up, and finds none.
    let stranger = "/u-1/subscriptions/00000000-0000-0000-0000-000000000000/waive";
    assert_eq!(handle(request("POST", stranger, &json!({}))).await.unwrap()["statusCode"], 404);
    // A pass bought two months ago: its monthly credits are booked by the next reader.
    let bought = checkout("e-1", "2026-01-01T00:00:00Z", "u-1", "FOUNDING_MEMBER", 20_000, "pi_1", "paid");
    let then = Store::new(site.engine.clone(), TestClock::frozen(t("2026-01-01T00:00:00Z")).shared());
    deliver(&Context::new(then), &[bought], 1).await;
    let record = format!("/u-1/subscriptions/{}", first(&site, "u-1").await.subscription_id);
    let history = format!("{record}/history");
    for (method, path, body) in [
        ("GET", "/u-1/subscriptions", json!({})),
        ("GET", record.as_str(), json!({})),
        ("GET", history.as_str(), json!({})),
        ("GET", "/u-1/explain", json!({})),
        ("GET", "/u-1/access", json!({})),
        ("GET", "/u-1/credits", json!({})),
        ("GET", "/u-1/credits/ledger", json!({})),
        (
            "POST",
            "/u-1/credits/consume",
            json!({"feature": Feature::ALL[0].as_str(), "idempotency_key": "k-1"}),
        ),
        (
            "POST",
            "/u-9/credits/consume",
            json!({"feature": Feature::ALL[0].as_str(), "idempotency_key": "k-1"}),
        ),
    ] {
        let answer = handle(request(method, path, &body)).await.unwrap();
        assert!([json!(200), json!(402)].contains(&answer["statusCode"]), "{path}: {answer}");
    }
    asking::usage(&site, &handle).await;
    asking::figureforge(&handle).await;
    asking::serenya(&handle).await;
    agree(Function::Api, &site);
}
