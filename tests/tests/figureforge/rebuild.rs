//! The table rebuilt from history equals the live one.

use super::*;
use dues_processors::operators::replay::{ReplayTarget, rebuild};
use dues_processors::read_models::ReadModel;
use dues_tests::engines::memory::Memory;
use dues_tests::fixtures::figureforge::events;
use dues_tests::fixtures::stripe::subscription;

dues_tests::on_engines! {
    rebuilt_from_history_it_equals_the_live_one,
}

const EVENTS: usize = 1200;

async fn live<E: Engine>(engine: E, records: &[Sent], seed: u64) -> Forge<E> {
    let mut forge = Forge::new(engine);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut order: Vec<Sent> =
        records.iter().chain(records.iter().filter(|_| random.u8(..5) == 0)).cloned().collect();
    random.shuffle(&mut order);
    // Groups the records by stream, so that the few of another stream do not cut every batch.
    order.sort_by_key(|(stream, _)| *stream);
    for some in order.chunks(200) {
        forge.deliver(some).await;
    }
    forge
}

async fn rebuilt_from_history_it_equals_the_live_one<E: Engine>(engine: E) {
    let users: Vec<String> = (0..10).map(|n| format!("u-{n}")).collect();
    let mut records: Vec<Sent> =
        events(42, EVENTS, &users).into_iter().map(|event| ("app-events", event)).collect();
    let start = "2026-01-01T00:00:00Z";
    for (n, user) in users.iter().enumerate() {
        records.push(subscription(&format!("evt_a{n}"), "created", start, user, "SAGE", "incomplete", start));
        records.push(subscription(&format!("evt_b{n}"), "updated", start, user, "SAGE", "active", start));
        if n % 3 == 0 {
            records.push(subscription(
                &format!("evt_c{n}"),
                "deleted",
                "2026-01-09T00:00:00Z",
                user,
                "SAGE",
                "canceled",
                start,
            ));
        }
    }
    let forge = live(engine, &records, 1).await;
    let rows = dump(&forge.engine).await;
    assert_eq!(tag_rows(&forge.engine).await, implied(&forge.engine).await);
    for prefix in ["USER#", "IMG#", "TAG#", "PLAN#", "FEATUREFLAG#"] {
        assert!(rows.keys().any(|key| key.starts_with(prefix)), "{prefix}");
    }
    let statuses = ["clean", "human_pending", "auto_blocked", "removed"];
    for status in &statuses[..2] {
        assert!(rows.values().any(|row| row.text("flag_status") == Some(status)), "{status}");
    }
    let again = store(Memory::default());
    let folded =
        rebuild(ReplayTarget::Model(ReadModel::Figureforge), &forge.store, &again, |_| {}).await.unwrap();
    assert_eq!(dump(&again.engine).await, rows);
    assert!(folded as usize >= EVENTS, "{folded}");
    // Another order of the same events ends in the same rows.
    let other = live(Memory::default(), &records, 2).await;
    assert_eq!(dump(&other.engine).await, rows);
}
