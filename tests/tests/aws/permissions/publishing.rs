//! Published changes, events of applications and S3, and the usage reset.

use dues_lambda::Function;
use dues_processors::usage::Settings;
use dues_store::table::{BILLING_ACTIVITY, GG_CORE};
use dues_store::usage::count::CountOutcome;
use dues_tests::aws::function_recorder::kinesis_batch;
use dues_tests::aws::recording_proxy::read_stream;
use dues_tests::fixtures::company::t;
use dues_tests::fixtures::figureforge as figureforge_events;
use dues_tests::fixtures::serenya as serenya_events;
use dues_tests::fixtures::usage::{asked, at, did};
use serde_json::{Value, json};

use super::entitling::{deliver_change, profile_row};
use super::{agree, first, members, site};

/// The response field that names the records to be redelivered.
const FAILED: &str = "batchItemFailures";

#[tokio::test]
async fn kinesis_feeder() {
    let site = site().await;
    let handle = site.start(Function::KinesisFeeder);
    members(&site, &["u-1"], "2026-04-30").await;
    let record = first(&site, "u-1").await.to_item();
    assert_eq!(
        deliver_change(&handle, &BILLING_ACTIVITY, None, Some(record.clone()), "1", false).await[FAILED],
        json!([])
    );
    let (free, sage) = (profile_row("u-1", "free"), profile_row("u-1", "SAGE"));
    assert_eq!(
        deliver_change(&handle, &GG_CORE, Some(free), Some(sage), "2", false).await[FAILED],
        json!([])
    );
    // A row that cannot be read.
    let mut odd = record;
    odd.set_text("billing_status", "NOWHERE");
    assert_eq!(
        deliver_change(&handle, &BILLING_ACTIVITY, None, Some(odd), "3", false).await[FAILED],
        json!([])
    );
    agree(Function::KinesisFeeder, &site);
    assert_eq!(
        read_stream(&site.kinesis, "subscriptions").await.len(),
        1,
        "the record's change, and nothing of the profile"
    );
}

#[tokio::test]
async fn app_events() {
    let site = site().await;
    let handle = site.start(Function::AppEvents);
    let users = ["u-1", "u-2", "u-3"].map(str::to_owned);
    let mut events = figureforge_events::events(1, 150, &users);
    let image =
        events.iter().find(|event| event["type"] == "figureforge.image.saved").unwrap()["image_id"].clone();
    events.push(json!({"event_id": "purge", "type": "figureforge.image.purged",
        "occurred_at": "2026-02-01T00:00:00Z", "image_id": image}));
    events.extend(serenya_events::events(2, 200, &users));
    events.push(json!("poison"));
    for batch in [&events[..], &events].concat().chunks(50) {
        assert_eq!(handle(kinesis_batch(batch)).await.unwrap()[FAILED], json!([]));
    }
    agree(Function::AppEvents, &site);
}

/// An object event as EventBridge delivers it.
fn object(change: &str, key: &str, sequencer: &str) -> Value {
    json!({"id": "d-1", "source": "aws.s3", "detail-type": format!("Object {change}"),
        "time": "2026-03-01T00:00:00Z",
        "detail": {"bucket": {"name": "documents"}, "object": {"key": key, "sequencer": sequencer}}})
}

#[tokio::test]
async fn s3_events() {
    let site = site().await;
    let handle = site.start(Function::S3Events);
    let key = |place: &str| format!("users/u-1/documents/{place}");
    for (change, place, sequencer, acted) in [
        ("Created", "uploads/a.pdf", "01", "applied"),
        ("Created", "uploads/a.pdf", "01", "duplicate"),
        ("Created", "processing/a.pdf.processing", "02", "applied"),
        ("Created", "results/a.pdf.json", "03", "applied"),
        ("Deleted", "processing/a.pdf.processing", "04", "applied"),
        ("Deleted", "results/a.pdf.json", "05", "applied"),
        ("Deleted", "uploads/a.pdf", "06", "applied"),
        ("Created", "uploads/b.pdf", "nonsense", "parked"),
    ] {
        assert_eq!(
            handle(object(change, &key(place), sequencer)).await.unwrap(),
            json!({"acted": acted}),
            "{change} {place}"
        );
    }
    agree(Function::S3Events, &site);
}

#[tokio::test]
async fn usage_reset() {
    let site = site().await;
    let handle = site.start(Function::UsageReset);
    let used = async |day: &str, key: &str| {
        let counted = did(
            &at(&site.engine, t(day)),
            &Settings::default(),
            &asked("u-1", "simulations", "simulation_run", key),
        )
        .await;
        assert!(matches!(counted, CountOutcome::Done(_)), "{counted:?}");
    };
    used("2026-02-27T12:00:00Z", "k-1").await;
    used("2026-02-28T12:00:00Z", "k-2").await;
    let reset = handle(json!({})).await.unwrap();
    assert_eq!((&reset["rows"], &reset["through"]), (&json!(2), &json!("2026-03-02")), "{reset}");
    assert_eq!(handle(json!({})).await.unwrap()["rows"], 0);
    agree(Function::UsageReset, &site);
}
