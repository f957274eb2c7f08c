//! The cost of a Stripe event on DynamoDB: requests and capacity units, counted.

use dues_processors::Outcome;
use dues_store::Engine;
use dues_tests::engines;
use dues_tests::engines::dynoxide::{Call, Dynoxide};
use dues_tests::fixtures::company::{Sent, context, deliver};
use dues_tests::fixtures::stripe::{checkout, invoice, invoice_payment, payment_of, refund, subscription};
use std::collections::BTreeMap;

const START: &str = "2026-01-01T00:00:00Z";

/// The cost of one event: requests by kind, and units.
#[derive(Debug, PartialEq)]
struct Cost {
    requests: BTreeMap<String, usize>,
    read: f64,
    write: f64,
}

async fn cost<E: Engine>(engine: &E, server: &Dynoxide, sent: Sent, outcome: Outcome) -> Cost {
    let name = sent.1["type"].as_str().unwrap().to_owned();
    server.reset_calls();
    assert_eq!(deliver(&context(engine.clone()), &[sent], 1).await, [outcome]);
    let calls = server.calls();
    let mut requests: BTreeMap<String, usize> = BTreeMap::new();
    for call in &calls {
        *requests.entry(call.operation.clone()).or_default() += 1;
    }
    let is_read = |call: &&Call| matches!(call.operation.as_str(), "GetItem" | "Query");
    let units = |reads: bool| {
        calls.iter().filter(|call| is_read(call) == reads).filter_map(|call| call.capacity).sum()
    };
    let cost = Cost { requests, read: units(true), write: units(false) };
    println!(
        "{name}: {} requests {:?}, {} read units, {} write units",
        calls.len(),
        cost.requests,
        cost.read,
        cost.write
    );
    cost
}

fn asked(requests: &[(&str, usize)]) -> BTreeMap<String, usize> {
    requests.iter().map(|(operation, n)| ((*operation).to_owned(), *n)).collect()
}

#[tokio::test]
async fn an_event_is_one_read_and_one_transaction() {
    let (engine, server) = engines::dynoxide().await;
    let sub = |id: &str, kind: &str, at: &str, status: &str| {
        subscription(id, kind, at, "u-1", "SAGE", status, START)
    };

    // A new member: the links of subscription and customer, then event, head, subscription and profile.
    let first = cost(&engine, &server, sub("e-1", "created", START, "incomplete"), Outcome::Applied).await;
    assert_eq!(first.requests, asked(&[("Query", 1), ("UpdateItem", 2), ("TransactWriteItems", 1)]));
    assert!(first.write <= 2.0 + 4.0 * 2.0, "{first:?}");

    // The tier changes: event, head, subscription, profile.
    let tier =
        cost(&engine, &server, sub("e-2", "updated", "2026-01-01T00:01:00Z", "active"), Outcome::Applied)
            .await;
    assert_eq!(tier.requests, asked(&[("Query", 1), ("TransactWriteItems", 1)]));
    assert!(tier.read <= 1.0 && tier.write <= 8.0, "{tier:?}");

    // The tier does not change: event, head, subscription.
    let same =
        cost(&engine, &server, sub("e-3", "updated", "2026-01-02T00:00:00Z", "active"), Outcome::Applied)
            .await;
    assert_eq!(same.requests, asked(&[("Query", 1), ("TransactWriteItems", 1)]));
    assert!(same.read <= 1.0 && same.write <= 6.0, "{same:?}");

    // A duplicate: one read.
    let known =
        cost(&engine, &server, sub("e-3", "updated", "2026-01-02T00:00:00Z", "active"), Outcome::Duplicate)
            .await;
    assert_eq!((known.requests, known.write), (asked(&[("Query", 1)]), 0.0));

    // The first credits: the balance row is created. The invoice names no user, so two links are read.
    let granted = cost(&engine, &server, invoice("e-4", "paid", START, "u-1", START), Outcome::Applied).await;
    assert_eq!(
        granted.requests,
        asked(&[("GetItem", 2), ("PutItem", 1), ("Query", 1), ("TransactWriteItems", 1)])
    );

    // From then on: event, head, ledger row and balance.
    let february = "2026-02-01T00:00:00Z";
    let month =
        cost(&engine, &server, invoice("e-5", "paid", february, "u-1", february), Outcome::Applied).await;
    assert_eq!(month.requests, asked(&[("GetItem", 2), ("Query", 1), ("TransactWriteItems", 1)]));
    assert!(month.write <= 8.0, "{month:?}");

    // The second event of the same payment: event and head.
    let again = cost(
        &engine,
        &server,
        invoice("e-6", "payment_succeeded", february, "u-1", february),
        Outcome::Applied,
    )
    .await;
    assert_eq!(again.requests, asked(&[("GetItem", 2), ("Query", 1), ("TransactWriteItems", 1)]));
    assert!(again.write <= 4.0, "{again:?}");

    // The payment, which a refund will name: one more link.
    let paid =
        cost(&engine, &server, invoice_payment("e-7", february, "u-1", february), Outcome::Applied).await;
    assert_eq!(
        paid.requests,
        asked(&[("GetItem", 2), ("Query", 1), ("UpdateItem", 1), ("TransactWriteItems", 1)])
    );
    assert!(paid.write <= 5.0, "{paid:?}");

    // A refund of it: resolved through the payment link, which is checked again; the charge is new; event,
    // head, ledger row and balance.
    let back = refund("e-8", "created", february, "re_1", &payment_of("u-1", february), 1500, "succeeded");
    let back = cost(&engine, &server, back, Outcome::Applied).await;
    assert_eq!(
        back.requests,
        asked(&[("GetItem", 2), ("Query", 1), ("UpdateItem", 2), ("TransactWriteItems", 1)])
    );
    assert!(back.write <= 10.0, "{back:?}");

    // A founder pass, with the first month's credits: the payment's link; event, head, pass, profile, ledger
    // row, balance.
    let pass = cost(
        &engine,
        &server,
        checkout("e-9", february, "u-1", "GUILD_BUILDER", 99900, "pi_1", "paid"),
        Outcome::Applied,
    )
    .await;
    assert_eq!(pass.requests, asked(&[("Query", 1), ("UpdateItem", 1), ("TransactWriteItems", 1)]));
    assert!(pass.read <= 1.5, "{pass:?}");
}

/// A user's events grow by one read unit for every dozen, and no write grows with them.
#[tokio::test]
async fn years_of_events_cost_reads_and_nothing_else() {
    let (engine, server) = engines::dynoxide().await;
    deliver(
        &context(engine.clone()),
        &[subscription("s", "created", START, "u-1", "SAGE", "active", START)],
        1,
    )
    .await;
    let months: Vec<String> =
        (0..36).map(|n| format!("{}-{:02}-01T00:00:00Z", 2023 + n / 12, n % 12 + 1)).collect();
    let first =
        cost(&engine, &server, invoice("a", "paid", &months[0], "u-1", &months[0]), Outcome::Applied).await;
    for month in &months[1..] {
        let events = [
            invoice(&format!("a-{month}"), "paid", month, "u-1", month),
            invoice(&format!("b-{month}"), "payment_succeeded", month, "u-1", month),
        ];
        deliver(&context(engine.clone()), &events, 2).await;
    }
    let month = "2026-06-01T00:00:00Z";
    let last = cost(&engine, &server, invoice("z", "paid", month, "u-1", month), Outcome::Applied).await;
    assert!(last.write <= first.write && last.write <= 8.0, "{last:?}");
    assert!(last.read <= 12.0, "three years: {last:?}");
}
