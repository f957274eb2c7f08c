//! The API's responses: a user's access, until when and why; credits, their ledger, and spending them.

use dues_processors::api::Api;
use dues_processors::collections::Collector;
use dues_processors::collections::gateway::sandbox::{Odds, Sandbox};
use dues_store::Engine;
use dues_tests::engines::embedded;
use dues_tests::fixtures::company::deliver;
use dues_tests::fixtures::stripe::{checkout, invoice, subscription};
use dues_tests::rest::{Request, Response, Serve as _};
use serde_json::{Value, json};

use super::{USER, at};

dues_tests::on_engines! {
    access_has_a_priority_and_says_why,
    credits_are_made_on_first_access_and_spent_once_for_each_key,
    the_ledger_is_listed_page_by_page,
}

const START: &str = "2026-01-01T00:00:00Z";

async fn ask<E: Engine>(engine: &E, time: &str, method: &str, path: &str, body: &Value) -> Response {
    let store = at(engine, time).store;
    let collector = Collector::new(store.clone(), Sandbox::new(store, Odds::NONE));
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Api::new(collector).handle(Request { method, path, query, body: body.as_bytes() }).await
}

async fn get<E: Engine>(engine: &E, time: &str, path: &str) -> Value {
    let response = ask(engine, time, "GET", path, &Value::Null).await;
    assert_eq!(response.status, 200, "{response:?}");
    response.body
}

fn code(response: &Response) -> (u16, &str) {
    (response.status, response.body["error"]["code"].as_str().unwrap_or_else(|| panic!("{response:?}")))
}

async fn access_has_a_priority_and_says_why<E: Engine>(engine: E) {
    let answer = async |time: &str| {
        let body = get(&engine, time, "/u-1/access").await;
        assert_eq!(body["user_id"], USER);
        let text = |name: &str| body[name].as_str().unwrap_or("-").to_owned();
        (text("tier"), text("source"), text("until"), text("why"))
    };
    let some = |tier: &str, source: &str, until: &str, why: &str| {
        (tier.to_owned(), source.to_owned(), until.to_owned(), why.to_owned())
    };
    let nothing = "no founder pass, no subscription or dues that are paid for, and no tier in the profile";
    assert_eq!(answer(START).await, some("free", "default", "-", nothing));

    let context = at(&engine, START);
    let sub = |id: &str, kind: &str, at: &str, status: &str| {
        subscription(id, kind, at, USER, "JOURNEYMAN", status, START)
    };
    deliver(&context, &[sub("e-1", "created", START, "trialing")], 1).await;
    let (end, tolerated) = ("2026-02-01T00:00:00Z", "2026-02-04T00:00:00Z");
    let why = format!("subscription sub_u-1 is trialing until {end}");
    assert_eq!(answer(START).await, some("JOURNEYMAN", "subscription", tolerated, &why));

    deliver(&context, &[sub("e-2", "updated", "2026-01-02T00:00:00Z", "active")], 1).await;
    let why = format!("subscription sub_u-1 is active until {end}");
    assert_eq!(answer("2026-01-31T23:59:59Z").await, some("JOURNEYMAN", "subscription", tolerated, &why));
    let why = format!("subscription sub_u-1 was active until {end}; its renewal may arrive within 3 days");
    assert_eq!(answer("2026-02-03T23:59:59Z").await, some("JOURNEYMAN", "subscription", tolerated, &why));
    assert_eq!(answer(tolerated).await, some("free", "default", "-", nothing), "no renewal has arrived");

    deliver(&context, &[sub("e-3", "deleted", "2026-01-10T00:00:00Z", "canceled")], 1).await;
    let why = format!("subscription sub_u-1 was cancelled and is paid for until {end}");
    assert_eq!(
        answer("2026-01-20T00:00:00Z").await,
        some("JOURNEYMAN", "subscription", end, &why),
        "in grace"
    );
    assert_eq!(answer(end).await, some("free", "default", "-", nothing), "the grace is over");

    let pass = checkout("e-4", "2026-01-15T00:00:00Z", USER, "FOUNDING_MEMBER", 19900, "pi_1", "paid");
    deliver(
        &context,
        &[pass, subscription("e-5", "created", START, USER, "GUILDMASTER", "active", START)],
        2,
    )
    .await;
    let why = "founder pass FOUNDING_MEMBER of 2026-01-15T00:00:00Z, for life (pi_1)";
    assert_eq!(
        answer("2036-01-01T00:00:00Z").await,
        some("SAGE", "founder_pass", "-", why),
        "the pass wins, whatever else there is"
    );
}

async fn credits_are_made_on_first_access_and_spent_once_for_each_key<E: Engine>(engine: E) {
    let none = json!({
        "user_id": USER, "balance": 0, "lastTopUp": null, "lastReset": null, "expiresAt": null,
        "nextGrantAt": null,
    });
    assert_eq!(get(&engine, START, "/u-1/credits").await, none);
    let consume = async |body: Value| ask(&engine, START, "POST", "/u-1/credits/consume", &body).await;
    let video = json!({"feature": "VIDEO", "idempotency_key": "render-1"});
    let refused = consume(video.clone()).await;
    assert_eq!(code(&refused), (402, "not_enough_credits"));
    assert_eq!(refused.body["error"]["message"], "Veo-3 Video Generation takes 3 credits, there are 0");
    deliver(&at(&engine, START), &[checkout("e-1", START, USER, "CREDITS", 500, "pi_1", "paid")], 1).await;
    let first = consume(video.clone()).await;
    assert_eq!(
        (first.status, &first.body["balance"], &first.body["movement"]["amount"]),
        (200, &7.into(), &(-3).into())
    );
    assert_eq!(consume(video).await, first, "asked again, the same answer, and nothing more is taken");
    assert_eq!(
        code(&consume(json!({"feature": "MIRROR_REPORT", "idempotency_key": "render-1"})).await),
        (409, "key_was_used")
    );
    for (body, field) in [
        (json!({"idempotency_key": "k"}), "feature"),
        (json!({"feature": "VIDEO"}), "idempotency_key"),
        (json!({"feature": "FILM", "idempotency_key": "k"}), "feature"),
        (json!({"feature": "VIDEO", "idempotency_key": ""}), "idempotency_key"),
        (json!([]), "body"),
    ] {
        let response = consume(body).await;
        assert_eq!(code(&response), (422, "invalid_field"));
        assert!(
            response.body["error"]["message"].as_str().unwrap().starts_with(&format!("{field}: ")),
            "{response:?}"
        );
    }
    let now = get(&engine, START, "/u-1/credits").await;
    assert_eq!(
        (&now["balance"], &now["lastTopUp"], &now["expiresAt"]),
        (&7.into(), &START.into(), &"2027-01-01T00:00:00Z".into())
    );
}

async fn the_ledger_is_listed_page_by_page<E: Engine>(engine: E) {
    let mut events = vec![subscription("s", "created", START, USER, "INITIATE", "active", START)];
    events.extend(
        (1..=5)
            .map(|n| format!("2026-{n:02}-01T00:00:00Z"))
            .map(|month| invoice(&format!("i-{month}"), "paid", &month, USER, &month)),
    );
    deliver(&at(&engine, "2026-05-02T00:00:00Z"), &events, 10).await;
    let (mut seen, mut next) = (Vec::new(), String::new());
    loop {
        let page = get(&engine, START, &format!("/u-1/credits/ledger?limit=2{next}")).await;
        seen.extend(
            page["movements"]
                .as_array()
                .unwrap()
                .iter()
                .map(|movement| movement["occurredAt"].as_str().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            Some(last) => next = format!("&after={}", last.replace(':', "%3A")),
            None => break,
        }
    }
    let expected: Vec<String> = (1..=5).rev().map(|n| format!("2026-{n:02}-01T00:00:00Z")).collect();
    assert_eq!(seen, expected, "the newest first, each once");
    for bad in ["limit=0", "limit=1001", "limit=x", "after=grant:unknown", "after=%ff"] {
        let response = ask(&engine, START, "GET", &format!("/u-1/credits/ledger?{bad}"), &Value::Null).await;
        assert_eq!(code(&response), (422, "invalid_field"), "{bad}");
    }
}

#[tokio::test]
async fn each_path_has_one_method() {
    let (engine, _folder) = embedded();
    for (path, method, other) in [
        ("access", "GET", "POST"),
        ("credits", "GET", "PUT"),
        ("credits/ledger", "GET", "DELETE"),
        ("credits/consume", "POST", "GET"),
    ] {
        let response = ask(&engine, START, other, &format!("/u-1/{path}"), &Value::Null).await;
        assert_eq!((code(&response), response.allow.as_deref()), ((405, "method_not_allowed"), Some(method)));
    }
}
