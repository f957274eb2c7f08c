//! The functions behind event source mappings as Lambda invokes them, over ministack's Kinesis and DynamoDB
//! Streams: partial failures, redelivery, poison records, functions that crash, and locks held by other
//! processes.

use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::ShardIteratorType;
use dues_events::{Record, Status};
use dues_lambda::{Function, Handle};
use dues_processors::Context;
use dues_store::dynamo::Dynamo;
use dues_store::{Acquired, Locks, Store, SystemClock};
use dues_tests::aws::cognito_pool::nothing;
use dues_tests::aws::event_source_mapping::{Driven, Mapping, Shard};
use dues_tests::aws::function_recorder::{Site, base64, sqs_batch};
use dues_tests::aws::ministack::{client_at, endpoint, new_account};
use dues_tests::aws::recording_proxy::Meddler;
use dues_tests::aws::template::translated;
use dues_tests::clock::TestClock;
use dues_tests::engines::dynoxide::Fault;
use dues_tests::fixtures::company::{context, deliver, membership, monthly, payment, records, t};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const NOW: &str = "2026-03-02T12:00:00Z";

async fn site() -> Site {
    Site::new(TestClock::frozen(t(NOW)).shared()).await
}

/// The settings of a mapping in the template.
fn mapping(name: &str) -> Mapping {
    Mapping::of(&translated("s3://artifacts/bootstrap.zip").1["Resources"][name]["Properties"])
}

/// Puts records on a ministack stream and reads them back as a mapping does.
async fn on_kinesis(stream: &str, sent: &[(String, Value)]) -> Vec<Shard> {
    let kinesis = Meddler::new(nothing).kinesis(&new_account());
    kinesis.create_stream().stream_name(stream).shard_count(1).send().await.unwrap();
    for (key, record) in sent {
        kinesis
            .put_record()
            .stream_name(stream)
            .partition_key(key)
            .data(Blob::new(record.to_string()))
            .send()
            .await
            .unwrap();
    }
    let shards = kinesis.list_shards().stream_name(stream).send().await.unwrap();
    let start =
        kinesis.get_shard_iterator().stream_name(stream).shard_iterator_type(ShardIteratorType::TrimHorizon);
    let start = start.shard_id(shards.shards()[0].shard_id()).send().await.unwrap();
    let got = kinesis.get_records().shard_iterator(start.shard_iterator().unwrap()).send().await.unwrap();
    let read = |record: &aws_sdk_kinesis::types::Record| {
        let (sequence, key) =
            (record.sequence_number().to_owned(), record.partition_key().unwrap().to_owned());
        let kinesis = json!({"sequenceNumber": sequence, "partitionKey": key,
            "data": base64(record.data().as_ref()), "kinesisSchemaVersion": "1.0",
            "approximateArrivalTimestamp": t(NOW).timestamp()});
        let record = json!({"eventID": format!("shardId-000000000000:{sequence}"),
            "eventSource": "aws:kinesis", "eventName": "aws:kinesis:record",
            "eventVersion": "1.0",
            "eventSourceARN": format!("arn:aws:kinesis:eu-central-1:000000000000:stream/{stream}"),
            "awsRegion": "eu-central-1",
            "kinesis": kinesis});
        Shard { sequence, key, arrived: t(NOW), record }
    };
    got.records().iter().map(read).collect()
}

async fn drive(mapping: &Mapping, shard: Vec<Shard>, handle: &Handle) -> Driven {
    mapping.drive(shard, t(NOW), async |event| handle(event).await.map_err(|error| error.to_string())).await
}

async fn members(site: &Site, users: &[String]) -> Vec<Record> {
    let mut all = Vec::new();
    for user in users {
        let joins =
            membership(&format!("m-{user}"), "ACTIVATE", user, "2026-01-05T00:00:00Z", monthly("2026-01-31"));
        deliver(&context(site.engine.clone()), &[joins], 1).await;
        all.push(records(&site.engine, user).await.remove(0));
    }
    all
}

/// A submission and a settlement for each user.
fn script(records: &[Record]) -> Vec<(String, Value)> {
    let both = |record: &Record| {
        let user = record.user_id.to_string();
        let one = |id: &str, kind: &str, at: &str| {
            (user.clone(), payment(&format!("{id}-{user}"), kind, record, &user, at).1)
        };
        [one("s", "SUBMITTED", "2026-02-01T00:00:00Z"), one("p", "COMPLETED", "2026-02-03T00:00:00Z")]
    };
    records.iter().flat_map(both).collect()
}

async fn settled_once(site: &Site, users: &[String]) {
    for user in users {
        let record = records(&site.engine, user).await.remove(0);
        assert_eq!(record.status(), Status::Completed, "{user}");
        let store = Store::new(site.engine.clone(), SystemClock::shared());
        let history = store.history_by_id(&record.subscription_id).await.unwrap();
        assert_eq!(history.len(), 3, "{user}: made, sent, settled, and each once");
    }
}

fn users(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("u-{n}")).collect()
}

#[tokio::test]
async fn one_users_trouble_is_delivered_again_until_it_is_over_and_nothing_happens_twice() {
    let site = site().await;
    let users = users(6);
    let shard = on_kinesis("site-payments", &script(&members(&site, &users).await)).await;
    let troubles = AtomicU32::new(0);
    let hook = move |call: &dues_tests::engines::dynoxide::CallInfo| {
        let unlucky = call.operation == "PutItem" && call.body.to_string().contains("\"u-3\"");
        if unlucky && troubles.fetch_add(1, Ordering::Relaxed) < 7 { Fault::Throttle } else { Fault::None }
    };
    site.database.set_fault(Some(Arc::new(hook)));
    let one_lane = Mapping { parallel: 1, ..mapping("AchHandlerSource") };
    let driven = drive(&one_lane, shard.clone(), &site.start(Function::AchHandler)).await;
    site.database.set_fault(None);
    assert_eq!(driven.given_up, Vec::<Vec<String>>::new());
    assert!(driven.invocations.len() > 1, "{driven:?}");
    let from = &shard[6].sequence;
    assert!(
        driven.invocations[1..].iter().all(|batch| batch[0] >= *from),
        "from the record that failed: {driven:?}"
    );
    settled_once(&site, &users).await;
    assert_eq!(context(site.engine).store.parked().await.unwrap(), vec![]);
}

#[tokio::test]
async fn poison_is_parked_and_stalls_no_other_user() {
    let site = site().await;
    let users = users(3);
    let mut sent = script(&members(&site, &users).await);
    sent.insert(2, ("u-1".to_owned(), json!("poison")));
    sent.insert(4, ("u-1".to_owned(), json!({"event_id": "x", "type": "SUBSCRIPTION_COMPLETED"})));
    let shard = on_kinesis("site-payments", &sent).await;
    let driven = drive(&mapping("AchHandlerSource"), shard, &site.start(Function::AchHandler)).await;
    assert_eq!(driven.given_up, Vec::<Vec<String>>::new());
    assert_eq!(driven.invocations.concat().len(), sent.len(), "each once");
    settled_once(&site, &users).await;
    assert_eq!(context(site.engine).store.parked().await.unwrap().len(), 2);
}

/// A record that kills the function, by memory or by time, is the only kind that the function cannot park
/// itself.
#[tokio::test]
async fn a_record_that_breaks_the_function_is_alone_in_the_end_and_is_handed_on() {
    let site = site().await;
    let users = users(5);
    let shard = on_kinesis("site-payments", &script(&members(&site, &users).await)).await;
    let (bad, handle) = (shard[9].record.clone(), site.start(Function::AchHandler));
    let breaking = async |event: Value| match event["Records"].as_array().unwrap().contains(&bad) {
        true => Err("Runtime exited with error: signal: killed".to_owned()),
        false => handle(event).await.map_err(|error| error.to_string()),
    };
    let mapping = mapping("AchHandlerSource");
    let driven = mapping.drive(shard.clone(), t(NOW), breaking).await;
    assert_eq!(driven.given_up, [[shard[9].sequence.clone()]], "it alone");
    let tried = driven.invocations.iter().filter(|batch| **batch == [shard[9].sequence.clone()]).count();
    assert_eq!(tried as u64, mapping.retries + 1);
    settled_once(&site, &users[..4]).await;
    // After the fix, the record goes on the stream again.
    let again = drive(&mapping, shard[9..].to_vec(), &handle).await;
    assert_eq!((again.invocations.len(), again.given_up.len()), (1, 0));
    settled_once(&site, &users).await;
}

#[tokio::test]
async fn a_user_whom_another_worker_has_is_left_to_it() {
    let site = site().await;
    members(&site, &users(2)).await;
    let locks = Locks::new(site.engine.clone(), SystemClock::shared());
    let Acquired::Held(lock) = locks.acquire(&"u-0".into()).await.unwrap() else {
        panic!("the lock is free")
    };
    let handle = site.start(Function::CollectionsWorker);
    let task = |user: &str| json!({"user_id": user, "process": "INITIAL"});
    let batch = sqs_batch(&[task("u-0"), task("u-1"), json!("poison")]);
    assert_eq!(
        handle(batch.clone()).await.unwrap(),
        json!({"batchItemFailures": []}),
        "a locked user is not asked for again"
    );
    let status = async |user: &str| records(&site.engine, user).await[0].status();
    assert_eq!((status("u-0").await, status("u-1").await), (Status::Scheduled, Status::AchSent));
    lock.release().await;
    handle(batch).await.unwrap();
    assert_eq!(status("u-0").await, Status::AchSent);
    let debits = site.payments.debits();
    let keys: std::collections::BTreeSet<&String> = debits.keys().collect();
    assert_eq!(keys.len(), debits.len(), "one debit for each attempt: {debits:?}");
}

/// A table's change stream, over the wire.
async fn changes(account: &str, table: &str) -> Vec<Shard> {
    let arn = {
        let described =
            client_at(endpoint(), account).describe_table().table_name(table).send().await.unwrap();
        described.table().unwrap().latest_stream_arn().unwrap().to_owned()
    };
    let ask = async |operation: &str, body: Value| {
        dues_tests::aws::stack::streams(endpoint(), account, operation, &body).await
    };
    let described = ask("DescribeStream", json!({"StreamArn": arn})).await;
    let shard = &described["StreamDescription"]["Shards"][0]["ShardId"];
    let start = ask(
        "GetShardIterator",
        json!({"StreamArn": arn, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"}),
    )
    .await;
    let got = ask("GetRecords", json!({"ShardIterator": start["ShardIterator"]})).await;
    let read = |record: &Value| {
        let mut record = record.clone();
        record["eventSourceARN"] = arn.as_str().into();
        let sequence = record["dynamodb"]["SequenceNumber"].as_str().unwrap().to_owned();
        Shard { sequence, key: record["dynamodb"]["Keys"].to_string(), arrived: t(NOW), record }
    };
    got["Records"].as_array().unwrap().iter().map(read).collect()
}

#[tokio::test]
async fn changes_of_ministacks_tables_lead_to_the_tier_however_often_they_are_delivered() {
    let account = new_account();
    let engine = Dynamo::new(client_at(endpoint(), &account));
    for table in dues_store::table::ALL {
        engine.create(table).await.unwrap();
    }
    let handlers = Context::new(Store::new(engine.clone(), TestClock::frozen(t(NOW)).shared()));
    deliver(&handlers, &[membership("m", "ACTIVATE", "u", "2026-01-05T00:00:00Z", monthly("2026-01-31"))], 1)
        .await;
    let record = records(&engine, "u").await.remove(0);
    let paid =
        ["SUBMITTED", "COMPLETED"].map(|kind| payment(kind, kind, &record, "c-1", "2026-02-01T00:00:00Z"));
    deliver(&handlers, &paid, 1).await;

    let env = dues_lambda::Env::of({
        let account = account.clone();
        move |name| match name {
            "AWS_ACCESS_KEY_ID" => Some(account.clone()),
            "AWS_SECRET_ACCESS_KEY" => Some("none".to_owned()),
            "AWS_REGION" => Some("eu-central-1".to_owned()),
            "AWS_ENDPOINT_URL" => Some(endpoint().to_owned()),
            _ => None,
        }
    });
    let clients = dues_lambda::Clients::new(&env, dues_lambda::clients::https()).unwrap();
    let projector =
        dues_lambda::start(Function::Projector, &env, &clients, TestClock::frozen(t(NOW)).shared()).unwrap();
    let mapping = mapping("ProjectorBillingActivitySource");
    let shard = changes(&account, "billing-activity").await;
    assert!(shard.len() >= 3, "made, sent, settled");
    for time in 1..=2 {
        let driven = drive(&mapping, shard.clone(), &projector).await;
        assert_eq!(driven.given_up, Vec::<Vec<String>>::new());
        let store = Store::new(engine.clone(), SystemClock::shared());
        let profile = store.profile(&"u".into()).await.unwrap().unwrap();
        assert_eq!(
            (profile.tier.as_str(), store.ledger(&"u".into()).await.unwrap().len()),
            ("JOURNEYMAN", 1),
            "delivered {time} times"
        );
    }
}
