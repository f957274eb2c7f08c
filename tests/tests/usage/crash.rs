//! A crash after every write of counting, logging and resetting; then the interrupted operation runs again.

use dues_events::Time;
use dues_processors::Outcome;
use dues_processors::runtime::changes::Change;
use dues_processors::usage::reset::usage_reset;
use dues_processors::usage::{Settings, count};
use dues_store::table::usage::USER_USAGE;
use dues_store::usage::count::{ActionRequest, CountOutcome};
use dues_store::{Engine, StoreError};
use dues_tests::engines::faulty::{Faulty, Plug};
use dues_tests::fixtures::company::{all, t};
use dues_tests::fixtures::usage::{asked, at, change, projector};
use std::collections::BTreeMap;

use super::{clear, everything};

dues_tests::on_engines! {
    a_crash_after_any_write_and_a_retry_end_the_same,
}

#[derive(Debug, Clone)]
enum Step {
    Count(ActionRequest),
    Reset,
}

/// Two users over two days, one of them at the limit, and all at the same instant of each day.
fn script() -> Vec<(Time, Step)> {
    let (monday, tuesday) = (t("2026-01-05T23:00:00Z"), t("2026-01-06T01:00:00Z"));
    let run = |user: &str, n: u32| {
        Step::Count(asked(user, "simulations", "simulation_run", &format!("{user}-{n}")))
    };
    let mut script: Vec<(Time, Step)> = (0..4).map(|n| (monday, run("ada", n))).collect();
    script.push((monday, Step::Count(asked("ben", "strategies", "strategy_saved", "b-0"))));
    script.push((monday, run("ada", 0)));
    script.extend([
        (tuesday, Step::Reset),
        (tuesday, run("ada", 4)),
        (tuesday, run("ben", 1)),
        (tuesday, Step::Reset),
    ]);
    script
}

/// Takes one step, then adds the changed rows to the stream. The stream itself survives every crash.
async fn take<E: Engine, F: Engine>(
    faulty: &E,
    healthy: &F,
    (time, step): &(Time, Step),
    stream: &mut Vec<Change>,
) -> Result<(), StoreError> {
    let settings = Settings::default();
    let before = images(healthy).await;
    let done = match step {
        Step::Count(asked) => count(&at(faulty, *time), &settings, asked)
            .await
            .map(|counted| assert_ne!(counted, CountOutcome::Different)),
        Step::Reset => usage_reset(&at(faulty, *time), &settings, |_| {}).await.map(drop),
    };
    let after = images(healthy).await;
    let keys = before.keys().chain(after.keys()).collect::<std::collections::BTreeSet<_>>();
    let changed = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
    stream.extend(changed.map(|key| change(before.get(key).cloned(), after.get(key).cloned())));
    done?;
    let report = projector(&at(faulty, *time)).project(stream).await;
    match report.first_failure() {
        None => stream.clear(),
        Some(first) => match &report.outcomes[first] {
            Outcome::Failed(why) => return Err(StoreError::Unavailable(why.clone())),
            outcome @ (Outcome::Applied
            | Outcome::Duplicate
            | Outcome::Ignored
            | Outcome::Skipped
            | Outcome::Parked) => {
                panic!("{outcome:?}")
            }
        },
    }
    Ok(())
}

async fn images<E: Engine>(engine: &E) -> BTreeMap<(String, String), dues_events::Item> {
    let items = all(engine, &USER_USAGE).await.into_iter();
    let key = |item: &dues_events::Item| {
        (item.text("user_id").unwrap().to_owned(), item.text("feature_date_key").unwrap().to_owned())
    };
    items.map(|item| (key(&item), item)).collect()
}

async fn a_crash_after_any_write_and_a_retry_end_the_same<E: Engine>(engine: E) {
    let mut stream = Vec::new();
    for step in script() {
        take(&engine, &engine, &step, &mut stream).await.unwrap();
    }
    let expected = everything(&engine).await;
    let logged = expected.keys().filter(|key| key.starts_with("f1-user-actions-log")).count();
    assert_eq!(logged, 6, "three of ada's, one of ben's, and one of each on the next day");
    let mut crashes = 0;
    for writes in 1.. {
        clear(&engine).await;
        let plug = Plug::after(writes);
        let faulty = Faulty::on(engine.clone(), plug.clone());
        let mut stream = Vec::new();
        for step in script() {
            if take(&faulty, &engine, &step, &mut stream).await.is_err() {
                assert!(plug.is_pulled());
                take(&engine, &engine, &step, &mut stream).await.unwrap();
            }
        }
        assert_eq!(everything(&engine).await, expected, "after a crash at write {writes}");
        if !plug.is_pulled() {
            break;
        }
        crashes += 1;
    }
    assert!(crashes >= 20, "only {crashes} crashes");
}
