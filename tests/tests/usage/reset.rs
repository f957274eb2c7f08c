//! The daily reset: in pages, over days that were missed, and interrupted.

use chrono::NaiveDate;
use dues_events::usage::{Action, CountedAction, DailyUsage};
use dues_events::{Item, Time};
use dues_processors::aws::triggers::eventbridge;
use dues_processors::aws::triggers::eventbridge::Tick;
use dues_processors::usage::Settings;
use dues_processors::usage::reset::usage_reset;
use dues_store::table::usage::USER_USAGE;
use dues_store::{Condition, Engine};
use dues_tests::engines::faulty::Faulty;
use dues_tests::fixtures::company::{all, t};
use dues_tests::fixtures::usage::at;

dues_tests::on_engines! {
    a_thousand_rows_are_forgotten_in_pages_and_a_run_that_was_cut_short_is_finished,
    days_that_no_run_has_seen_are_caught_up_with,
    what_came_after_the_run_of_its_day_is_forgotten_by_the_next,
}

fn used(user: &str, time: Time) -> Item {
    let action = Action {
        id: user.into(),
        kind: "simulation_run".into(),
        details: Item::new(),
        at: time,
        plan: "free".into(),
    };
    let count = CountedAction { feature: "simulations".into(), before: 0, after: 1, limit: Some(3), action };
    DailyUsage::after(&user.into(), &count, time).to_item()
}

async fn fill<E: Engine>(engine: &E, users: usize, time: &str) {
    for n in 0..users {
        engine.put(&USER_USAGE, used(&format!("u-{n}"), t(time)), Condition::Always).await.unwrap();
    }
}

fn day(text: &str) -> NaiveDate {
    text.parse().unwrap()
}

async fn a_thousand_rows_are_forgotten_in_pages_and_a_run_that_was_cut_short_is_finished<E: Engine>(
    engine: E,
) {
    fill(&engine, 1000, "2026-01-05T12:00:00Z").await;
    fill(&engine, 10, "2026-01-06T00:00:01Z").await;
    let settings = Settings::default();
    let faulty = Faulty::after(engine.clone(), 500);
    assert!(usage_reset(&at(&faulty, t("2026-01-06T00:05:00Z")), &settings, |_| {}).await.is_err());
    let left = all(&engine, &USER_USAGE).await.len();
    // Writes in flight during the crash may have happened.
    assert!((400..=510).contains(&left), "{left} rows are left");
    let store = at(&engine, t("2026-01-06T00:10:00Z"));
    assert_eq!(store.usage_reset_through().await.unwrap(), None, "the day is not done");
    let mut pages = Vec::new();
    let reset = usage_reset(&store, &settings, |reset| pages.push(reset.rows)).await.unwrap();
    assert!((left as u64 - 80..=left as u64 - 10).contains(&reset.rows), "{} of {left}", reset.rows);
    assert_eq!(reset.through, day("2026-01-06"));
    assert!(pages.len() >= 2 && pages.is_sorted(), "{pages:?}");
    let rest = all(&engine, &USER_USAGE).await;
    assert_eq!(rest.len(), 10);
    assert!(rest.iter().all(|row| row.text("reset_date") == Some("2026-01-07")), "today's stay");
    assert_eq!(store.usage_reset_through().await.unwrap(), Some(day("2026-01-06")));
    let again = eventbridge::usage_reset(&store, &settings, Tick {}).await.unwrap();
    assert_eq!((again.days, again.rows, again.gone), (1, 0, 0));
}

async fn days_that_no_run_has_seen_are_caught_up_with<E: Engine>(engine: E) {
    for time in ["2026-01-01T12:00:00Z", "2026-01-03T12:00:00Z", "2026-01-05T12:00:00Z"] {
        fill(&engine, 3, time).await;
    }
    let settings = Settings::default();
    // The very first run begins with the earliest existing day.
    let first = usage_reset(&at(&engine, t("2026-01-02T00:05:00Z")), &settings, |_| {}).await.unwrap();
    assert_eq!((first.days, first.rows), (1, 3));
    let late = usage_reset(&at(&engine, t("2026-01-06T00:05:00Z")), &settings, |_| {}).await.unwrap();
    assert_eq!((late.days, late.rows), (5, 6), "from the day that was done to today");
    assert_eq!(all(&engine, &USER_USAGE).await, []);
    // A clock that is behind does not move the recorded day back.
    let behind = at(&engine, t("2026-01-04T00:05:00Z"));
    usage_reset(&behind, &settings, |_| {}).await.unwrap();
    assert_eq!(behind.usage_reset_through().await.unwrap(), Some(day("2026-01-06")));
}

async fn what_came_after_the_run_of_its_day_is_forgotten_by_the_next<E: Engine>(engine: E) {
    let settings = Settings::default();
    let store = at(&engine, t("2026-01-06T00:00:00Z"));
    assert_eq!(usage_reset(&store, &settings, |_| {}).await.unwrap().rows, 0);
    fill(&engine, 1, "2026-01-05T23:59:59.999Z").await;
    assert_eq!(usage_reset(&store, &settings, |_| {}).await.unwrap().rows, 1);
}
