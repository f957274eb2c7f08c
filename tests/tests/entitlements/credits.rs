//! Credits: exact rows, concurrency, crashes, lost answers, negative balances, expiry, and any sequence of
//! movements.

mod crash;
mod crowd;
mod expiry;
mod rows;
mod sequences;
mod wire;

use dues_events::{Item, Movement, UserId};
use dues_store::entitlements::credits::{Consumed, Moved};
use dues_store::table::GG_CORE;
use dues_store::{Condition, Engine, Key, Store};
use dues_tests::clock::TestClock;
use dues_tests::fixtures::company::{all, t};
use std::collections::BTreeSet;
use std::sync::Arc;

fn user() -> UserId {
    UserId::from("u-1")
}

/// A store at that time.
fn at<E: Engine>(engine: &E, time: &str) -> Store<E> {
    Store::new(engine.clone(), TestClock::frozen(t(time)).shared())
}

/// A store on the day of most of these tests.
fn today<E: Engine>(engine: &E) -> Store<E> {
    at(engine, "2026-03-01T00:00:00Z")
}

fn top_up(payment: &str, credits: u32, time: &str) -> Movement {
    Movement::top_up(payment, credits, t(time), format!("evt-{payment}").into())
}

fn grant(period: &str, credits: u32, event: &str) -> Movement {
    Movement::grant("sub_1", t(period), credits, t(period), event.into(), Some("in_1".into()))
}

/// A balance of that many credits, bought on 1 March.
async fn stocked<E: Engine>(engine: &E, credits: u32) -> Store<E> {
    let store = today(engine);
    let moved =
        store.move_credits(&user(), &top_up("pi_stock", credits, "2026-03-01T00:00:00Z")).await.unwrap();
    assert_eq!(moved, Moved::Done(credits.into()));
    store
}

/// The balance, after checking that the ledger adds up and has no id twice.
async fn checked<E: Engine>(store: &Store<E>) -> i64 {
    let check = store.check_ledger(&user()).await.unwrap();
    assert!(check.agrees(), "{check:?}");
    let ledger = store.ledger(&user()).await.unwrap();
    let ids: BTreeSet<_> = ledger.iter().map(|movement| movement.id.clone()).collect();
    assert_eq!(ids.len(), ledger.len());
    assert!(ledger.is_sorted_by_key(|movement| movement.at));
    check.balance
}

/// Every row, in key order.
async fn rows<E: Engine>(engine: &E) -> Vec<Item> {
    let mut rows = all(engine, &GG_CORE).await;
    rows.sort_by_key(|row| (row.text("PK").map(str::to_owned), row.text("SK").map(str::to_owned)));
    rows
}

fn balance_key() -> Key {
    Key { partition: "USER#u-1".into(), sort: Some("CREDITS#BALANCE".into()) }
}

async fn clear<E: Engine>(engine: &E) {
    for row in rows(engine).await {
        engine.delete(&GG_CORE, Key::of(&GG_CORE, &row).unwrap(), Condition::Always).await.unwrap();
    }
}

fn taken(consumed: &Consumed) -> Option<&Movement> {
    match consumed {
        Consumed::Taken(movement) => Some(movement),
        Consumed::Different | Consumed::NotEnough(_) => None,
    }
}
