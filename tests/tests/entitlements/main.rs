//! Stripe's events and dues by ACH, from the stream to profile, subscriptions, passes and credits.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod answers;
mod any_order;
mod clock;
mod crash;
mod credits;
mod dues;
mod groups;
mod lifetimes;
mod projector;
mod rules;
mod stripe_cost;
mod stripe_signatures;
mod waiting;
mod webhook;
mod world;

use dues_events::{PlanTier, Time, UserId};
use dues_processors::Context;
use dues_store::table::GG_CORE;
use dues_store::{Engine, Store};
use dues_tests::clock::TestClock;
use dues_tests::fixtures::company::{all, context, t};
use serde_json::Value;
use std::collections::BTreeMap;

const USER: &str = "u-1";

fn user() -> UserId {
    UserId::from(USER)
}

/// A context at that time.
fn at<E: Engine>(engine: &E, time: &str) -> Context<E> {
    let time: Time = t(time);
    Context { store: Store::new(engine.clone(), TestClock::frozen(time).shared()), ..context(engine.clone()) }
}

/// The rows of `gg_core` by sort key, without the ledger: its rows depend on the order of events.
async fn rows<E: Engine>(engine: &E) -> BTreeMap<String, Value> {
    let items = all(engine, &GG_CORE)
        .await
        .into_iter()
        .map(|item| (item.text("SK").unwrap().to_owned(), item.to_json()));
    items.filter(|(sort, _)| !sort.starts_with("LEDGER#")).collect()
}

/// The balance, after checking that it is the sum of the ledger.
async fn credits<E: Engine>(store: &Store<E>) -> i64 {
    let check = store.check_ledger(&user()).await.unwrap();
    assert!(check.agrees(), "{check:?}");
    check.balance
}

async fn tier<E: Engine>(store: &Store<E>) -> PlanTier {
    store.profile(&user()).await.unwrap().map_or(PlanTier::Free, |profile| profile.tier)
}
