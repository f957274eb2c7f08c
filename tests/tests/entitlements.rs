//! Stripe's events and dues by ACH, from the stream to profile, subscriptions, passes and credits.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "entitlements/answers.rs"]
mod answers;
#[path = "entitlements/any_order.rs"]
mod any_order;
#[path = "entitlements/crash.rs"]
mod crash;
#[path = "entitlements/dues.rs"]
mod dues;
#[path = "entitlements/rules.rs"]
mod rules;
#[path = "entitlements/waiting.rs"]
mod waiting;

use dues_events::{PlanTier, Time, UserId};
use dues_processors::Context;
use dues_store::table::GG_CORE;
use dues_store::{Engine, Store};
use dues_tests::world::{Standing, all, context, t};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

const USER: &str = "u-1";

fn user() -> UserId {
    UserId::from(USER)
}

/// A context at that time.
fn at<E: Engine>(engine: &E, time: &str) -> Context<E> {
    let time: Time = t(time);
    Context { store: Store::new(engine.clone(), Arc::new(Standing(time))), ..context(engine.clone()) }
}

/// The rows of `gg_core` by sort key, without the ledger: its rows tell the way, which depends on the order.
async fn rows<E: Engine>(engine: &E) -> BTreeMap<String, Value> {
    let items = all(engine, &GG_CORE).await.into_iter().map(|item| (item.text("SK").unwrap().to_owned(), item.to_json()));
    items.filter(|(sort, _)| !sort.starts_with("LEDGER#")).collect()
}

/// The balance, after it was seen to be the sum of the ledger.
async fn credits<E: Engine>(store: &Store<E>) -> i64 {
    let check = store.check_ledger(&user()).await.unwrap();
    assert!(check.agrees(), "{check:?}");
    check.balance
}

async fn tier<E: Engine>(store: &Store<E>) -> PlanTier {
    store.profile(&user()).await.unwrap().map_or(PlanTier::Free, |profile| profile.tier)
}
