//! The handlers as Lambda calls them: Kinesis batches in, partial-batch responses out.

use aws_lambda_events::event::kinesis::KinesisEvent;
use aws_lambda_events::event::streams::KinesisEventResponse;
use dues_events::Status;
use dues_processors::Outcome;
use dues_processors::billing::ach_handler::ach_handler;
use dues_processors::billing::memberships::memberships;
use dues_processors::runtime::redrive::redrive;
use dues_tests::aws::function_recorder::kinesis_batch;
use dues_tests::engines::dynoxide;
use dues_tests::engines::dynoxide::{CallInfo, Fault};
use dues_tests::engines::faulty::Faulty;
use dues_tests::engines::memory::Memory;
use dues_tests::fixtures::company::{Sent, context, deliver, dump, membership, monthly, payment, records};
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

/// There is no "not yet": another shard was faster, or another service submitted the debit.
#[tokio::test]
async fn a_settlement_before_its_submission_makes_the_transaction_known() {
    let engine = Memory::default();
    let record = member(&engine, "u").await;
    let context = context(engine.clone());
    let settled = bodies(&[payment("b", "COMPLETED", &record, "c-1", "2026-02-03T00:00:00Z")]);
    assert_eq!(failed(&ach_handler(&context, batch(&settled)).await), Vec::<String>::new());
    let paid = records(&engine, "u").await.remove(0);
    assert_eq!((paid.status(), paid.state.transaction_id()), (Status::Completed, Some(&"c-1".into())));

    let submitted = bodies(&[payment("a", "SUBMITTED", &record, "c-1", "2026-02-01T00:00:00Z")]);
    ach_handler(&context, batch(&submitted)).await;
    ach_handler(&context, batch(&settled)).await;
    let paid = records(&engine, "u").await.remove(0);
    assert_eq!((paid.status(), paid.attempts.count()), (Status::Completed, 1));
    assert_eq!(context.store.parked().await.unwrap(), [], "nothing waits");
    let history = context.store.history_by_id(&record.subscription_id).await.unwrap();
    let outcomes: Vec<_> = history.iter().map(|row| row.outcome.as_str()).collect();
    assert_eq!(outcomes, ["applied", "applied", "applied"], "created, sent and settled, each once");
}

/// A second submission while the first is under way is another attempt: the bank has it, so it is known.
#[tokio::test]
async fn a_second_debit_of_another_service_is_known_and_keeps_the_record_in_flight() {
    let engine = Memory::default();
    let record = member(&engine, "u").await;
    let script = [
        payment("a", "SUBMITTED", &record, "c-1", "2026-02-01T00:00:00Z"),
        payment("b", "SUBMITTED", &record, "c-2", "2026-02-02T00:00:00Z"),
        payment("c", "RETURNED", &record, "c-1", "2026-02-03T00:00:00Z"),
    ];
    let context = context(engine.clone());
    assert_eq!(deliver(&context, &script, 10).await, [const { Outcome::Applied }; 3]);
    let sent = records(&engine, "u").await.remove(0);
    assert_eq!(
        (sent.status(), sent.state.transaction_id(), sent.attempts.count()),
        (Status::AchSent, Some(&"c-2".into()), 2),
        "one is still under way"
    );
    let before = dump(&engine).await;
    assert_eq!(deliver(&context, &script, 10).await, [const { Outcome::Duplicate }; 3]);
    assert_eq!(dump(&engine).await, before);
    assert_eq!(context.store.parked().await.unwrap(), []);
}

#[tokio::test]
async fn what_was_refused_once_does_not_happen_by_accident() {
    let engine = Memory::default();
    let record = member(&engine, "u").await;
    let upgrade = membership(
        "up",
        "UPGRADE",
        "u",
        "2026-02-02T00:00:00Z",
        json!({"tier": "Pro", "version": "v1", "amount": "39.99"}),
    );
    // The only record has failed, and may be presented again only as it was: the upgrade finds nothing.
    let closes = membership("x", "CLOSEACCOUNT", "u", "2026-02-01T12:00:00Z", json!(null));
    let script = [payment("a", "RETURNED", &record, "c-1", "2026-02-01T00:00:00Z"), closes, upgrade];
    let context = context(engine.clone());
    assert_eq!(deliver(&context, &script, 10).await, [Outcome::Applied, Outcome::Applied, Outcome::Parked]);
    let joins = membership("m-2", "REACTIVATE", "u", "2026-02-01T18:00:00Z", monthly("2026-02-28"));
    assert_eq!(deliver(&context, &[joins], 10).await, [Outcome::Applied]);
    let before = dump(&engine).await;
    assert_eq!(
        deliver(&context, &script, 10).await,
        [Outcome::Duplicate, Outcome::Duplicate, Outcome::Parked]
    );
    assert_eq!(dump(&engine).await, before, "there is a record now that would take the upgrade");
    let parked = context.store.parked().await.unwrap();
    assert_eq!(parked[0].code, "nothing_open");
    assert_eq!(redrive(&context, &parked[0]).await.unwrap(), Outcome::Applied, "an operator may");
    let theirs = records(&engine, "u").await;
    let open: Vec<String> = theirs
        .iter()
        .filter(|r| r.status() == Status::Scheduled)
        .map(|r| r.plan.amount.to_string())
        .collect();
    assert_eq!(open, ["39.99"]);
}

/// The bank's reports of one debit, in every order: the same record.
#[tokio::test]
async fn reports_in_any_order_give_the_same_record() {
    let kinds = [
        ("a", "SUBMITTED", "2026-02-01T00:00:00Z"),
        ("b", "COMPLETED", "2026-02-03T00:00:00Z"),
        ("r", "REFUNDED", "2026-02-05T00:00:00Z"),
    ];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let engine = Memory::default();
        let record = member(&engine, "u").await;
        let script = order.map(|n| payment(kinds[n].0, kinds[n].1, &record, "c-1", kinds[n].2));
        let context = context(engine.clone());
        assert_eq!(deliver(&context, &script, 10).await, [const { Outcome::Applied }; 3], "{order:?}");
        let theirs = records(&engine, "u").await;
        assert_eq!(
            theirs.iter().map(dues_events::Record::status).collect::<Vec<_>>(),
            [Status::Refunded, Status::Scheduled],
            "{order:?}"
        );
        assert_eq!(theirs[0].refunded_amount().to_string(), "14.99", "{order:?}");
        assert_eq!(context.store.parked().await.unwrap(), [], "{order:?}");
    }
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
