//! Usage tracking: plans, limits, the log of actions, the daily reset, and every access pattern of usage.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod access;
mod api;
mod cost;
mod crash;
mod crowd;
mod log;
mod plans;
mod rebuild;
mod reset;

use dues_events::Item;
use dues_processors::usage::Settings;
use dues_projections::usage::Plans;
use dues_store::table::usage::{ACTIONS_LOG, USER_SUBSCRIPTIONS, USER_USAGE};
use dues_store::table::{EMBEDDED, Table};
use dues_store::usage::count::CountOutcome;
use dues_store::{Condition, Engine, Key};
use dues_tests::fixtures::company::all;
use serde_json::Value;
use std::collections::BTreeMap;

/// Settings with these plans.
fn settings(plans: &str) -> Settings {
    Settings { plans: Plans::configured(Some(plans), None).unwrap(), ..Settings::default() }
}

/// Count before and after; panics when the action was not allowed.
fn numbers(counted: &CountOutcome) -> (u64, u64) {
    match counted {
        CountOutcome::Done(count) => (count.before, count.after),
        CountOutcome::AtLimit { .. } | CountOutcome::Different => panic!("{counted:?}"),
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

/// Every item of every table, as JSON: for runs that must end the same.
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
