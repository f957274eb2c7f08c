//! Concurrent operations on one balance.

use dues_events::{Balance, Feature, Movement};
use dues_store::Engine;
use dues_store::entitlements::credits::{Consumed, Moved};
use futures::future::join_all;
use std::collections::BTreeSet;

use super::*;

dues_tests::on_engines! {
    two_hundred_consumers_take_exactly_what_is_there,
    one_key_takes_once_and_every_caller_gets_the_same_answer,
    all_first_readers_get_the_same_row,
    grants_of_two_events_at_once_are_booked_once,
    late_and_early_top_ups_at_once_all_come_in,
}

/// Runs each as its own task, all at once.
async fn at_once<T: Send + 'static>(
    tasks: impl Iterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    join_all(tasks.map(tokio::spawn)).await.into_iter().map(Result::unwrap).collect()
}

async fn two_hundred_consumers_take_exactly_what_is_there<E: Engine>(engine: E) {
    let store = stocked(&engine, 100).await;
    let one = |n: usize| {
        let store = store.clone();
        async move { store.consume(&user(), Feature::MentorFeedback, &format!("key-{n}")).await.unwrap() }
    };
    let answers = at_once((0..200).map(one)).await;
    let taken = answers.iter().filter_map(taken).map(|movement| movement.id.clone()).collect::<BTreeSet<_>>();
    let refused = answers.iter().filter(|answer| **answer == Consumed::NotEnough(0)).count();
    assert_eq!((taken.len(), refused), (100, 100));
    assert_eq!(checked(&store).await, 0);
    assert_eq!(store.ledger(&user()).await.unwrap().len(), 101);
}

async fn one_key_takes_once_and_every_caller_gets_the_same_answer<E: Engine>(engine: E) {
    // Just enough for one: the repeats must not be refused for too few credits.
    stocked(&engine, 3).await;
    let one = |n: usize| {
        let store = at(&engine, &format!("2026-03-01T00:00:{n:02}Z"));
        async move { store.consume(&user(), Feature::Video, "render-7").await.unwrap() }
    };
    let answers = at_once((0..50).map(one)).await;
    assert!(taken(&answers[0]).is_some(), "{:?}", answers[0]);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    let store = today(&engine);
    assert_eq!(checked(&store).await, 0);
    assert_eq!(
        store.consume(&user(), Feature::MentorFeedback, "render-7").await.unwrap(),
        Consumed::Different
    );
    assert_eq!(store.consume(&user(), Feature::Video, "render-7").await.unwrap(), answers[0], "also later");
    assert_eq!(store.consume(&user(), Feature::Video, "render-8").await.unwrap(), Consumed::NotEnough(0));
    assert_eq!(checked(&store).await, 0);
}

async fn all_first_readers_get_the_same_row<E: Engine>(engine: E) {
    let one = |n: usize| {
        let store = at(&engine, &format!("2026-03-01T00:00:{n:02}Z"));
        async move { store.credits(&user()).await.unwrap() }
    };
    let answers: Vec<Balance> = at_once((0..50).map(one)).await;
    assert_eq!(answers[0].balance, 0);
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(rows(&engine).await, [answers[0].to_item()]);
}

async fn grants_of_two_events_at_once_are_booked_once<E: Engine>(engine: E) {
    let store = today(&engine);
    let one = |n: usize| {
        let store = store.clone();
        // As `invoice.paid` and `invoice.payment_succeeded` do, each delivered many times.
        let (month, event) = (n % 3 + 1, if n.is_multiple_of(2) { "evt-paid" } else { "evt-succeeded" });
        let movement = grant(&format!("2026-0{month}-01T00:00:00Z"), 5, event);
        async move { store.move_credits(&user(), &movement).await.unwrap() }
    };
    let answers = at_once((0..60).map(one)).await;
    assert_eq!(answers.iter().filter(|answer| matches!(answer, Moved::Done(_))).count(), 3);
    assert_eq!(answers.iter().filter(|answer| matches!(answer, Moved::Known(_))).count(), 57);
    assert_eq!(checked(&store).await, 15, "months roll over");
    let other = grant("2026-01-01T00:00:00Z", 15, "evt-paid");
    assert_eq!(store.move_credits(&user(), &other).await.unwrap(), Moved::Different);
    assert_eq!(checked(&store).await, 15);
}

async fn late_and_early_top_ups_at_once_all_come_in<E: Engine>(engine: E) {
    let store = today(&engine);
    let one = |n: u32| {
        let store = store.clone();
        let day = (n * 5) % 28 + 1;
        let movement = if n.is_multiple_of(2) {
            top_up(&format!("pi_{n}"), 1, &format!("2026-02-{day:02}T00:00:00.5Z"))
        } else {
            let at = t(&format!("2026-02-{day:02}T12:00:00Z"));
            Movement::grant(&format!("sub_{n}"), at, 1, at, "evt".into(), None)
        };
        async move { store.move_credits(&user(), &movement).await.unwrap() }
    };
    let answers = at_once((0..28).map(one)).await;
    assert!(answers.iter().all(|answer| matches!(answer, Moved::Done(_))), "{answers:?}");
    assert_eq!(checked(&store).await, 28);
    let balance = store.credits(&user()).await.unwrap();
    let texts = [balance.last_top_up, balance.last_reset].map(|time| time.unwrap().text());
    assert_eq!(
        texts,
        ["2026-03-01T00:00:00Z", "2026-03-01T00:00:00Z"],
        "when they came, not when they were paid for"
    );
    assert_eq!(balance.expires_at, Some(t("2027-03-01T00:00:00Z").timestamp()));
}

/// Every operation at once on one balance, in a different order each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_comes_at_once_adds_up() {
    for seed in 0..100 {
        let engine = dues_tests::engines::memory::Memory::default();
        let store = today(&engine);
        let bought = top_up("pi_0", 7, "2026-02-01T00:00:00Z");
        let back = |n: usize| {
            Movement::take_back(&format!("re_{n}"), &bought, t("2026-02-02T00:00:00Z"), "evt".into())
        };
        let mut random = fastrand::Rng::with_seed(seed);
        let mut movements: Vec<Movement> = Vec::new();
        for n in 0..40usize {
            movements.push(match random.u32(0..5) {
                0 => grant(&format!("2026-02-{:02}T00:00:00Z", n % 5 + 1), 5, "evt"),
                1 => bought.clone(),
                2 => back(n % 3),
                _ => Movement::consume(&format!("k-{}", n % 20), Feature::Video, t("2026-03-01T00:00:00Z")),
            });
        }
        let concurrent = movements.clone();
        let one = |movement: Movement| {
            let store = store.clone();
            async move { store.move_credits(&user(), &movement).await.unwrap() }
        };
        let answers = at_once(concurrent.into_iter().map(one)).await;
        let balance = checked(&store).await;
        let mut expected = std::collections::BTreeMap::new();
        for (movement, answer) in movements.iter().zip(&answers) {
            assert_ne!(*answer, Moved::Different, "seed {seed}");
            if !matches!(answer, Moved::NotEnough(_)) {
                expected.insert(movement.id.clone(), movement.amount);
            }
        }
        assert_eq!(balance, expected.values().sum::<i64>(), "seed {seed}: {answers:?}");
        assert_eq!(store.ledger(&user()).await.unwrap().len(), expected.len(), "seed {seed}");
    }
}
