//! Payments from Stripe and from settled dues, with their reversals, in every order.

use super::*;
use dues_events::entitlements::stripe::StripeEvent;
use dues_events::{Record, UserId};
use dues_processors::entitlements::groups::LocalDirectory;
use dues_processors::projector::Projector;
use dues_processors::runtime::changes::Change;
use dues_store::embedded::Embedded;
use dues_tests::engines::embedded;
use dues_tests::engines::faulty::Faulty;
use dues_tests::engines::memory::Memory;
use dues_tests::fixtures::company::{Sent, deliver, membership, monthly, payment, records};
use dues_tests::fixtures::stripe::{checkout, invoice, invoice_payment, payment_of, refund, subscription};
use fastrand::Rng;

dues_tests::on_engines! {
    one_payment_is_one_row_in_every_order,
    a_subscription_of_stripe_is_embedded_and_gives_way_when_it_ends,
    settled_dues_are_payments_by_ach_and_go_back_with_them,
}

const FROM: &str = "2026-01-31T00:00:00Z";

fn read((_, event): &Sent) -> StripeEvent {
    dues_events::entitlements::stripe::wire::decode(event.to_string().as_bytes()).unwrap().unwrap()
}

async fn stripe<E: Engine>(engine: &E, sent: &Sent) {
    ReadModels::default().stripe(&at(engine, NOW), &UserId::from("u-1"), &read(sent)).await.unwrap();
}

/// All payments of the user, by sort key.
async fn payments<E: Engine>(engine: &E) -> BTreeMap<String, Value> {
    let ours = rows(engine).await.into_iter().filter(|((_, sort), _)| sort.starts_with("PAYMENT#"));
    ours.map(|((_, sort), row)| (sort, row.to_json()["data"].clone())).collect()
}

async fn one_payment_is_one_row_in_every_order<E: Engine>(engine: E) {
    let pi = payment_of("u-1", FROM);
    let mut sent = vec![
        invoice("evt_1", "paid", "2026-01-31T00:00:10Z", "u-1", FROM),
        invoice("evt_2", "payment_succeeded", "2026-01-31T00:00:11Z", "u-1", FROM),
        invoice_payment("evt_3", "2026-01-31T00:00:09Z", "u-1", FROM),
        refund("evt_4", "created", "2026-02-01T00:00:00Z", "re_1", &pi, 500, "pending"),
        refund("evt_5", "updated", "2026-02-02T00:00:00Z", "re_1", &pi, 500, "succeeded"),
        refund("evt_6", "created", "2026-02-03T00:00:00Z", "re_2", &pi, 1000, "succeeded"),
        checkout("evt_7", "2026-02-04T00:00:00Z", "u-1", "CREDITS", 499, "pi_credits", "paid"),
    ];
    Rng::with_seed(7).shuffle(&mut sent);
    for event in sent.iter().chain(&sent) {
        stripe(&engine, event).await;
    }
    let payments = payments(&engine).await;
    let keys: Vec<&String> = payments.keys().collect();
    assert_eq!(keys, ["PAYMENT#2026-01-31#in_u-1_1769817600", "PAYMENT#2026-02-04#pi_credits"]);
    let dues = &payments[keys[0]];
    assert_eq!(
        (&dues["amount"], dues["payment_status"].as_str(), dues["provider_transaction_id"].as_str()),
        (&json!(15), Some("completed"), Some(pi.as_str()))
    );
    assert_eq!(
        (dues["refund_status"].as_str(), &dues["refund_amount"], dues["refunded_at"].as_str()),
        (Some("refunded"), &json!(15), Some("2026-02-03T00:00:00Z"))
    );
    assert_eq!(
        (dues["initiated_at"].as_str(), dues["subscription_id"].as_str()),
        (Some("2026-01-31T00:00:09Z"), Some("sub_u-1"))
    );
    assert_eq!(
        (&payments[keys[1]]["amount"], &payments[keys[1]]["refund_status"]),
        (&json!(4.99), &Value::Null)
    );
}

async fn a_subscription_of_stripe_is_embedded_and_gives_way_when_it_ends<E: Engine>(engine: E) {
    ada(&engine).await;
    let event = |id: &str, kind: &str, at: &str, status: &str| {
        subscription(id, kind, at, "u-1", "SAGE", status, FROM)
    };
    let ended = event("evt_2", "deleted", "2026-02-20T00:00:00Z", "canceled");
    stripe(&engine, &event("evt_1", "created", FROM, "active")).await;
    let embedded = ask(&engine, "GET", "users/u-1/subscription", Value::Null).await.body;
    let said = ["subscription_id", "subscription_type", "subscription_status", "provider", "end_date"]
        .map(|name| embedded[name].as_str().unwrap().to_owned());
    assert_eq!(said, ["sub_u-1", "premium", "active", "stripe", "2026-02-28T00:00:00Z"]);
    stripe(&engine, &ended).await;
    stripe(&engine, &event("evt_3", "updated", "2026-02-10T00:00:00Z", "past_due")).await;
    assert_eq!(
        ask(&engine, "GET", "users/u-1/subscription", Value::Null).await.body["subscription_type"],
        "free",
        "nothing comes after the end"
    );
}

/// The record's images after each of these events, in any order.
async fn settled_dues_are_payments_by_ach_and_go_back_with_them<E: Engine>(engine: E) {
    ada(&engine).await;
    let (place, _folder) = embedded();
    let mut images = Vec::new();
    let joins = membership("m-1", "ACTIVATE", "u-1", "2026-01-05T00:00:00Z", monthly("2026-01-31"));
    deliver(&context_at(&place, NOW), &[joins], 1).await;
    let record = records(&place, "u-1").await.remove(0);
    for (id, kind, transaction, time) in [
        ("p-1", "SUBMITTED", "c-1", "2026-02-01T00:00:00Z"),
        ("p-2", "RETURNED", "c-1", "2026-02-03T00:00:00Z"),
        ("p-3", "SUBMITTED", "c-2", "2026-02-05T00:00:00Z"),
        ("p-4", "COMPLETED", "c-2", "2026-02-07T00:00:00Z"),
        ("p-5", "RETURNED", "c-2", "2026-02-20T00:00:00Z"),
    ] {
        deliver(&context_at(&place, NOW), &[payment(id, kind, &record, transaction, time)], 1).await;
        images.push(
            records(&place, "u-1")
                .await
                .into_iter()
                .find(|known| known.subscription_id == record.subscription_id)
                .unwrap(),
        );
    }
    let store = at(&engine, NOW);
    let deliver_images = async |images: &[Record]| {
        for image in images.iter().rev().chain(images) {
            ReadModels::default().billing(&store, image).await.unwrap();
        }
    };
    deliver_images(&images[..4]).await;
    let paid = payments(&engine).await;
    let said = |payment: &Value| {
        ["payment_method", "payment_status", "provider_transaction_id"]
            .map(|name| payment[name].as_str().unwrap().to_owned())
    };
    assert_eq!(paid.keys().collect::<Vec<_>>(), ["PAYMENT#2026-02-03#c-1", "PAYMENT#2026-02-07#c-2"]);
    assert_eq!(said(&paid["PAYMENT#2026-02-03#c-1"]), ["ACH", "failed", "c-1"]);
    assert_eq!(said(&paid["PAYMENT#2026-02-07#c-2"]), ["ACH", "completed", "c-2"]);
    assert_eq!(paid["PAYMENT#2026-02-07#c-2"]["amount"], json!(14.99));
    let subscription = async || ask(&engine, "GET", "users/u-1/subscription", Value::Null).await.body;
    let embedded = subscription().await;
    assert_eq!(
        (
            embedded["provider"].as_str(),
            embedded["subscription_type"].as_str(),
            embedded["end_date"].as_str()
        ),
        (Some("ach"), Some("premium"), Some("2026-02-28T00:00:00Z"))
    );

    deliver_images(&images).await;
    let returned = &payments(&engine).await["PAYMENT#2026-02-07#c-2"];
    assert_eq!(
        (returned["payment_status"].as_str(), returned["refund_status"].as_str()),
        (Some("completed"), Some("returned"))
    );
    assert_eq!(
        (&returned["refund_amount"], returned["refunded_at"].as_str(), returned["refund_reason"].as_str()),
        (&json!(14.99), Some("2026-02-20T00:00:00Z"), Some("R01"))
    );
    assert_eq!(subscription().await["subscription_type"], "free", "what was paid for is taken back");
}

/// What follows for another aggregate is a separate write: a crash after each, then redelivery from the
/// event that failed.
#[tokio::test]
async fn a_crash_after_any_write_ends_in_the_same_rows() {
    let pi = payment_of("u-1", FROM);
    let sent = [
        refund("evt_1", "created", "2026-02-01T00:00:00Z", "re_1", &pi, 500, "succeeded"),
        invoice("evt_2", "paid", "2026-01-31T00:00:10Z", "u-1", FROM),
        invoice_payment("evt_3", "2026-01-31T00:00:09Z", "u-1", FROM),
        refund("evt_4", "created", "2026-02-03T00:00:00Z", "re_2", &pi, 250, "succeeded"),
    ];
    let whole = Memory::default();
    for event in &sent {
        stripe(&whole, event).await;
    }
    let expected = rows(&whole).await;
    let mut crashes = 0;
    loop {
        let engine = Memory::default();
        let faulty = Faulty::after(engine.clone(), crashes + 1);
        let mut left = sent.len();
        for event in &sent {
            if ReadModels::default()
                .stripe(&at(&faulty, NOW), &UserId::from("u-1"), &read(event))
                .await
                .is_err()
            {
                break;
            }
            left -= 1;
        }
        for event in &sent[sent.len() - left..] {
            stripe(&engine, event).await;
        }
        assert_eq!(rows(&engine).await, expected, "after a crash at write {}", crashes + 1);
        if left == 0 {
            break;
        }
        crashes += 1;
    }
    assert!(crashes > 8, "only {crashes} crashes");
}

/// From the streams through the tables' changes to the rows, as in the one-file program.
#[tokio::test]
async fn from_the_streams_through_the_changes_to_the_rows() {
    let (engine, _folder) = embedded();
    ada(&engine).await;
    let context = context_at(&engine, NOW);
    let pi = payment_of("u-1", FROM);
    let sent = [
        refund("evt_4", "created", "2026-02-01T00:00:00Z", "re_1", &pi, 500, "succeeded"),
        invoice("evt_2", "paid", "2026-01-31T00:00:10Z", "u-1", FROM),
        subscription("evt_1", "created", FROM, "u-1", "SAGE", "active", FROM),
        invoice_payment("evt_3", "2026-01-31T00:00:09Z", "u-1", FROM),
        membership("m-1", "ACTIVATE", "u-1", "2026-01-05T00:00:00Z", monthly("2026-01-31")),
    ];
    deliver(&context, &sent, 10).await;
    let record = records(&engine, "u-1").await.remove(0);
    let debits = [
        ("p-1", "SUBMITTED", "2026-02-01T00:00:00Z"),
        ("p-2", "COMPLETED", "2026-02-03T00:00:00Z"),
        ("p-3", "REFUNDED", "2026-02-10T00:00:00Z"),
    ];
    deliver(&context, &debits.map(|(id, kind, time)| payment(id, kind, &record, "c-1", time)), 10).await;
    project(&engine).await;
    let payments = payments(&engine).await;
    assert_eq!(
        payments.keys().collect::<Vec<_>>(),
        ["PAYMENT#2026-01-31#in_u-1_1769817600", "PAYMENT#2026-02-03#c-1"]
    );
    let back = |key: &str| {
        (payments[key]["refund_status"].as_str().unwrap(), payments[key]["refund_amount"].to_string())
    };
    assert_eq!(back("PAYMENT#2026-01-31#in_u-1_1769817600"), ("partially_refunded", "5".to_owned()));
    assert_eq!(back("PAYMENT#2026-02-03#c-1"), ("refunded", "14.99".to_owned()));
    assert_eq!(row(&engine, "PROFILE").await.unwrap()["data"]["subscription"]["provider"], "stripe");
}

async fn project(engine: &Embedded) {
    let changes = engine.changes(0, 10_000).unwrap().into_iter().map(|change| {
        let (sequence, table, old, new) = (change.seq.to_string(), change.table, change.old, change.new);
        Change { sequence, table, old, new, arrived: t(NOW), by_ttl: false }
    });
    let projector = Projector::new(at(engine, NOW), None::<LocalDirectory<Embedded>>);
    let report = projector.project(&changes.collect::<Vec<_>>()).await;
    assert_eq!(report.first_failure(), None, "{report:?}");
}
