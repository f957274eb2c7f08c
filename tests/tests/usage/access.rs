//! Every access pattern and every sample query of usage, under its name in the specification.

use dues_events::usage::reset_date;
use dues_events::{Item, UserId};
use dues_processors::read_models::ReadModels;
use dues_processors::usage::reset::usage_reset;
use dues_processors::usage::{FeatureUse, Settings, count, plan_of, summary};
use dues_store::usage::count::CountOutcome;
use dues_store::usage::log::TimeRange;
use dues_store::{Engine, Store};
use dues_tests::fixtures::company::t;
use dues_tests::fixtures::stripe::subscription;
use dues_tests::fixtures::usage::{asked, at, did, logged};

use super::numbers;

dues_tests::on_engines! {
    get_users_current_subscription,
    get_all_subscriptions_for_a_user,
    subscription_id_index_finds_a_subscription_by_its_id,
    get_users_current_usage_for_a_feature,
    get_all_usage_for_a_user,
    get_all_users_with_usage_for_a_specific_feature_and_date,
    get_all_usage_that_needs_to_be_reset_on_a_specific_date,
    get_users_action_history,
    get_all_actions_of_a_specific_type,
    get_actions_within_a_time_range,
    timestamp_index_gives_the_actions_of_one_instant,
    check_usage_before_action,
    daily_usage_reset,
    get_usage_summary_for_a_user,
    get_plan_upgrade_recommendations,
}

const MORNING: &str = "2024-01-15T08:00:00Z";

fn morning<E: Engine>(engine: &E) -> Store<E> {
    at(engine, t(MORNING))
}

/// Ingests a subscription event of Stripe.
async fn subscribe<E: Engine>(store: &Store<E>, user: &str, tier: &str, status: &str) {
    let (_, event) = subscription(
        &format!("e-{user}-{status}"),
        "updated",
        MORNING,
        user,
        tier,
        status,
        "2024-01-01T00:00:00Z",
    );
    let event =
        dues_events::entitlements::stripe::wire::decode(event.to_string().as_bytes()).unwrap().unwrap();
    ReadModels::default().stripe(store, &user.into(), &event).await.unwrap();
}

/// Three users over two days: ada runs two simulations and saves a strategy, ben runs one, cyd one on the
/// day before.
async fn days<E: Engine>(engine: &E) -> Store<E> {
    let settings = Settings::default();
    for (time, user, feature, kind) in [
        ("2024-01-14T12:00:00Z", "cyd", "simulations", "simulation_run"),
        ("2024-01-15T06:00:00.5Z", "ada", "simulations", "simulation_run"),
        ("2024-01-15T07:00:00Z", "ada", "strategies", "strategy_saved"),
        ("2024-01-15T07:00:00Z", "ben", "simulations", "simulation_run"),
        ("2024-01-15T07:30:00.05Z", "ada", "simulations", "simulation_run"),
    ] {
        let _ = did(&at(engine, t(time)), &settings, &asked(user, feature, kind, &format!("{user}-{time}")))
            .await;
    }
    morning(engine)
}

fn text<'a>(item: &'a Item, name: &str) -> &'a str {
    item.text(name).unwrap_or_else(|| panic!("{name} of {item:?}"))
}

async fn get_users_current_subscription<E: Engine>(engine: E) {
    let store = morning(&engine);
    subscribe(&store, "ada", "SAGE", "active").await;
    let row = store.plan_subscription(&"ada".into(), "sub_ada").await.unwrap().unwrap();
    for (name, expected) in [
        ("user_id", "ada"),
        ("subscription_id", "sub_ada"),
        ("plan_id", "pro"),
        ("status", "active"),
        ("current_period_start", "2024-01-01T00:00:00Z"),
        ("current_period_end", "2024-02-01T00:00:00Z"),
        ("stripe_subscription_id", "sub_ada"),
        ("created_at", "2024-01-01T00:00:00Z"),
        ("updated_at", MORNING),
    ] {
        assert_eq!(text(&row, name), expected, "{name}");
    }
    assert_eq!(row.len(), 9);
    assert_eq!(store.plan_subscription(&"ada".into(), "sub_ben").await.unwrap(), None);
}

async fn get_all_subscriptions_for_a_user<E: Engine>(engine: E) {
    let store = morning(&engine);
    subscribe(&store, "ada", "SAGE", "active").await;
    subscribe(&store, "ben", "INITIATE", "canceled").await;
    for (user, plan) in [("ada", "pro"), ("ben", "free"), ("cyd", "free")] {
        assert_eq!(plan_of(&store, &Settings::default(), &user.into()).await.unwrap(), plan, "{user}");
    }
    let ids: Vec<String> = store
        .plan_subscriptions(&"ben".into())
        .await
        .unwrap()
        .iter()
        .map(|row| text(row, "subscription_id").to_owned())
        .collect();
    assert_eq!(ids, ["sub_ben"]);
    assert_eq!(store.plan_subscriptions(&"cyd".into()).await.unwrap(), []);
}

async fn subscription_id_index_finds_a_subscription_by_its_id<E: Engine>(engine: E) {
    let store = morning(&engine);
    subscribe(&store, "ada", "SAGE", "active").await;
    let row = store.plan_subscription_by_id("sub_ada").await.unwrap().unwrap();
    assert_eq!(text(&row, "user_id"), "ada");
    assert_eq!(store.plan_subscription_by_id("sub_unknown").await.unwrap(), None);
}

async fn get_users_current_usage_for_a_feature<E: Engine>(engine: E) {
    let store = days(&engine).await;
    let today = t(MORNING).date_naive();
    let used = store.usage(&"ada".into(), "simulations", today).await.unwrap().unwrap();
    assert_eq!((used.count, used.limit), (2, Some(3)));
    assert_eq!(
        (used.created_at, used.updated_at),
        (t("2024-01-15T06:00:00.5Z"), t("2024-01-15T07:30:00.05Z"))
    );
    assert_eq!(store.usage(&"cyd".into(), "simulations", today).await.unwrap(), None, "that was yesterday");
}

async fn get_all_usage_for_a_user<E: Engine>(engine: E) {
    let store = days(&engine).await;
    let used = store.usage_of(&"ada".into()).await.unwrap();
    let counts: Vec<(&str, u64)> = used.iter().map(|used| (used.feature.as_str(), used.count)).collect();
    assert_eq!(counts, [("simulations", 2), ("strategies", 1)]);
}

async fn get_all_users_with_usage_for_a_specific_feature_and_date<E: Engine>(engine: E) {
    let store = days(&engine).await;
    let users = async |feature: &str, date: &str| {
        let used = store.usage_of_feature(feature, date.parse().unwrap(), 0, 10).await.unwrap();
        let mut users: Vec<String> = used.iter().map(|used| used.user.to_string()).collect();
        users.sort();
        users
    };
    assert_eq!(users("simulations", "2024-01-16").await, ["ada", "ben"]);
    assert_eq!(users("simulations", "2024-01-15").await, ["cyd"]);
    assert_eq!(users("strategies", "2024-01-16").await, ["ada"]);
    assert_eq!(users("strategies", "2024-01-15").await, Vec::<String>::new());
    assert_eq!(
        store.usage_of_feature("simulations", "2024-01-16".parse().unwrap(), 0, 1).await.unwrap().len(),
        1
    );
}

async fn get_all_usage_that_needs_to_be_reset_on_a_specific_date<E: Engine>(engine: E) {
    let store = days(&engine).await;
    let mut keys = Vec::new();
    let mut start = None;
    loop {
        let page = store.usage_to_reset("2024-01-16".parse().unwrap(), start, 1).await.unwrap();
        keys.extend(
            page.items
                .iter()
                .map(|row| format!("{} {}", text(row, "user_id"), text(row, "feature_date_key"))),
        );
        match page.next {
            Some(next) => start = Some(next),
            None => break,
        }
    }
    keys.sort();
    assert_eq!(
        keys,
        ["ada simulations_2024-01-15", "ada strategies_2024-01-15", "ben simulations_2024-01-15"]
    );
}

async fn get_users_action_history<E: Engine>(engine: E) {
    let store = days(&engine).await;
    let history = store.actions_of(&"ada".into(), TimeRange::default(), 10).await.unwrap();
    let days: Vec<(&str, u64, u64)> = history
        .iter()
        .map(|action| (action.count.action.kind.as_str(), action.count.before, action.count.after))
        .collect();
    assert_eq!(
        days,
        [("simulation_run", 1, 2), ("strategy_saved", 0, 1), ("simulation_run", 0, 1)],
        "the newest first"
    );
    let row = history[0].to_item();
    assert_eq!(text(&row, "timestamp"), "2024-01-15T07:30:00.050000000Z");
    assert_eq!((text(&row, "plan_id"), text(&row, "feature")), ("free", "simulations"));
    assert_eq!(history[0].expires_at, Some(t("2024-04-14T07:30:00Z").timestamp()), "ninety days later");
    assert_eq!(store.actions_of(&"ada".into(), TimeRange::default(), 2).await.unwrap(), history[..2]);
}

async fn get_all_actions_of_a_specific_type<E: Engine>(engine: E) {
    let store = days(&engine).await;
    let runs = store.actions_of_type("simulation_run", TimeRange::default(), 10).await.unwrap();
    let users: Vec<&str> = runs.iter().map(|action| action.user.as_str()).collect();
    assert_eq!(users, ["ada", "ben", "ada", "cyd"], "the newest first");
    assert_eq!(store.actions_of_type("pit_stop", TimeRange::default(), 10).await.unwrap(), []);
}

async fn get_actions_within_a_time_range<E: Engine>(engine: E) {
    let store = days(&engine).await;
    let span = |from: &str, to: &str| TimeRange { from: Some(t(from)), to: Some(t(to)) };
    let names = |actions: &[dues_events::usage::LoggedAction]| -> Vec<String> {
        actions.iter().map(|action| format!("{} {}", action.user, action.count.feature)).collect()
    };
    // Of all users: types are merged by time, both ends are inclusive, and fractions of a second sort after
    // whole ones.
    let hour = span("2024-01-15T06:00:00Z", "2024-01-15T07:00:00Z");
    assert_eq!(
        names(&store.actions_between(hour, 10).await.unwrap()),
        ["ben simulations", "ada strategies", "ada simulations"]
    );
    assert_eq!(names(&store.actions_between(hour, 1).await.unwrap()), ["ben simulations"]);
    let whole = span("2024-01-01T00:00:00Z", "2024-01-31T23:59:59Z");
    assert_eq!(store.actions_between(whole, 10).await.unwrap().len(), 5);
    assert_eq!(store.actions_between(TimeRange { from: Some(t(MORNING)), to: None }, 10).await.unwrap(), []);
    assert_eq!(
        store.actions_between(span("2024-01-15T07:00:00Z", "2024-01-15T06:00:00Z"), 10).await.unwrap(),
        []
    );
    // Of one user, and of one type.
    assert_eq!(
        names(&store.actions_of(&"ada".into(), hour, 10).await.unwrap()),
        ["ada strategies", "ada simulations"]
    );
    assert_eq!(
        names(&store.actions_of_type("simulation_run", hour, 10).await.unwrap()),
        ["ben simulations", "ada simulations"]
    );
}

async fn timestamp_index_gives_the_actions_of_one_instant<E: Engine>(engine: E) {
    let store = days(&engine).await;
    let users = |actions: Vec<dues_events::usage::LoggedAction>| {
        actions.into_iter().map(|action| action.user).collect::<Vec<UserId>>()
    };
    assert_eq!(
        users(store.actions_at(t("2024-01-15T07:00:00Z")).await.unwrap()),
        ["ada".into(), "ben".into()]
    );
    assert_eq!(users(store.actions_at(t("2024-01-15T07:00:01Z")).await.unwrap()), []);
}

async fn check_usage_before_action<E: Engine>(engine: E) {
    let store = morning(&engine);
    let settings = Settings::default();
    for n in 0..3 {
        let counted =
            did(&store, &settings, &asked("ada", "simulations", "simulation_run", &format!("k-{n}"))).await;
        assert_eq!(numbers(&counted), (n, n + 1));
    }
    let fourth = asked("ada", "simulations", "simulation_run", "k-3");
    assert_eq!(did(&store, &settings, &fourth).await, CountOutcome::AtLimit { used: 3, limit: 3 });
    // A key always gets the same answer, also when the limit is reached; with other content it is refused.
    let first =
        count(&store, &settings, &asked("ada", "simulations", "simulation_run", "k-0")).await.unwrap();
    assert_eq!(numbers(&first), (0, 1));
    assert_eq!(
        count(&store, &settings, &asked("ada", "simulations", "pit_stop", "k-0")).await.unwrap(),
        CountOutcome::Different
    );
    assert_eq!(
        count(&store, &settings, &asked("ada", "strategies", "simulation_run", "k-0")).await.unwrap(),
        CountOutcome::Different
    );
    // Other features and other users have their own counts, and only counted actions are logged.
    assert_eq!(
        numbers(&did(&store, &settings, &asked("ada", "strategies", "strategy_saved", "s-0")).await),
        (0, 1)
    );
    assert_eq!(
        numbers(&did(&store, &settings, &asked("ben", "simulations", "simulation_run", "k-0")).await),
        (0, 1)
    );
    assert_eq!(logged(&store, "ada").await, [(0, 1), (1, 2), (2, 3), (0, 1)]);
    // With a plan there is no limit, from the next action on; when the plan ends the limit is back.
    subscribe(&store, "ada", "SAGE", "active").await;
    assert_eq!(numbers(&did(&store, &settings, &fourth).await), (3, 4));
    assert_eq!(
        store.usage(&"ada".into(), "simulations", t(MORNING).date_naive()).await.unwrap().unwrap().limit,
        None
    );
    subscribe(&store, "ada", "SAGE", "canceled").await;
    let fifth = asked("ada", "simulations", "simulation_run", "k-4");
    assert_eq!(did(&store, &settings, &fifth).await, CountOutcome::AtLimit { used: 4, limit: 3 });
    // A feature with a limit of 0 in the plan.
    let none = super::settings("free:simulations=0;pro:*=*");
    assert_eq!(count(&store, &none, &fifth).await.unwrap(), CountOutcome::AtLimit { used: 0, limit: 0 });
    assert_eq!(numbers(&count(&store, &none, &fourth).await.unwrap()), (3, 4), "that answer was given");
}

async fn daily_usage_reset<E: Engine>(engine: E) {
    let settings = Settings::default();
    let store = days(&engine).await;
    let reset = usage_reset(&store, &settings, |_| {}).await.unwrap();
    assert_eq!((reset.days, reset.rows, reset.gone), (1, 1, 0), "only what was used yesterday");
    assert_eq!(store.usage_of(&"cyd".into()).await.unwrap(), []);
    assert_eq!(store.usage_of(&"ada".into()).await.unwrap().len(), 2, "today goes on");
    let next = at(&engine, t("2024-01-16T00:00:00Z"));
    let reset = usage_reset(&next, &settings, |_| {}).await.unwrap();
    assert_eq!((reset.days, reset.rows), (2, 3));
    assert_eq!(store.usage_of(&"ada".into()).await.unwrap(), []);
    assert_eq!(
        numbers(&did(&next, &settings, &asked("ada", "simulations", "simulation_run", "new")).await),
        (0, 1)
    );
    assert_eq!(usage_reset(&next, &settings, |_| {}).await.unwrap().rows, 0);
}

async fn get_usage_summary_for_a_user<E: Engine>(engine: E) {
    let store = days(&engine).await;
    let summary = summary(&store, &Settings::default(), &"ada".into()).await.unwrap();
    let feature =
        |feature: &str, used, limit| FeatureUse { feature: feature.to_owned(), used, limit: Some(limit) };
    assert_eq!(
        summary.features,
        [feature("ai_recommendations", 0, 2), feature("simulations", 2, 3), feature("strategies", 1, 1)]
    );
    assert_eq!((summary.plan.as_str(), summary.reset_at), ("free", t("2024-01-16T00:00:00Z")));
}

async fn get_plan_upgrade_recommendations<E: Engine>(engine: E) {
    let store = days(&engine).await;
    let heavy =
        store.usage_of_feature("simulations", reset_date(t(MORNING).date_naive()), 2, 10).await.unwrap();
    let counts: Vec<(&str, u64)> = heavy.iter().map(|used| (used.user.as_str(), used.count)).collect();
    assert_eq!(counts, [("ada", 2)]);
    assert_eq!(
        store.usage_of_feature("simulations", reset_date(t(MORNING).date_naive()), 3, 10).await.unwrap(),
        []
    );
}
