//! Rows rebuilt from the journal equal the live ones, and neither depends on the order.

use super::*;
use dues_processors::operators::replay::{ReplayTarget, rebuild};
use dues_processors::read_models::ReadModel;
use dues_processors::read_models::app_events::app_events_worker;
use dues_tests::engines::memory::Memory;
use dues_tests::fixtures::serenya::events;
use fastrand::Rng;

dues_tests::on_engines! {
    rows_rebuilt_equal_the_live_ones_in_any_order,
}

async fn deliver<E: Engine>(engine: &E, events: &[Value]) {
    for cut in events.chunks(50) {
        let batch: Vec<_> = cut.iter().enumerate().map(|(n, event)| incoming(event, n)).collect();
        let report = app_events_worker(&context_at(engine, NOW), &batch).await;
        assert!(
            report.outcomes.iter().all(|outcome| matches!(outcome, Outcome::Applied | Outcome::Duplicate)),
            "{report:?}"
        );
    }
}

async fn rows_rebuilt_equal_the_live_ones_in_any_order<E: Engine>(engine: E) {
    let users: Vec<String> = (0..8).map(|n| format!("u:{n}")).collect();
    let mut sent = events(4, 400, &users);
    let ordered = Memory::default();
    deliver(&ordered, &sent).await;

    let mut random = Rng::with_seed(5);
    sent.extend((0..80).map(|_| sent[random.usize(..400)].clone()).collect::<Vec<_>>());
    random.shuffle(&mut sent);
    deliver(&engine, &sent).await;
    let live = rows(&engine).await;
    assert_eq!(live, rows(&ordered).await);

    let again = Memory::default();
    let (from, into) = (at(&engine, "2027-01-01T00:00:00Z"), at(&again, "2027-01-01T00:00:00Z"));
    let folded = rebuild(ReplayTarget::Model(ReadModel::Serenya), &from, &into, |_| {}).await.unwrap();
    assert!(folded >= 400, "{folded}");
    assert_eq!(rows(&again).await, live);
}
