//! Queries on a user's billing records, on every engine.

use dues_processors::api::Api;
use dues_processors::collections::Collector;
use dues_processors::collections::gateway::sandbox::{Odds, Sandbox};
use dues_store::Engine;
use dues_tests::fixtures::company::{context, deliver, membership, monthly, records, store};
use dues_tests::on_engines;
use dues_tests::rest::{Request, Response, Serve as _};
use serde_json::{Value, json};

use crate::{error, message};

on_engines! {
    the_subscriptions_of_a_user_come_with_the_membership_status,
    one_subscription_is_for_its_user_only,
    the_history_of_a_subscription_has_every_change_in_order,
    a_timeline_is_available_as_of_any_time,
}

async fn ask<E: Engine>(engine: &E, path: &str, query: &str) -> Response {
    let api =
        Api::new(Collector::new(store(engine.clone()), Sandbox::new(store(engine.clone()), Odds::NONE)));
    api.handle(Request { method: "GET", path, query, body: b"" }).await
}

async fn joined<E: Engine>(engine: &E, user: &str) -> String {
    let joins =
        membership(&format!("m-{user}"), "ACTIVATE", user, "2026-01-05T00:00:00Z", monthly("2026-01-31"));
    deliver(&context(engine.clone()), &[joins], 1).await;
    records(engine, user).await[0].subscription_id.to_string()
}

async fn paused<E: Engine>(engine: &E, user: &str) {
    let rests = membership(
        &format!("p-{user}"),
        "PAUSE",
        user,
        "2026-01-06T00:00:00Z",
        json!({"pause_duration_months": 2}),
    );
    deliver(&context(engine.clone()), &[rests], 1).await;
}

fn texts<'a>(rows: &'a Value, field: &str) -> Vec<&'a str> {
    rows.as_array().unwrap().iter().map(|row| row[field].as_str().unwrap()).collect()
}

async fn the_subscriptions_of_a_user_come_with_the_membership_status<E: Engine>(engine: E) {
    let none = ask(&engine, "/u-1/subscriptions", "").await;
    assert_eq!(
        (none.status, &none.body),
        (200, &json!({"user_id": "u-1", "status": "INACTIVE", "subscriptions": []}))
    );
    let id = joined(&engine, "u-1").await;
    let member = ask(&engine, "/u-1/subscriptions", "").await.body;
    assert_eq!(
        (&member["status"], texts(&member["subscriptions"], "subscription_id")),
        (&json!("SCHEDULED"), vec![id.as_str()])
    );
    assert_eq!(member["subscriptions"][0].get("applied"), None, "it is internal");
    paused(&engine, "u-1").await;
    assert_eq!(ask(&engine, "/u-1/subscriptions", "").await.body["status"], "PAUSED");
}

async fn one_subscription_is_for_its_user_only<E: Engine>(engine: E) {
    let id = joined(&engine, "auth0|u").await;
    joined(&engine, "u-2").await;
    let one = ask(&engine, &format!("/auth0%7Cu/subscriptions/{id}"), "").await;
    assert_eq!(
        (one.status, &one.body["subscription_id"], &one.body["billing_status"]),
        (200, &json!(id), &json!("SCHEDULED"))
    );
    for end in ["", "/history"] {
        for path in [format!("/u-2/subscriptions/{id}{end}"), format!("/auth0%7Cu/subscriptions/none{end}")] {
            let refused = ask(&engine, &path, "").await;
            assert_eq!(error(&refused), (404, "not_found"), "{path}");
            assert!(
                !message(&refused).contains("another"),
                "the response does not reveal the owner: {refused:?}"
            );
        }
    }
}

async fn the_history_of_a_subscription_has_every_change_in_order<E: Engine>(engine: E) {
    let id = joined(&engine, "u-1").await;
    paused(&engine, "u-1").await;
    let history = ask(&engine, &format!("/u-1/subscriptions/{id}/history"), "").await.body;
    assert_eq!((&history["user_id"], &history["subscription_id"]), (&json!("u-1"), &json!(id)));
    assert_eq!(texts(&history["rows"], "billing_status"), ["SCHEDULED", "PAUSED"]);
    assert_eq!(texts(&history["rows"], "event_id"), ["m-u-1", "p-u-1"]);
    assert_eq!(history["rows"][0].get("stamp"), None, "it is internal");
}

async fn a_timeline_is_available_as_of_any_time<E: Engine>(engine: E) {
    joined(&engine, "u-1").await;
    paused(&engine, "u-1").await;
    let now = ask(&engine, "/u-1/explain", "").await.body;
    assert_eq!(
        (&now["status"], texts(&now["story"], "event_id")),
        (&json!("PAUSED"), vec!["m-u-1", "p-u-1"])
    );
    for at in ["2026-01-05T12:00:00Z", "2026-01-05T14%3A00%3A00%2B02:00", "2026-01-06"] {
        let then = ask(&engine, "/u-1/explain", &format!("x=1&at={at}")).await.body;
        let paused = at == "2026-01-06";
        assert_eq!(then["status"], json!(if paused { "PAUSED" } else { "SCHEDULED" }), "{at}");
        assert_eq!(texts(&then["story"], "event_id").len(), 1 + usize::from(paused), "{at}");
    }
    for at in ["soon", "", "%ff", "+12026-01-01", "2026-02-30"] {
        let refused = ask(&engine, "/u-1/explain", &format!("at={at}")).await;
        assert_eq!(error(&refused), (422, "invalid_field"), "{at}");
        assert!(message(&refused).starts_with("at: "), "{refused:?}");
    }
    assert_eq!(error(&ask(&engine, "/no-such-user/explain", "").await), (404, "not_found"));
}
