//! Fixtures for API requests: a member, a customer at Stripe, and one of every entity of the read models.

use dues_tests::fixtures::stripe::{invoice, subscription};
use serde_json::{Value, json};

use crate::ingest_http::processed;
use crate::support::records::{Debit, activate};
use crate::support::run::{Dues, ndjson};
use crate::support::server::{Serving, until};

const START: &str = "2026-11-01T00:00:00Z";

/// A member with dues by ACH.
pub(crate) fn member(dues: &Dues, serving: &Serving) {
    append(dues, serving, "memberships", &[activate("m-1", "u-1")]);
}

/// Two settlements of the member's record; returns the id of the second one's money, which pays for nothing.
pub(crate) fn unapplied_money(dues: &Dues, serving: &Serving) -> String {
    let record = dues.id("u-1", 0);
    let settled =
        |event, confirmation| Debit::new("u-1", &record, confirmation).completed(event, "2026-02-03");
    append(dues, serving, "site-payments", &[settled("p-1", "c-1"), settled("p-2", "c-2")]);
    format!("{record}:c-2")
}

/// A customer with a plan and a counted action; the log follows.
pub(crate) fn usage(dues: &Dues, serving: &Serving) {
    customer(dues, serving);
    make(
        serving,
        "POST",
        "/models/usage/ada/simulations",
        json!({"action_type": "run", "action_details": {"track": "monaco"}}),
    );
    there(serving, "/models/usage/ada/actions", |body| body["actions"] != json!([]));
}

/// One of every entity, created as a client does; the tags follow.
pub(crate) fn figureforge(dues: &Dues, serving: &Serving) {
    customer(dues, serving);
    let image =
        json!({"user_id": "ada", "url": "https://pictures/1", "public": true, "tags": ["pose:standing"]});
    for (path, body) in [
        ("users/ada", json!({"email": "ada@example.com"})),
        ("jobs/j-1", json!({"user_id": "ada", "prompt_json": {"pose": ["standing", 1.5, null]}})),
        ("images/i-1", image.clone()),
        ("images/i-2", image),
        ("images/i-1/reports/r-1", json!({"reason": "spam"})),
        ("plans/SAGE", json!({"name": "Sage", "active": true})),
        ("flags/video", json!({"enabled": true, "value": {"share": 0.5}})),
    ] {
        make(serving, "PUT", &format!("/models/figureforge/{path}"), body);
    }
    there(serving, "/models/figureforge/tags/pose%3Astanding", |body| body["items"] != json!([]));
}

/// A user with every embedded entity, a payment, a document and a configuration.
pub(crate) fn serenya(dues: &Dues, serving: &Serving) {
    let ada = json!({"id": "ada", "email": "ada@example.com", "name": "Ada", "auth_provider": "google",
        "external_id": "g-1"});
    for (path, body) in [
        ("users", ada),
        ("users/ada/consents", json!({"terms_of_service": true, "ip_address": "192.0.2.1"})),
        ("users/ada/device", json!({"device_id": "d-1", "platform": "ios"})),
        ("users/ada/session", json!({"session_id": "s-1"})),
        ("users/ada/biometric", json!({"registration_id": "b-1", "biometric_type": "faceid"})),
        ("users/ada/payments", json!({"payment_id": "p-1", "amount": 9.99, "payment_method": "apple_pay"})),
        ("users/ada/usage", json!({})),
        ("config/app", json!({"version": "v1", "features": {"chat": true}})),
    ] {
        make(serving, "POST", &format!("/models/serenya/{path}"), body);
    }
    customer(dues, serving);
    append(dues, serving, "s3-events", &[uploaded("a.pdf")]);
}

/// A customer at Stripe with a paid month.
fn customer(dues: &Dues, serving: &Serving) {
    let events = [
        subscription("e-1", "created", START, "ada", "SAGE", "active", START),
        invoice("e-2", "paid", START, "ada", START),
    ];
    append(dues, serving, "stripe", &events.map(|(_, event)| event));
}

fn append(dues: &Dues, serving: &Serving, stream: &str, records: &[Value]) {
    let answer = serving.ask("POST", &format!("/streams/{stream}"), &[], &ndjson(records));
    assert_eq!(answer.status, 202, "{answer:?}");
    processed(dues, stream);
    let mine: Vec<Value> =
        dues.parked().into_iter().filter(|parked| records.contains(&parked["record"])).collect();
    assert_eq!(mine, Vec::<Value>::new());
}

/// Sends a request with its own event id.
fn make(serving: &Serving, method: &str, path: &str, mut body: Value) {
    body["event_id"] = format!("make {path}").into();
    let answer = serving.ask(method, path, &[], body.to_string().as_bytes());
    assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
}

/// Waits for the effect of a change.
fn there(serving: &Serving, path: &str, is_there: impl Fn(&Value) -> bool) {
    until(path, || is_there(&serving.ask("GET", path, &[], b"").json()));
}

/// An upload, as EventBridge reports it.
fn uploaded(file: &str) -> Value {
    json!({"version": "0", "id": "17793124-05d4-b198-2fde-7ededc63b103", "detail-type": "Object Created",
        "source": "aws.s3", "time": START,
        "detail": {"bucket": {"name": "documents"},
            "object": {"key": format!("users/ada/documents/uploads/{file}"), "sequencer": "01"}}})
}
