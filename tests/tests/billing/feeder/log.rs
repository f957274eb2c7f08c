//! The embedded engine's change log, written by the real handlers, as consumers see it.

use super::*;
use dues_events::GoTime;
use dues_processors::Outcome;
use dues_processors::billing::feeder::KinesisFeeder;
use dues_store::embedded::Embedded;
use dues_tests::engines::embedded;
use dues_tests::fixtures::company::{context, deliver, membership, monthly, records, store};
use dues_tests::lossy_streams::Leaky;

/// The changes logged after a position.
fn logged(engine: &Embedded, after: u64) -> Vec<Change> {
    let logged = engine.changes(after, 100).unwrap().into_iter();
    logged.map(|logged| change(logged.table, logged.old, logged.new, &logged.seq.to_string())).collect()
}

#[tokio::test]
async fn a_record_that_moves_to_another_due_date_is_neither_new_nor_gone() {
    let (engine, _folder) = embedded();
    let joins = membership("m-1", "ACTIVATE", "u-1", "2026-01-05T00:00:00Z", monthly("2026-01-31"));
    deliver(&context(engine.clone()), &[joins], 1).await;
    let before = engine.changes(0, 100).unwrap().len() as u64;
    let original = records(&engine, "u-1").await.remove(0);
    let moved = Record { billing_date: GoTime::trimmed(t("2026-02-05T00:00:00Z")), ..original.clone() };
    store(engine.clone()).admin_update(&original, moved, "ada").await.unwrap().unwrap();

    let (outbox, bus) = (Leaky::sound(), Leaky::sound());
    let feeder = KinesisFeeder::new(store(engine.clone()), outbox.clone(), bus.clone());
    let changes = logged(&engine, before);
    assert_eq!(
        feeder.feed(&changes).await.outcomes,
        [Outcome::Applied, Outcome::Applied, Outcome::Skipped],
        "marked, arrived, removed"
    );
    let updates: Vec<Json> =
        outbox.taken().iter().map(|seen| serde_json::from_slice(&seen.data).unwrap()).collect();
    let fields: Vec<_> = updates
        .iter()
        .map(|update| {
            (&update["version"], &update["subscription"]["billing_date"], &update["subscription"]["moved_to"])
        })
        .collect();
    let (old, new) = (json!("2026-01-31T00:00:00Z"), json!("2026-02-05T00:00:00Z"));
    assert_eq!(fields, [(&json!(2), &old, &new), (&json!(2), &new, &Json::Null)]);
    assert_ne!(updates[0]["id"], updates[1]["id"], "two changes, two messages");
    assert_eq!(bus.taken(), [], "its status is what it was");
}
