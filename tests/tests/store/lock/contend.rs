//! Several contenders for one lock, a holder that is gone, and clocks that are set.

use dues_events::{Item, UserId};
use dues_store::lock::LEASE;
use dues_store::{Acquired, Engine, Locks};
use dues_tests::engines;
use dues_tests::fixtures::company::t;
use futures::future::join_all;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{NANO, S, a_while, acquire, beaten, locks, manual, row, version};

on_stored_engines! {
    of_many_contenders_one_gets_it,
    a_lock_has_one_holder_at_a_time,
    a_lock_that_is_held_is_refused_at_once,
    a_dead_holder_is_followed_once_its_own_lease_has_passed,
    a_living_holder_is_never_followed,
    setting_the_time_neither_takes_a_lock_nor_loses_it,
    a_holder_that_was_followed_lets_the_new_one_be,
}

async fn of_many_contenders_one_gets_it<E: Engine>(engine: E) {
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let clock = manual();
        let user = UserId::from(format!("u-{seed}"));
        let contenders: Vec<Locks<E>> = (0..random.usize(2..10)).map(|_| locks(&engine, &clock)).collect();
        // The lock's state at the start: never locked, released, or left by a dead holder that all
        // contenders have seen.
        let found = random.u8(0..3);
        if found > 0 {
            let Acquired::Held(lock) = locks(&engine, &clock).acquire(&user).await.unwrap() else {
                panic!("seed {seed}")
            };
            if found == 1 {
                lock.release().await;
            } else {
                for contender in &contenders {
                    assert!(matches!(contender.acquire(&user).await.unwrap(), Acquired::LockedElsewhere));
                }
                clock.advance(LEASE);
            }
        }
        let attempts = contenders.into_iter().map(|locks| {
            let (user, pause) = (user.clone(), random.u8(0..4));
            tokio::spawn(async move {
                for _ in 0..pause {
                    tokio::task::yield_now().await;
                }
                locks.acquire(&user).await.unwrap()
            })
        });
        let all: Vec<_> = join_all(attempts).await.into_iter().map(Result::unwrap).collect();
        let held =
            all.iter().filter(|acquired| matches!(acquired, Acquired::Held(lock) if lock.is_held())).count();
        assert_eq!(held, 1, "of {} contenders, seed {seed}, found {found}", all.len());
    }
}

async fn a_lock_has_one_holder_at_a_time<E: Engine>(engine: E) {
    let clock = manual();
    let [inside, turns] = [(); 2].map(|()| Arc::new(AtomicU32::new(0)));
    let contenders = (0..6).map(|_| {
        let (locks, inside, turns) = (locks(&engine, &clock), inside.clone(), turns.clone());
        tokio::spawn(async move {
            for _ in 0..25 {
                let Some(lock) = acquire(&locks).await else { continue };
                lock.run(async {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "the lock has another holder");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    turns.fetch_add(1, Ordering::SeqCst);
                })
                .await;
                lock.release().await;
            }
        })
    });
    join_all(contenders).await.into_iter().for_each(Result::unwrap);
    assert!(turns.load(Ordering::SeqCst) > 0);
    assert!(acquire(&locks(&engine, &clock)).await.is_some(), "free in the end");
}

async fn a_lock_that_is_held_is_refused_at_once<E: Engine>(engine: E) {
    let clock = manual();
    let ours = locks(&engine, &clock);
    let lock = acquire(&ours).await.unwrap();
    let before = row(&engine).await;
    assert!(acquire(&locks(&engine, &clock)).await.is_none(), "the clock stands still: no lease has passed");
    assert!(acquire(&ours).await.is_none(), "not even the holder gets it twice");
    assert_eq!(row(&engine).await, before);
    let other = ours.acquire(&UserId::from("u-2")).await.unwrap();
    assert!(matches!(other, Acquired::Held(_)), "another user is another lock");
    let job = ours.acquire_key("job:nightly".into()).await.unwrap();
    assert!(matches!(job, Acquired::Held(ref job) if job.key() == "job:nightly"));
    lock.release().await;
    assert!(acquire(&locks(&engine, &clock)).await.is_some());
}

async fn a_dead_holder_is_followed_once_its_own_lease_has_passed<E: Engine>(engine: E) {
    let clock = manual();
    drop(acquire(&locks(&engine, &clock).with_lease(10 * S)).await.unwrap());
    // The contenders have another lease; the one in the row counts.
    let [early, late] = [(); 2].map(|()| locks(&engine, &clock).with_lease(99 * S));
    assert!(acquire(&early).await.is_none());
    clock.advance(5 * S);
    assert!(acquire(&late).await.is_none());
    clock.advance(5 * S - NANO);
    assert!(acquire(&early).await.is_none());
    clock.advance(NANO);
    assert!(acquire(&late).await.is_none(), "who came later waits longer: each trusts only its own clock");
    let lock = acquire(&early.clone()).await.expect("clones share what they have seen");
    assert_eq!(row(&engine).await.text("leaseDuration"), Some("1m39s"));
    clock.advance(5 * S);
    assert!(acquire(&late).await.is_none(), "the new holder has a new lease");
    lock.release().await;
    assert!(acquire(&late).await.is_some());
}

async fn a_living_holder_is_never_followed<E: Engine>(engine: E) {
    let clock = manual();
    let lock = acquire(&locks(&engine, &clock).with_lease(3 * S)).await.unwrap();
    let other = locks(&engine, &clock).with_lease(3 * S);
    lock.run(async {
        for _ in 0..12 {
            assert!(acquire(&other).await.is_none());
            beaten(&engine, &clock).await;
            assert!(lock.is_held());
        }
    })
    .await;
}

async fn setting_the_time_neither_takes_a_lock_nor_loses_it<E: Engine>(engine: E) {
    let clock = manual();
    let lock = acquire(&locks(&engine, &clock)).await.unwrap();
    let other = locks(&engine, &clock);
    let watch = lock.watch();
    lock.run(async {
        for now in
            ["2026-03-02T00:00:00Z", "2026-02-01T00:00:00Z", "1971-01-01T00:00:00Z", "2200-01-01T00:00:00Z"]
        {
            assert!(acquire(&other).await.is_none());
            let before = version(&engine).await;
            clock.set_now(t(now));
            a_while().await;
            assert!(acquire(&other).await.is_none(), "{now}");
            assert!(watch.is_held(), "{now}");
            assert_eq!(version(&engine).await, before, "no heartbeat is due");
            beaten(&engine, &clock).await;
        }
    })
    .await;
    // The last heartbeat may have been cut off before its answer was seen: then the one before it counts.
    clock.advance(58 * S);
    assert!(watch.is_held() && acquire(&other).await.is_none());
    clock.advance(2 * S);
    assert!(!watch.is_held(), "a lease after the last heartbeat");
}

async fn a_holder_that_was_followed_lets_the_new_one_be<E: Engine>(engine: E) {
    let clock = manual();
    let old = acquire(&locks(&engine, &clock)).await.unwrap();
    let other = locks(&engine, &clock);
    assert!(acquire(&other).await.is_none());
    clock.advance(LEASE);
    assert!(!old.is_held(), "it knows that its lease has passed");
    let new = acquire(&other).await.unwrap();
    let before: Item = row(&engine).await;
    let (late, found_out) = (acquire(&locks(&engine, &clock)).await, old.watch());
    assert!(late.is_none());
    old.run(async {
        super::eventually("the end of the old one", async || format!("{found_out:?}").contains("Over")).await
    })
    .await;
    assert!(!old.is_held());
    old.release().await;
    assert_eq!(row(&engine).await, before, "neither its heartbeat nor its release touched the row");
    assert!(new.is_held());
    new.release().await;
    assert_eq!(row(&engine).await.text("isReleased"), Some("1"));
}

/// The same without a heartbeat in between: the release itself is refused.
#[tokio::test]
async fn a_late_release_is_refused() {
    let (engine, server) = engines::dynoxide().await;
    let clock = manual();
    let old = acquire(&locks(&engine, &clock)).await.unwrap();
    let other = locks(&engine, &clock);
    assert!(acquire(&other).await.is_none());
    clock.advance(LEASE);
    let new = acquire(&other).await.unwrap();
    let before = row(&engine).await;
    server.reset_calls();
    old.release().await;
    let calls = server.calls();
    assert_eq!(
        calls.iter().map(|call| call.error.as_deref()).collect::<Vec<_>>(),
        [Some("ConditionalCheckFailedException")]
    );
    assert!(row(&engine).await == before && new.is_held());
}
