//! The handlers as Lambda calls them: Kinesis batches in, partial-batch responses out.

use aws_lambda_events::event::kinesis::KinesisEvent;
use aws_lambda_events::event::streams::KinesisEventResponse;
use chrono::TimeDelta;
use dues_events::Status;
use dues_processors::billing::ach_handler::ach_handler;
use dues_processors::billing::memberships::memberships;
use dues_processors::runtime::redrive::{redrive, release_waiting};
use dues_processors::{Context, Outcome};
use dues_store::Store;
use dues_tests::aws::function_recorder::kinesis_batch;
use dues_tests::clock::TestClock;
use dues_tests::engines::dynoxide;
use dues_tests::engines::dynoxide::{CallInfo, Fault};
use dues_tests::engines::faulty::Faulty;
use dues_tests::engines::memory::Memory;
use dues_tests::fixtures::company::{Sent, context, deliver, dump, membership, monthly, payment, records, t};
use serde_json::{Value, json};
use std::sync::Arc;

/// A batch as Lambda delivers it.
fn batch(records: &[Value]) -> KinesisEvent {
    serde_json::from_value(kinesis_batch(records)).unwrap()
}

fn failed(response: &KinesisEventResponse) -> Vec<String> {
    response.batch_item_failures.iter().map(|failure| failure.item_identifier.clone().unwrap()).collect()
}

fn bodies(sent: &[Sent]) -> Vec<Value> {
    sent.iter().map(|(_, record)| record.clone()).collect()
}

async fn member(engine: &Memory, user: &str) -> dues_events::Record {
    let joins =
        membership(&format!("m-{user}"), "ACTIVATE", user, "2026-01-05T00:00:00Z", monthly("2026-01-31"));
    let response = memberships(&context(engine.clone()), batch(&bodies(&[joins]))).await;
    assert_eq!(failed(&response), Vec::<String>::new());
    records(engine, user).await.remove(0)
}

#[tokio::test]
async fn a_batch_with_poison_goes_through_and_nothing_is_delivered_again() {
    let engine = Memory::default();
    let record = member(&engine, "u").await;
    let good = bodies(&[
        payment("a", "SUBMITTED", &record, "c-1", "2026-02-01T00:00:00Z"),
        payment("b", "COMPLETED", &record, "c-1", "2026-02-03T00:00:00Z"),
    ]);
    let response = ach_handler(
        &context(engine.clone()),
        batch(&[good[0].clone(), json!("poison"), json!({"type": "OTHER"}), good[1].clone()]),
    )
    .await;
    assert_eq!(serde_json::to_value(&response).unwrap(), json!({"batchItemFailures": []}));
    assert_eq!(records(&engine, "u").await[0].status(), Status::Completed);
    let parked = context(engine).store.parked().await.unwrap();
    assert_eq!(
        (parked.len(), parked[0].sequence.as_str(), parked[0].body.as_slice()),
        (1, "49590001", &b"\"poison\""[..])
    );
}

#[tokio::test]
async fn the_answer_names_the_first_record_that_failed_and_redelivery_heals() {
    let engine = Memory::default();
    let mut script = Vec::new();
    for user in ["u-1", "u-2", "u-3"] {
        let record = member(&engine, user).await;
        script.push(payment(&format!("s-{user}"), "SUBMITTED", &record, user, "2026-02-01T00:00:00Z"));
        script.push(payment(&format!("p-{user}"), "COMPLETED", &record, user, "2026-02-03T00:00:00Z"));
    }
    for writes in 1..18 {
        let copy = Memory::default();
        for user in ["u-1", "u-2", "u-3"] {
            member(&copy, user).await;
        }
        let response =
            ach_handler(&context(Faulty::after(copy.clone(), writes)), batch(&bodies(&script))).await;
        let failures = failed(&response);
        assert!(failures.len() <= 1, "one name is enough: {failures:?}");
        let from = failures.first().map_or(6, |name| name.trim_start_matches("4959").parse().unwrap());
        let again = ach_handler(&context(copy.clone()), batch(&bodies(&script[from..]))).await;
        assert_eq!(failed(&again), Vec::<String>::new());
        for user in ["u-1", "u-2", "u-3"] {
            let statuses: Vec<_> =
                records(&copy, user).await.iter().map(dues_events::Record::status).collect();
            assert_eq!(
                statuses,
                [Status::Completed, Status::Scheduled],
                "{user}, the plug pulled at write {writes}"
            );
        }
    }
}

#[tokio::test]
async fn a_settlement_before_its_submission_is_held_then_parked_and_then_let_through() {
    let engine = Memory::default();
    let record = member(&engine, "u").await;
    let settled = bodies(&[payment("b", "COMPLETED", &record, "c-1", "2026-02-03T00:00:00Z")]);
    // The batch arrived on 1 March 2026, half a second after midnight.
    let at = |time: &str| Context {
        hold: TimeDelta::minutes(5),
        ..Context::new(Store::new(engine.clone(), TestClock::frozen(t(time)).shared()))
    };
    let young = at("2026-03-01T00:05:00Z");
    assert_eq!(failed(&ach_handler(&young, batch(&settled)).await), ["49590000"], "held: delivered again");
    assert_eq!(young.store.parked().await.unwrap(), []);
    let old = at("2026-03-01T00:05:01Z");
    assert_eq!(failed(&ach_handler(&old, batch(&settled)).await), Vec::<String>::new());
    let parked = old.store.parked().await.unwrap();
    assert_eq!(
        (parked.len(), parked[0].code.as_str(), parked[0].event_id.as_deref()),
        (1, "not_yet", Some("b"))
    );
    assert_eq!(redrive(&old, &parked[0]).await.unwrap(), Outcome::Parked, "still too early");

    let submitted = bodies(&[payment("a", "SUBMITTED", &record, "c-1", "2026-02-01T00:00:00Z")]);
    ach_handler(&old, batch(&submitted)).await;
    // A redelivery by the stream leaves it parked: only a redrive decides it anew.
    ach_handler(&old, batch(&settled)).await;
    assert_eq!(records(&engine, "u").await[0].status(), Status::AchSent);
    let released = release_waiting(&old, "site-payments").await.unwrap();
    assert_eq!(released.iter().map(|(_, outcome)| outcome.clone()).collect::<Vec<_>>(), [Outcome::Applied]);
    assert_eq!(
        (records(&engine, "u").await[0].status(), old.store.parked().await.unwrap().len()),
        (Status::Completed, 0)
    );
    let history = old.store.history_by_id(&record.subscription_id).await.unwrap();
    let outcomes: Vec<_> = history.iter().map(|row| row.outcome.as_str()).collect();
    assert_eq!(
        outcomes,
        [
            "applied",
            "parked: billing_status: not yet sent, the outcome of a debit came before the debit",
            "applied",
            "applied"
        ]
    );
    assert_eq!(
        dues_projections::billing::record::replay(&history),
        records(&engine, "u").await.into_iter().next()
    );
}

#[tokio::test]
async fn what_was_refused_once_does_not_happen_by_accident() {
    let engine = Memory::default();
    let record = member(&engine, "u").await;
    let script = [
        payment("a", "SUBMITTED", &record, "c-1", "2026-02-01T00:00:00Z"),
        // A second debit while the first is in progress: rejected, parked, recorded in history.
        payment("b", "SUBMITTED", &record, "c-2", "2026-02-02T00:00:00Z"),
        payment("c", "RETURNED", &record, "c-1", "2026-02-03T00:00:00Z"),
    ];
    let context = context(engine.clone());
    deliver(&context, &script, 10).await;
    let before = dump(&engine).await;
    let again = deliver(&context, &script, 10).await;
    assert_eq!(again, [Outcome::Duplicate, Outcome::Parked, Outcome::Duplicate]);
    assert_eq!(dump(&engine).await, before, "the record is ERROR now, and would take a submission");
    let parked = context.store.parked().await.unwrap();
    assert_eq!(redrive(&context, &parked[0]).await.unwrap(), Outcome::Applied, "an operator may");
    assert_eq!(records(&engine, "u").await[0].status(), Status::AchSent);
}

#[tokio::test]
async fn what_waited_in_vain_is_parked_with_the_reason_of_today() {
    let engine = Memory::default();
    let record = member(&engine, "u").await;
    let context = context(engine.clone());
    let settled = payment("b", "COMPLETED", &record, "c-1", "2026-02-03T00:00:00Z");
    let refunded = payment("r", "REFUNDED", &record, "c-1", "2026-02-05T00:00:00Z");
    // The refund comes too early and waits; the submission lets it through, and the settlement then comes
    // too late.
    let script = [refunded, payment("a", "SUBMITTED", &record, "c-1", "2026-02-01T00:00:00Z"), settled];
    assert_eq!(deliver(&context, &script, 10).await, [Outcome::Applied, Outcome::Applied, Outcome::Parked]);
    assert_eq!(context.store.parked().await.unwrap()[0].code, "final");

    let closed = member(&engine, "v").await;
    let two = [
        payment("v-r", "REFUNDED", &closed, "c-9", "2026-02-05T00:00:00Z"),
        payment("v-b", "COMPLETED", &closed, "c-9", "2026-02-03T00:00:00Z"),
        payment("v-a", "SUBMITTED", &closed, "c-9", "2026-02-01T00:00:00Z"),
    ];
    // Both wait for the submission. The refund is applied first, so the settlement finds a final record, not
    // one that was never sent.
    assert_eq!(deliver(&context, &two, 10).await, [Outcome::Applied, Outcome::Parked, Outcome::Applied]);
    let parked = context.store.parked().await.unwrap();
    let reason = parked.iter().find(|p| p.event_id.as_deref() == Some("v-b")).unwrap();
    assert_eq!(
        (reason.code.as_str(), reason.reason.as_str()),
        ("final", "billing_status: REFUNDED is final")
    );
}

#[tokio::test]
async fn a_panic_fails_the_records_of_its_user_and_the_others_go_through() {
    let (engine, server) = dynoxide().await;
    let users = ["u-1", "u-2", "u-3"];
    let joins = users.map(|user| {
        membership(&format!("m-{user}"), "ACTIVATE", user, "2026-01-05T00:00:00Z", monthly("2026-01-31"))
    });
    deliver(&context(engine.clone()), &joins, 10).await;
    let mut script = Vec::new();
    for user in users {
        let record = records(&engine, user).await.remove(0);
        script.push(payment(&format!("s-{user}"), "SUBMITTED", &record, user, "2026-02-01T00:00:00Z"));
        script.push(payment(&format!("p-{user}"), "COMPLETED", &record, user, "2026-02-03T00:00:00Z"));
    }
    let unlucky = |call: &CallInfo| call.operation == "PutItem" && call.body.to_string().contains("u-2");
    server.set_fault(Some(Arc::new(move |call| {
        if unlucky(call) { panic!("a bug that only this user meets") } else { Fault::None }
    })));
    assert_eq!(failed(&ach_handler(&context(engine.clone()), batch(&bodies(&script))).await), ["49590002"]);
    server.set_fault(None);
    let statuses = async || {
        let mut statuses = Vec::new();
        for user in users {
            statuses.push(records(&engine, user).await[0].status());
        }
        statuses
    };
    assert_eq!(statuses().await, [Status::Completed, Status::Scheduled, Status::Completed]);
    assert_eq!(
        failed(&ach_handler(&context(engine.clone()), batch(&bodies(&script[2..]))).await),
        Vec::<String>::new()
    );
    assert_eq!(statuses().await, [Status::Completed; 3], "delivered again, with the bug mended");
}
