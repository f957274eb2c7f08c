//! A crash after every single write, then full redelivery: rows and credits equal those of a run without a
//! crash.

use dues_processors::Outcome;
use dues_processors::runtime::redrive::process_stream;
use dues_store::Engine;
use dues_tests::engines::faulty::Faulty;
use dues_tests::engines::memory::Memory;
use dues_tests::engines::{dynoxide, embedded};
use dues_tests::fixtures::company::{Sent, counts, deliver, incoming};
use fastrand::Rng;

use super::any_order::{CREDITS, NOW, expected, life};
use super::{at, credits, rows};

/// Delivers everything in an order that makes many events wait for others, with a crash after every `step`
/// writes; `engine` creates an empty store.
async fn crash_everywhere<E: Engine, G>(mut engine: impl AsyncFnMut() -> (E, G), seed: u64, step: usize) {
    let expected = expected().await;
    let mut script: Vec<Sent> = life();
    Rng::with_seed(seed).shuffle(&mut script);
    let mut crashes = 0;
    for writes in (1..).step_by(step) {
        let (engine, _guard) = engine().await;
        let faulty = Faulty::after(engine.clone(), writes);
        let mut failed = false;
        for cut in script.chunks(5) {
            let batch: Vec<_> = cut.iter().enumerate().map(|(n, (_, record))| incoming(record, n)).collect();
            let report = process_stream(&at(&faulty, NOW), "stripe", &batch).await.unwrap();
            failed = report.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Failed(_)));
            if failed {
                break;
            }
        }
        let context = at(&engine, NOW);
        if failed {
            crashes += 1;
            let outcomes = deliver(&context, &script, 5).await;
            assert_eq!(counts(&outcomes).failed, 0, "{outcomes:?}");
        }
        assert_eq!(context.store.parked().await.unwrap(), vec![], "after a crash at write {writes}");
        assert_eq!(credits(&context.store).await, CREDITS, "after a crash at write {writes}");
        assert_eq!(rows(&engine).await, expected, "after a crash at write {writes}");
        if !failed {
            break;
        }
    }
    assert!(crashes >= 30 / step, "only {crashes} crashes");
}

#[tokio::test]
async fn maps_survive_a_crash_after_any_write() {
    for seed in 0..8 {
        crash_everywhere(async || (Memory::default(), ()), seed, 1).await;
    }
}

#[tokio::test]
async fn the_embedded_engine_survives_a_crash_after_any_write() {
    crash_everywhere(async || embedded(), 1, 3).await;
}

#[tokio::test]
async fn dynamo_survives_a_crash_after_any_write() {
    crash_everywhere(dynoxide, 2, 4).await;
}
