//! Debits that wait: for the planned day of a presentment, and for the correction of an account.

use dues_events::collections::incomes::Income;
use dues_events::{AttemptKey, Money, Record, UserId};
use dues_processors::collections::commands::{Command, CommandReply, command};
use dues_processors::collections::job::{JobRun, Staleness, Task, collections_job};
use dues_processors::collections::planned_retries::planned_retries;
use dues_processors::collections::signals::{webhook_balance_worker, webhook_worker};
use dues_processors::collections::worker::collections_worker;
use dues_processors::collections::{Collector, Outcome, UserCollection};
use dues_processors::{Context, Delivery};
use dues_store::{Engine, Store};
use dues_tests::clock::TestClock;
use dues_tests::engines;
use dues_tests::engines::faulty::Faulty;
use dues_tests::engines::memory::Memory;
use dues_tests::fixtures::company::{deliver, membership, monthly, payment, t};
use dues_tests::gateways::ledger::{Ledger, confirmation};
use serde_json::{Value, json};
use std::sync::Mutex;

fn user() -> UserId {
    "u-1".into()
}

fn delivery(body: &Value) -> Delivery {
    Delivery { sequence: "1".into(), arrived: t("2026-02-03T08:00:00Z"), data: body.to_string().into_bytes() }
}

fn income(day: &str, amount: &str) -> Delivery {
    let at = format!("{day}T13:00:00Z");
    delivery(&json!({"event_id": format!("i-{day}"), "user_id": "u-1", "amount": amount, "detected_at": at}))
}

/// A member with a record that was due on 1 February.
async fn member<E: Engine>(store: &Store<E>) -> Record {
    let joined = membership("m-1", "ACTIVATE", "u-1", "2025-12-05T00:00:00Z", monthly("2026-02-01"));
    deliver(&Context::new(store.clone()), &[joined], 10).await;
    store.list_by_user_id(&user()).await.unwrap().remove(0)
}

/// Delivers a report about transaction `c-1`.
async fn report<E: Engine>(store: &Store<E>, id: &str, kind: &str, record: &Record, at: &str, code: &str) {
    let (stream, mut body) = payment(id, kind, record, "c-1", at);
    if !code.is_empty() {
        body["payment"]["return_code"] = code.into();
    }
    deliver(&Context::new(store.clone()), &[(stream, body)], 10).await;
}

async fn run<E: Engine>(collector: &Collector<E, Ledger>, process: JobRun) -> Vec<&'static str> {
    let done = collections_worker(collector, &Task { user_id: user(), process }).await.unwrap();
    names(&done)
}

fn names(done: &UserCollection) -> Vec<&'static str> {
    let UserCollection::Done(outcomes) = done else { panic!("{done:?}") };
    let name = |outcome: &Outcome| match outcome {
        Outcome::Sent => "sent",
        Outcome::Skipped(reason) => reason.code(),
        other => panic!("{other:?}"),
    };
    outcomes.iter().map(|outcome| name(&outcome.outcome)).collect()
}

/// What the job queues and skips, by reason.
async fn prescreened<E: Engine>(store: &Store<E>, process: JobRun) -> (usize, Vec<(&'static str, u64)>) {
    let queue = Queued::default();
    let rules = Default::default();
    let progress =
        collections_job(store, &rules, &&queue, process, Staleness::Guarded, |_| {}).await.unwrap();
    (queue.0.into_inner().unwrap().len(), progress.skipped.into_iter().collect())
}

#[derive(Default)]
struct Queued(Mutex<Vec<Task>>);

impl dues_processors::messaging::queue::Queue for &Queued {
    async fn send(&self, tasks: Vec<Task>) -> Result<(), dues_processors::messaging::queue::QueueError> {
        self.0.lock().unwrap().extend(tasks);
        Ok(())
    }
}

/// Paid every other Friday, so that 13 February is a payday; a weekend and Presidents' Day follow it.
async fn waits_for_the_payday<E: Engine>(engine: E) {
    let clock = TestClock::manual(t("2026-02-02T08:00:00Z"));
    let store = Store::new(engine, clock.shared());
    let record = member(&store).await;
    let collector = Collector::new(store.clone(), Ledger::default());
    // Delivered in no order, twice, and with one that is too small to be remembered.
    for day in ["2026-01-30", "2026-01-02", "2026-01-16", "2026-01-30"] {
        webhook_worker(&collector, &income(day, "1200.00")).await.unwrap();
    }
    webhook_worker(&collector, &income("2026-01-21", "74.99")).await.unwrap();
    let days: Vec<String> =
        store.incomes(&user()).await.unwrap().days().iter().map(ToString::to_string).collect();
    assert_eq!(days, ["2026-01-02", "2026-01-16", "2026-01-30"]);

    report(&store, "s-1", "SUBMITTED", &record, "2026-02-02T08:00:00Z", "").await;
    report(&store, "r-1", "RETURNED", &record, "2026-02-03T06:00:00Z", "R01").await;
    clock.set_now(t("2026-02-04T07:00:00Z"));
    assert_eq!(
        prescreened(&store, JobRun::Retry).await,
        (0, vec![("retry_planned", 1)]),
        "too early by any plan"
    );
    assert_eq!(run(&collector, JobRun::Retry).await, ["retry_planned"]);
    clock.set_now(t("2026-02-05T07:00:00Z"));
    assert_eq!(prescreened(&store, JobRun::Retry).await, (1, vec![]), "the worker knows the incomes");
    assert_eq!(run(&collector, JobRun::Retry).await, ["retry_planned"]);
    let records = store.list_by_user_id(&user()).await.unwrap();
    let plans = planned_retries(&store, &collector.rules, &records).await.unwrap();
    assert_eq!(
        plans[&record.subscription_id].to_string(),
        "on 2026-02-17: the day after the expected payday (biweekly)"
    );
    clock.set_now(t("2026-02-13T07:00:00Z"));
    assert_eq!(run(&collector, JobRun::Retry).await, ["retry_planned"]);
    clock.set_now(t("2026-02-17T07:00:00Z"));
    assert_eq!(run(&collector, JobRun::Retry).await, ["sent"]);
    assert_eq!(collector.gateway.debits(&record.subscription_id), 1);
}

#[tokio::test]
async fn a_retry_waits_for_the_payday_on_the_embedded_engine() {
    let (engine, _folder) = engines::embedded();
    waits_for_the_payday(engine).await;
}

#[tokio::test]
async fn a_retry_waits_for_the_payday_on_dynamodb() {
    let (engine, _server) = engines::dynoxide().await;
    waits_for_the_payday(engine).await;
}

/// The incomes cost one read, for a record that RETRY would present again, and nothing elsewhere.
#[tokio::test]
async fn incomes_are_read_for_retries_only() {
    let (engine, server) = engines::dynoxide().await;
    let clock = TestClock::manual(t("2026-02-02T08:00:00Z"));
    let store = Store::new(engine, clock.shared());
    let record = member(&store).await;
    let collector = Collector::new(store.clone(), Ledger::default());
    let reads = || {
        let of_journal = |call: &dues_tests::engines::dynoxide::Call| {
            call.tables.iter().any(|table| table == "dues-journal")
        };
        let calls = server.calls();
        server.reset_calls();
        calls.iter().filter(|call| of_journal(call)).map(|call| call.operation.clone()).collect::<Vec<_>>()
    };
    server.reset_calls();
    assert_eq!(run(&collector, JobRun::Initial).await, ["sent"]);
    assert_eq!(reads(), [""; 0], "INITIAL");
    let debit = confirmation(&AttemptKey::of(&record.subscription_id, 1));
    let returned = payment("r-1", "RETURNED", &record, &debit, "2026-02-03T06:00:00Z");
    deliver(&Context::new(store.clone()), &[returned], 10).await;
    assert_eq!(reads(), [""; 0], "what the bank reports");
    clock.set_now(t("2026-02-04T07:00:00Z"));
    assert_eq!(run(&collector, JobRun::Retry).await, ["retry_planned"]);
    assert_eq!(reads(), [""; 0], "too early by any plan");
    clock.set_now(t("2026-03-16T07:00:00Z"));
    run(&collector, JobRun::Retry).await;
    assert_eq!(reads(), ["GetItem"], "one read");
}

/// Concurrent workers lose no income, and one that dies after any write leaves the signal to its redelivery.
#[tokio::test]
async fn incomes_survive_races_and_crashes() {
    let store = Store::new(Memory::default(), TestClock::manual(t("2026-02-03T08:00:00Z")).shared());
    let income = |n: u32| Income {
        id: format!("i-{n}").into(),
        at: t("2026-01-01T00:00:00Z") + chrono::TimeDelta::days(n.into()),
        amount: Money::from_cents(80_000),
    };
    let at_once = (0..30).map(|n| {
        let (store, income) = (store.clone(), income(n * 7 % 30));
        tokio::spawn(async move { store.remember_income(&"u-1".into(), &income).await })
    });
    for done in futures::future::join_all(at_once).await {
        done.unwrap().unwrap();
    }
    let kept: Vec<String> =
        store.incomes(&user()).await.unwrap().as_slice().iter().map(|income| income.id.to_string()).collect();
    assert_eq!(kept, (18..30).map(|n| format!("i-{n}")).collect::<Vec<_>>());
    assert!(!store.remember_income(&user(), &income(29)).await.unwrap(), "known");
    assert!(!store.remember_income(&user(), &income(3)).await.unwrap(), "older than all that are kept");

    for writes in 0..3 {
        let engine = Memory::default();
        let clock = TestClock::manual(t("2026-02-03T08:00:00Z"));
        let dying = Store::new(Faulty::after(engine.clone(), writes), clock.shared());
        let signal = self::income("2026-01-30", "900.00");
        let _ = webhook_worker(&Collector::new(dying, Ledger::default()), &signal).await;
        let store = Store::new(engine, clock.shared());
        webhook_worker(&Collector::new(store.clone(), Ledger::default()), &signal).await.unwrap();
        assert_eq!(store.incomes(&user()).await.unwrap().as_slice().len(), 1, "after {writes} writes");
    }
}

/// C01 after the settlement: the payment stands, the next debit waits, a new account lets it go on.
async fn waits_for_a_correction<E: Engine>(engine: E, lift: &str) {
    let clock = TestClock::manual(t("2026-02-02T08:00:00Z"));
    let store = Store::new(engine, clock.shared());
    let record = member(&store).await;
    let collector = Collector::new(store.clone(), Ledger::default());
    report(&store, "s-1", "COMPLETED", &record, "2026-02-03T06:00:00Z", "").await;
    for id in ["n-1", "n-1", "n-2"] {
        report(&store, id, "RETURNED", &record, "2026-02-04T06:00:00Z", "C01").await;
    }
    let records = store.list_by_user_id(&user()).await.unwrap();
    let statuses: Vec<&str> = records.iter().map(|record| record.status().as_str()).collect();
    assert_eq!(statuses, ["COMPLETED", "SCHEDULED"]);
    assert_eq!(records[0].correction.awaited().unwrap().correct_by().to_string(), "2026-02-12");
    assert_eq!(records[1].correction.awaited(), None, "the next record was there before");

    clock.set_now(t("2026-03-02T08:00:00Z"));
    let next = records[1].subscription_id.clone();
    assert_eq!(run(&collector, JobRun::Initial).await, ["awaits_correction"]);
    assert_eq!(prescreened(&store, JobRun::Initial).await.0, 1);
    let pay = |new_account| {
        command(&collector, &record.user_id, &next, Command::Pay { new_account, authorised: false }, "ops")
    };
    let CommandReply::Collected(done) = pay(false).await.unwrap() else { panic!("not a payment") };
    assert_eq!(names(&done), ["awaits_correction"], "also by hand");
    assert_eq!(collector.gateway.all_debits(), 0);
    match lift {
        "pay" => {
            let CommandReply::Collected(done) = pay(true).await.unwrap() else { panic!("not a payment") };
            assert_eq!(names(&done), ["sent"]);
        }
        "balance" => {
            let signal = json!({"event_id": "b-1", "user_id": "u-1", "available": "900.00",
                "new_account": true,
                "observed_at": "2026-03-02T08:00:00Z"});
            for _ in 0..2 {
                webhook_balance_worker(&collector, &delivery(&signal)).await.unwrap();
            }
            assert_eq!(run(&collector, JobRun::Initial).await, ["sent"], "the job debits what is due");
        }
        other => panic!("{other}"),
    }
    assert_eq!(collector.gateway.debits(&next), 1);
    // The record after it does not wait again.
    let (stream, mut settled) = payment("s-2", "COMPLETED", &records[1], "c-2", "2026-03-03T06:00:00Z");
    settled["payment"]["confirmation_id"] =
        store.get_by_id(&next).await.unwrap().unwrap().state.transaction_id().unwrap().as_str().into();
    deliver(&Context::new(store.clone()), &[(stream, settled)], 10).await;
    clock.set_now(t("2026-04-01T08:00:00Z"));
    assert_eq!(run(&collector, JobRun::Initial).await, ["sent"]);
    for record in store.list_by_user_id(&user()).await.unwrap() {
        assert_eq!(record.correction.awaited(), None, "{}", record.period());
    }
    // An older notice that arrives now is about the account before.
    report(&store, "n-3", "RETURNED", &record, "2026-02-05T06:00:00Z", "C02").await;
    clock.set_now(t("2026-05-01T08:00:00Z"));
    assert_eq!(run(&collector, JobRun::Initial).await.last(), Some(&"sent"));
}

#[tokio::test]
async fn a_debit_waits_for_a_correction_until_an_operator_pays_with_a_new_account() {
    let (engine, _folder) = engines::embedded();
    waits_for_a_correction(engine, "pay").await;
    let (engine, _server) = engines::dynoxide().await;
    waits_for_a_correction(engine, "pay").await;
}

#[tokio::test]
async fn a_debit_waits_for_a_correction_until_a_new_account_is_observed() {
    let (engine, _folder) = engines::embedded();
    waits_for_a_correction(engine, "balance").await;
    let (engine, _server) = engines::dynoxide().await;
    waits_for_a_correction(engine, "balance").await;
}

/// The notice arrives before the next record exists: it is inherited. A reactivation lifts it.
#[tokio::test]
async fn a_notice_is_inherited_and_ends_with_a_new_membership() {
    let clock = TestClock::manual(t("2026-02-02T08:00:00Z"));
    let store = Store::new(Memory::default(), clock.shared());
    let record = member(&store).await;
    report(&store, "n-1", "RETURNED", &record, "2026-02-04T06:00:00Z", "C03").await;
    report(&store, "s-1", "COMPLETED", &record, "2026-02-03T06:00:00Z", "").await;
    let records = store.list_by_user_id(&user()).await.unwrap();
    let codes: Vec<&str> =
        records.iter().map(|record| record.correction.awaited().map_or("", |_| "C03")).collect();
    assert_eq!(codes, ["C03", "C03"]);
    let again = membership("m-2", "REACTIVATE", "u-1", "2026-02-10T00:00:00Z", monthly("2026-03-05"));
    deliver(&Context::new(store.clone()), &[again], 10).await;
    clock.set_now(t("2026-03-05T08:00:00Z"));
    let collector = Collector::new(store, Ledger::default());
    assert_eq!(run(&collector, JobRun::Initial).await, ["sent"]);
}
