//! Invariants of any sequence of events, however it is cut, repeated or reordered.

use dues_events::billing::record::{ClosedAs, Standing};
use dues_events::{Record, Status};
use dues_projections::billing::record::replay;
use dues_store::Engine;
use dues_tests::engines;
use dues_tests::engines::memory::Memory;
use dues_tests::fixtures::company::{
    Sent, context, counts, deliver, dump, membership, monthly, payment, records, store,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use serde_json::json;
use std::collections::BTreeSet;

const USERS: [&str; 3] = ["u-1", "u-2", "u-3"];

/// A generated event, for one of the user's records; every combination of numbers is valid.
#[derive(Debug, Clone)]
struct GeneratedEvent {
    user: usize,
    kind: usize,
    record: usize,
    transaction: usize,
    repeat: bool,
}

const KINDS: [&str; 14] = [
    "SUBMITTED",
    "COMPLETED",
    "RETURNED",
    "REFUNDED",
    "CHARGED_BACK",
    "ACTIVATE",
    "REACTIVATE",
    "CANCEL",
    "RETRACT",
    "CLOSEACCOUNT",
    "PAUSE",
    "UNPAUSE",
    "UPGRADE",
    "DOWNGRADE",
];

fn generated_events() -> impl Strategy<Value = Vec<GeneratedEvent>> {
    // Payments are likelier than membership changes, as in production.
    let kind = prop_oneof![6 => 0usize..5, 4 => 5usize..KINDS.len()];
    let event = (0..USERS.len(), kind, 0usize..3, 0usize..3, prop::bool::weighted(0.2)).prop_map(
        |(user, kind, record, transaction, repeat)| GeneratedEvent {
            user,
            kind,
            record,
            transaction,
            repeat,
        },
    );
    prop::collection::vec(event, 1..40)
}

/// Runs the generated events one by one, each made concrete from the rows that exist at its turn. Returns
/// the records sent.
async fn play(engine: &Memory, generated: &[GeneratedEvent]) -> Vec<Sent> {
    let context = context(engine.clone());
    let mut sent: Vec<Sent> = Vec::new();
    let start = USERS.map(|user| {
        membership(&format!("mem-{user}"), "ACTIVATE", user, "2026-01-05T00:00:00Z", monthly("2026-01-31"))
    });
    for record in start {
        deliver(&context, std::slice::from_ref(&record), 1).await;
        sent.push(record);
    }
    for (n, drawn) in generated.iter().enumerate() {
        let user = USERS[drawn.user];
        let at = format!("2026-02-{:02}T{:02}:00:00Z", 1 + n / 20, n % 20);
        let theirs = records(engine, user).await;
        let record: &Record = &theirs[drawn.record.min(theirs.len() - 1)];
        let id = format!("e-{n}");
        let kind = KINDS[drawn.kind];
        let event = match kind {
            "SUBMITTED" | "COMPLETED" | "RETURNED" | "REFUNDED" | "CHARGED_BACK" => {
                payment(&id, kind, record, &format!("c-{}", drawn.transaction), &at)
            }
            "ACTIVATE" | "REACTIVATE" => membership(&id, kind, user, &at, monthly("2026-02-28")),
            "PAUSE" => membership(&id, kind, user, &at, json!({"pause_duration_months": 2})),
            "UPGRADE" => {
                membership(&id, kind, user, &at, json!({"tier":"Pro","version":"v1","amount":"39.99"}))
            }
            "DOWNGRADE" => {
                membership(&id, kind, user, &at, json!({"tier":"Basic","version":"v1","amount":"4.99"}))
            }
            _ => membership(&id, kind, user, &at, json!(null)),
        };
        deliver(&context, std::slice::from_ref(&event), 1).await;
        sent.push(event.clone());
        if drawn.repeat {
            deliver(&context, std::slice::from_ref(&event), 1).await;
            sent.push(event);
        }
    }
    sent
}

/// The invariants that no sequence of events may break.
async fn check_invariants<E: Engine>(engine: &E) -> Result<(), TestCaseError> {
    for user in USERS {
        let theirs = records(engine, user).await;
        let ids: BTreeSet<_> = theirs.iter().map(|r| r.subscription_id.clone()).collect();
        prop_assert_eq!(ids.len(), theirs.len(), "one row a record");
        let waiting: Vec<_> = theirs
            .iter()
            .filter(|r| {
                matches!(r.status(), Status::Scheduled | Status::Paused)
                    && r.superseded_by.is_none()
                    && r.attempts.is_empty()
            })
            .collect();
        prop_assert!(
            waiting.len() <= 1,
            "two records of {} wait for their first attempt: {:?}",
            user,
            waiting
        );
        for record in &theirs {
            prop_assert_eq!(record.applied.len() as u64, record.version, "every commit is one event");
            let history = store(engine.clone()).history_by_id(&record.subscription_id).await.unwrap();
            prop_assert_eq!(
                history.iter().map(|row| row.record.version).collect::<Vec<_>>(),
                (1..=record.version).collect::<Vec<_>>()
            );
            let replayed = replay(&history);
            prop_assert_eq!(replayed.as_ref(), Some(record), "history gives the primary row");
            // A report about a record that was cancelled, or money that pays for nothing, starts no period; a
            // pause is followed by the next record when it ends.
            let goes_on = match &record.standing {
                Standing::Open => record.status() != Status::Scheduled,
                Standing::Paused { .. } => record.status() == Status::Completed,
                Standing::Closed { closed_as, .. } => *closed_as != ClosedAs::Cancelled,
            };
            if goes_on && record.superseded_by.is_none() {
                prop_assert!(record.next.is_some(), "an attempted record has a next: {:?}", record);
            }
            let paid = matches!(record.status(), Status::Completed | Status::Refunded);
            prop_assert!(!paid || record.initial_run_date.is_some(), "paid without an attempt");
        }
    }
    Ok(())
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_keeps_the_invariants(generated in generated_events()) {
        let engine = Memory::default();
        run(play(&engine, &generated));
        run(check_invariants(&engine))?;
    }

    #[test]
    fn redelivering_any_prefix_changes_nothing(generated in generated_events(), prefix in 0usize..60) {
        let engine = Memory::default();
        let sent = run(play(&engine, &generated));
        let before = run(dump(&engine));
        let prefix = &sent[..prefix.min(sent.len())];
        let outcomes = run(deliver(&context(engine.clone()), prefix, 7));
        prop_assert_eq!(run(dump(&engine)), before);
        prop_assert_eq!(counts(&outcomes).applied, 0);
    }

    #[test]
    fn any_cutting_of_batches_gives_the_same_rows(generated in generated_events(), batch in 2usize..30) {
        let one_by_one = Memory::default();
        let sent = run(play(&one_by_one, &generated));
        let cut = Memory::default();
        run(deliver(&context(cut.clone()), &sent, batch));
        prop_assert_eq!(run(dump(&cut)), run(dump(&one_by_one)));
    }

    #[test]
    fn shards_of_different_users_may_come_in_any_order(
        generated in generated_events(), order in Just((0..200).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        let one = Memory::default();
        let sent = run(play(&one, &generated));
        let other = Memory::default();
        // Another interleaving that keeps each user's order.
        let user = |sent: &Sent| sent.1["user_id"].as_str().or(sent.1["payment"]["user_id"].as_str()).map(str::to_owned);
        let lane = |of: &str| sent.iter().filter(|s| user(s).as_deref() == Some(of)).cloned().collect();
        let mut lanes: Vec<std::collections::VecDeque<Sent>> = USERS.map(lane).into();
        let mut mixed = Vec::new();
        for turn in order.iter().cycle() {
            mixed.extend(lanes[turn % USERS.len()].pop_front());
            if lanes.iter().all(|lane| lane.is_empty()) {
                break;
            }
        }
        prop_assert_eq!(mixed.len(), sent.len());
        run(deliver(&context(other.clone()), &mixed, 1));
        prop_assert_eq!(run(dump(&other)), run(dump(&one)));
    }
}

/// The same on the two real engines, with fewer and longer sequences.
#[test]
fn both_engines_end_with_the_rows_of_the_model() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..6 {
        let generated =
            prop::collection::vec(generated_events(), 3).new_tree(&mut runner).unwrap().current().concat();
        let model = Memory::default();
        let sent = run(play(&model, &generated));
        let expected = run(dump(&model));
        run(async {
            let (sqlite, _folder) = engines::embedded();
            deliver(&context(sqlite.clone()), &sent, 1).await;
            assert_eq!(dump(&sqlite).await, expected, "SQLite");
            check_invariants(&sqlite).await.unwrap();
            let (dynamo, _server) = engines::dynoxide().await;
            deliver(&context(dynamo.clone()), &sent, 1).await;
            assert_eq!(dump(&dynamo).await, expected, "DynamoDB");
        });
    }
}
