//! Users of the F1 simulator (seed 002): what they do, the subscriptions that they have, and the change streams that tell of it.

use chrono::TimeDelta;
use dues_events::usage::{details, feature_date_key};
use dues_events::{Item, Time, UserId};
use dues_processors::batch::Fate;
use dues_processors::changes::{Change, Read};
use dues_processors::groups::LocalDirectory;
use dues_processors::projector::{Projector, SeenTypes};
use dues_processors::read_models::usage::{Settings, count};
use dues_store::embedded::Embedded;
use dues_store::table::Table;
use dues_store::table::usage::USER_USAGE;
use dues_store::usage::count::{Asked, Counted};
use dues_store::{Engine, Key, Store, TableNames};
use fastrand::Rng;
use futures::stream::{StreamExt as _, iter};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::dynoxide::Dynoxide;
use crate::stripe::subscription;
use crate::world::{Sent, Standing, t};

/// The features of the seed, each with a type of action.
pub const FEATURES: [(&str, &str); 3] =
    [("simulations", "simulation_run"), ("ai_recommendations", "recommendation_asked"), ("strategies", "strategy_saved")];

/// A store at that time.
pub fn at<E: Engine>(engine: &E, time: Time) -> Store<E> {
    Store::new(engine.clone(), Arc::new(Standing(time)))
}

/// An action of a user.
pub fn asked(user: &str, feature: &str, kind: &str, key: &str) -> Asked {
    let details = details(&json!({"track": "monaco", "weather": "dry"})).unwrap();
    Asked { user: user.into(), feature: feature.to_owned(), kind: kind.to_owned(), details, key: Some(key.into()) }
}

/// Made-up actions over three days, in order of time, of which one in ten is told twice.
pub fn actions(seed: u64, count: usize, users: &[String]) -> Vec<(Time, Asked)> {
    let mut dice = Rng::with_seed(seed);
    let start = t("2026-01-05T00:00:00Z");
    let step = TimeDelta::days(3).num_milliseconds() / i64::try_from(count.max(1)).unwrap();
    let mut actions: Vec<(Time, Asked)> = Vec::with_capacity(count);
    for n in 0..count {
        let time = start + TimeDelta::milliseconds(step * i64::try_from(n).unwrap());
        let action = match actions.last() {
            Some((_, last)) if dice.u8(..10) == 0 => last.clone(),
            Some(_) | None => {
                let (feature, kind) = FEATURES[dice.usize(..FEATURES.len())];
                let lap = json!({"lap": dice.u32(..80), "track": (["monaco", "spa"])[dice.usize(..2)]});
                let user = users[dice.usize(..users.len())].as_str();
                Asked { details: details(&lap).unwrap(), ..asked(user, feature, kind, &format!("a-{seed}-{n}")) }
            }
        };
        actions.push((time, action));
    }
    actions
}

/// Made-up events of Stripe's about the subscriptions of these users: begun, renewed, past due, over.
pub fn stripe_events(seed: u64, count: usize, users: &[String]) -> Vec<Sent> {
    let mut dice = Rng::with_seed(seed);
    let event = |n: usize| {
        let user = users[dice.usize(..users.len())].as_str();
        let status = ["active", "trialing", "past_due", "canceled"][dice.usize(..4)];
        let tier = ["free", "INITIATE", "SAGE"][dice.usize(..3)];
        let day = format!("2026-01-{:02}T{:02}:00:00Z", dice.u8(1..=28), dice.u8(..24));
        subscription(&format!("evt-{seed}-{n}"), "updated", &day, user, tier, status, "2026-01-01T00:00:00Z")
    };
    (0..count).map(event).collect()
}

/// Counts an action, and tells the projector how the row has changed, as the table's stream would.
pub async fn did<E: Engine>(store: &Store<E>, settings: &Settings, asked: &Asked) -> Counted {
    did_and_told(store, settings, asked, &SeenTypes::default()).await
}

async fn did_and_told<E: Engine>(store: &Store<E>, settings: &Settings, asked: &Asked, seen: &SeenTypes) -> Counted {
    let before = row(store, asked).await;
    let counted = count(store, settings, asked).await.unwrap();
    let after = row(store, asked).await;
    if before != after {
        let projector = Projector { action_types: seen.clone(), ..projector(store) };
        assert_eq!(projector.project(&[change(before, after)]).await.fates, [Fate::Applied]);
    }
    counted
}

/// Counts all of these, each at its time: users at once, the actions of one in order.
pub async fn drive<E: Engine>(engine: &E, settings: &Settings, actions: &[(Time, Asked)]) {
    let mut users: BTreeMap<&UserId, Vec<&(Time, Asked)>> = BTreeMap::new();
    for action in actions {
        users.entry(&action.1.user).or_default().push(action);
    }
    let seen = SeenTypes::default();
    let lanes = users.into_values().map(async |lane| {
        for (time, asked) in lane {
            let _ = did_and_told(&at(engine, *time), settings, asked, &seen).await;
        }
    });
    iter(lanes).buffer_unordered(64).collect::<()>().await;
}

/// A projector without groups.
pub fn projector<E: Engine>(store: &Store<E>) -> Projector<E, LocalDirectory<E>> {
    Projector::new(store.clone(), None)
}

async fn row<E: Engine>(store: &Store<E>, asked: &Asked) -> Option<Item> {
    let key = feature_date_key(&asked.feature, store.clock.now().date_naive());
    store.engine.get(&USER_USAGE, Key { partition: asked.user.to_string(), sort: Some(key) }).await.unwrap()
}

/// A change of a day's usage.
pub fn change(old: Option<Item>, new: Option<Item>) -> Change {
    Change { sequence: "1".into(), table: &USER_USAGE, old, new, arrived: t("2026-03-01T00:00:00Z"), by_ttl: false }
}

/// All changes that the one-file engine has told of.
pub fn embedded_changes(engine: &Embedded) -> Vec<Change> {
    let changes = engine.changes(0, 1_000_000).unwrap().into_iter();
    let arrived = t("2026-03-01T00:00:00Z");
    changes
        .map(|told| Change { sequence: told.seq.to_string(), table: told.table, old: told.old, new: told.new, arrived, by_ttl: false })
        .collect()
}

/// All changes that DynamoDB's stream of a table tells of, as Lambda delivers them.
pub fn dynamo_changes(server: &Dynoxide, table: &Table) -> Vec<Change> {
    let ask = |operation: &str, body: Value| server.request(operation, &body).unwrap();
    let arn = ask("DescribeTable", json!({"TableName": table.name}))["Table"]["LatestStreamArn"].clone();
    let described = ask("DescribeStream", json!({"StreamArn": arn}));
    let mut changes = Vec::new();
    for shard in described["StreamDescription"]["Shards"].as_array().unwrap() {
        let place = json!({"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"});
        let start = ask("GetShardIterator", place);
        let page = ask("GetRecords", json!({"ShardIterator": start["ShardIterator"]}));
        for record in page["Records"].as_array().unwrap() {
            let mut record = record.clone();
            record["eventSourceARN"] = arn.clone();
            match Change::read(&record, &TableNames::default(), t("2026-03-01T00:00:00Z")) {
                Read::Change(change) => changes.push(change),
                other @ (Read::Foreign | Read::Unreadable { .. }) => panic!("{other:?}"),
            }
        }
    }
    changes
}

/// A user's counts in the log, oldest first: before and after.
pub async fn logged<E: Engine>(store: &Store<E>, user: &str) -> Vec<(u64, u64)> {
    let mut actions = store.actions_of(&UserId::from(user), dues_store::usage::log::Span::default(), 1000).await.unwrap();
    actions.reverse();
    actions.iter().map(|action| (action.count.before, action.count.after)).collect()
}
