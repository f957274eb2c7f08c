//! The functions behind SQS and EventBridge as Lambda calls them: events in, responses out.

use aws_lambda_events::event::streams::SqsEventResponse;
use dues_events::collections::eligibility::Rules;
use dues_events::{Item, Status, UserId};
use dues_processors::aws::triggers::eventbridge::{
    EventBridgeEvent, JobInput, Tick, collections_job, notifier_scheduler, webhook_balance_worker,
    webhook_worker,
};
use dues_processors::aws::triggers::sqs::{SqsEvent, batch_worker, collections_worker};
use dues_processors::collections::Collector;
use dues_processors::collections::gateway::sandbox::{Odds, Sandbox};
use dues_processors::collections::job::{JobRun, Task};
use dues_processors::messaging::bus::{Bus, Message};
use dues_processors::messaging::outbox::PublishError;
use dues_store::table::BILLING_ACTIVITY;
use dues_store::{Acquired, Condition, Engine, Locks, Store};
use dues_tests::clock::TestClock;
use dues_tests::engines::dynoxide::Fault;
use dues_tests::engines::faulty::Faulty;
use dues_tests::engines::{dynoxide, embedded};
use dues_tests::fixtures::company::{context, deliver, membership, monthly, records, t};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;

/// A Monday and a banking day.
const MONDAY: &str = "2026-03-02T12:00:00Z";

fn open<E: Engine>(engine: &E) -> Store<E> {
    Store::new(engine.clone(), TestClock::frozen(t(MONDAY)).shared())
}

fn collector<E: Engine>(engine: &E) -> Collector<E, Sandbox<E>> {
    Collector::new(open(engine), Sandbox::new(open(engine), Odds::NONE))
}

/// Members with a record that is due.
async fn members<E: Engine>(engine: &E, users: &[&str]) {
    for user in users {
        let joins =
            membership(&format!("m-{user}"), "ACTIVATE", user, "2026-01-05T00:00:00Z", monthly("2026-01-31"));
        deliver(&context(engine.clone()), &[joins], 1).await;
    }
}

/// A batch as Lambda delivers it.
fn batch(bodies: &[String]) -> SqsEvent {
    let records: Vec<Value> = bodies
        .iter()
        .enumerate()
        .map(|(n, body)| {
            json!({"messageId": format!("m-{n}"), "receiptHandle": "r", "body": body, "md5OfBody": "",
                "eventSource": "aws:sqs", "awsRegion": "eu-central-1",
                "eventSourceARN": "arn:aws:sqs:eu-central-1:000000000000:collections",
                "messageAttributes": {},
                "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1772452800000",
                    "SenderId": "s", "ApproximateFirstReceiveTimestamp": "1"}})
        })
        .collect();
    serde_json::from_value(json!({"Records": records})).unwrap()
}

fn task(user: &str) -> String {
    json!({"user_id": user, "process": "INITIAL"}).to_string()
}

/// The message ids to be redelivered.
fn failed(response: &SqsEventResponse) -> Vec<String> {
    let mut failed: Vec<String> =
        response.batch_item_failures.iter().map(|failure| failure.item_identifier.clone().unwrap()).collect();
    failed.sort();
    failed
}

async fn status<E: Engine>(engine: &E, user: &str) -> Status {
    records(engine, user).await[0].status()
}

/// Stream, code and reason of each parked record.
async fn parked<E: Engine>(engine: &E) -> Vec<(String, String, String)> {
    let mut parked: Vec<_> = open(engine)
        .parked()
        .await
        .unwrap()
        .into_iter()
        .map(|one| (one.stream, one.code, one.reason))
        .collect();
    parked.sort();
    parked
}

#[tokio::test]
async fn one_users_failing_store_fails_that_users_messages_only() {
    let (engine, server) = dynoxide().await;
    members(&engine, &["u-0", "u-1", "u-2"]).await;
    server.set_fault(Some(Arc::new(|call| {
        if call.body.to_string().contains("u-1") { Fault::Throttle } else { Fault::None }
    })));
    let event = batch(&[task("u-0"), task("u-1"), task("u-2"), task("u-1")]);
    let response = collections_worker(&collector(&engine), event.clone()).await;
    assert_eq!(failed(&response), ["m-1", "m-3"]);
    assert_eq!(
        serde_json::to_value(&response).unwrap()["batchItemFailures"][0].as_object().unwrap().len(),
        1
    );
    server.set_fault(None);
    let statuses = [status(&engine, "u-0").await, status(&engine, "u-1").await, status(&engine, "u-2").await];
    assert_eq!(statuses, [Status::AchSent, Status::Scheduled, Status::AchSent]);
    assert_eq!(failed(&collections_worker(&collector(&engine), event).await), Vec::<String>::new());
    assert_eq!(status(&engine, "u-1").await, Status::AchSent);
    assert_eq!(
        records(&engine, "u-1").await.iter().map(|record| record.attempts.count()).collect::<Vec<_>>(),
        [1, 1, 0],
        "both that were due, once each"
    );
}

#[tokio::test]
async fn what_cannot_be_read_is_parked_with_its_field_and_is_done() {
    let (engine, _folder) = embedded();
    members(&engine, &["u"]).await;
    let bodies = [
        task("u"),
        "poison".to_owned(),
        "[]".to_owned(),
        json!({"process": "INITIAL"}).to_string(),
        json!({"user_id": 7, "process": "INITIAL"}).to_string(),
        json!({"user_id": "", "process": "INITIAL"}).to_string(),
        json!({"user_id": "v", "process": "WEEKLY"}).to_string(),
        json!({"user_id": "x".repeat(300), "process": "INITIAL"}).to_string(),
    ];
    let response = collections_worker(&collector(&engine), batch(&bodies)).await;
    assert_eq!(serde_json::to_value(&response).unwrap(), json!({"batchItemFailures": []}));
    assert_eq!(status(&engine, "u").await, Status::AchSent);
    let reasons: Vec<String> = parked(&engine)
        .await
        .into_iter()
        .map(|(stream, code, reason)| {
            assert_eq!((stream.as_str(), code.as_str()), ("collections", "malformed"));
            reason
        })
        .collect();
    assert_eq!(
        reasons,
        [
            "body: is not JSON: expected value at line 1 column 1",
            "body: is not a JSON object",
            "process: \"WEEKLY\" is not one of INITIAL, RETRY, PAUSE",
            "user_id: 7 is not text",
            "user_id: has 300 bytes, the most is 256",
            "user_id: is empty",
            "user_id: is missing",
        ]
    );
}

#[tokio::test]
async fn what_cannot_be_parked_comes_again_and_what_no_redelivery_helps_is_parked() {
    let (engine, _folder) = embedded();
    let response = collections_worker(
        &collector(&Faulty::after(engine.clone(), 0)),
        batch(&["poison".to_owned(), task("u")]),
    )
    .await;
    assert_eq!(failed(&response), ["m-0", "m-1"]);

    let mut broken = Item::new();
    broken.set_text("user_id", "u");
    broken.set_text("billing_date", "2026-02-28T00:00:00Z");
    engine.put(&BILLING_ACTIVITY, broken, Condition::Always).await.unwrap();
    assert_eq!(
        failed(&collections_worker(&collector(&engine), batch(&[task("u")])).await),
        Vec::<String>::new()
    );
    assert_eq!(parked(&engine).await[0].1, "store");
}

#[tokio::test]
async fn a_user_whom_another_worker_has_is_done() {
    let (engine, _folder) = embedded();
    members(&engine, &["u"]).await;
    let locks = Locks::new(engine.clone(), open(&engine).clock);
    let Acquired::Held(lock) = locks.acquire(&UserId::from("u")).await.unwrap() else {
        panic!("the lock is free")
    };
    assert_eq!(
        failed(&collections_worker(&collector(&engine), batch(&[task("u")])).await),
        Vec::<String>::new()
    );
    assert_eq!(status(&engine, "u").await, Status::Scheduled);
    lock.release().await;
}

#[tokio::test]
async fn lists_are_worked_off_and_only_those_that_failed_come_again() {
    let (engine, server) = dynoxide().await;
    members(&engine, &["u-0", "u-1"]).await;
    let id = |user| {
        let engine = engine.clone();
        async move { records(&engine, user).await[0].subscription_id.to_string() }
    };
    let (first, second) = (id("u-0").await, id("u-1").await);
    let bodies = [
        json!({"subscription_ids": [first, "none"]}).to_string(),
        json!({"subscription_ids": [second]}).to_string(),
        "{}".to_owned(),
        json!({"subscription_ids": []}).to_string(),
    ];
    server.set_fault(Some(Arc::new(|call| {
        if call.body.to_string().contains("user_id:u-1") { Fault::Throttle } else { Fault::None }
    })));
    assert_eq!(failed(&batch_worker(&collector(&engine), batch(&bodies)).await), ["m-1"]);
    server.set_fault(None);
    assert_eq!(
        (status(&engine, "u-0").await, status(&engine, "u-1").await),
        (Status::AchSent, Status::Scheduled)
    );
    let parked = parked(&engine).await;
    assert_eq!(
        parked.iter().map(|(stream, code, _)| (stream.as_str(), code.as_str())).collect::<Vec<_>>(),
        [("batch", "malformed"), ("batch", "unknown_subscription")]
    );
    assert!(parked[0].2.contains("subscription_ids"), "{parked:?}");
    assert_eq!(failed(&batch_worker(&collector(&engine), batch(&bodies)).await), Vec::<String>::new());
    assert_eq!(status(&engine, "u-1").await, Status::AchSent);
}

/// An event as EventBridge delivers it.
fn event(detail_type: &str, detail: Value) -> EventBridgeEvent {
    serde_json::from_value(json!({"version": "0", "id": "e-1", "detail-type": detail_type,
        "source": "signals", "account": "000000000000",
        "time": "2026-03-02T11:59:00Z", "region": "eu-central-1", "resources": [], "detail": detail}))
    .unwrap()
}

/// A member with a first debit refused for insufficient funds, and an account that can pay now.
async fn owing<E: Engine>(engine: &E, user: &str) {
    members(engine, &[user]).await;
    let collector = collector(engine);
    collector.gateway.set_account(&UserId::from(user), "0501").await.unwrap();
    collections_worker(&collector, batch(&[task(user)])).await;
    assert_eq!(status(engine, user).await, Status::Error);
    collector.gateway.set_account(&UserId::from(user), "0400").await.unwrap();
}

#[tokio::test]
async fn a_signal_sets_off_a_collection() {
    let (engine, _folder) = embedded();
    owing(&engine, "u-1").await;
    owing(&engine, "u-2").await;
    let income =
        |amount: &str| json!({"event_id": "i-1", "user_id": "u-1", "amount": amount, "detected_at": MONDAY});
    let small = webhook_worker(&collector(&engine), event("income-detected", income("74.99"))).await.unwrap();
    assert_eq!((small.acted, small.collected), ("too_small", 0));
    let enough =
        webhook_worker(&collector(&engine), event("income-detected", income("75.00"))).await.unwrap();
    assert_eq!(
        serde_json::to_value(&enough).unwrap(),
        json!({"acted": "visited", "sent": 0, "collected": 1, "refused": 0, "in_doubt": 0})
    );
    assert_eq!(status(&engine, "u-1").await, Status::Completed);

    let balance = json!({"event_id": "b-1", "user_id": "u-2", "available": "100.00", "observed_at": MONDAY});
    let seen = webhook_balance_worker(&collector(&engine), event("account-balance", balance)).await.unwrap();
    assert_eq!((seen.acted, seen.collected), ("visited", 1));
}

#[tokio::test]
async fn a_signal_that_cannot_be_read_is_parked_and_one_that_fails_is_an_error() {
    let (engine, _folder) = embedded();
    let bare: EventBridgeEvent = serde_json::from_value(json!({})).unwrap();
    assert_eq!(webhook_worker(&collector(&engine), bare).await.unwrap().acted, "parked");
    let unknown =
        event("account-balance", json!({"event_id": "b-1", "available": "1", "observed_at": MONDAY}));
    assert_eq!(webhook_balance_worker(&collector(&engine), unknown).await.unwrap().acted, "parked");
    let reasons: Vec<_> =
        parked(&engine).await.into_iter().map(|(stream, _, reason)| (stream, reason)).collect();
    let expected =
        [("account-balance", "user_id: is missing"), ("income-detected", "record: is not a JSON object")];
    assert_eq!(reasons, expected.map(|(stream, reason)| (stream.to_owned(), reason.to_owned())));

    let income = event(
        "income-detected",
        json!({"event_id": "i-1", "user_id": "u", "amount": "80", "detected_at": MONDAY}),
    );
    let error = webhook_worker(&collector(&Faulty::after(engine, 0)), income).await.unwrap_err().to_string();
    assert!(
        error.starts_with("the signal has to be delivered again: ") && error.contains("the plug is pulled"),
        "{error}"
    );
}

#[tokio::test]
async fn the_schedule_names_the_process_of_the_job() {
    let (engine, _folder) = embedded();
    members(&engine, &["u-0", "u-1"]).await;
    let (queue, mut tasks) = mpsc::channel::<Task>(10);
    let run = |store: Store<_>, input: Value| {
        let queue = queue.clone();
        async move {
            collections_job(
                &store,
                &Rules::default(),
                &queue,
                serde_json::from_value::<JobInput>(input).unwrap(),
            )
            .await
        }
    };
    let summary = run(open(&engine), json!({"process": "INITIAL"})).await.unwrap();
    assert_eq!(
        serde_json::to_value(&summary).unwrap(),
        json!({"process": "INITIAL", "read": 2, "queued": 2, "unreadable": 0})
    );
    assert_eq!(tasks.recv().await.unwrap().process, JobRun::Initial);
    let sunday = Store::new(engine.clone(), TestClock::frozen(t("2026-03-01T12:00:00Z")).shared());
    let closed = run(sunday, json!({"process": "RETRY"})).await.unwrap();
    assert_eq!(closed.closed.as_deref(), Some("banks are closed: weekend"));
    for (input, said) in [
        (
            json!({"process": "WEEKLY"}),
            "the schedule's input: process: \"WEEKLY\" is not one of INITIAL, RETRY, PAUSE",
        ),
        (json!({"process": 1}), "the schedule's input: process: 1 is not text"),
        (json!({}), "the schedule's input: process: is missing"),
        (json!("INITIAL"), "the schedule's input: input: is not a JSON object"),
    ] {
        assert_eq!(run(open(&engine), input).await.unwrap_err().to_string(), said);
    }
    assert_eq!(
        JobRun::ALL.map(|process| json!(process)),
        JobRun::ALL.map(|process| json!(process.name())),
        "one spelling"
    );
}

/// A bus that rejects some messages.
struct Choosy;

impl Bus for Choosy {
    async fn publish(&self, messages: &[Message]) -> Vec<Result<(), PublishError>> {
        messages
            .iter()
            .map(|message| {
                if message.detail["user_id"] == "u-1" {
                    Err(PublishError::Transient("no".to_owned()))
                } else {
                    Ok(())
                }
            })
            .collect()
    }
}

#[tokio::test]
async fn the_schedule_sets_off_the_notifier() {
    let (engine, _folder) = embedded();
    for user in ["u-0", "u-1"] {
        let joins =
            membership(&format!("m-{user}"), "ACTIVATE", user, "2026-02-05T00:00:00Z", monthly("2026-03-04"));
        deliver(&context(engine.clone()), &[joins], 1).await;
    }
    let (store, rules) = (open(&engine), Rules::default());
    let locks = Locks::new(engine.clone(), store.clock.clone());
    let tick: Tick = serde_json::from_value(
        json!({"version": "0", "id": "e", "detail-type": "Scheduled Event", "detail": {}}),
    )
    .unwrap();
    let run = || notifier_scheduler(&store, &locks, &rules, &Choosy, tick);
    let first = run().await.unwrap();
    let expected = json!({"due_soon": 2, "told": 1, "known": 0, "failed": 1, "locked": false});
    assert_eq!(serde_json::to_value(&first).unwrap(), expected);
    let again = run().await.unwrap();
    assert_eq!((again.published, again.known, again.failed), (0, 1, 1));
}
