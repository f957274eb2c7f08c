//! One debit for each record and attempt, whichever triggers fire at once and wherever a worker dies.

use dues_events::billing::record::{Record, Status};
use dues_events::{SubscriptionId, UserId};
use dues_processors::collections::commands::{Command, command};
use dues_processors::collections::gateway::Gateway;
use dues_processors::collections::job::{JobRun, Task};
use dues_processors::collections::signals::{webhook_balance_worker, webhook_worker};
use dues_processors::collections::worker::collections_worker;
use dues_processors::collections::{Collector, batch_worker::batch_worker};
use dues_processors::{Context, Delivery};
use dues_projections::billing::record::replay;
use dues_store::lock::Locks;
use dues_store::{Engine, Store};
use dues_tests::clock::TestClock;
use dues_tests::engines;
use dues_tests::engines::faulty::{Faulty, Plug};
use dues_tests::engines::memory::Memory;
use dues_tests::fixtures::company::{deliver, membership, monthly, payment, t};
use dues_tests::gateways::ledger::{Ledger, confirmation};
use futures::future::BoxFuture;
use serde_json::json;
use std::time::Duration;

/// A Thursday after every day on which a return of 2 February can be planned to be presented again.
const NOW: &str = "2026-02-19T08:00:00Z";

/// Every trigger of a collection.
const TRIGGERS: [Trigger; 6] =
    [Trigger::Scheduled, Trigger::Retry, Trigger::Income, Trigger::Balance, Trigger::Manual, Trigger::Batch];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trigger {
    Scheduled,
    Retry,
    Income,
    Balance,
    Manual,
    Batch,
}

/// Fires one trigger; to the caller a failure looks like a crash.
async fn fire<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    trigger: Trigger,
    user: &UserId,
    id: &SubscriptionId,
) -> Result<(), String> {
    let message = |body: serde_json::Value| Delivery {
        sequence: "1".into(),
        arrived: t(NOW),
        data: body.to_string().into_bytes(),
    };
    let task = |process| Task { user_id: user.clone(), process };
    let said = |error: dues_store::CommitError| error.to_string();
    match trigger {
        Trigger::Scheduled => {
            collections_worker(collector, &task(JobRun::Initial)).await.map(drop).map_err(said)
        }
        Trigger::Retry => collections_worker(collector, &task(JobRun::Retry)).await.map(drop).map_err(said),
        Trigger::Income => {
            let signal = json!({"event_id": format!("inc-{user}"), "user_id": user, "amount": "900.00",
                "detected_at": NOW});
            webhook_worker(collector, &message(signal)).await.map(drop)
        }
        Trigger::Balance => {
            let signal = json!({"event_id": format!("bal-{user}"), "user_id": user, "available": "900.00",
                "observed_at": NOW});
            webhook_balance_worker(collector, &message(signal)).await.map(drop)
        }
        Trigger::Manual => {
            let pay = Command::Pay { new_account: false, authorised: false };
            command(collector, user, id, pay, "ops").await.map(drop).map_err(said)
        }
        Trigger::Batch => {
            batch_worker(collector, &message(json!({"subscription_ids": [id]}))).await.map(drop)
        }
    }
}

/// A member with a record that is due, or has failed once.
async fn member<E: Engine>(store: &Store<E>, user: &str, failed: bool) -> Record {
    let context = Context::new(store.clone());
    deliver(
        &context,
        &[membership(&format!("m-{user}"), "ACTIVATE", user, "2026-01-05T00:00:00Z", monthly("2026-02-01"))],
        10,
    )
    .await;
    let record = store.list_by_user_id(&user.into()).await.unwrap().remove(0);
    if failed {
        let sent =
            payment(&format!("s-{user}"), "SUBMITTED", &record, &format!("c-{user}"), "2026-02-02T08:00:00Z");
        let returned =
            payment(&format!("r-{user}"), "RETURNED", &record, &format!("c-{user}"), "2026-02-02T20:00:00Z");
        deliver(&context, &[sent, returned], 10).await;
    }
    store.get_by_id(&record.subscription_id).await.unwrap().unwrap()
}

/// What must hold when all work is done: one debit, recorded with its confirmation; one next record; history
/// agrees.
async fn check<E: Engine>(store: &Store<E>, ledger: &Ledger, before: &Record, what: &str) {
    let id = &before.subscription_id;
    assert_eq!(ledger.debits(id), 1, "debits: {what}");
    let records = store.list_by_user_id(&before.user_id).await.unwrap();
    let record = records.iter().find(|r| r.subscription_id == *id).unwrap();
    // The debit is the first attempt of this system, also where another one's has failed before.
    let key = dues_events::AttemptKey::of(id, 1);
    assert_eq!(record.status(), Status::AchSent, "{what}");
    assert_eq!(record.state.transaction_id().unwrap().as_str(), confirmation(&key), "{what}");
    assert_eq!(record.attempts.count(), before.attempts.count() + 1, "{what}");
    assert_eq!(records.len(), 2, "the next record, exactly one: {what}");
    for record in &records {
        let history = store.history_by_id(&record.subscription_id).await.unwrap();
        assert_eq!(replay(&history).as_ref(), Some(record), "history: {what}");
        for pair in history.windows(2).filter(|pair| pair[0].record.version == pair[1].record.version) {
            assert_eq!(pair[0].token, pair[1].token, "two events for one version in history: {what}");
        }
    }
}

/// Fires every trigger at once, round after round; each worker has its own lock client, as a separate
/// process does.
async fn contest<E: Engine>(engine: E, rounds: u64, locks_of: impl Fn(&Store<E>) -> Locks<E>) {
    let clock = TestClock::manual(t(NOW));
    let store = Store::new(engine, clock.shared());
    let ledger = Ledger::default();
    for seed in 0..rounds {
        let user = format!("u-{seed}");
        let before = member(&store, &user, seed % 2 == 1).await;
        let mut order: Vec<Trigger> = TRIGGERS.into_iter().cycle().skip(seed as usize % 6).take(6).collect();
        if seed % 3 == 0 {
            order.reverse();
        }
        let contenders = order.into_iter().enumerate().map(|(n, trigger)| {
            let collector =
                Collector { locks: locks_of(&store), ..Collector::new(store.clone(), ledger.clone()) };
            let (user, id) = (UserId::from(user.as_str()), before.subscription_id.clone());
            tokio::spawn(async move {
                // Seeded: which worker yields, and how often.
                for _ in 0..(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (n * 8)) % 5 {
                    tokio::task::yield_now().await;
                }
                fire(&collector, trigger, &user, &id).await
            })
        });
        for contender in futures::future::join_all(contenders).await {
            contender.unwrap().unwrap();
        }
        // All may have skipped the user because of one that had nothing to do: the next scheduled run
        // collects.
        let last = Collector::new(store.clone(), ledger.clone());
        for trigger in [Trigger::Scheduled, Trigger::Retry] {
            fire(&last, trigger, &UserId::from(user.as_str()), &before.subscription_id).await.unwrap();
        }
        check(&store, &ledger, &before, &format!("round {seed}")).await;
    }
    assert_eq!(ledger.all_debits() as u64, rounds);
}

fn own_client<E: Engine>(store: &Store<E>) -> Locks<E> {
    Locks::new(store.engine.clone(), store.clock.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_fires_at_once_a_thousand_times_on_the_embedded_engine() {
    let (engine, _folder) = engines::embedded();
    contest(engine, 1000, own_client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_fires_at_once_a_thousand_times_on_dynamodb() {
    // The emulator slows down with the size of a status partition: use a fresh one for each 100 rounds.
    for _ in 0..10 {
        let (engine, _server) = engines::dynoxide().await;
        contest(engine, 100, own_client).await;
    }
}

#[tokio::test]
async fn everything_fires_at_once_on_one_thread() {
    contest(Memory::default(), 1000, own_client).await;
}

/// Safety does not depend on the lock: with locks that exclude no worker, the record's version and the
/// attempt key still do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_fires_at_once_and_no_lock_holds() {
    contest(Memory::default(), 1000, |store| Locks::new(Memory::default(), store.clock.clone())).await;
}

/// A worker dies after every single step (a write, or a gateway call); then every trigger fires again.
async fn die_everywhere<E: Engine, T>(
    mut engine: impl FnMut() -> BoxFuture<'static, (E, T)>,
    after: &[Trigger],
) {
    for failed in [false, true] {
        for trigger in TRIGGERS {
            // These triggers collect in one of the two states only.
            if (trigger == Trigger::Scheduled && failed)
                || (matches!(trigger, Trigger::Retry | Trigger::Income | Trigger::Balance) && !failed)
            {
                continue;
            }
            for steps in 1.. {
                let (engine, _guard) = engine().await;
                let clock = TestClock::manual(t(NOW));
                let store = Store::new(engine.clone(), clock.shared());
                let ledger = Ledger::default();
                let before = member(&store, "u-1", failed).await;
                let what = format!("{trigger:?} on {} dies at step {steps}", before.status());

                let plug = Plug::after(steps);
                let dying = Store::new(Faulty::on(engine, plug.clone()), clock.shared());
                let dying = Collector::new(dying, ledger.behind(plug.clone()));
                let died = fire(&dying, trigger, &before.user_id, &before.subscription_id).await;
                if !plug.is_pulled() {
                    died.unwrap();
                    check(&store, &ledger, &before, &what).await;
                    assert!(steps > 8, "lock, attempt, next record, call, answer: {steps}");
                    break;
                }
                assert!(ledger.debits(&before.subscription_id) <= 1, "{what}");

                // A new process: it finds the dead one's lock, and takes it over when its lease has passed.
                let alive = Collector::new(store.clone(), ledger.clone());
                for round in 0..3 {
                    for trigger in after {
                        fire(&alive, *trigger, &before.user_id, &before.subscription_id).await.unwrap();
                    }
                    if round == 0 {
                        clock.advance(Duration::from_secs(61));
                    }
                }
                check(&store, &ledger, &before, &what).await;
            }
        }
    }
}

#[tokio::test]
async fn a_worker_dies_after_every_step_and_everything_fires_again() {
    die_everywhere(|| Box::pin(async { (Memory::default(), ()) }), &TRIGGERS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_dies_after_every_step_on_the_embedded_engine() {
    die_everywhere(|| Box::pin(async { engines::embedded() }), &[Trigger::Retry, Trigger::Scheduled]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_dies_after_every_step_on_dynamodb() {
    die_everywhere(|| Box::pin(engines::dynoxide()), &[Trigger::Retry, Trigger::Scheduled]).await;
}
