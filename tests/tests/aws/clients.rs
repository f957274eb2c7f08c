//! The clients for SQS, EventBridge and Kinesis, against ministack: everything sent arrives, and only failed
//! entries are sent again.

use dues_processors::aws::clients::eventbridge_bus::EventBridge;
use dues_processors::aws::clients::kinesis_inbox::Kinesis;
use dues_processors::aws::clients::sqs_queue::Sqs;
use dues_processors::collections::job::{JobRun, Task};
use dues_processors::messaging::bus::{Bus, Message};
use dues_processors::messaging::inbox::{Inbox, InboxError};
use dues_processors::messaging::outbox::PublishError;
use dues_processors::messaging::queue::Queue;
use dues_tests::aws::ministack::new_account;
use dues_tests::aws::recording_proxy::{Asked, Meddler, Mischief, drain, listen, read_stream};
use dues_tests::clock::TestClock;
use dues_tests::fixtures::company::t;
use serde_json::{Value, json};

fn nothing(_: &Asked) -> Mischief {
    Mischief::None
}

/// A queue, with the proxy between it and its client.
struct Line {
    meddler: Meddler,
    client: aws_sdk_sqs::Client,
    url: String,
    clock: TestClock,
    queue: Sqs,
}

async fn line(hook: impl Fn(&Asked) -> Mischief + Send + Sync + 'static) -> Line {
    let (meddler, clock) = (Meddler::new(hook), TestClock::skipping());
    let client = meddler.sqs(&new_account());
    let url = client.create_queue().queue_name("collections").send().await.unwrap().queue_url.unwrap();
    let queue = Sqs::new(client.clone(), &url, clock.shared());
    Line { meddler, client, url, clock, queue }
}

fn tasks(count: usize) -> Vec<Task> {
    (0..count).map(|n| Task { user_id: format!("auth0|u-{n:02}").into(), process: JobRun::Initial }).collect()
}

fn bodies(count: usize) -> Vec<Value> {
    (0..count).map(|n| json!({"user_id": format!("auth0|u-{n:02}"), "process": "INITIAL"})).collect()
}

#[tokio::test]
async fn tasks_arrive_in_tens() {
    let line = line(nothing).await;
    line.queue.send(tasks(25)).await.unwrap();
    assert_eq!(drain(&line.client, &line.url).await, bodies(25));
    let mut sizes = line.meddler.sizes();
    sizes.sort_unstable();
    assert_eq!((sizes, line.clock.sleeps_ms()), (vec![5, 10, 10], vec![]));
    line.queue.send(Vec::new()).await.unwrap();
    assert_eq!(line.meddler.sizes().len(), 3, "nothing to send is no request");
}

#[tokio::test]
async fn only_the_tasks_that_failed_are_sent_again_after_growing_pauses() {
    let line = line(|asked| match asked.number {
        0 => Mischief::Drop(vec![0, 3, 9], "InternalError"),
        1 => Mischief::Drop(vec![1], "RequestThrottled"),
        _ => Mischief::None,
    })
    .await;
    line.queue.send(tasks(10)).await.unwrap();
    assert_eq!(drain(&line.client, &line.url).await, bodies(10), "each once");
    assert_eq!((line.meddler.sizes(), line.clock.sleeps_ms()), (vec![10, 3, 1], vec![100, 200]));
}

#[tokio::test]
async fn a_request_that_is_throttled_or_breaks_is_sent_again() {
    for refusal in [
        (400, "ThrottlingException"),
        (400, "RequestThrottled"),
        (429, "TooManyRequestsException"),
        (503, "ServiceUnavailable"),
    ] {
        let line =
            line(
                move |asked| {
                    if asked.number < 2 { Mischief::Refuse(refusal.0, refusal.1) } else { Mischief::None }
                },
            )
            .await;
        line.queue.send(tasks(4)).await.unwrap();
        assert_eq!(drain(&line.client, &line.url).await, bodies(4), "{refusal:?}");
        assert_eq!(line.clock.sleeps_ms(), [100, 200]);
    }
}

#[tokio::test]
async fn a_lost_answer_repeats_the_tasks_and_loses_none() {
    let line = line(|asked| if asked.number == 0 { Mischief::LoseAnswer } else { Mischief::None }).await;
    line.queue.send(tasks(2)).await.unwrap();
    let mut twice = [bodies(2), bodies(2)].concat();
    twice.sort_by_key(ToString::to_string);
    let mut got = drain(&line.client, &line.url).await;
    got.sort_by_key(ToString::to_string);
    assert_eq!(got, twice);
}

#[tokio::test]
async fn the_error_says_how_many_tasks_were_given_up_and_why() {
    let stubborn = line(|asked| match asked.entries.len() {
        10 => Mischief::Drop(vec![2, 4], "InternalError"),
        2 => Mischief::Drop(vec![0, 1], "InternalError"),
        _ => Mischief::None,
    })
    .await;
    let error = stubborn.queue.send(tasks(13)).await.unwrap_err().to_string();
    assert_eq!(error, "queue: 2 of 13 tasks were not queued: InternalError: dropped");
    assert_eq!(stubborn.clock.sleeps_ms(), [100, 200, 400, 800, 1600]);
    assert_eq!(drain(&stubborn.client, &stubborn.url).await.len(), 11);

    let ours = line(|_| Mischief::Drop(vec![1], "InvalidMessageContents")).await;
    let error = ours.queue.send(tasks(3)).await.unwrap_err().to_string();
    assert_eq!(error, "queue: 1 of 3 tasks were not queued: InvalidMessageContents: dropped");
    assert_eq!(ours.clock.sleeps_ms(), Vec::<u64>::new(), "what is wrong stays wrong");

    let gone = line(nothing).await;
    gone.client.delete_queue().queue_url(&gone.url).send().await.unwrap();
    let error = gone.queue.send(tasks(3)).await.unwrap_err().to_string();
    assert!(
        error.starts_with("queue: 3 of 3 tasks were not queued: ") && error.contains("NonExistent"),
        "{error}"
    );
    assert_eq!(gone.meddler.sizes(), [3]);
}

/// A bus with a rule that routes every event to a queue.
struct Road {
    meddler: Meddler,
    sqs: aws_sdk_sqs::Client,
    url: String,
    clock: TestClock,
    bus: EventBridge,
}

async fn road(hook: impl Fn(&Asked) -> Mischief + Send + Sync + 'static) -> Road {
    let (meddler, clock, account) = (Meddler::new(hook), TestClock::skipping(), new_account());
    let (sqs, events) = (meddler.sqs(&account), meddler.eventbridge(&account));
    let url = listen(&sqs, &events, "company", &["SubscriptionDueSoon"]).await;
    let bus = EventBridge::new(events, "company", clock.shared());
    Road { meddler, sqs, url, clock, bus }
}

impl Road {
    /// The details of the events received so far, sorted as text.
    async fn received(&self) -> Vec<Value> {
        let mut details: Vec<Value> =
            drain(&self.sqs, &self.url).await.into_iter().map(|event| event["detail"].clone()).collect();
        details.sort_by_key(ToString::to_string);
        details
    }
}

fn message(n: usize, padding: usize) -> Message {
    let id = format!("due-soon:{n:02}");
    let detail = json!({"id": id, "n": n, "x": "x".repeat(padding)});
    Message {
        id: id.into(),
        detail_type: "SubscriptionDueSoon",
        at: Some(t("2026-03-02T12:00:00.5Z")),
        detail,
    }
}

fn messages(count: usize) -> Vec<Message> {
    (0..count).map(|n| message(n, 0)).collect()
}

fn details(messages: &[Message]) -> Vec<Value> {
    messages.iter().map(|message| message.detail.clone()).collect()
}

#[tokio::test]
async fn messages_arrive_with_source_type_time_and_detail() {
    let road = road(nothing).await;
    assert_eq!(road.bus.publish(&messages(1)).await, [Ok(())]);
    let event = drain(&road.sqs, &road.url).await.remove(0);
    assert_eq!((&event["source"], &event["detail-type"]), (&json!("dues"), &json!("SubscriptionDueSoon")));
    // ministack sets every event's time to its arrival: check the request instead.
    assert_eq!(road.meddler.asked()[0].entries[0]["Time"], json!(1_772_452_800.5));
    assert_eq!(event["detail"], json!({"id": "due-soon:00", "n": 0, "x": ""}));
    assert_eq!(road.bus.publish(&[]).await, []);

    let many = messages(23);
    assert_eq!(road.bus.publish(&many).await, vec![Ok(()); 23]);
    assert_eq!(road.received().await, details(&many));
    let mut sizes = road.meddler.sizes();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 3, 10, 10]);
}

#[tokio::test]
async fn no_request_is_larger_than_256_kilobytes_and_what_can_never_fit_is_not_sent() {
    let road = road(nothing).await;
    let large: Vec<Message> = (0..4).map(|n| message(n, 100_000)).chain([message(9, 300_000)]).collect();
    let answers = road.bus.publish(&large).await;
    assert_eq!(answers[..4], [const { Ok(()) }; 4]);
    let Err(PublishError::Rejected(too_large)) = &answers[4] else { panic!("{:?}", answers[4]) };
    assert!(
        too_large.starts_with("has 300") && too_large.ends_with(" bytes, the most is 262144"),
        "{too_large}"
    );
    assert_eq!(road.meddler.sizes(), [2, 2]);
    assert_eq!(road.received().await, details(&large[..4]));
}

#[tokio::test]
async fn only_the_messages_that_failed_are_sent_again() {
    let road = road(|asked| match asked.number {
        0 => Mischief::Refuse(400, "ThrottlingException"),
        1 => Mischief::Drop(vec![1, 2, 7], "InternalFailure"),
        2 => Mischief::Drop(vec![0], "ThrottlingException"),
        _ => Mischief::None,
    })
    .await;
    let all = messages(8);
    assert_eq!(road.bus.publish(&all).await, vec![Ok(()); 8]);
    assert_eq!(road.received().await, details(&all), "each once");
    assert_eq!((road.meddler.sizes(), road.clock.sleeps_ms()), (vec![8, 8, 3, 1], vec![100, 200, 400]));
    assert_eq!(road.meddler.asked()[3].entries[0]["Detail"], json!(all[1].detail.to_string()));
}

#[tokio::test]
async fn each_message_that_is_given_up_has_its_own_error() {
    let road = road(|asked| match asked.entries.len() {
        5 => Mischief::Drop(vec![1, 3], "InternalFailure"),
        _ => Mischief::Drop(
            (0..asked.entries.len()).collect(),
            if asked.number == 1 { "MalformedDetail" } else { "InternalFailure" },
        ),
    })
    .await;
    let all = messages(5);
    let answers = road.bus.publish(&all).await;
    let malformed = Err(PublishError::Rejected("MalformedDetail: dropped".to_owned()));
    assert_eq!(answers, [Ok(()), malformed.clone(), Ok(()), malformed, Ok(())]);
    assert_eq!(road.meddler.sizes(), [5, 2], "what is wrong stays wrong");
    assert_eq!(road.received().await.len(), 3);

    let silent = self::road(|_| Mischief::Refuse(500, "InternalException")).await;
    let answers = silent.bus.publish(&all).await;
    assert!(
        answers.iter().all(
            |answer| matches!(answer, Err(PublishError::Transient(why)) if why.contains("InternalException"))
        ),
        "{answers:?}"
    );
    assert_eq!(silent.clock.sleeps_ms(), [100, 200, 400, 800, 1600]);

    let barred = self::road(|_| Mischief::Refuse(400, "AccessDeniedException")).await;
    assert!(
        barred.bus.publish(&all).await.iter().all(|answer| matches!(answer, Err(PublishError::Transient(_)))),
        "the messages are not at fault"
    );
    assert_eq!(barred.meddler.sizes(), [5], "asking again does not help");
}

/// A stream for events, with the proxy between it and its client.
struct Letterbox {
    meddler: Meddler,
    client: aws_sdk_kinesis::Client,
    clock: TestClock,
    inbox: Kinesis,
}

async fn letterbox(hook: impl Fn(&Asked) -> Mischief + Send + Sync + 'static) -> Letterbox {
    let (meddler, clock) = (Meddler::new(hook), TestClock::skipping());
    let client = meddler.kinesis(&new_account());
    client.create_stream().stream_name("stripe").shard_count(1).send().await.unwrap();
    let inbox = Kinesis::new(&client, "stripe", clock.shared());
    Letterbox { meddler, client, clock, inbox }
}

impl Letterbox {
    /// Keys and bodies of the records on the stream, in stream order.
    async fn records(&self) -> Vec<(String, Vec<u8>)> {
        read_stream(&self.client, "stripe").await
    }
}

fn letter(key: &str, body: &[u8]) -> (String, Vec<u8>) {
    (key.to_owned(), body.to_vec())
}

#[tokio::test]
async fn events_lie_in_the_inbox_byte_by_byte_under_their_keys() {
    let letterbox = letterbox(nothing).await;
    let odd: Vec<u8> = (0..=255).collect();
    letterbox.inbox.put("auth0|u-1", b"{ \"id\" : \"evt_1\" }\n").await.unwrap();
    letterbox.inbox.put("cus_\u{fc}", &odd).await.unwrap();
    let expected = [letter("auth0|u-1", b"{ \"id\" : \"evt_1\" }\n"), letter("cus_\u{fc}", &odd)];
    assert_eq!(letterbox.records().await, expected);
    assert_eq!(
        (letterbox.meddler.sizes(), letterbox.clock.sleeps_ms()),
        (vec![1, 1], vec![]),
        "one request each"
    );
}

#[tokio::test]
async fn an_event_that_is_throttled_or_meets_trouble_is_put_again() {
    for refusal in [
        (400, "ProvisionedThroughputExceededException"),
        (400, "KMSThrottlingException"),
        (400, "ThrottlingException"),
        (500, "InternalFailure"),
        (503, "ServiceUnavailable"),
    ] {
        let letterbox =
            letterbox(
                move |asked| {
                    if asked.number < 2 { Mischief::Refuse(refusal.0, refusal.1) } else { Mischief::None }
                },
            )
            .await;
        letterbox.inbox.put("u-1", b"{}").await.unwrap();
        assert_eq!(letterbox.records().await, [letter("u-1", b"{}")], "{refusal:?}");
        assert_eq!(
            letterbox.clock.sleeps_ms(),
            [100, 200],
            "{refusal:?}: the pauses are ours, and the client adds none"
        );
    }
    let lost = letterbox(|asked| if asked.number == 0 { Mischief::LoseAnswer } else { Mischief::None }).await;
    lost.inbox.put("u-1", b"{}").await.unwrap();
    assert_eq!(lost.records().await, [letter("u-1", b"{}"), letter("u-1", b"{}")], "rather twice than never");
}

#[tokio::test]
async fn the_inbox_says_whether_it_is_worth_trying_again() {
    let busy = letterbox(|_| Mischief::Refuse(400, "ProvisionedThroughputExceededException")).await;
    let error = busy.inbox.put("u-1", b"{}").await.unwrap_err();
    assert!(
        matches!(&error, InboxError::Unavailable(why) if why.contains("ProvisionedThroughputExceeded"))
            && error.is_transient(),
        "{error}"
    );
    assert_eq!(busy.clock.sleeps_ms(), [100, 200, 400, 800, 1600]);

    let gone = letterbox(nothing).await;
    gone.client.delete_stream().stream_name("stripe").send().await.unwrap();
    let error = gone.inbox.put("u-1", b"{}").await.unwrap_err();
    assert!(
        matches!(&error, InboxError::Refused(why) if why.contains("ResourceNotFound"))
            && !error.is_transient(),
        "{error}"
    );
    assert_eq!(
        (gone.meddler.sizes(), gone.clock.sleeps_ms()),
        (vec![1], vec![]),
        "what is wrong stays wrong"
    );
}
