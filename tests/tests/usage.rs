//! Usage tracking (seed 002): plans, limits, the log of actions, the daily reset, and every access pattern of the seed.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "usage/access.rs"]
mod access;
#[path = "usage/api.rs"]
mod api;
#[path = "usage/cost.rs"]
mod cost;
#[path = "usage/crash.rs"]
mod crash;
#[path = "usage/crowd.rs"]
mod crowd;
#[path = "usage/log.rs"]
mod log;
#[path = "usage/plans.rs"]
mod plans;
#[path = "usage/rebuild.rs"]
mod rebuild;
#[path = "usage/reset.rs"]
mod reset;

use dues_events::Item;
use dues_processors::read_models::usage::Settings;
use dues_projections::usage::Plans;
use dues_store::table::usage::{ACTIONS_LOG, USER_SUBSCRIPTIONS, USER_USAGE};
use dues_store::table::{EMBEDDED, Table};
use dues_store::usage::count::Counted;
use dues_store::{Condition, Engine, Key};
use dues_tests::world::all;
use serde_json::Value;
use std::collections::BTreeMap;

/// Settings with these plans.
fn settings(plans: &str) -> Settings {
    Settings { plans: Plans::configured(Some(plans), None).unwrap(), ..Settings::default() }
}

/// Count before and after; what was not allowed is a panic.
fn numbers(counted: &Counted) -> (u64, u64) {
    match counted {
        Counted::Done(count) => (count.before, count.after),
        Counted::AtLimit { .. } | Counted::Different => panic!("{counted:?}"),
    }
}

/// The rows of the three tables, by key.
async fn rows<E: Engine>(engine: &E) -> BTreeMap<(&'static str, String, String), Item> {
    let mut rows = BTreeMap::new();
    for table in [&USER_SUBSCRIPTIONS, &USER_USAGE, &ACTIONS_LOG] {
        for item in all(engine, table).await {
            let key = Key::of(table, &item).unwrap();
            rows.insert((table.name, key.partition, key.sort.unwrap()), item);
        }
    }
    rows
}

/// Every item of every table, as JSON: for runs that have to end the same.
async fn everything<E: Engine>(engine: &E) -> BTreeMap<String, Value> {
    let mut rows = BTreeMap::new();
    for table in EMBEDDED {
        for item in all(engine, table).await {
            let key = Key::of(table, &item).unwrap();
            rows.insert(format!("{} {} {:?}", table.name, key.partition, key.sort), item.to_json());
        }
    }
    rows
}

/// Empties every table.
async fn clear<E: Engine>(engine: &E) {
    for table in EMBEDDED {
        for item in all(engine, table).await {
            remove(engine, table, &item).await;
        }
    }
}

async fn remove<E: Engine>(engine: &E, table: &'static Table, item: &Item) {
    engine.delete(table, Key::of(table, item).unwrap(), Condition::Always).await.unwrap();
}
