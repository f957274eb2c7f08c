//! Income and balance signals, reminders, and what is parked on the way: on both engines.

use dues_events::billing::event::Answer;
use dues_events::billing::record::{Failure, Process, Record, Status};
use dues_events::collections::eligibility::Rules;
use dues_events::{AttemptKey, RefundKey, UserId};
use dues_processors::collections::batch_worker::batch_worker;
use dues_processors::collections::gateway::{Debit, Gateway, OutcomeUnknown, Refund, RefundAnswer};
use dues_processors::collections::notifier::notifier_scheduler;
use dues_processors::collections::signals::{SignalOutcome, webhook_balance_worker, webhook_worker};
use dues_processors::collections::{Collector, Outcome, UserCollection};
use dues_processors::messaging::bus::{Bus, Message};
use dues_processors::messaging::outbox::PublishError;
use dues_processors::runtime::redrive::{process_collections, redrive_collection};
use dues_processors::{Context, Delivery};
use dues_store::{Engine, Store};
use dues_tests::clock::TestClock;
use dues_tests::engines;
use dues_tests::engines::faulty::Faulty;
use dues_tests::engines::memory::Memory;
use dues_tests::fixtures::company::{deliver, membership, monthly, payment, t};
use dues_tests::gateways::ledger::Ledger;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

/// A gateway that refuses everything with R01, at once.
#[derive(Clone, Default)]
struct Refuses(Arc<Mutex<Vec<AttemptKey>>>);

impl Gateway for Refuses {
    async fn submit(&self, _: &Debit, key: &AttemptKey) -> Result<Answer, OutcomeUnknown> {
        self.0.lock().unwrap().push(key.clone());
        Ok(Answer::Refused {
            transaction_id: None,
            failure: Failure::new(dues_events::collections::ach::ReturnCode::read("R01"), Some("no money")),
        })
    }

    async fn lookup(&self, _: &AttemptKey) -> Result<Option<Answer>, OutcomeUnknown> {
        Ok(None)
    }

    async fn refund(&self, _: &Refund, _: &RefundKey) -> Result<RefundAnswer, OutcomeUnknown> {
        Ok(RefundAnswer::Refused { reason: "nothing was collected".into() })
    }

    async fn lookup_refund(&self, _: &RefundKey) -> Result<Option<RefundAnswer>, OutcomeUnknown> {
        Ok(None)
    }
}

fn signal(body: Value) -> Delivery {
    Delivery {
        sequence: "s-1".into(),
        arrived: t("2026-02-03T08:00:00Z"),
        data: body.to_string().into_bytes(),
    }
}

fn income(id: &str, amount: &str) -> Delivery {
    signal(json!({"event_id": id, "user_id": "u-1", "amount": amount, "detected_at": "2026-02-03T08:00:00Z"}))
}

fn balance(id: &str, available: &str) -> Delivery {
    signal(json!({"event_id": id, "user_id": "u-1", "available": available,
            "observed_at": "2026-02-03T08:00:00Z"}))
}

/// A member with this many records that have failed once, one a month from January on.
async fn debtor<E: Engine>(store: &Store<E>, months: u32) -> Vec<Record> {
    let context = Context::new(store.clone());
    deliver(
        &context,
        &[membership("m-1", "ACTIVATE", "u-1", "2025-12-05T00:00:00Z", monthly("2025-12-01"))],
        10,
    )
    .await;
    for n in 0..months {
        let record = open(store).await;
        let id = &record.subscription_id;
        let due = record.billing_date.at().to_rfc3339();
        let sent = payment(&format!("s-{id}"), "SUBMITTED", &record, &format!("c-{n}"), &due);
        let returned = payment(&format!("r-{id}"), "RETURNED", &record, &format!("c-{n}"), &due);
        deliver(&context, &[sent, returned], 10).await;
    }
    failed(store).await
}

async fn open<E: Engine>(store: &Store<E>) -> Record {
    let records = store.list_by_user_id(&"u-1".into()).await.unwrap();
    records.into_iter().find(|record| record.status() == Status::Scheduled).unwrap()
}

async fn failed<E: Engine>(store: &Store<E>) -> Vec<Record> {
    let records = store.list_by_user_id(&"u-1".into()).await.unwrap();
    records.into_iter().filter(|record| record.status() == Status::Error).collect()
}

fn outcomes(acted: &SignalOutcome) -> Vec<&'static str> {
    let SignalOutcome::Collected(_, UserCollection::Done(looked)) = acted else { panic!("{acted:?}") };
    let name = |outcome: &Outcome| match outcome {
        Outcome::Sent => "sent",
        Outcome::Refused(_) => "refused",
        Outcome::Skipped(reason) => reason.code(),
        other => panic!("{other:?}"),
    };
    looked.iter().map(|looked| name(&looked.outcome)).collect()
}

async fn at_most_twice_a_day<E: Engine>(engine: E) {
    let clock = TestClock::manual(t("2026-02-03T08:00:00Z"));
    let store = Store::new(engine, clock.shared());
    assert_eq!(debtor(&store, 2).await.len(), 2);
    let gateway = Refuses::default();
    let collector = Collector::new(store.clone(), gateway.clone());

    assert_eq!(
        webhook_worker(&collector, &income("i-0", "74.99")).await,
        Ok(SignalOutcome::BelowThreshold),
        "acted on from $75"
    );
    let poor = webhook_balance_worker(&collector, &balance("b-0", "14.98")).await.unwrap();
    assert_eq!(outcomes(&poor), ["not_covered", "not_covered"]);
    let for_one = webhook_balance_worker(&collector, &balance("b-1", "20.00")).await.unwrap();
    assert_eq!(outcomes(&for_one), ["refused", "not_covered"], "it covers one of them, the older");
    let again = webhook_balance_worker(&collector, &balance("b-1", "20.00")).await.unwrap();
    assert_eq!(outcomes(&again), ["signal_known", "signal_known"], "the same fact, delivered again");
    let second = webhook_worker(&collector, &income("i-1", "75.00")).await.unwrap();
    assert_eq!(outcomes(&second), ["refused", "enough_today"], "the second today");
    let third = webhook_worker(&collector, &income("i-2", "2000.00")).await.unwrap();
    assert_eq!(outcomes(&third), ["exhausted", "enough_today"]);
    clock.advance(DAY);
    let tomorrow = webhook_worker(&collector, &income("i-3", "2000.00")).await.unwrap();
    assert_eq!(
        outcomes(&tomorrow),
        ["exhausted", "refused"],
        "three times is all that ACH allows, and a new day has room again"
    );
    assert_eq!(gateway.0.lock().unwrap().len(), 3);
    let processes: Vec<Process> = failed(&store).await.into_iter().map(|record| record.process).collect();
    assert_eq!(processes, [Process::Webhook, Process::Webhook]);
    let history = store.recent_history(&"u-1".into(), 50).await.unwrap();
    let causes: Vec<&str> = history.iter().filter_map(|row| row.record.data.text("data_cause")).collect();
    assert_eq!(causes, ["i-3", "i-1", "b-1"], "history says what caused each attempt, the newest first");
}

#[tokio::test]
async fn signals_cause_two_debits_a_day_at_the_most_on_the_embedded_engine() {
    let (engine, _folder) = engines::embedded();
    at_most_twice_a_day(engine).await;
}

#[tokio::test]
async fn signals_cause_two_debits_a_day_at_the_most_on_dynamodb() {
    let (engine, _server) = engines::dynoxide().await;
    at_most_twice_a_day(engine).await;
}

#[tokio::test]
async fn a_signal_for_a_member_with_nothing_to_collect_takes_no_lock() {
    let (engine, server) = engines::dynoxide().await;
    let store = Store::new(engine, TestClock::manual(t("2026-02-03T08:00:00Z")).shared());
    deliver(
        &Context::new(store.clone()),
        &[membership("m-1", "ACTIVATE", "u-1", "2026-01-05T00:00:00Z", monthly("2026-03-01"))],
        10,
    )
    .await;
    server.reset_calls();
    let collector = Collector::new(store, Ledger::default());
    assert_eq!(outcomes(&webhook_worker(&collector, &income("i-1", "900.00")).await.unwrap()), [""; 0]);
    let operations: Vec<String> = server.calls().into_iter().map(|call| call.operation).collect();
    assert_eq!(operations, ["GetItem", "PutItem", "Query"], "the income is remembered, the records are read");
}

#[tokio::test]
async fn what_cannot_be_understood_is_parked_and_can_be_driven_through_again() {
    let engine = Memory::default();
    let store = Store::new(engine, TestClock::manual(t("2026-02-03T08:00:00Z")).shared());
    debtor(&store, 1).await;
    let ledger = Ledger::default();
    let collector = Collector::new(store.clone(), ledger.clone());
    let broken = signal(
        json!({"event_id": "i-1", "user_id": "u-1", "amount": "much", "detected_at": "2026-02-03T08:00:00Z"}),
    );
    assert_eq!(webhook_worker(&collector, &broken).await, Ok(SignalOutcome::Parked));
    let unknown = signal(json!({"subscription_ids": ["no-such-record"]}));
    assert_eq!(batch_worker(&collector, &unknown).await.unwrap(), [("no-such-record".into(), None)]);
    let wrong = signal(json!({"subscription_ids": ["a", 7]}));
    assert_eq!(batch_worker(&collector, &wrong).await.unwrap(), []);

    let parked = store.parked().await.unwrap();
    let reasons: Vec<(&str, &str)> = parked.iter().map(|p| (p.stream.as_str(), p.reason.as_str())).collect();
    assert_eq!(reasons.len(), 3);
    assert!(
        reasons.contains(&("batch", "payment.subscription_id: no billing record no-such-record")),
        "{reasons:?}"
    );
    assert!(reasons.contains(&("batch", "subscription_ids[1]: 7 is not an id")), "{reasons:?}");
    assert!(
        reasons.iter().any(|(stream, reason)| *stream == "income-detected" && reason.starts_with("amount: ")),
        "{reasons:?}"
    );
    for parked in &parked {
        assert_eq!(
            redrive_collection(&collector, parked).await,
            Ok(dues_processors::Outcome::Parked),
            "it is still wrong"
        );
    }
    assert_eq!(store.parked().await.unwrap().len(), 3, "none twice, none lost");

    // The body is corrected.
    let mut mended = parked.into_iter().find(|p| p.stream == "income-detected").unwrap();
    mended.body = income("i-1", "900.00").data;
    assert_eq!(redrive_collection(&collector, &mended).await, Ok(dues_processors::Outcome::Applied));
    assert_eq!((ledger.all_debits(), store.parked().await.unwrap().len()), (1, 2));
}

/// A bus that records its messages and refuses every n-th.
#[derive(Clone, Default)]
struct Remembers {
    published: Arc<Mutex<Vec<Message>>>,
    refuse_every: Option<usize>,
}

impl Bus for Remembers {
    async fn publish(&self, messages: &[Message]) -> Vec<Result<(), PublishError>> {
        let take = |(n, message): (usize, &Message)| {
            if self.refuse_every.is_some_and(|every| n % every == 0) {
                return Err(PublishError::Transient("throttled".to_owned()));
            }
            self.published.lock().unwrap().push(message.clone());
            Ok(())
        };
        messages.iter().enumerate().map(take).collect()
    }
}

async fn due_in_days<E: Engine>(store: &Store<E>, members: usize) {
    let records: Vec<_> = (0..members)
        .map(|n| {
            let day = format!("2026-02-{:02}", n % 27 + 1);
            membership(
                &format!("m-{n}"),
                "ACTIVATE",
                &format!("u-{n}"),
                "2026-01-05T00:00:00Z",
                monthly(&day),
            )
        })
        .collect();
    deliver(&Context::new(store.clone()), &records, 100).await;
}

async fn reminds_once<E: Engine>(engine: E) {
    let clock = TestClock::manual(t("2026-02-03T09:00:00Z"));
    let store = Store::new(engine.clone(), clock.shared());
    due_in_days(&store, 54).await;
    // A member who cancels before the due date and is not charged any more.
    deliver(
        &Context::new(store.clone()),
        &[membership("c-1", "CANCEL", "u-4", "2026-02-01T00:00:00Z", Value::Null)],
        1,
    )
    .await;
    let collector = Collector::new(store.clone(), Ledger::default());
    let run = async |bus: &Remembers| {
        notifier_scheduler(&store, &collector.locks, &Rules::default(), bus, |_| {}).await.unwrap()
    };

    // Due on the 4th, 5th and 6th, two each; one of these members has cancelled.
    let picky = Remembers { refuse_every: Some(2), ..Remembers::default() };
    let first = run(&picky).await;
    assert_eq!((first.due_soon, first.published + first.failed, first.known), (5, 5, 0));
    assert!(first.failed > 0 && first.published > 0);
    let bus = Remembers { published: picky.published.clone(), refuse_every: None };
    let second = run(&bus).await;
    assert_eq!(
        (second.published, second.known),
        (first.failed, first.published),
        "the next run publishes what the bus did not take"
    );
    assert_eq!(run(&bus).await.published, 0);
    clock.advance(DAY);
    assert_eq!(run(&bus).await.published, 2, "the 7th has come near");

    let published = bus.published.lock().unwrap().clone();
    let mut ids: Vec<&str> = published.iter().map(|message| message.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), published.len(), "once for each record");
    let one = &published[0];
    assert_eq!(
        (one.detail_type, &one.detail["billing_amount"], &one.detail["id"]),
        ("SubscriptionDueSoon", &json!("14.99"), &json!(one.id))
    );
    assert!(published.iter().all(|message| message.detail["user_id"] != "u-4"));
}

#[tokio::test]
async fn members_are_reminded_once_on_the_embedded_engine() {
    let (engine, _folder) = engines::embedded();
    reminds_once(engine).await;
}

#[tokio::test]
async fn members_are_reminded_once_on_dynamodb() {
    let (engine, _server) = engines::dynoxide().await;
    reminds_once(engine).await;
}

/// Published, then a crash at every write: published again under the same id, never lost.
#[tokio::test]
async fn a_reminder_with_a_lost_record_is_published_again_under_the_same_id() {
    for writes in 1..12 {
        let engine = Memory::default();
        let clock = TestClock::manual(t("2026-02-03T09:00:00Z"));
        let store = Store::new(engine.clone(), clock.shared());
        due_in_days(&store, 6).await;
        let bus = Remembers::default();
        let dying =
            Collector::new(Store::new(Faulty::after(engine, writes), clock.shared()), Ledger::default());
        let _ = notifier_scheduler(&dying.store, &dying.locks, &Rules::default(), &bus, |_| {}).await;
        let alive = Collector::new(store.clone(), Ledger::default());
        // The first run finds the dead run's lock, the second takes it over.
        for _ in 0..2 {
            notifier_scheduler(&store, &alive.locks, &Rules::default(), &bus, |_| {}).await.unwrap();
            clock.advance(Duration::from_secs(61));
        }
        let mut ids: Vec<String> =
            bus.published.lock().unwrap().iter().map(|message| message.id.to_string()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 3, "dying at write {writes}");
        for user in ["u-3", "u-4", "u-5"] {
            let records = store.list_by_user_id(&UserId::from(user)).await.unwrap();
            assert_eq!(
                records[0].due_notice.as_ref(),
                Some(&records[0].billing_date),
                "{user}, dying at write {writes}"
            );
        }
    }
}

/// A request for a member that another worker has locked was not acted on: it comes again.
#[tokio::test]
async fn a_locked_member_is_not_done() {
    let store = Store::new(Memory::default(), TestClock::manual(t("2026-02-03T08:00:00Z")).shared());
    let records = debtor(&store, 1).await;
    let gateway = Ledger::default();
    let collector = Collector::new(store.clone(), gateway.clone());
    let other = dues_store::lock::Locks::new(store.engine.clone(), store.clock.clone());
    let dues_store::lock::Acquired::Held(lock) = other.acquire(&UserId::from("u-1")).await.unwrap() else {
        panic!("the lock is free")
    };
    let list = signal(json!({"subscription_ids": [records[0].subscription_id]}));
    let requests = [
        ("income-detected", income("i-1", "80.00")),
        ("account-balance", balance("b-1", "80.00")),
        ("batch", list),
    ];
    for (stream, request) in &requests {
        let report = process_collections(&collector, stream, std::slice::from_ref(request)).await.unwrap();
        let [dues_processors::Outcome::Failed(why)] = &report.outcomes[..] else { panic!("{report:?}") };
        assert!(why.contains("another worker has locked the member"), "{why}");
    }
    lock.release().await;
    for (stream, request) in &requests {
        let report = process_collections(&collector, stream, std::slice::from_ref(request)).await.unwrap();
        assert_eq!(report.outcomes, [dues_processors::Outcome::Applied], "{stream}");
    }
    assert_eq!(gateway.all_debits(), 1);
}
