//! The log of actions, from the change stream of the counts.

use dues_events::{Item, Value};
use dues_processors::Outcome;
use dues_processors::read_models::{ReadModel, ReadModels};
use dues_processors::runtime::changes::Change;
use dues_processors::usage::{Settings, count};
use dues_store::table::usage::{ACTIONS_LOG, USER_USAGE};
use dues_store::usage::log::TimeRange;
use dues_store::{Engine, Store};
use dues_tests::fixtures::company::{all, t};
use dues_tests::fixtures::usage::{asked, at, change, did, logged, projector};

dues_tests::on_engines! {
    actions_of_one_instant_are_a_nanosecond_apart_however_often_they_are_projected,
    a_deployment_may_keep_the_log_for_ever_or_have_no_usage_at_all,
    a_row_that_cannot_be_read_is_parked_and_others_go_on,
}

const NOON: &str = "2026-01-05T12:00:00Z";

/// Counts these actions, all at noon, and returns the changes.
async fn changes<E: Engine>(store: &Store<E>, counted: &[(&str, &str, &str)]) -> Vec<Change> {
    let mut changes = Vec::new();
    for (user, feature, key) in counted {
        let image = async || {
            all(&store.engine, &USER_USAGE)
                .await
                .into_iter()
                .find(|row| row.text("user_id") == Some(user) && row.text("feature_name") == Some(feature))
        };
        let before = image().await;
        let _ =
            count(store, &Settings::default(), &asked(user, feature, "simulation_run", key)).await.unwrap();
        changes.push(change(before, image().await));
    }
    changes
}

fn outcomes(outcome: &Outcome, count: usize) -> Vec<Outcome> {
    vec![outcome.clone(); count]
}

async fn actions_of_one_instant_are_a_nanosecond_apart_however_often_they_are_projected<E: Engine>(
    engine: E,
) {
    let store = at(&engine, t(NOON));
    let seen = changes(
        &store,
        &[
            ("ada", "simulations", "k-0"),
            ("ada", "strategies", "k-1"),
            ("ada", "simulations", "k-2"),
            ("ben", "simulations", "k-0"),
        ],
    )
    .await;
    // A crash after the first two; then all are redelivered.
    assert_eq!(projector(&store).project(&seen[..2]).await.outcomes, outcomes(&Outcome::Applied, 2));
    let again = projector(&store).project(&seen).await.outcomes;
    assert_eq!(again, [Outcome::Duplicate, Outcome::Duplicate, Outcome::Applied, Outcome::Applied]);
    assert_eq!(projector(&store).project(&seen).await.outcomes, outcomes(&Outcome::Duplicate, 4));
    let ada = store.actions_of(&"ada".into(), TimeRange::default(), 10).await.unwrap();
    let mut places: Vec<(String, String)> = ada
        .iter()
        .map(|row| (row.to_item().text("timestamp").unwrap().to_owned(), row.count.action.id.to_string()))
        .collect();
    places.reverse();
    let place = |nanos: u32, key: &str| (format!("2026-01-05T12:00:00.{nanos:09}Z"), key.to_owned());
    assert_eq!(places, [place(0, "k-0"), place(1, "k-1"), place(2, "k-2")]);
    assert!(ada.iter().all(|row| row.count.action.at == t(NOON)), "when it was is still said");
    assert_eq!(store.actions_at(t(NOON)).await.unwrap().len(), 2, "one of each user");
    assert_eq!(store.action_types().await.unwrap().into_iter().collect::<Vec<_>>(), ["simulation_run"]);
    // A removed row is not logged, and neither is a row that changed without a count.
    let mut touched = seen[3].clone();
    touched.old = touched.new.clone();
    let gone = change(seen[3].new.clone(), None);
    assert_eq!(projector(&store).project(&[touched, gone]).await.outcomes, outcomes(&Outcome::Skipped, 2));
}

async fn a_deployment_may_keep_the_log_for_ever_or_have_no_usage_at_all<E: Engine>(engine: E) {
    let store = at(&engine, t(NOON));
    let seen = changes(&store, &[("ada", "simulations", "k-0")]).await;
    let mut projector = projector(&store);
    projector.read_models = [ReadModel::Serenya].into_iter().collect();
    assert_eq!(projector.project(&seen).await.outcomes, [Outcome::Skipped]);
    projector.read_models =
        ReadModels::default().with_usage(Settings { log_days: None, ..Settings::default() });
    assert_eq!(projector.project(&seen).await.outcomes, [Outcome::Applied]);
    assert_eq!(all(&engine, &ACTIONS_LOG).await[0].get("expires_at"), None);
}

async fn a_row_that_cannot_be_read_is_parked_and_others_go_on<E: Engine>(engine: E) {
    let store = at(&engine, t(NOON));
    let mut seen = changes(&store, &[("ada", "simulations", "k-0")]).await;
    let broken = Change { new: seen[0].new.clone().map(limit_as_text), ..seen[0].clone() };
    seen.insert(0, broken);
    let projector = projector(&store);
    assert_eq!(projector.project(&seen).await.outcomes, [Outcome::Parked, Outcome::Applied]);
    let parked = store.parked().await.unwrap();
    assert_eq!((parked[0].stream.as_str(), parked[0].user_id.as_deref()), ("f1-user-usage", Some("ada")));
    assert_eq!(parked[0].reason, "limit_value of row ada/simulations_2026-01-05: is a string, not a number");
    assert_eq!(logged(&store, "ada").await, [(0, 1)]);
    let _ = did(&store, &Settings::default(), &asked("ada", "simulations", "simulation_run", "k-1")).await;
    assert_eq!(logged(&store, "ada").await, [(0, 1), (1, 2)]);
}

fn limit_as_text(mut row: Item) -> Item {
    row.set("limit_value", Value::text("three"));
    row
}
