//! Kinesis and EventBridge on ministack, with requests that fail in part.

use super::*;
use dues_processors::Outcome;
use dues_processors::aws::clients::eventbridge_bus::EventBridge;
use dues_processors::aws::clients::kinesis_outbox::Kinesis;
use dues_processors::billing::feeder::KinesisFeeder;
use dues_processors::messaging::outbox::{Outbox, Outgoing, PublishError};
use dues_tests::aws::ministack::new_account;
use dues_tests::aws::recording_proxy::{Asked, Meddler, Mischief, drain, listen, read_stream};
use dues_tests::clock::TestClock;
use dues_tests::engines::memory::Memory;
use dues_tests::fixtures::company::store;
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

const STREAM: &str = "subscriptions";

/// The stream and the bus, the proxy between them and their clients, and the feeder.
struct Office {
    meddler: Meddler,
    kinesis: aws_sdk_kinesis::Client,
    sqs: aws_sdk_sqs::Client,
    queue: String,
    clock: TestClock,
    outbox: Kinesis,
    feeder: KinesisFeeder<Memory, Kinesis, EventBridge>,
}

async fn office(hook: impl Fn(&Asked) -> Mischief + Send + Sync + 'static) -> Office {
    let (meddler, clock, account) = (Meddler::new(hook), TestClock::skipping(), new_account());
    let (kinesis, sqs, events) =
        (meddler.kinesis(&account), meddler.sqs(&account), meddler.eventbridge(&account));
    kinesis.create_stream().stream_name(STREAM).shard_count(3).send().await.unwrap();
    let queue =
        listen(&sqs, &events, "company", &["SubscriptionStatusChanged", "CreditsGranted", "TierChanged"])
            .await;
    let outbox = Kinesis::new(&kinesis, STREAM, clock.shared());
    let bus = EventBridge::new(events, "company", clock.shared());
    let feeder = KinesisFeeder::new(store(Memory::default()), outbox.clone(), bus);
    Office { meddler, kinesis, sqs, queue, clock, outbox, feeder }
}

fn nothing(_: &Asked) -> Mischief {
    Mischief::None
}

fn outgoing(user: &str, bytes: usize) -> Outgoing {
    Outgoing { id: format!("id-{user}").into(), key: user.to_owned(), data: vec![b'x'; bytes] }
}

/// How many entries each request of an operation had.
fn sizes(office: &Office, operation: &str) -> Vec<usize> {
    office
        .meddler
        .asked()
        .iter()
        .filter(|asked| asked.operation == operation)
        .map(|asked| asked.entries.len())
        .collect()
}

#[tokio::test]
async fn messages_go_out_under_their_user_in_requests_of_five_hundred() {
    let office = office(nothing).await;
    let changes: Vec<Change> = (0..1200).map(|n| joined(&format!("auth0|u-{n}"), &n.to_string())).collect();
    assert_eq!(office.feeder.feed(&changes).await.outcomes, vec![Outcome::Applied; 1200]);
    let mut requests = sizes(&office, "PutRecords");
    requests.sort_unstable();
    assert_eq!((requests, sizes(&office, "PutEvents").len()), (vec![200, 500, 500], 120));
    let mut users: Vec<String> = Vec::new();
    for (key, data) in read_stream(&office.kinesis, STREAM).await {
        let body: Json = serde_json::from_slice(&data).unwrap();
        assert_eq!((&body["user_id"], &body["event"]), (&json!(key), &json!("subscription-updated")));
        users.push(key);
    }
    users.sort();
    users.dedup();
    assert_eq!(users.len(), 1200, "each once");
    assert_eq!(office.clock.sleeps_ms(), Vec::<u64>::new());
}

#[tokio::test]
async fn what_a_request_cannot_hold_is_cut_and_what_no_request_can_hold_is_not_sent() {
    let office = office(nothing).await;
    let wide = "\u{fc}".repeat(256);
    let messages = [
        outgoing("a", 1_000_000),
        outgoing("b", 1_048_576),
        outgoing(&"k".repeat(257), 1),
        outgoing("c", 1_048_575),
        outgoing("d", 1_048_575),
        outgoing(&wide, 1_000_000),
        outgoing("", 1),
        outgoing("e", 1_048_575),
        outgoing("f", 1_048_575),
    ];
    let never = |why: &str| Err(PublishError::Rejected(why.to_owned()));
    let mut expected = vec![Ok(()); messages.len()];
    expected[1] = never("has 1048577 bytes, the most is 1048576");
    expected[2] = never("its key has 257 characters, it takes between 1 and 256");
    expected[6] = never("its key has 0 characters, it takes between 1 and 256");
    assert_eq!(office.outbox.put_many(&messages).await, expected);
    let mut requests = sizes(&office, "PutRecords");
    requests.sort_unstable();
    assert_eq!(requests, [1, 5], "five megabytes");
    assert_eq!(read_stream(&office.kinesis, STREAM).await.len(), 6);
    assert_eq!(office.outbox.put_many(&[]).await, []);
    assert_eq!(sizes(&office, "PutRecords").len(), 2, "nothing to send is no request");
}

#[tokio::test]
async fn only_what_failed_is_sent_again_and_what_is_throttled_for_ever_fails() {
    let office = self::office(|asked| match (asked.operation.as_str(), asked.number) {
        ("PutRecords", 0) => Mischief::Refuse(400, "ProvisionedThroughputExceededException"),
        ("PutRecords", 1) => Mischief::Drop(vec![0, 2], "ProvisionedThroughputExceededException"),
        ("PutRecords", 2) => Mischief::Drop(vec![1], "InternalFailure"),
        _ => Mischief::None,
    })
    .await;
    let messages = ["a", "b", "c", "d"].map(|user| outgoing(user, 3));
    assert_eq!(office.outbox.put_many(&messages).await, vec![Ok(()); 4]);
    assert_eq!(
        (sizes(&office, "PutRecords"), office.clock.sleeps_ms()),
        (vec![4, 4, 2, 1], vec![100, 200, 400])
    );
    let mut keys: Vec<String> =
        read_stream(&office.kinesis, STREAM).await.into_iter().map(|(key, _)| key).collect();
    keys.sort();
    assert_eq!(keys, ["a", "b", "c", "d"], "each once");

    let busy = self::office(|asked| match asked.operation.as_str() {
        "PutRecords" => Mischief::Drop(vec![0], "ProvisionedThroughputExceededException"),
        _ => Mischief::None,
    })
    .await;
    let outcomes =
        busy.feeder.feed(&[joined("u-1", "1"), sent("u-1", "2"), joined("u-2", "3")]).await.outcomes;
    let why = "ProvisionedThroughputExceededException: dropped";
    assert_eq!(
        outcomes,
        [
            Outcome::Failed(why.into()),
            Outcome::Failed(format!("behind a record that failed: {why}")),
            Outcome::Applied
        ]
    );

    let gone = self::office(nothing).await;
    gone.kinesis.delete_stream().stream_name(STREAM).send().await.unwrap();
    let outcomes = gone.feeder.feed(&[joined("u-1", "1")]).await.outcomes;
    assert!(
        matches!(&outcomes[0], Outcome::Failed(why) if why.contains("ResourceNotFound")),
        "not the message's fault: {outcomes:?}"
    );
    assert_eq!(gone.clock.sleeps_ms(), Vec::<u64>::new(), "asking again does not help");
}

#[tokio::test]
async fn a_users_order_outlives_every_mischief_on_the_way_and_nothing_is_lost() {
    let seed = 20_261_116;
    let dice = Mutex::new(fastrand::Rng::with_seed(seed));
    let office = office(move |asked| {
        let mut dice = dice.lock().unwrap();
        let some: Vec<usize> = (0..asked.entries.len()).filter(|_| dice.u32(..3) == 0).collect();
        match dice.u32(..10) {
            0 => Mischief::Refuse(400, "ThrottlingException"),
            1 => Mischief::LoseAnswer,
            2..=7 if !some.is_empty() => Mischief::Drop(some, "InternalFailure"),
            _ => Mischief::None,
        }
    })
    .await;
    let changes = timeline(40);
    let mut at = 0;
    while at < changes.len() {
        let report = office.feeder.feed(&changes[at..(at + 100).min(changes.len())]).await;
        at += report.first_failure().unwrap_or(report.outcomes.len());
    }

    let mut known: HashMap<String, Vec<u8>> = HashMap::new();
    let mut versions: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (key, data) in read_stream(&office.kinesis, STREAM).await {
        let body: Json = serde_json::from_slice(&data).unwrap();
        match known.insert(body["id"].as_str().unwrap().to_owned(), data.clone()) {
            Some(before) => assert_eq!(before, data, "seed {seed}: a repeat is another message"),
            None => versions.entry(key).or_default().push(body["version"].as_u64().unwrap()),
        }
    }
    assert_eq!(versions, (0..40).map(|n| (format!("u-{n}"), vec![1, 2, 3])).collect(), "seed {seed}");

    let mut events: BTreeMap<String, Json> = BTreeMap::new();
    for event in drain(&office.sqs, &office.queue).await {
        let (detail, kind) = (event["detail"].clone(), event["detail-type"].clone());
        let id = detail["id"].as_str().unwrap().to_owned();
        if let Some(before) = events.insert(id, json!([kind, detail])) {
            assert_eq!(
                before,
                json!([event["detail-type"], event["detail"]]),
                "seed {seed}: a repeat is another message"
            );
        }
    }
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    for event in events.values() {
        *kinds.entry(event[0].as_str().unwrap()).or_default() += 1;
    }
    assert_eq!(
        kinds,
        BTreeMap::from([("CreditsGranted", 40), ("SubscriptionStatusChanged", 80), ("TierChanged", 40)]),
        "seed {seed}"
    );
    assert!(office.clock.sleeps_ms().len() > 10, "seed {seed}: nothing went wrong on the way");
}

/// Users who join, are debited, get a tier and credits, and are updated once more.
fn timeline(users: usize) -> Vec<Change> {
    let mut changes = Vec::new();
    for step in 0..5 {
        for n in 0..users {
            let (user, sequence) = (format!("u-{n}"), format!("{step}-{n}"));
            changes.push(match step {
                0 => joined(&user, &sequence),
                1 => sent(&user, &sequence),
                2 => change(&GG_CORE, None, Some(profile(&user, "SAGE", 1)), &sequence),
                3 => change(&GG_CORE, None, Some(top_up(&user, 1, t("2026-02-01T00:00:00Z"))), &sequence),
                _ => {
                    let (before, after) = (billing(&user, "ACHSENT", 2), billing(&user, "ACHSENT", 3));
                    change(&BILLING_ACTIVITY, Some(before), Some(after), &sequence)
                }
            });
        }
    }
    changes
}
