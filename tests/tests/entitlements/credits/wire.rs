//! Requests to DynamoDB: cost, lost answers, throttling.

use aws_sdk_dynamodb::config::retry::RetryConfig;
use dues_events::Feature;
use dues_store::StoreError;
use dues_store::dynamo::Dynamo;
use dues_store::entitlements::credits::{Consumed, Moved};
use dues_tests::engines;
use dues_tests::engines::dynoxide::{Call, CallInfo, Dynoxide, Fault};
use std::sync::Mutex;

use super::*;

fn operations(calls: &[Call]) -> Vec<&str> {
    calls.iter().map(|call| call.operation.as_str()).collect()
}

fn units(calls: &[Call], operation: &str) -> f64 {
    calls.iter().filter(|call| call.operation == operation).filter_map(|call| call.capacity).sum()
}

/// Injects a fault into the n-th transaction from now on.
fn fault_at(server: &Dynoxide, fault: Fault, nth: impl Fn(usize) -> bool + Send + Sync + 'static) {
    let count = Mutex::new(0);
    server.set_fault(Some(Arc::new(move |call: &CallInfo| {
        if call.operation != "TransactWriteItems" {
            return Fault::None;
        }
        let mut count = count.lock().unwrap();
        *count += 1;
        if nth(*count - 1) { fault } else { Fault::None }
    })));
}

#[tokio::test]
async fn what_movements_cost() {
    let (engine, server) = engines::dynoxide().await;
    let store = stocked(&engine, 10).await;
    let calls_of = async |what: &str| {
        let calls = server.calls();
        println!(
            "{what}: {:?}, {} write units, {} read units",
            operations(&calls),
            units(&calls, "TransactWriteItems"),
            units(&calls, "GetItem")
        );
        server.reset_calls();
        calls
    };
    calls_of("the first movement of a user").await;
    assert!(taken(&store.consume(&user(), Feature::Video, "k").await.unwrap()).is_some());
    let calls = calls_of("a consume").await;
    assert_eq!(
        (operations(&calls), units(&calls, "TransactWriteItems")),
        (vec!["TransactWriteItems"], 4.0),
        "two rows, twice each"
    );
    assert!(taken(&store.consume(&user(), Feature::Video, "k").await.unwrap()).is_some());
    assert_eq!(operations(&calls_of("a consume that is known").await), ["TransactWriteItems"]);
    assert_eq!(
        store.consume(&user(), Feature::MirrorReport, "k-2").await.map(|answer| taken(&answer).is_some()),
        Ok(true)
    );
    calls_of("another consume").await;
    assert_eq!(store.consume(&user(), Feature::MirrorReport, "k-3").await, Ok(Consumed::NotEnough(2)));
    assert_eq!(operations(&calls_of("a consume without enough").await), ["TransactWriteItems"]);
    let next = grant("2026-04-01T00:00:00Z", 5, "evt");
    assert_eq!(
        at(&engine, "2026-04-01T00:00:00Z").move_credits(&user(), &next).await.unwrap(),
        Moved::Done(7)
    );
    // The first grant of a user with top-ups is newer than those: one transaction, and one read for the
    // balance in the response.
    let calls = calls_of("a grant").await;
    assert_eq!(operations(&calls), ["TransactWriteItems", "GetItem"]);
    assert_eq!((units(&calls, "TransactWriteItems"), units(&calls, "GetItem")), (4.0, 1.0));
    store.credits(&user()).await.unwrap();
    assert_eq!(operations(&calls_of("a look at the balance").await), ["GetItem"]);
}

#[tokio::test]
async fn an_answer_that_is_lost_does_not_take_twice() {
    for fault in [Fault::DropResponse, Fault::DropRequest] {
        let (engine, server) = engines::dynoxide().await;
        let store = stocked(&engine, 10).await;
        fault_at(&server, fault, |nth| nth == 0);
        let error = store.consume(&user(), Feature::Video, "k").await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "the outcome is unknown: {error}");
        let retried = store.consume(&user(), Feature::Video, "k").await.unwrap();
        assert!(taken(&retried).is_some(), "{retried:?}");
        let bought = top_up("pi_2", 5, "2026-03-02T00:00:00Z");
        fault_at(&server, fault, |nth| nth == 0);
        assert!(store.move_credits(&user(), &bought).await.is_err());
        let retried = store.move_credits(&user(), &bought).await.unwrap();
        assert_eq!(
            retried,
            if fault == Fault::DropResponse { Moved::Known(bought) } else { Moved::Done(12) }
        );
        assert_eq!(checked(&store).await, 12);
    }
}

/// The SDK retries with the same client token, so that the retry is the same transaction and does not
/// conflict with its own row.
#[tokio::test]
async fn a_retry_of_the_sdk_is_the_same_transaction() {
    let (engine, server) = engines::dynoxide().await;
    stocked(&engine, 10).await;
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let seen = tokens.clone();
    server.set_fault(Some(Arc::new(move |call: &CallInfo| {
        if call.operation != "TransactWriteItems" {
            return Fault::None;
        }
        let mut seen = seen.lock().unwrap();
        seen.push(call.body["ClientRequestToken"].as_str().unwrap().to_owned());
        if seen.len() == 1 { Fault::DropResponse } else { Fault::None }
    })));
    let retrying = today(&Dynamo::new(server.client_with(RetryConfig::standard())));
    let bought = top_up("pi_2", 5, "2026-03-02T00:00:00Z");
    assert_eq!(
        retrying.move_credits(&user(), &bought).await.unwrap(),
        Moved::Done(15),
        "not known: it is this one"
    );
    assert!(taken(&retrying.consume(&user(), Feature::Video, "k").await.unwrap()).is_some());
    let tokens = tokens.lock().unwrap().clone();
    assert_eq!((tokens.len(), tokens[0] == tokens[1], tokens[1] == tokens[2]), (3, true, false));
    assert_eq!(checked(&retrying).await, 12);
}

#[tokio::test]
async fn a_busy_table_is_waited_for_but_not_for_ever() {
    let (engine, server) = engines::dynoxide().await;
    let store = stocked(&engine, 10).await;
    fault_at(&server, Fault::Throttle, |nth| !nth.is_multiple_of(5));
    for n in 0..3 {
        assert!(taken(&store.consume(&user(), Feature::Video, &format!("k-{n}")).await.unwrap()).is_some());
    }
    server.reset_calls();
    fault_at(&server, Fault::Throttle, |_| true);
    let error = store.consume(&user(), Feature::MentorFeedback, "k-9").await.unwrap_err();
    assert!(matches!(error, StoreError::Contended(_)) && error.is_transient(), "{error}");
    assert!(server.calls().len() <= 101, "{} calls", server.calls().len());
    server.set_fault(None);
    assert_eq!(checked(&store).await, 1);
    // An invalid request is not retried.
    server.reset_calls();
    let long = "k".repeat(2000);
    let error = store.consume(&user(), Feature::MentorFeedback, &long).await.unwrap_err();
    assert!(matches!(error, StoreError::Invalid(_)), "{error}");
    assert_eq!(server.calls().len(), 1);
}
