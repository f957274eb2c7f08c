//! The tables rebuilt from history, byte for byte. The log of actions is history itself.

use dues_processors::operators::replay::{ReplayTarget, rebuild};
use dues_processors::read_models::{ReadModel, ReadModels};
use dues_processors::usage::Settings;
use dues_processors::usage::reset::usage_reset;
use dues_store::Engine;
use dues_tests::engines::memory::Memory;
use dues_tests::fixtures::company::{context, deliver, membership, monthly, payment, records, store, t};
use dues_tests::fixtures::usage::{actions, asked, at, did, drive, stripe_events};
use fastrand::Rng;

use super::rows;

dues_tests::on_engines! {
    tables_rebuilt_from_history_are_the_same,
}

async fn tables_rebuilt_from_history_are_the_same<E: Engine>(engine: E) {
    let users: Vec<String> = (0..20).map(|n| format!("u-{n}")).collect();
    let models: ReadModels = [ReadModel::Usage].into_iter().collect();
    let (live, mut dice) = (store(engine.clone()), Rng::with_seed(5));
    let mut events = stripe_events(1, 60, &users[..10]);
    events.extend_from_within(..20);
    dice.shuffle(&mut events);
    for (_, event) in events {
        let event =
            dues_events::entitlements::stripe::wire::decode(event.to_string().as_bytes()).unwrap().unwrap();
        models.stripe(&live, &event.user().unwrap().clone(), &event).await.unwrap();
    }
    let office = context(engine.clone());
    deliver(
        &office,
        &[membership("m-1", "ACTIVATE", "u-15", "2026-01-05T00:00:00Z", monthly("2026-01-06"))],
        1,
    )
    .await;
    let record = records(&engine, "u-15").await.remove(0);
    deliver(&office, &[payment("p-1", "SUBMITTED", &record, "c-1", "2026-01-07T00:00:00Z")], 1).await;
    deliver(&office, &[payment("p-2", "COMPLETED", &record, "c-1", "2026-01-09T00:00:00Z")], 1).await;
    for record in records(&engine, "u-15").await {
        models.billing(&live, &record).await.unwrap();
    }

    let settings = Settings::default();
    drive(&engine, &settings, &actions(2, 400, &users)).await;
    // Several actions at one instant are nanoseconds apart in the log, but keep their time in the counts.
    let instant = at(&engine, t("2026-01-07T23:00:00Z"));
    for n in 0..2 {
        let _ = did(&instant, &settings, &asked("late", "simulations", "simulation_run", &format!("z-{n}")))
            .await;
    }
    same(&live, 3).await;
    // The first two days are reset; the log still has them.
    usage_reset(&at(&engine, t("2026-01-07T12:00:00Z")), &settings, |_| {}).await.unwrap();
    same(&live, 1).await;
}

/// Rebuilds the tables, and expects this many days in the counts.
async fn same<E: Engine>(live: &dues_store::Store<E>, days: usize) {
    let again = store(Memory::default());
    let folded = rebuild(ReplayTarget::Model(ReadModel::Usage), live, &again, |_| {}).await.unwrap();
    let (mut expected, made) = (rows(&live.engine).await, rows(&again.engine).await);
    let before = expected.len();
    expected.retain(|(table, _, _), _| *table != "f1-user-actions-log");
    assert_eq!(made, expected);
    assert!(folded > (before - expected.len()) as u64, "the log and the journal: {folded}");
    let reset: std::collections::BTreeSet<_> =
        made.values().filter_map(|row| row.text("reset_date")).collect();
    assert_eq!(reset.len(), days, "{reset:?}");
    for table in ["f1-user-subscriptions", "f1-user-usage"] {
        assert!(made.keys().filter(|(name, _, _)| *name == table).count() > 5, "{table}");
    }
}
