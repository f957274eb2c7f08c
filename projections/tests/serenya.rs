//! Read model `serenya`: facts in any order, with repetitions, give the same rows.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dues_events::entitlements::stripe::StripeEvent;
use dues_events::wire::app_events::decode;
use dues_events::{EventId, Item, UserId};
use dues_projections::model::{Model as _, Recorded};
use dues_projections::serenya::{Fact, Serenya, State};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

type Sent = (String, Recorded<Fact>);

/// A minimal journal: records each fact once, then the facts that follow from it.
#[derive(Default)]
struct Journal(BTreeMap<String, (u64, State, BTreeSet<EventId>)>);

impl Journal {
    fn merge(&mut self, (aggregate, recorded): &Sent) {
        let mut next = vec![(aggregate.clone(), recorded.clone())];
        let mut seen = BTreeSet::new();
        while let Some((name, recorded)) = next.pop() {
            let (version, state, ids) = self.0.entry(name.clone()).or_default();
            if ids.insert(recorded.id.clone()) {
                Serenya::merge(state, &recorded);
                *version += 1;
            }
            if seen.insert((name.clone(), *version)) {
                next.extend(Serenya::follows(&name, *version, state));
            }
        }
    }

    fn rows(&self) -> BTreeMap<String, Json> {
        let rows = self.0.iter().flat_map(|(name, (_, state, _))| Serenya::rows(name, state));
        let key = |row: &Item| format!("{} {}", row.text("PK").unwrap(), row.text("SK").unwrap());
        let mut all = BTreeMap::new();
        for (_, row) in rows {
            assert_eq!(
                all.insert(key(&row), row.to_json()),
                None,
                "two aggregates have one row: {}",
                key(&row)
            );
        }
        all
    }
}

fn rows(sent: &[Sent]) -> BTreeMap<String, Json> {
    let mut journal = Journal::default();
    sent.iter().for_each(|sent| journal.merge(sent));
    journal.rows()
}

fn app(id: &str, kind: &str, at: &str, mut body: Json) -> Sent {
    (body["event_id"], body["type"], body["occurred_at"]) =
        (id.into(), format!("serenya.{kind}").into(), at.into());
    body["user_id"] = "u-1".into();
    let event = decode(body.to_string().as_bytes()).unwrap().unwrap();
    let (aggregate, fact) = Serenya::read(&event).unwrap().unwrap();
    (aggregate, Recorded { id: event.id, at: event.at, fact })
}

fn stripe(id: &str, kind: &str, created: i64, object: Json) -> Sent {
    let event = json!({"id": id, "object": "event", "api_version": "2025-09-30.clover", "created": created,
        "livemode": true, "type": kind, "data": {"object": object}});
    let event: StripeEvent =
        dues_events::entitlements::stripe::wire::decode(event.to_string().as_bytes()).unwrap().unwrap();
    let (aggregate, fact) = Serenya::stripe(&UserId::from("u-1"), &event).unwrap();
    (aggregate, Recorded { id: event.id, at: event.created, fact })
}

fn profile() -> Vec<Sent> {
    let day = |day: u32| format!("2026-01-{day:02}T10:00:00Z");
    let session = |id: &str| json!({"session_id": id, "access_token_hash": "a1"});
    vec![
        app(
            "e1",
            "user.created",
            &day(1),
            json!({"email": "Ada@Example.com", "name": "Ada", "auth_provider": "google",
                "external_id": "g-1"}),
        ),
        app("e2", "consent.given", &day(2), json!({"terms_of_service": true, "consent_version": "v1"})),
        app("e3", "consent.given", &day(3), json!({"privacy_policy": true, "terms_of_service": false})),
        app("e4", "device.seen", &day(3), json!({"device_id": "d-1", "platform": "ios"})),
        app("e5", "device.seen", &day(4), json!({"device_id": "d-2"})),
        app("e6", "session.started", &day(2), session("s-1")),
        app("e7", "session.accessed", &day(9), session("s-1")),
        app("e8", "session.started", &day(5), session("s-2")),
        app("e9", "session.accessed", &day(6), session("s-2")),
        app("e10", "session.ended", &day(7), session("s-1")),
        app(
            "e11",
            "biometric.registered",
            &day(3),
            json!({"registration_id": "b-1", "biometric_type": "faceid"}),
        ),
        app("e12", "biometric.failed", &day(4), json!({})),
        app("e13", "biometric.verified", &day(5), json!({})),
        app("e14", "biometric.failed", &day(6), json!({"locked_until": day(7)})),
        app("e15", "usage.counted", &day(8), json!({})),
        app("e16", "usage.counted", "2026-02-02T10:00:00Z", json!({})),
        app("e17", "user.updated", &day(8), json!({"email": "ada@example.org"})),
        app(
            "e18",
            "subscription.updated",
            &day(8),
            json!({"subscription": {"subscription_id": "a-1", "subscription_type": "premium",
            "subscription_status": "active", "provider": "apple", "start_date": day(8)}}),
        ),
        app(
            "e19",
            "subscription.updated",
            &day(9),
            json!({"subscription": {"subscription_id": "a-1", "subscription_type": "premium",
            "subscription_status": "expired", "provider": "apple", "start_date": day(8)}}),
        ),
    ]
}

/// One payment of an invoice, reported by all sources and refunded in two parts.
fn payment(names_intent: bool) -> Vec<Sent> {
    let invoice = |id: &str, kind: &str, created: i64| {
        let mut object = json!({"id": "in_1", "object": "invoice", "customer": "cus_1", "currency": "usd",
            "amount_paid": 1500, "amount_due": 1500,
            "billing_reason": "subscription_cycle", "parent": {"type": "subscription_details",
                "subscription_details": {"subscription": "sub_1", "metadata": {}}},
                "lines": {"object": "list", "data": []}});
        if names_intent {
            object["payment_intent"] = "pi_1".into();
            object["charge"] = "ch_1".into();
        }
        stripe(id, kind, created, object)
    };
    let refund = |id: &str, created: i64, refund: &str, cents: u32, status: &str| {
        let mut object = json!({"id": refund, "object": "refund", "amount": cents, "currency": "usd",
            "charge": "ch_1", "status": status});
        if !names_intent || cents == 500 {
            object["payment_intent"] = "pi_1".into();
        }
        stripe(id, "refund.updated", created, object)
    };
    let intent = json!({"id": "pi_1", "object": "payment_intent", "customer": "cus_1", "currency": "usd",
        "amount": 1500, "amount_received": 1500,
        "status": "succeeded", "metadata": {}, "payment_details": {"order_reference": "in_1"}});
    let checkout = json!({"id": "cs_1", "object": "checkout.session", "mode": "payment",
        "payment_status": "paid", "status": "complete", "payment_intent": "pi_1",
        "customer": null, "subscription": null, "currency": "usd", "amount_total": 1500,
        "metadata": {"user_id": "u-1"}});
    vec![
        invoice("evt_1", "invoice.payment_failed", 1_767_225_500),
        invoice("evt_2", "invoice.paid", 1_767_312_000),
        invoice("evt_3", "invoice.payment_succeeded", 1_767_312_001),
        stripe("evt_4", "payment_intent.succeeded", 1_767_311_999, intent),
        stripe("evt_5", "checkout.session.completed", 1_767_312_002, checkout),
        refund("evt_6", 1_767_400_000, "re_1", 500, "pending"),
        refund("evt_7", 1_767_400_100, "re_1", 500, "succeeded"),
        refund("evt_8", 1_767_500_000, "re_2", 250, "succeeded"),
    ]
}

fn documents() -> Vec<Sent> {
    let object = |id: &str, key: &str, sequencer: &str, deleted: bool, at: &str| {
        let key = format!("users/u-1/documents/{key}");
        app(id, "document.object", at, json!({"key": key, "sequencer": sequencer, "deleted": deleted}))
    };
    vec![
        object("o1", "uploads/a b.pdf", "F0", false, "2026-01-01T00:00:00Z"),
        object("o2", "processing/a b.pdf.processing", "0001", false, "2026-01-01T00:01:00Z"),
        object("o3", "processing/a b.pdf.processing", "A1", true, "2026-01-01T00:02:00Z"),
        object("o4", "uploads/a b.pdf", "100", false, "2026-01-01T00:03:00Z"),
        app(
            "o5",
            "document.failed",
            "2026-01-01T00:02:30Z",
            json!({"file_name": "a b.pdf", "error_message": "no text"}),
        ),
        object("o6", "uploads/c.pdf", "1", false, "2026-01-01T00:00:00Z"),
        object("o7", "results/c.pdf.json", "2", false, "2026-01-01T00:05:00Z"),
    ]
}

/// Permutations of `0..count`, with some repetitions.
fn orders(count: usize) -> impl Strategy<Value = Vec<usize>> {
    let all = Just((0..count).collect::<Vec<_>>()).prop_shuffle();
    (all, prop::collection::vec(0..count, 0..count)).prop_map(|(mut order, again)| {
        order.extend(again);
        order
    })
}

fn same_in_every_order(sent: &[Sent], order: &[usize]) -> Result<(), TestCaseError> {
    let shuffled: Vec<Sent> = order.iter().map(|n| sent[*n].clone()).collect();
    prop_assert_eq!(rows(&shuffled), rows(sent));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_profile_is_the_same_in_every_order(order in orders(19)) {
        same_in_every_order(&profile(), &order)?;
    }

    #[test]
    fn a_payment_is_the_same_in_every_order(order in orders(8), names_intent in any::<bool>()) {
        same_in_every_order(&payment(names_intent), &order)?;
    }

    #[test]
    fn a_document_is_the_same_in_every_order(order in orders(7)) {
        same_in_every_order(&documents(), &order)?;
    }
}

#[test]
fn the_profile_says_what_was_said_last() {
    let rows = rows(&profile());
    let row = &rows["USER#u-1 PROFILE"];
    let data = &row["data"];
    assert_eq!(
        (row["entity_type"].as_str(), data["email"].as_str(), data["name"].as_str()),
        (Some("user"), Some("ada@example.org"), Some("Ada"))
    );
    assert_eq!(row["GSI2PK"], "USER_EXTERNAL#google#g-1");
    assert_eq!(
        (&data["consents"]["terms_of_service"], &data["consents"]["privacy_policy"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(data["current_device"]["device_id"], "d-2");
    let session = &data["current_session"];
    assert_eq!(
        (session["session_id"].as_str(), session["last_accessed_at"].as_str()),
        (Some("s-2"), Some("2026-01-06T10:00:00Z"))
    );
    assert_eq!(row["ttl"], json!(1_767_693_600), "the end of the session");
    let biometric = &data["biometric"];
    assert_eq!(
        (&biometric["is_verified"], &biometric["failure_count"], biometric["locked_until"].as_str()),
        (&json!(true), &json!(1), Some("2026-01-07T10:00:00Z"))
    );
    let subscription = &data["subscription"];
    assert_eq!(
        (subscription["subscription_id"].as_str(), subscription["subscription_type"].as_str()),
        (Some("sub_free_u-1"), Some("free")),
        "what has expired gives way"
    );
    let usage = json!({"documents_processed": 1, "period_start": "2026-01-31T10:00:00Z",
        "period_end": "2026-03-02T10:00:00Z"});
    assert_eq!(subscription["usage_current_period"], usage);
    assert_eq!(
        rows.keys().filter(|key| key.starts_with("USER_EMAIL#")).count(),
        1,
        "the pointer of the email before is gone"
    );
}

#[test]
fn an_invoice_its_intent_and_its_checkout_are_one_payment() {
    for names_intent in [false, true] {
        let rows = rows(&payment(names_intent));
        let payments: Vec<&String> = rows.keys().collect();
        assert_eq!(payments, ["USER#u-1 PAYMENT#2025-12-31#in_1"], "the day of the first attempt");
        let data = &rows[payments[0]]["data"];
        assert_eq!(
            (&data["amount"], data["payment_status"].as_str(), data["currency"].as_str()),
            (&json!(15), Some("completed"), Some("USD"))
        );
        assert_eq!(
            (data["provider_transaction_id"].as_str(), data["subscription_id"].as_str()),
            (Some("pi_1"), Some("sub_1"))
        );
        assert_eq!(
            (data["refund_status"].as_str(), &data["refund_amount"]),
            (Some("partially_refunded"), &json!(7.5)),
            "500 and 250 cents"
        );
        assert_eq!(data["refunded_at"], "2026-01-04T04:13:20Z");
    }
}

#[test]
fn a_dispute_that_is_lost_takes_all_and_money_that_comes_back_gives_it_back() {
    let dispute = |id: &str, kind: &str, created: i64, status: &str| {
        let object = json!({"id": "dp_1", "object": "dispute", "amount": 1500, "currency": "usd",
            "payment_intent": "pi_1", "charge": "ch_1", "status": status});
        stripe(id, &format!("charge.dispute.{kind}"), created, object)
    };
    let mut sent: Vec<Sent> = payment(false).into_iter().take(4).collect();
    sent.insert(0, dispute("evt_9", "closed", 1_767_600_000, "lost"));
    let back = |sent: &[Sent]| rows(sent).into_values().next().unwrap()["data"]["refund_status"].clone();
    assert_eq!(back(&sent), "charged_back");
    sent.insert(0, dispute("evt_10", "funds_reinstated", 1_767_700_000, "lost"));
    assert_eq!(back(&sent), Json::Null);
}

#[test]
fn of_one_object_the_greatest_sequencer_counts() {
    let rows = rows(&documents());
    let job = |file: &str| rows[&format!("USER#u-1 JOB#{file}")]["data"].clone();
    assert_eq!(
        job("a b.pdf"),
        json!({"status": "pending", "file_name": "a b.pdf", "uploaded_at": "2026-01-01T00:03:00Z"}),
        "uploaded anew after the failure"
    );
    assert_eq!(
        job("c.pdf"),
        json!({"status": "completed", "file_name": "c.pdf", "uploaded_at": "2026-01-01T00:00:00Z",
            "completed_at": "2026-01-01T00:05:00Z",
        "result_location": "users/u-1/documents/results/c.pdf.json"})
    );
}

#[test]
fn tokens_are_refused_by_name() {
    let event = |body: Json| {
        let event = decode(body.to_string().as_bytes()).unwrap().unwrap();
        Serenya::read(&event).unwrap_err().to_string()
    };
    let started = |more: Json| {
        let mut body = json!({"event_id": "e", "type": "serenya.session.started",
            "occurred_at": "2026-01-05T14:00:00Z", "user_id": "u-1", "session_id": "s-1"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event(body)
    };
    assert_eq!(started(json!({"access_token": "x"})), "access_token: is a token: only its hash is accepted");
    assert_eq!(
        started(json!({"more": {"refresh_token": "x"}})),
        "more.refresh_token: is a token: only its hash is accepted"
    );
    assert_eq!(
        started(json!({"access_token_hash": "eyJhbGciOi.J9.x"})),
        "access_token_hash: is a token: only its hash is accepted"
    );
}
