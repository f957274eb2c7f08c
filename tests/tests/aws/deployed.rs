//! The deployed system, end to end on emulated AWS: the template as a stack, with the real `bootstrap` in
//! its functions. Records enter through Kinesis, SQS, EventBridge and the webhook; the tests check rows,
//! debits, profile, groups and messages.

use chrono::{DateTime, TimeDelta, Utc};
use dues_events::calendar::is_banking_day;
use dues_events::collections::eligibility::{Rules, notice_window_end};
use dues_events::{Item, Status};
use dues_processors::runtime::changes::read_item;
use dues_store::dynamo::Dynamo;
use dues_store::table::figureforge::FIGUREFORGE;
use dues_store::table::serenya::SERENYA;
use dues_store::table::{ALL, BILLING_ACTIVITY, GG_CORE, HISTORY, LOCKS};
use dues_store::{Clock as _, Condition, Engine as _, Key, SystemClock};
use dues_tests::aws::function_recorder::kinesis_batch;
use dues_tests::aws::ministack::{alone, client_at};
use dues_tests::aws::recording_proxy::{drain, read_stream};
use dues_tests::aws::stack::{ACCOUNT, SIGNING_SECRET, Stack, eventually};
use dues_tests::aws::template::model_condition;
use dues_tests::fixtures::company::{membership, monthly, payment, records};
use dues_tests::fixtures::stripe::subscription;
use dues_tests::fixtures::webhook::sign;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Mutex;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_become_rows_debits_profile_groups_and_messages() {
    let ministack = alone("deployed", &[]);
    let stack = Stack::deploy(&ministack.endpoint()).await;
    let messages = subscribe(&stack).await;
    dues_are_paid(&stack).await;
    changes_are_published(&stack, &messages).await;
    stripe_delivers(&stack).await;
    applications_publish(&stack).await;
    signals_and_schedules(&stack, &messages).await;
}

/// The same, with every call checked against the function's role.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_iam_enforced_every_function_may_do_its_work() {
    let ministack = alone("with-iam", &[("AUTH", "true")]);
    let stack = Stack::deploy(&ministack.endpoint()).await;
    let messages = subscribe(&stack).await;
    dues_are_paid(&stack).await;
    changes_are_published(&stack, &messages).await;
    stripe_delivers(&stack).await;
    applications_publish(&stack).await;
    signals_and_schedules(&stack, &messages).await;
    // An unauthenticated request is refused.
    let (status, _) = stack.ask("GET", "/ada/access", &[], "").await;
    assert_eq!(status, 403, "the API asks for authorisation");
}

/// Shows that IAM is enforced: without one of its permissions the same function writes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_that_may_not_write_writes_nothing() {
    let ministack = alone("without-a-right", &[("AUTH", "true")]);
    let stack =
        Stack::deploy_with(&ministack.endpoint(), json!({}), ("MembershipsRole", "dynamodb:PutItem")).await;
    let (_, record) = membership("m-1", "ACTIVATE", "ada", "2026-01-05T00:00:00Z", monthly("2026-01-31"));
    let answer = stack.invoke("MembershipsFunction", &kinesis_batch(&[record])).await;
    assert_eq!(answer["batchItemFailures"].as_array().map(Vec::len), Some(1), "{answer}");
    assert_eq!(stack.store.list_by_user_id(&"ada".into()).await.unwrap(), vec![]);
}

/// A deployment without read models has neither their tables nor permissions for them, and still collects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_read_models_there_are_none_of_their_tables() {
    let ministack = alone("without-models", &[("AUTH", "true")]);
    let stack = Stack::deploy_with(&ministack.endpoint(), json!({"ReadModels": "none"}), ("", "")).await;
    let made = client_at(&ministack.endpoint(), ACCOUNT).list_tables().send().await.unwrap();
    let made: BTreeSet<&str> = made.table_names().iter().map(String::as_str).collect();
    let wanted = ALL.into_iter().filter(|table| model_condition(table).is_none()).map(|table| table.name);
    assert_eq!(made, wanted.collect());
    dues_are_paid(&stack).await;
    let event = json!({"event_id": "app-1", "type": "figureforge.user.saved",
        "occurred_at": text(SystemClock.now()), "user_id": "ada", "email": "a@b"});
    assert_eq!(
        stack.invoke("AppEventsFunction", &kinesis_batch(&[event])).await,
        json!({"batchItemFailures": []}),
        "it has no reader"
    );
}

/// The billing-activity tables exist already, under other names and with a row written by Go; the stack
/// adopts them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_that_exist_are_taken_over_with_the_rows_that_go_has_written() {
    let ministack = alone("taken-over", &[]);
    let client = client_at(&ministack.endpoint(), ACCOUNT);
    let legacy =
        [(&BILLING_ACTIVITY, "legacy-billing"), (&HISTORY, "legacy-history"), (&LOCKS, "legacy-locks")];
    let engine = Dynamo::new(client.clone())
        .with_names(legacy.map(|(table, name)| (table.id, name.to_owned())).into());
    for (table, _) in legacy {
        engine.create(table).await.unwrap();
    }
    let row: Value = serde_json::from_str(include_str!("../billing/go_rows/achsent.json")).unwrap();
    engine.put(&BILLING_ACTIVITY, read_item(&row, "row").unwrap(), Condition::NoItem).await.unwrap();
    let described = client.describe_table().table_name("legacy-billing").send().await.unwrap();
    let stream = described.table().unwrap().latest_stream_arn().unwrap();
    let parameters = json!({"BillingActivityExists": "true", "BillingActivityName": "legacy-billing",
        "BillingActivityStreamArn": stream,
        "BillingActivityHistoryExists": "true", "BillingActivityHistoryName": "legacy-history",
        "LocksExists": "true", "LocksName": "legacy-locks"});
    let stack = Stack::deploy_with(&ministack.endpoint(), parameters, ("", "")).await;
    let ours = client.list_tables().send().await.unwrap();
    assert!(
        !ours.table_names().contains(&BILLING_ACTIVITY.name.to_owned()),
        "no second one is made: {ours:?}"
    );

    let sent = records(&engine, "u-go").await.remove(0);
    let (_, settled) = payment("p-1", "COMPLETED", &sent, "c-1", &text(SystemClock.now()));
    stack.put("site-payments", "u-go", &settled).await;
    let look = async || {
        records(&engine, "u-go").await.into_iter().find(|record| record.status() == Status::Completed)
    };
    let paid = eventually("the settlement", look).await;
    assert_eq!((paid.version, paid.billing_date.text()), (1, sent.billing_date.text()));
    tier(&stack, "u-go", "JOURNEYMAN").await;
}

fn text(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn day(at: DateTime<Utc>) -> String {
    at.date_naive().to_string()
}

async fn joins(stack: &Stack, user: &str, due: DateTime<Utc>) -> dues_events::Record {
    let now = SystemClock.now();
    let (_, record) = membership(
        &format!("m-{user}"),
        "ACTIVATE",
        user,
        &text(now - TimeDelta::days(5)),
        monthly(&day(due)),
    );
    stack.put("memberships", user, &record).await;
    stack.record(user, |record| record.status() == Status::Scheduled).await
}

fn key(user: &str, sort: String) -> Key {
    Key { partition: format!("USER#{user}"), sort: Some(sort) }
}

async fn tier(stack: &Stack, user: &str, expected: &str) {
    let look = async || {
        let profile = stack.store.engine.get(&GG_CORE, key(user, format!("PROFILE#{user}"))).await.unwrap();
        profile.filter(|profile| profile.text("tier") == Some(expected))
    };
    eventually(&format!("the tier {expected} of {user}"), look).await;
}

async fn groups(stack: &Stack, user: &str, expected: &[&str]) {
    let cognito = stack.aws.cognito(&stack.account);
    let look = async || {
        let answer = cognito
            .admin_list_groups_for_user()
            .user_pool_id(&stack.pool)
            .username(user)
            .send()
            .await
            .unwrap();
        let groups: Vec<&str> = answer.groups().iter().map(|group| group.group_name().unwrap()).collect();
        (groups == expected).then_some(())
    };
    eventually(&format!("the groups {expected:?} of {user}"), look).await;
}

async fn parked(stack: &Stack, stream: &str) {
    let look =
        async || stack.store.parked().await.unwrap().into_iter().find(|parked| parked.stream == stream);
    let parked = eventually(&format!("a parked record of {stream}"), look).await;
    assert_eq!(parked.code, "malformed");
}

/// Memberships and settlements on Kinesis, an operator's list on SQS; tier and groups follow through two
/// change streams.
async fn dues_are_paid(stack: &Stack) {
    let now = SystemClock.now();
    let cognito = stack.aws.cognito(&stack.account);
    cognito.admin_create_user().user_pool_id(&stack.pool).username("ada").send().await.unwrap();
    let mut profile = Item::new();
    for (name, value) in [
        ("PK", "USER#ada"),
        ("SK", "PROFILE#ada"),
        ("tier", "free"),
        ("provider", "cognito"),
        ("displayName", "Ada"),
    ] {
        profile.set_text(name, value);
    }
    stack.store.engine.put(&GG_CORE, profile, Condition::Always).await.unwrap();

    let record = joins(stack, "ada", now - TimeDelta::days(1)).await;
    stack.send("BatchQueue", &json!({"subscription_ids": [record.subscription_id.as_str()]})).await;
    let sent =
        stack.record("ada", |record| record.status() == Status::AchSent && record.in_doubt().is_none()).await;
    let debits = stack.payments.debits();
    assert_eq!(debits.len(), 1, "one debit: {debits:?}");
    let confirmation = debits.values().next().unwrap().answer["confirmation_id"].as_str().unwrap().to_owned();

    let (_, settled) = payment("p-1", "COMPLETED", &sent, &confirmation, &text(now));
    stack.put("site-payments", "ada", &settled).await;
    stack.put("site-payments", "ada", &settled).await;
    stack.put("site-payments", "ada", &json!("poison")).await;
    stack.record("ada", |record| record.status() == Status::Completed).await;
    tier(stack, "ada", "JOURNEYMAN").await;
    groups(stack, "ada", &["dues-journeyman"]).await;
    parked(stack, "site-payments").await;
    let history = stack.store.history_by_id(&sent.subscription_id).await.unwrap();
    assert_eq!(
        history.iter().filter(|row| row.record.status() == Status::Completed).count(),
        1,
        "delivered twice, applied once"
    );
}

/// A signed webhook through the API, the inbox and the worker.
async fn stripe_delivers(stack: &Stack) {
    let now = SystemClock.now();
    let (_, event) = subscription("evt_1", "created", &text(now), "ada", "SAGE", "active", &text(now));
    let body = event.to_string();
    let (status, answer) =
        stack.ask("POST", "/webhooks/stripe", &[("stripe-signature", "t=1,v1=00")], &body).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!("signature_mismatch")), "{answer}");
    let signature = sign(SIGNING_SECRET, now.timestamp(), body.as_bytes());
    let (status, answer) =
        stack.ask("POST", "/webhooks/stripe", &[("stripe-signature", &signature)], &body).await;
    assert_eq!((status, answer), (200, json!({"received": true, "handled": true})));
    tier(stack, "ada", "SAGE").await;
    groups(stack, "ada", &["dues-sage"]).await;
}

/// An income signal on the bus, then the job and the notifier as their schedules invoke them, and the
/// messages that they publish.
async fn signals_and_schedules(stack: &Stack, messages: &Messages) {
    let now = SystemClock.now();
    let banks_are_open = is_banking_day(now.date_naive());
    stack.publish("income-detected", &json!({"user_id": 7})).await;
    parked(stack, "income-detected").await;

    let due = joins(stack, "ben", now - TimeDelta::days(1)).await;
    let summary = stack.invoke("CollectionsJobFunction", &json!({"process": "INITIAL"})).await;
    assert_eq!(summary["closed"].is_null(), banks_are_open, "{summary}");
    if banks_are_open {
        let sent = stack
            .record("ben", |record| record.status() == Status::AchSent && record.in_doubt().is_none())
            .await;
        let (_, returned) =
            payment("p-2", "RETURNED", &sent, sent.state.transaction_id().unwrap().as_str(), &text(now));
        stack.put("site-payments", "ben", &returned).await;
        stack.record("ben", |record| record.status() == Status::Error).await;
        stack
            .publish(
                "account-balance",
                &json!({"event_id": "b-1", "user_id": "ben", "available": "500.00",
            "observed_at": text(now)}),
            )
            .await;
        let again = stack
            .record("ben", |record| record.status() == Status::AchSent && record.in_doubt().is_none())
            .await;
        assert_eq!((again.attempts.count(), &again.subscription_id), (2, &due.subscription_id));
    }

    joins(stack, "cem", now + TimeDelta::days(2)).await;
    let notified = stack.invoke("NotifierSchedulerFunction", &json!({})).await;
    if notice_window_end(&Rules::default(), now).is_some_and(|until| until > now + TimeDelta::days(2)) {
        assert_eq!(notified["failed"], 0, "{notified}");
        messages.wait_for(stack, "SubscriptionDueSoon", |detail| detail["user_id"] == "cem").await;
    }
}

/// The settlement's changes are on the stream `subscriptions`, in order, and on the bus.
async fn changes_are_published(stack: &Stack, messages: &Messages) {
    let kinesis = stack.aws.kinesis(&stack.account);
    let look = async || {
        let updates =
            read_stream(&kinesis, "subscriptions").await.into_iter().filter(|(key, _)| key == "ada");
        let updates: Vec<Value> = updates.map(|(_, data)| serde_json::from_slice(&data).unwrap()).collect();
        updates
            .iter()
            .any(|update| update["subscription"]["billing_status"] == "COMPLETED")
            .then_some(updates)
    };
    let updates = eventually("the settlement on the stream", look).await;
    assert_eq!(
        (&updates[0]["subscription"]["billing_status"], &updates[0]["user_id"]),
        (&json!("SCHEDULED"), &json!("ada")),
        "{updates:?}"
    );
    messages
        .wait_for(stack, "SubscriptionStatusChanged", |detail| {
            detail["user_id"] == "ada" && detail["new_status"] == "COMPLETED"
        })
        .await;
    messages
        .wait_for(stack, "TierChanged", |detail| {
            detail["user_id"] == "ada" && detail["new_tier"] == "JOURNEYMAN"
        })
        .await;
}

/// The messages received from the bus so far, and the queue that receives the rest.
struct Messages {
    queue: String,
    received: Mutex<Vec<Value>>,
}

impl Messages {
    /// Waits for a message.
    async fn wait_for(&self, stack: &Stack, kind: &str, wanted: impl Fn(&Value) -> bool) {
        let sqs = stack.aws.sqs(&stack.account);
        let look = async || {
            let more = drain(&sqs, &self.queue).await;
            let mut received = self.received.lock().unwrap();
            received.extend(more);
            received
                .iter()
                .any(|event| {
                    event["source"] == "dues" && event["detail-type"] == kind && wanted(&event["detail"])
                })
                .then_some(())
        };
        eventually(kind, look).await;
    }
}

/// An application's event becomes a row, and its tags become rows through the change stream; an object in S3
/// becomes a job; an action is logged.
async fn applications_publish(stack: &Stack) {
    let saved = json!({"event_id": "app-1", "type": "figureforge.image.saved",
        "occurred_at": text(SystemClock.now()), "image_id": "i-1",
        "user_id": "ada", "url": "https://cdn.example.com/i-1.jpg", "tags": ["pose:standing", "style:ink"],
        "public": true});
    stack.put("app-events", "ada", &saved).await;
    stack.put("app-events", "ada", &json!("poison")).await;
    let engine = &stack.store.engine;
    for (partition, sort) in
        [("IMG#i-1", "META"), ("TAG#pose:standing", "IMG#i-1"), ("TAG#style:ink", "IMG#i-1")]
    {
        let key = Key { partition: partition.to_owned(), sort: Some(sort.to_owned()) };
        eventually(partition, async || engine.get(&FIGUREFORGE, key.clone()).await.unwrap()).await;
    }
    parked(stack, "app-events").await;

    let object = json!({"id": "d-1", "source": "aws.s3", "detail-type": "Object Created",
        "time": text(SystemClock.now()),
        "detail": {"bucket": {"name": "documents"}, "object": {"key": "users/ada/documents/uploads/a.pdf",
            "sequencer": "01"}}});
    assert_eq!(stack.invoke("S3EventsFunction", &object).await, json!({"acted": "applied"}));
    let key = Key { partition: "USER#ada".to_owned(), sort: Some("JOB#a.pdf".to_owned()) };
    let per_environment = engine.clone().with_names([(SERENYA.id, "serenya-prod".to_owned())].into());
    assert!(
        per_environment.get(&SERENYA, key).await.unwrap().is_some(),
        "the table of the environment has the job"
    );
    assert_eq!(stack.invoke("UsageResetFunction", &json!({})).await["rows"], 0);
    let swept = stack.invoke("SweepFunction", &json!({})).await;
    assert!(swept["users"].as_u64().is_some_and(|users| users > 0), "{swept}");
}

/// Subscribes a queue to all messages of the bus.
async fn subscribe(stack: &Stack) -> Messages {
    let (sqs, events) = (stack.aws.sqs(&stack.account), stack.aws.eventbridge(&stack.account));
    let url = sqs.create_queue().queue_name("messages").send().await.unwrap().queue_url.unwrap();
    let arn = format!("arn:aws:sqs:eu-central-1:{}:messages", stack.account);
    let policy = json!({"Version": "2012-10-17", "Statement": [{"Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage", "Resource": arn}]});
    let attribute = aws_sdk_sqs::types::QueueAttributeName::Policy;
    sqs.set_queue_attributes()
        .queue_url(&url)
        .attributes(attribute, policy.to_string())
        .send()
        .await
        .unwrap();
    let pattern = json!({"source": ["dues"]}).to_string();
    events
        .put_rule()
        .name("messages")
        .event_bus_name(stack.named("Bus"))
        .event_pattern(pattern)
        .send()
        .await
        .unwrap();
    let target = aws_sdk_eventbridge::types::Target::builder().id("messages").arn(arn).build().unwrap();
    events
        .put_targets()
        .rule("messages")
        .event_bus_name(stack.named("Bus"))
        .targets(target)
        .send()
        .await
        .unwrap();
    Messages { queue: url, received: Mutex::default() }
}
