//! Batches as Lambda delivers them, the response that names what to redeliver, and what is parked.

use super::*;
use dues_processors::Outcome;
use dues_processors::billing::feeder::{KinesisFeeder, kinesis_feeder};
use dues_processors::entitlements::groups::LocalDirectory;
use dues_processors::messaging::bus::{Bus, Message};
use dues_processors::messaging::outbox::{Outbox, Outgoing, PublishError};
use dues_processors::projector::Projector;
use dues_processors::runtime::redrive::{redrive_change, redrive_feed};
use dues_store::Engine;
use dues_store::parked::Parked;
use dues_tests::fixtures::company::store;
use dues_tests::lossy_streams::Leaky;
use std::sync::{Arc, Mutex};

dues_tests::on_engines! {
    what_cannot_be_read_is_parked_and_the_others_go_on,
    a_rejected_message_is_parked_with_its_reason_and_can_be_published_later,
    what_the_projector_has_mended_still_waits_for_the_feeder,
}

/// The error for a message of a user, if it is to be rejected.
type Hook = Arc<Mutex<dyn Fn(&str) -> Option<PublishError> + Send>>;

/// A stream that rejects some users' messages.
#[derive(Clone)]
struct Picky {
    inner: Leaky,
    hook: Hook,
}

impl Picky {
    fn new(hook: impl Fn(&str) -> Option<PublishError> + Send + 'static) -> Self {
        Self { inner: Leaky::sound(), hook: Arc::new(Mutex::new(hook)) }
    }

    fn users(&self) -> Vec<String> {
        self.inner.taken().into_iter().map(|seen| seen.user).collect()
    }
}

impl Outbox for Picky {
    async fn put_many(&self, messages: &[Outgoing]) -> Vec<Result<(), PublishError>> {
        let mut answers = Vec::new();
        for message in messages {
            let refused = (self.hook.lock().unwrap())(&message.key);
            answers.push(match refused {
                Some(refused) => Err(refused),
                None => self.inner.put_many(std::slice::from_ref(message)).await.remove(0),
            });
        }
        answers
    }
}

/// The sequence numbers that the response names.
async fn handle<E: Engine, O: Outbox, B: Bus>(
    feeder: &KinesisFeeder<E, O, B>,
    records: &[Json],
) -> Vec<String> {
    let answer = kinesis_feeder(feeder, serde_json::from_value(json!({"Records": records})).unwrap()).await;
    answer.batch_item_failures.into_iter().map(|failure| failure.item_identifier.unwrap()).collect()
}

async fn parked<E: Engine>(engine: &E) -> Vec<Parked> {
    store(engine.clone()).parked().await.unwrap()
}

fn accepts_all(_: &str) -> Option<PublishError> {
    None
}

#[tokio::test]
async fn the_answer_names_the_first_that_failed_and_nothing_overtakes_it() {
    let throttled = |user: &str| (user == "busy").then(|| PublishError::Transient("slowly".into()));
    let (outbox, bus) = (Picky::new(throttled), Leaky::sound());
    let feeder = KinesisFeeder::new(
        store(dues_tests::engines::memory::Memory::default()),
        outbox.clone(),
        bus.clone(),
    );
    let changes = [joined("calm", "100"), joined("busy", "101"), sent("busy", "102"), sent("calm", "103")];
    let outcomes = feeder.feed(&changes).await.outcomes;
    let failed = |why: &str| Outcome::Failed(why.into());
    assert_eq!(
        outcomes,
        [Outcome::Applied, failed("slowly"), failed("behind a record that failed: slowly"), Outcome::Applied]
    );
    assert_eq!(outbox.users(), ["calm", "calm"]);
    let published: Vec<String> = bus.taken().into_iter().map(|seen| seen.user).collect();
    assert_eq!(
        published.iter().filter(|user| *user == "busy").count(),
        1,
        "nothing of the later change was published, not on the bus either"
    );

    let records: Vec<Json> = changes.iter().map(record).collect();
    assert_eq!(handle(&feeder, &records).await, ["101"]);
    assert_eq!(handle(&feeder, &records[..1]).await, Vec::<String>::new());
    assert_eq!(feeder.feed(&[]).await.outcomes, []);
}

#[tokio::test]
async fn rows_that_are_not_published_are_skipped() {
    let (outbox, bus) = (Leaky::sound(), Leaky::sound());
    let feeder = KinesisFeeder::new(
        store(dues_tests::engines::memory::Memory::default()),
        outbox.clone(),
        bus.clone(),
    );
    let removed = change(&BILLING_ACTIVITY, Some(billing("u-1", "SCHEDULED", 1)), None, "1");
    let mut moved = billing("u-1", "SCHEDULED", 2);
    moved.set_text("moved_to", "2026-02-05T00:00:00Z");
    let moved_away = change(&BILLING_ACTIVITY, Some(moved), None, "2");
    let same_tier = change(&GG_CORE, Some(profile("u-1", "SAGE", 1)), Some(profile("u-1", "SAGE", 2)), "3");
    let event = change(&dues_store::table::ENTITLEMENTS, None, Some(profile("u-1", "SAGE", 1)), "4");
    assert_eq!(
        feeder.feed(&[removed, moved_away, same_tier, event]).await.outcomes,
        vec![Outcome::Skipped; 4]
    );
    assert!(outbox.taken().is_empty() && bus.taken().is_empty());
}

async fn what_cannot_be_read_is_parked_and_the_others_go_on<E: Engine>(engine: E) {
    let (outbox, bus) = (Leaky::sound(), Leaky::sound());
    let feeder = KinesisFeeder::new(store(engine.clone()), outbox.clone(), bus);
    let mut poison = record(&joined("u-1", "1"));
    poison["dynamodb"]["NewImage"]["billing_amount"] = json!({"N": 5});
    let mut strange = sent("u-1", "2");
    strange.new.as_mut().unwrap().set_text("billing_status", "SLEEPING");
    let records = [poison.clone(), record(&strange), record(&joined("u-2", "3"))];
    for _ in 0..2 {
        assert_eq!(handle(&feeder, &records).await, Vec::<String>::new());
    }
    assert!(outbox.taken().iter().all(|seen| seen.user == "u-2"));
    let all = parked(&engine).await;
    let mut reasons: Vec<_> = all
        .iter()
        .map(|p| (p.stream.as_str(), p.code.as_str(), p.reason.as_str(), p.user_id.as_deref()))
        .collect();
    reasons.sort_unstable();
    let expected = [
        ("malformed", "dynamodb.NewImage.billing_amount.N: is not a number as text", None),
        (
            "unreadable",
            r#"billing_status of row u-1/2026-02-01T00:00:00Z: "SLEEPING" is not a billing status"#,
            Some("u-1"),
        ),
    ];
    assert_eq!(
        reasons,
        expected.map(|(code, reason, user)| ("kinesis-feeder/billing-activity", code, reason, user))
    );
    for waiting in &all {
        assert_eq!(
            redrive_feed(&feeder, waiting).await.unwrap(),
            Outcome::Parked,
            "it is as unreadable as before"
        );
    }
    assert_eq!(parked(&engine).await.len(), 2);

    // A later version may read what this one cannot.
    let mut mended = all.iter().find(|parked| parked.code == "unreadable").unwrap().clone();
    mended.body = String::from_utf8(mended.body).unwrap().replace("SLEEPING", "ACHSENT").into_bytes();
    assert_eq!(redrive_feed(&feeder, &mended).await.unwrap(), Outcome::Applied);
    let last = outbox.taken().pop().unwrap();
    feeder.feed(&[sent("u-1", "77")]).await;
    assert_eq!(
        outbox.taken().pop().unwrap(),
        last,
        "under the id that it would have had, whatever number it came under"
    );
    assert_eq!(parked(&engine).await.len(), 1);
}

async fn a_rejected_message_is_parked_with_its_reason_and_can_be_published_later<E: Engine>(engine: E) {
    let (outbox, bus) = (
        Picky::new(|user| (user == "large").then(|| PublishError::Rejected("has too many bytes".into()))),
        Leaky::sound(),
    );
    let feeder = KinesisFeeder::new(store(engine.clone()), outbox.clone(), bus.clone());
    let changes = [joined("large", "1"), sent("large", "2"), joined("small", "3")];
    assert_eq!(feeder.feed(&changes).await.outcomes, [Outcome::Parked, Outcome::Parked, Outcome::Applied]);
    let all = parked(&engine).await;
    let reasons: Vec<_> = all
        .iter()
        .map(|p| (p.stream.as_str(), p.code.as_str(), p.reason.as_str(), p.user_id.as_deref()))
        .collect();
    assert_eq!(
        reasons,
        [("kinesis-feeder/billing-activity", "message_refused", "has too many bytes", Some("large")); 2]
    );
    assert_eq!(redrive_feed(&feeder, &all[0]).await.unwrap(), Outcome::Parked);

    let willing = KinesisFeeder {
        outbox: Picky { hook: Arc::new(Mutex::new(accepts_all)), ..outbox.clone() },
        ..feeder.clone()
    };
    for waiting in &all {
        assert_eq!(redrive_feed(&willing, waiting).await.unwrap(), Outcome::Applied);
    }
    assert_eq!(
        (outbox.users(), parked(&engine).await),
        (vec!["small".to_owned(), "large".into(), "large".into()], vec![])
    );
}

async fn what_the_projector_has_mended_still_waits_for_the_feeder<E: Engine>(engine: E) {
    let (outbox, bus) = (Leaky::sound(), Leaky::sound());
    let feeder = KinesisFeeder::new(store(engine.clone()), outbox.clone(), bus.clone());
    let projector = Projector::new(store(engine.clone()), Some(LocalDirectory::new(engine.clone())));
    let mut bad = joined("u-1", "1");
    bad.new.as_mut().unwrap().set_text("billing_status", "SLEEPING");
    assert_eq!(projector.project(std::slice::from_ref(&bad)).await.outcomes, [Outcome::Parked]);
    assert_eq!(feeder.feed(&[bad]).await.outcomes, [Outcome::Parked]);
    let mend = |mut parked: Parked| {
        parked.body = String::from_utf8(parked.body).unwrap().replace("SLEEPING", "SCHEDULED").into_bytes();
        parked
    };
    let [for_projector, for_feeder] = <[Parked; 2]>::try_from(parked(&engine).await).unwrap();
    assert_eq!(
        (for_projector.stream.as_str(), for_feeder.stream.as_str()),
        ("billing-activity", "kinesis-feeder/billing-activity")
    );
    assert_eq!(redrive_change(&projector, &mend(for_projector)).await.unwrap(), Outcome::Skipped);
    let [waiting] = <[Parked; 1]>::try_from(parked(&engine).await).unwrap();
    assert_eq!(redrive_feed(&feeder, &mend(waiting)).await.unwrap(), Outcome::Applied);
    assert_eq!((outbox.taken().len(), bus.taken().len(), parked(&engine).await.len()), (1, 1, 0));
}

/// A bus that never answers.
struct Mute;

impl Bus for Mute {
    async fn publish(&self, _: &[Message]) -> Vec<Result<(), PublishError>> {
        Vec::new()
    }
}

#[tokio::test]
async fn silence_is_no_answer() {
    let feeder =
        KinesisFeeder::new(store(dues_tests::engines::memory::Memory::default()), Leaky::sound(), Mute);
    assert_eq!(
        feeder.feed(&[joined("u-1", "1")]).await.outcomes,
        [Outcome::Failed("was not answered".into())]
    );
}
