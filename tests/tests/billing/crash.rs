//! A crash after every single write of a batch, then full redelivery: the rows equal those of a run without
//! a crash.

use dues_events::Record;
use dues_processors::Outcome;
use dues_store::Engine;
use dues_tests::engines;
use dues_tests::engines::faulty::Faulty;
use dues_tests::engines::memory::Memory;
use dues_tests::fixtures::company::{
    Sent, context, counts, deliver, dump, membership, monthly, payment, records,
};
use serde_json::json;

/// Three users through every event that writes more than one row, with one record among them that is parked.
async fn script() -> Vec<Sent> {
    let first: Vec<Sent> = ["u-1", "u-2", "u-3"]
        .iter()
        .map(|user| {
            membership(
                &format!("mem-{user}"),
                "ACTIVATE",
                user,
                "2026-01-05T00:00:00Z",
                monthly("2026-01-31"),
            )
        })
        .collect();
    // The ids are the same in every run: take them from one run.
    let engine = Memory::default();
    deliver(&context(engine.clone()), &first, 100).await;
    let mut record: Vec<Record> = Vec::new();
    for user in ["u-1", "u-2", "u-3"] {
        record.push(records(&engine, user).await.pop().unwrap());
    }
    let more = [
        payment("a-1", "SUBMITTED", &record[0], "c-1", "2026-02-02T00:00:00Z"),
        payment("b-1", "COMPLETED", &record[1], "c-2", "2026-02-04T00:00:00Z"),
        payment("b-0", "SUBMITTED", &record[1], "c-2", "2026-02-02T00:00:00Z"),
        payment("a-2", "RETURNED", &record[0], "c-1", "2026-02-04T00:00:00Z"),
        payment("a-3", "SUBMITTED", &record[0], "c-3", "2026-02-05T00:00:00Z"),
        payment("a-4", "RETURNED", &record[0], "c-1", "2026-02-05T00:00:00Z"),
        payment("c-1", "SUBMITTED", &record[2], "c-4", "2026-02-05T00:00:00Z"),
        ("site-payments", json!({"event_id": "bad", "type": "SUBSCRIPTION_COMPLETED"})),
        membership("m-1", "CLOSEACCOUNT", "u-3", "2026-02-05T12:00:00Z", json!({})),
        membership("m-2", "REACTIVATE", "u-1", "2026-02-06T00:00:00Z", monthly("2026-02-28")),
        membership(
            "m-3",
            "DOWNGRADE",
            "u-2",
            "2026-02-06T00:00:00Z",
            json!({"tier":"Basic","version":"v1","amount":"4.99"}),
        ),
        membership("m-4", "CANCEL", "u-2", "2026-02-07T00:00:00Z", json!(null)),
        payment("c-2", "RETURNED", &record[2], "c-4", "2026-02-07T00:00:00Z"),
        payment("b-2", "CHARGED_BACK", &record[1], "c-2", "2026-02-20T00:00:00Z"),
        payment("b-2", "CHARGED_BACK", &record[1], "c-2", "2026-02-20T00:00:00Z"),
    ];
    first.into_iter().chain(more).collect()
}

/// Runs the script with a crash after every write; `engine` creates an empty store.
async fn crash_everywhere<E: Engine, G>(mut engine: impl AsyncFnMut() -> (E, G), step: u64) {
    let script = script().await;
    let (whole, _guard) = engine().await;
    let outcomes = deliver(&context(whole.clone()), &script, 100).await;
    let expected = dump(&whole).await;
    assert_eq!((counts(&outcomes).parked, counts(&outcomes).failed), (1, 0), "{outcomes:?}");
    let mut crashes = 0;
    for writes in (1..).step_by(usize::try_from(step).unwrap()) {
        let (engine, _guard) = engine().await;
        let faulty = Faulty::after(engine.clone(), writes);
        let crashed = context(faulty.clone());
        // Up to the crash: failures are redelivered, as a stream does.
        let mut failed = false;
        for run in script.chunk_by(|a, b| a.0 == b.0) {
            let batch: Vec<_> = run
                .iter()
                .enumerate()
                .map(|(n, (_, record))| dues_tests::fixtures::company::incoming(record, n))
                .collect();
            let report =
                dues_processors::runtime::redrive::process_stream(&crashed, run[0].0, &batch).await.unwrap();
            failed = report.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Failed(_)));
            if failed {
                break;
            }
        }
        if !failed {
            // After the last batch only writes that release waiting records can follow, and the script has
            // none.
            assert!(!faulty.stopped() || writes > 20, "a crash went unnoticed");
            assert_eq!(dump(&engine).await, expected);
            break;
        }
        crashes += 1;
        // Restart: the stream resumes from its checkpoint, which here is the start.
        let outcomes = deliver(&context(engine.clone()), &script, 100).await;
        assert_eq!(counts(&outcomes).failed, 0, "{outcomes:?}");
        assert_eq!(dump(&engine).await, expected, "after a crash at write {writes}");
    }
    assert!(crashes >= 30 / step, "only {crashes} crashes");
}

#[tokio::test]
async fn a_crash_after_any_write_changes_nothing_in_memory() {
    crash_everywhere(async || (Memory::default(), ()), 1).await;
}

#[tokio::test]
async fn a_crash_after_any_write_changes_nothing_on_sqlite() {
    crash_everywhere(async || engines::embedded(), 1).await;
}

#[tokio::test]
async fn a_crash_after_any_write_changes_nothing_on_dynamodb() {
    crash_everywhere(async || engines::dynoxide().await, 1).await;
}

/// Without redelivery after the crash: the sweeper alone completes every event that reached history.
#[tokio::test]
async fn the_sweeper_alone_finishes_every_event_that_reached_history() {
    let script = script().await;
    for writes in 1.. {
        let engine = Memory::default();
        let faulty = Faulty::after(engine.clone(), writes);
        deliver_until_crash(&faulty, &script).await;
        let stopped = faulty.stopped();
        let healthy = context(engine.clone());
        healthy.store.sweep(|_| {}).await.unwrap();
        for user in ["u-1", "u-2", "u-3"] {
            let records = records(&engine, user).await;
            let history = healthy.store.history_of_user(&user.into()).await.unwrap();
            for rows in history.chunk_by(|a, b| a.record.subscription_id == b.record.subscription_id) {
                let there = records.iter().find(|r| r.subscription_id == rows[0].record.subscription_id);
                assert_eq!(
                    dues_projections::billing::record::replay(rows).as_ref(),
                    there,
                    "{user} after a crash at write {writes}"
                );
            }
        }
        if !stopped {
            break;
        }
    }
}

async fn deliver_until_crash(faulty: &Faulty<Memory>, script: &[Sent]) {
    let context = context(faulty.clone());
    for run in script.chunk_by(|a, b| a.0 == b.0) {
        let batch: Vec<_> = run
            .iter()
            .enumerate()
            .map(|(n, (_, record))| dues_tests::fixtures::company::incoming(record, n))
            .collect();
        dues_processors::runtime::redrive::process_stream(&context, run[0].0, &batch).await.unwrap();
        if faulty.stopped() {
            return;
        }
    }
}
