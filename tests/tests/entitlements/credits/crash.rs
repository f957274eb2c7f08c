//! A crash after every write; then the interrupted operation runs again.

use dues_events::Feature;
use dues_store::{Condition, Engine, StoreError};
use dues_tests::engines::faulty::Faulty;

use super::*;

dues_tests::on_engines! {
    a_crash_after_any_write_and_a_retry_end_the_same,
}

#[derive(Debug, Clone)]
enum Step {
    Read,
    Move(Movement),
    Consume(Feature, &'static str),
    /// DynamoDB removes the row, and its stream delivers the removal.
    Removed,
}

fn script() -> Vec<(&'static str, Step)> {
    let bought = top_up("pi_1", 10, "2026-01-15T00:00:00Z");
    let back = Movement::take_back("re_1", &bought, t("2026-02-01T00:00:00Z"), "evt_re".into());
    vec![
        ("2026-01-01T00:00:00Z", Step::Consume(Feature::Video, "too early")),
        ("2026-01-01T00:00:00Z", Step::Move(grant("2026-01-01T00:00:00Z", 5, "evt_1"))),
        ("2026-01-15T00:00:00Z", Step::Move(bought)),
        ("2026-01-16T00:00:00Z", Step::Consume(Feature::MirrorReport, "k-1")),
        ("2026-01-17T00:00:00Z", Step::Consume(Feature::MirrorReport, "k-2")),
        ("2026-02-01T00:00:00Z", Step::Move(back)),
        ("2026-03-01T00:00:00Z", Step::Move(top_up("pi_2", 20, "2026-03-01T00:00:00Z"))),
        ("2027-03-02T00:00:00Z", Step::Read),
        ("2027-03-03T00:00:00Z", Step::Move(top_up("pi_3", 8, "2027-03-03T00:00:00Z"))),
        ("2028-03-03T00:00:00Z", Step::Removed),
        ("2028-03-04T00:00:00Z", Step::Move(top_up("pi_4", 2, "2028-03-04T00:00:00Z"))),
        ("2029-03-05T00:00:00Z", Step::Consume(Feature::MentorFeedback, "too late")),
    ]
}

/// One step on the engine that may fail. DynamoDB's own writes go to the healthy one.
async fn take<E: Engine, F: Engine>(
    engine: &E,
    healthy: &F,
    time: &str,
    step: &Step,
    image: &mut Option<Item>,
) -> Result<(), StoreError> {
    let store = at(engine, time);
    match step {
        Step::Read => store.credits(&user()).await.map(drop),
        Step::Move(movement) => store.move_credits(&user(), movement).await.map(drop),
        Step::Consume(feature, key) => store.consume(&user(), *feature, key).await.map(drop),
        Step::Removed => {
            if image.is_none() {
                *image = healthy.get(&GG_CORE, balance_key()).await.unwrap();
                healthy.delete(&GG_CORE, balance_key(), Condition::Always).await.unwrap();
            }
            store.balance_row_removed(&user(), image.as_ref().unwrap()).await
        }
    }
}

async fn a_crash_after_any_write_and_a_retry_end_the_same<E: Engine>(engine: E) {
    let mut image = None;
    for (time, step) in script() {
        take(&engine, &engine, time, &step, &mut image).await.unwrap();
    }
    let expected = rows(&engine).await;
    assert_eq!(checked(&at(&engine, "2029-03-05T00:00:00Z")).await, 0);
    let mut crashes = 0;
    for writes in 1.. {
        clear(&engine).await;
        let faulty = Faulty::after(engine.clone(), writes);
        let mut image = None;
        for (time, step) in script() {
            if take(&faulty, &engine, time, &step, &mut image).await.is_err() {
                assert!(faulty.stopped());
                take(&engine, &engine, time, &step, &mut image).await.unwrap();
            }
        }
        assert_eq!(rows(&engine).await, expected, "after a crash at write {writes}");
        if !faulty.stopped() {
            break;
        }
        crashes += 1;
    }
    assert!(crashes >= 14, "only {crashes} crashes");
}
