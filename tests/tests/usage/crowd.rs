//! Concurrent counting.

use dues_processors::Outcome;
use dues_processors::runtime::changes::Change;
use dues_processors::usage::{Settings, count};
use dues_store::table::usage::USER_USAGE;
use dues_store::usage::count::CountOutcome;
use dues_store::{Engine, Store, SystemClock};
use dues_tests::engines;
use dues_tests::fixtures::usage::{asked, dynamo_changes, embedded_changes, logged, projector};
use futures::future::join_all;
use std::collections::BTreeSet;

use super::{numbers, settings};

/// Runs each as its own task, all at once; the clock is real, because conflicting writers back off.
async fn at_once<E: Engine>(engine: &E, settings: &Settings, keys: Vec<String>) -> Vec<CountOutcome> {
    let store = Store::new(engine.clone(), SystemClock::shared());
    let tasks = keys.into_iter().map(|key| {
        let (store, settings) = (store.clone(), settings.clone());
        tokio::spawn(async move {
            count(&store, &settings, &asked("ada", "simulations", "simulation_run", &key)).await.unwrap()
        })
    });
    join_all(tasks).await.into_iter().map(Result::unwrap).collect()
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("k-{n}")).collect()
}

/// Fifty callers, a limit of three; then the stream delivers the changes, and redelivers part of them.
async fn fifty<E: Engine>(engine: E, changes: impl Fn() -> Vec<Change>) {
    let counted = at_once(&engine, &Settings::default(), keys(50)).await;
    let allowed: BTreeSet<(u64, u64)> =
        counted.iter().filter(|counted| matches!(counted, CountOutcome::Done(_))).map(numbers).collect();
    assert_eq!(allowed.into_iter().collect::<Vec<_>>(), [(0, 1), (1, 2), (2, 3)]);
    let refused =
        counted.iter().filter(|counted| **counted == CountOutcome::AtLimit { used: 3, limit: 3 }).count();
    assert_eq!(refused, 47);

    let store = Store::new(engine, SystemClock::shared());
    let changes: Vec<Change> = changes().into_iter().filter(|change| change.table == &USER_USAGE).collect();
    assert_eq!(changes.len(), 3);
    assert_eq!(
        projector(&store).project(&changes).await.outcomes,
        [Outcome::Applied, Outcome::Applied, Outcome::Applied]
    );
    assert_eq!(logged(&store, "ada").await, [(0, 1), (1, 2), (2, 3)]);
    assert_eq!(
        projector(&store).project(&changes[1..]).await.outcomes,
        [Outcome::Duplicate, Outcome::Duplicate]
    );
    assert_eq!(logged(&store, "ada").await, [(0, 1), (1, 2), (2, 3)], "projected again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_callers_at_a_limit_of_three_are_three_allowed_embedded() {
    let (engine, _folder) = engines::embedded();
    let log = engine.clone();
    fifty(engine, move || embedded_changes(&log)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_callers_at_a_limit_of_three_are_three_allowed_dynamo() {
    let (engine, server) = engines::dynoxide().await;
    fifty(engine, || dynamo_changes(&server, &USER_USAGE)).await;
}

dues_tests::on_engines! {
    without_a_limit_everybody_is_counted_once,
    one_key_is_counted_once_and_everybody_gets_the_same_answer,
}

async fn without_a_limit_everybody_is_counted_once<E: Engine>(engine: E) {
    let counted = at_once(&engine, &settings("free:simulations=*"), keys(30)).await;
    let mut after: Vec<u64> = counted.iter().map(|counted| numbers(counted).1).collect();
    after.sort_unstable();
    assert_eq!(after, (1..=30).collect::<Vec<_>>());
}

async fn one_key_is_counted_once_and_everybody_gets_the_same_answer<E: Engine>(engine: E) {
    let counted = at_once(&engine, &Settings::default(), vec!["k".to_owned(); 20]).await;
    assert_eq!(numbers(&counted[0]), (0, 1));
    assert!(counted.iter().all(|other| *other == counted[0]), "{counted:?}");
    let other = at_once(&engine, &Settings::default(), vec!["l".to_owned()]).await;
    assert_eq!(numbers(&other[0]), (1, 2));
}
