//! Heartbeats: that they are sent, and the state of a lock when requests and answers are lost.

use aws_sdk_dynamodb::config::retry::RetryConfig;
use dues_store::dynamo::Dynamo;
use dues_store::lock::LEASE;
use dues_store::{Acquired, Engine, Locks, StoreError};
use dues_tests::engines;
use dues_tests::engines::dynoxide::{Dynoxide, Fault};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{S, a_while, acquire, beaten, eventually, locks, manual, row, user, version};

on_stored_engines! {
    heartbeats_come_once_a_second_while_the_work_runs,
    work_that_ends_during_a_heartbeat_still_releases,
}

async fn heartbeats_come_once_a_second_while_the_work_runs<E: Engine>(engine: E) {
    let clock = manual();
    let lock = acquire(&locks(&engine, &clock)).await.unwrap();
    clock.advance(S);
    a_while().await;
    let first = version(&engine).await;
    let answer = lock
        .run(async {
            eventually("the one that was due", async || version(&engine).await != first).await;
            for _ in 0..4 {
                let before = version(&engine).await;
                clock.advance(S - Duration::from_millis(1));
                a_while().await;
                assert_eq!(version(&engine).await, before, "too early");
                clock.advance(Duration::from_millis(1));
                eventually("a heartbeat", async || version(&engine).await != before).await;
            }
            "done"
        })
        .await;
    assert_eq!(answer, "done");
    let last = version(&engine).await;
    clock.advance(10 * S);
    a_while().await;
    assert_eq!(version(&engine).await, last, "none without work");
}

/// The heartbeat is in flight when the work ends: whichever version the row then has, we can release it.
async fn work_that_ends_during_a_heartbeat_still_releases<E: Engine>(engine: E) {
    for round in 0..20 {
        let clock = manual();
        let lock = acquire(&locks(&engine, &clock)).await.unwrap();
        lock.run(async {
            clock.advance(S);
            for _ in 0..round % 5 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let watch = lock.watch();
        lock.release().await;
        assert!(!watch.is_held(), "watchers see that it is lost");
        eventually("the release", async || row(&engine).await.text("isReleased") == Some("1")).await;
    }
}

/// Makes the next `times` requests of that kind fail, and counts them.
fn fail(server: &Dynoxide, operation: &'static str, times: usize, fault: Fault) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    server.set_fault(Some(Arc::new(move |call| {
        if call.operation == operation && counted.fetch_add(1, Ordering::SeqCst) < times {
            fault
        } else {
            Fault::None
        }
    })));
    count
}

fn updates(server: &Dynoxide) -> usize {
    server.calls().iter().filter(|call| call.operation == "UpdateItem").count()
}

#[tokio::test]
async fn a_heartbeat_with_a_lost_answer_counts() {
    let (engine, server) = engines::dynoxide().await;
    let clock = manual();
    let lock = acquire(&locks(&engine, &clock)).await.unwrap();
    fail(&server, "UpdateItem", 1, Fault::DropResponse);
    lock.run(async {
        beaten(&engine, &clock).await;
        // The holder reads the row, and then knows.
        a_while().await;
    })
    .await;
    clock.advance(LEASE - Duration::from_millis(1));
    assert!(lock.is_held(), "a lease after the heartbeat, not after the acquisition");
    let again = version(&engine).await;
    lock.run(async { eventually("the next", async || version(&engine).await != again).await }).await;
    assert!(lock.is_held());
    lock.release().await;
    assert_eq!(row(&engine).await.text("isReleased"), Some("1"));
}

#[tokio::test]
async fn a_heartbeat_that_never_arrived_is_tried_again() {
    let (engine, server) = engines::dynoxide().await;
    for fault in [Fault::DropRequest, Fault::Throttle] {
        let clock = manual();
        let lock = acquire(&locks(&engine, &clock)).await.unwrap();
        let sent = fail(&server, "UpdateItem", 5, fault);
        let before = version(&engine).await;
        lock.run(async {
            for n in 1..=5 {
                clock.advance(S);
                eventually("an attempt", async || sent.load(Ordering::SeqCst) == n).await;
                a_while().await;
                assert!(lock.is_held() && version(&engine).await == before);
            }
            beaten(&engine, &clock).await;
        })
        .await;
        assert!(lock.is_held());
        lock.release().await;
    }
}

/// Neither the heartbeat nor the read after it is answered: either version may be in the row until a later
/// heartbeat succeeds.
#[tokio::test]
async fn a_heartbeat_that_stays_in_doubt_does_not_lose_the_lock() {
    let (engine, server) = engines::dynoxide().await;
    let clock = manual();
    let lock = acquire(&locks(&engine, &clock)).await.unwrap();
    let first = version(&engine).await;
    let failing = Arc::new(AtomicUsize::new(0));
    let counted = failing.clone();
    server.set_fault(Some(Arc::new(move |_| match counted.fetch_add(1, Ordering::SeqCst) {
        0 => Fault::DropResponse,
        1 => Fault::DropRequest,
        _ => Fault::None,
    })));
    lock.run(async {
        clock.advance(S);
        eventually("both", async || failing.load(Ordering::SeqCst) == 2).await;
        a_while().await;
        assert_ne!(version(&engine).await, first, "it had arrived");
        assert!(lock.is_held());
        beaten(&engine, &clock).await;
        assert!(lock.is_held());
    })
    .await;
    lock.release().await;
    assert_eq!(row(&engine).await.text("isReleased"), Some("1"));
}

#[tokio::test]
async fn a_heartbeat_without_an_answer_does_not_stop_the_next() {
    let (engine, server) = engines::dynoxide().await;
    let clock = manual();
    let lock = acquire(&locks(&engine, &clock)).await.unwrap();
    let before = version(&engine).await;
    let sent = fail(&server, "UpdateItem", 0, Fault::None);
    server.set_latency(Duration::from_secs(3600));
    lock.run(async {
        clock.advance(S);
        eventually("the heartbeat that hangs", async || sent.load(Ordering::SeqCst) == 1).await;
        server.set_latency(Duration::ZERO);
        clock.advance(14 * S);
        a_while().await;
        assert_eq!(version(&engine).await, before, "it is still being waited for");
        clock.advance(S);
        eventually("the next", async || version(&engine).await != before).await;
        assert!(lock.is_held());
    })
    .await;
}

#[tokio::test]
async fn a_refused_heartbeat_loses_the_lock_and_not_the_work() {
    let (engine, server) = engines::dynoxide().await;
    let clock = manual();
    let lock = acquire(&locks(&engine, &clock)).await.unwrap();
    // An operator cleared the table and another holder acquired the lock: well within the lease.
    engine
        .delete(
            &dues_store::table::LOCKS,
            dues_store::Key { partition: super::KEY.into(), sort: None },
            dues_store::Condition::Always,
        )
        .await
        .unwrap();
    let other = acquire(&locks(&engine, &clock)).await.unwrap();
    server.reset_calls();
    let watch = lock.watch();
    let done = lock
        .run(async {
            assert!(watch.is_held());
            clock.advance(S);
            eventually("the loss", async || !watch.is_held()).await;
            clock.advance(5 * S);
            a_while().await;
            updates(&server)
        })
        .await;
    assert_eq!(done, 1, "the work went on, the heartbeats did not");
    assert!(!lock.is_held() && other.is_held());
    lock.release().await;
    assert_eq!(updates(&server), 1, "there is nothing to release");
}

#[tokio::test]
async fn a_long_pause_is_followed_by_one_heartbeat() {
    let (engine, server) = engines::dynoxide().await;
    let clock = manual();
    let lock = acquire(&locks(&engine, &clock)).await.unwrap();
    clock.advance(40 * S);
    server.reset_calls();
    lock.run(a_while()).await;
    assert_eq!(updates(&server), 1);
}

/// Most tests use a clock that never waits: heartbeats then follow the machine's clock.
#[tokio::test]
async fn a_clock_that_never_waits_does_not_make_a_storm() {
    let (engine, server) = engines::dynoxide().await;
    let locks =
        Locks::new(engine, dues_tests::fixtures::company::clock()).with_heartbeat(Duration::from_millis(100));
    let lock = acquire(&locks).await.unwrap();
    lock.run(tokio::time::sleep(Duration::from_millis(450))).await;
    assert!((1..=4).contains(&updates(&server)), "{} heartbeats", updates(&server));
}

#[tokio::test]
async fn an_acquisition_in_doubt_is_looked_up() {
    let (engine, server) = engines::dynoxide().await;
    let clock = manual();
    fail(&server, "PutItem", 1, Fault::DropResponse);
    let lock = acquire(&locks(&engine, &clock)).await.expect("it had arrived");
    lock.run(beaten(&engine, &clock)).await;
    lock.release().await;
    for fault in [Fault::DropRequest, Fault::Throttle] {
        fail(&server, "PutItem", 1, fault);
        let error = locks(&engine, &clock).acquire(&user()).await.unwrap_err();
        assert!(
            error.is_transient() && error.to_string().contains("lock subscription-billing:user_id:u-1"),
            "{error}"
        );
        assert_eq!(row(&engine).await.text("isReleased"), Some("1"));
    }
    fail(&server, "GetItem", 1, Fault::DropRequest);
    assert!(matches!(locks(&engine, &clock).acquire(&user()).await, Err(StoreError::Unavailable(_))));
    assert!(acquire(&locks(&engine, &clock)).await.is_some());
}

/// With the SDK's own retries, a write with a lost answer is sent again and conflicts with itself.
#[tokio::test]
async fn a_request_that_was_sent_twice_is_ours_all_the_same() {
    let (plain, server) = engines::dynoxide().await;
    let retries = RetryConfig::standard().with_initial_backoff(Duration::from_millis(1));
    let engine = Dynamo::new(server.client_with(retries));
    let clock = manual();
    let put = fail(&server, "PutItem", 1, Fault::DropResponse);
    let lock = acquire(&locks(&engine, &clock)).await.unwrap();
    assert_eq!(put.load(Ordering::SeqCst), 2);
    let sent = fail(&server, "UpdateItem", 1, Fault::DropResponse);
    lock.run(async {
        beaten(&plain, &clock).await;
        eventually("the second", async || sent.load(Ordering::SeqCst) == 2).await;
        a_while().await;
        assert!(lock.is_held());
        beaten(&plain, &clock).await;
    })
    .await;
    fail(&server, "UpdateItem", 1, Fault::DropResponse);
    lock.release().await;
    assert_eq!(row(&plain).await.text("isReleased"), Some("1"));
}

#[tokio::test]
async fn a_release_is_tried_twice_and_then_left_to_the_lease() {
    let (engine, server) = engines::dynoxide().await;
    let clock = manual();
    for (times, fault, released) in
        [(1, Fault::DropRequest, true), (2, Fault::DropResponse, true), (2, Fault::DropRequest, false)]
    {
        let lock = acquire(&locks(&engine, &clock)).await.unwrap();
        let sent = fail(&server, "UpdateItem", times, fault);
        lock.release().await;
        assert_eq!(sent.load(Ordering::SeqCst), 2);
        assert_eq!(row(&engine).await.text("isReleased").is_some(), released, "{times} times {fault:?}");
    }
    let other = locks(&engine, &clock);
    assert!(matches!(other.acquire(&user()).await.unwrap(), Acquired::LockedElsewhere));
    clock.advance(LEASE);
    assert!(acquire(&other).await.is_some());
}
