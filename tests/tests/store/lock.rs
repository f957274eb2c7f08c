//! The lock: exact rows, contention, takeover, failing heartbeats, and a holder that is killed.

/// Runs clauses on SQLite, on DynamoDB in this process, and on DynamoDB over HTTP.
macro_rules! on_stored_engines {
    ($($clause:ident,)*) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $clause() {
                let (engine, _folder) = dues_tests::engines::embedded();
                super::$clause(engine).await;
            })*
        }
        mod dynamo_in_process {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $clause() {
                let (engine, _server) = dues_tests::engines::dynoxide().await;
                super::$clause(engine).await;
            })*
        }
        mod dynamo_over_http {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $clause() {
                let (engine, ()) = dues_tests::engines::ministack().await;
                super::$clause(engine).await;
            })*
        }
    };
}

mod contend;
mod process;
mod rows;
mod trouble;

use dues_events::{Item, UserId};
use dues_store::table::LOCKS;
use dues_store::{Acquired, Engine, Key, Lock, Locks};
use dues_tests::clock::TestClock;
use dues_tests::fixtures::company::t;
use std::time::Duration;

const S: Duration = Duration::from_secs(1);
const NANO: Duration = Duration::from_nanos(1);
const KEY: &str = "subscription-billing:user_id:u-1";

fn manual() -> TestClock {
    TestClock::manual(t("2026-03-01T00:00:00Z"))
}

/// A lock client with its own memory, as another process has.
fn locks<E: Engine>(engine: &E, clock: &TestClock) -> Locks<E> {
    Locks::new(engine.clone(), clock.shared())
}

fn user() -> UserId {
    UserId::from("u-1")
}

async fn acquire<E: Engine>(locks: &Locks<E>) -> Option<Lock<E>> {
    match locks.acquire(&user()).await.unwrap() {
        Acquired::Held(lock) => Some(lock),
        Acquired::LockedElsewhere => None,
    }
}

async fn row<E: Engine>(engine: &E) -> Item {
    engine.get(&LOCKS, Key { partition: KEY.into(), sort: None }).await.unwrap().expect("the row is there")
}

async fn version<E: Engine>(engine: &E) -> String {
    row(engine).await.text("recordVersionNumber").unwrap().to_owned()
}

/// Waits for another task's effect.
async fn eventually(what: &str, mut check: impl AsyncFnMut() -> bool) {
    let begun = std::time::Instant::now();
    while begun.elapsed() < 10 * S {
        if check().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("{what} never happened");
}

/// Gives other tasks time to do what they must not do.
async fn a_while() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// Advances the clock by a second, and waits for the heartbeat that is then due.
async fn beaten<E: Engine>(engine: &E, clock: &TestClock) {
    let before = version(engine).await;
    clock.advance(S);
    eventually("a heartbeat", async || version(engine).await != before).await;
}
