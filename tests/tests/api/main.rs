//! The REST commands: every response that they give.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod openapi;
mod records;

use dues_events::billing::event::{Answer, AttemptName, Event, EventKind, Report, ReportKind};
use dues_events::billing::record::Receipt;
use dues_events::billing::wire::site_payments::Settlement;
use dues_events::money::Currency;
use dues_events::{AttemptKey, Item, Record, RefundKey, UserId};
use dues_processors::api::{Api, router};
use dues_processors::aws::triggers::http_api::{HttpApiRequest, HttpApiResponse, http_api};
use dues_processors::collections::Collector;
use dues_processors::collections::gateway::sandbox::{Odds, Sandbox};
use dues_processors::collections::gateway::{Debit, Gateway, OutcomeUnknown, Refund, RefundAnswer};
use dues_store::embedded::Embedded;
use dues_store::table::BILLING_ACTIVITY;
use dues_store::{Acquired, Condition, Engine, Locks};
use dues_tests::engines::embedded;
use dues_tests::engines::faulty::Faulty;
use dues_tests::fixtures::company::{clock, context, deliver, membership, monthly, records, store};
use dues_tests::rest::{Request, Response, Serve as _};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A member with the API and the store that serve them.
struct Office {
    engine: Embedded,
    api: Api<Embedded, Sandbox<Embedded>>,
    user: &'static str,
    record: Record,
    _folder: TempDir,
}

/// A member with a record that is due and an account with these last four digits.
async fn office(user: &'static str, mask: &str) -> Office {
    office_with(user, mask, monthly("2026-01-31")).await
}

async fn office_with(user: &'static str, mask: &str, terms: Value) -> Office {
    let (engine, _folder) = embedded();
    let joins = membership(&format!("m-{user}"), "ACTIVATE", user, "2026-01-05T00:00:00Z", terms);
    deliver(&context(engine.clone()), &[joins], 1).await;
    let sandbox = Sandbox::new(store(engine.clone()), Odds::NONE);
    sandbox.set_account(&UserId::from(user), mask).await.unwrap();
    let record = records(&engine, user).await.remove(0);
    Office { api: Api::new(Collector::new(store(engine.clone()), sandbox)), engine, user, record, _folder }
}

impl Office {
    async fn ask(&self, verb: &str, body: &str) -> Response {
        self.send("POST", &self.path(verb), body).await
    }

    async fn send(&self, method: &str, path: &str, body: &str) -> Response {
        self.api.handle(Request { method, path, query: "", body: body.as_bytes() }).await
    }

    fn path(&self, verb: &str) -> String {
        format!("/{}/subscriptions/{}/{verb}", self.user.replace('|', "%7C"), self.record.subscription_id)
    }
}

/// Status and code of an error response; checks that the body has no other fields.
fn error(response: &Response) -> (u16, &str) {
    let error = response.body["error"].as_object().unwrap_or_else(|| panic!("{response:?}"));
    assert_eq!((response.body.as_object().unwrap().len(), error.len()), (1, 2), "{response:?}");
    assert!(!error["message"].as_str().unwrap().is_empty());
    (response.status, error["code"].as_str().unwrap())
}

fn message(response: &Response) -> &str {
    response.body["error"]["message"].as_str().unwrap_or_else(|| panic!("{response:?}"))
}

/// Status, outcome and state of a response with a record.
fn summary(response: &Response) -> (u16, &str, &str) {
    let text = |field: &str| response.body[field].as_str().unwrap_or_else(|| panic!("{response:?}"));
    (response.status, text("outcome"), text("billing_status"))
}

#[tokio::test]
async fn a_payment_is_collected_at_once_or_under_way() {
    let at_once = office("u-1", "0400").await;
    let response = at_once.ask("pay", "").await;
    assert_eq!(summary(&response), (200, "collected", "COMPLETED"));
    assert_eq!(response.body["subscription_id"], json!(at_once.record.subscription_id.as_str()));
    assert_eq!(response.body.get("applied"), None, "that is for the program");
    assert_eq!(error(&at_once.ask("pay", "{}").await), (409, "already_paid"));

    let later = office("u-1", "6789").await;
    let response = later.ask("pay", "{\"new_account\": false}").await;
    assert_eq!(summary(&response), (202, "sent", "ACHSENT"));
    assert_eq!(response.body.get("in_doubt"), None);
    assert_eq!(summary(&later.ask("pay", "").await), (202, "in_flight", "ACHSENT"), "once is enough");
    assert_eq!(error(&later.ask("waive", "").await), (409, "in_flight"));
    assert_eq!(error(&later.ask("pause", r#"{"pause_duration_months": 1}"#).await), (409, "in_flight"));
}

#[tokio::test]
async fn what_costs_nothing_is_paid() {
    let terms = json!({"tier": "Basic", "version": "v2", "term": "MONTHLY", "amount": "0.00",
        "billing_date": "2026-01-31T00:00:00Z", "provider": "cognito"});
    assert_eq!(
        summary(&office_with("u-1", "6789", terms).await.ask("pay", "").await),
        (200, "free", "COMPLETED")
    );
}

#[tokio::test]
async fn ids_are_percent_decoded() {
    let office = office("auth0|a b", "0400").await;
    let id = &office.record.subscription_id;
    assert_eq!(
        error(&office.send("POST", &format!("/auth0%7Ca/subscriptions/{id}/waive"), "").await),
        (404, "not_found")
    );
    let response = office.send("POST", &format!("/auth0%7ca%20b/subscriptions/{id}/pay"), " \n ").await;
    assert_eq!(summary(&response), (200, "collected", "COMPLETED"));
    assert_eq!(response.body["user_id"], json!("auth0|a b"));
}

/// A gateway that never answers.
#[derive(Clone)]
struct Silent;

impl Gateway for Silent {
    async fn submit(&self, _: &Debit, _: &AttemptKey) -> Result<Answer, OutcomeUnknown> {
        Err(OutcomeUnknown("no answer within 10 s".to_owned()))
    }

    async fn lookup(&self, _: &AttemptKey) -> Result<Option<Answer>, OutcomeUnknown> {
        Err(OutcomeUnknown("still no answer".to_owned()))
    }

    async fn refund(&self, _: &Refund, _: &RefundKey) -> Result<RefundAnswer, OutcomeUnknown> {
        Err(OutcomeUnknown("no answer within 10 s".to_owned()))
    }

    async fn lookup_refund(&self, _: &RefundKey) -> Result<Option<RefundAnswer>, OutcomeUnknown> {
        Err(OutcomeUnknown("still no answer".to_owned()))
    }
}

#[tokio::test]
async fn a_debit_with_an_unknown_answer_is_accepted_as_in_doubt() {
    let office = office("u-1", "6789").await;
    let api = Api::new(Collector::new(store(office.engine.clone()), Silent));
    let path = office.path("pay");
    for reason in ["no answer within 10 s", "still no answer"] {
        let response = api.handle(Request { method: "POST", path: &path, query: "", body: b"" }).await;
        assert_eq!(summary(&response), (202, "in_doubt", "ACHSENT"));
        assert_eq!(response.body["in_doubt"], json!(reason));
    }
    assert_eq!(
        summary(&office.ask("pay", "").await),
        (202, "sent", "ACHSENT"),
        "found out by a gateway that speaks"
    );
}

#[tokio::test]
async fn a_refusal_and_what_follows_from_it() {
    let no_account = office("u-1", "0502").await;
    assert_eq!(error(&no_account.ask("pay", "").await), (402, "refused"));
    let stopped = no_account.ask("pay", "").await;
    assert_eq!(error(&stopped), (422, "stopped"));
    assert!(message(&stopped).contains("R02"), "{stopped:?}");
    assert_eq!(
        error(&no_account.ask("pay", r#"{"new_account": true}"#).await),
        (402, "refused"),
        "the new one is no better"
    );
    assert_eq!(error(&no_account.ask("pay", r#"{"new_account": true}"#).await), (402, "refused"));
    assert_eq!(error(&no_account.ask("pay", r#"{"new_account": true}"#).await), (422, "exhausted"));

    let barred = office("u-2", "0510").await;
    assert_eq!(error(&barred.ask("pay", "").await), (402, "refused"));
    assert_eq!(error(&barred.ask("pay", r#"{"new_account": true}"#).await), (403, "barred"));
}

#[tokio::test]
async fn records_are_waived_cancelled_paused_and_resumed() {
    let waived = office("u-1", "6789").await;
    assert_eq!(summary(&waived.ask("waive", "").await), (200, "waived", "WAIVED"));
    for verb in ["waive", "resume", "pay"] {
        assert_eq!(waived.ask(verb, "").await.status, 409, "{verb}");
    }
    // The membership continues with the next record: cancel that one.
    assert_eq!(waived.ask("cancel", r#"{"now": true}"#).await.status, 200);
    assert_eq!(error(&waived.ask("cancel", "").await), (409, "final"));
    let paused = office("u-1", "6789").await;
    assert_eq!(error(&paused.ask("resume", "").await), (409, "not_paused"));
    let response = paused.ask("pause", r#"{"pause_duration_months": 12}"#).await;
    assert_eq!(summary(&response), (200, "paused", "PAUSED"));
    assert_eq!(response.body["pause_duration_months"], json!(12));
    assert_eq!(error(&paused.ask("pay", "").await), (409, "on_pause"));
    // Its due date has passed: the period of the pause is not billed, and the next record follows.
    assert_eq!(summary(&paused.ask("resume", "{}").await), (200, "resumed", "PAUSED_SKIPPED"));
    assert_eq!(paused.ask("cancel", r#"{"now": true}"#).await.status, 200);
    assert_eq!(error(&paused.ask("pay", "").await), (409, "final"));

    let later = office_with("u-1", "6789", monthly("2026-03-31")).await;
    assert_eq!(error(&later.ask("pay", "").await), (409, "not_due"));
    let response = later.ask("cancel", "").await;
    assert_eq!(
        (response.status, response.body["outcome"].as_str()),
        (200, Some("cancel_pending")),
        "{response:?}"
    );
    assert_eq!(summary(&later.ask("cancel", r#"{"now": true}"#).await), (200, "cancelled", "CANCELLED"));
}

#[tokio::test]
async fn what_is_too_old_is_not_collected() {
    let old = office_with("u-1", "6789", monthly("2025-11-01")).await;
    assert_eq!(error(&old.ask("pay", "").await), (409, "stale"));
    assert_eq!(error(&old.ask("pay", "").await), (409, "final"));
}

#[tokio::test]
async fn what_is_wrong_with_a_body_is_named() {
    let office = office("u-1", "6789").await;
    for (verb, body, said) in [
        ("pay", r#"{"new_account": "yes"}"#, "new_account: \"yes\" is not true or false"),
        ("cancel", r#"{"now": 1}"#, "now: 1 is not true or false"),
        ("pause", "", "pause_duration_months: is missing"),
        ("pause", r#"{"pause_duration_months": null}"#, "pause_duration_months: is missing"),
        (
            "pause",
            r#"{"pause_duration_months": 0}"#,
            "pause_duration_months: 0 is not a whole number from 1 to 12",
        ),
        (
            "pause",
            r#"{"pause_duration_months": 13}"#,
            "pause_duration_months: 13 is not a whole number from 1 to 12",
        ),
        (
            "pause",
            r#"{"pause_duration_months": 1.5}"#,
            "pause_duration_months: 1.5 is not a whole number from 1 to 12",
        ),
        (
            "pause",
            r#"{"pause_duration_months": -1}"#,
            "pause_duration_months: -1 is not a whole number from 1 to 12",
        ),
        (
            "pause",
            r#"{"pause_duration_months": "3"}"#,
            "pause_duration_months: \"3\" is not a whole number from 1 to 12",
        ),
        ("waive", "[]", "body: is not a JSON object"),
        ("resume", "null", "body: is not a JSON object"),
    ] {
        let response = office.ask(verb, body).await;
        assert_eq!((error(&response), message(&response)), ((422, "invalid_field"), said), "{verb} {body}");
    }
    for body in ["{", "pay", "{} {}", "{\"now\": tru}"] {
        let response = office.ask("cancel", body).await;
        assert_eq!(error(&response), (422, "invalid_field"), "{body}");
        assert!(message(&response).starts_with("body: is not JSON: "), "{response:?}");
    }
    assert_eq!(
        records(&office.engine, "u-1").await,
        std::slice::from_ref(&office.record),
        "nothing was done"
    );
}

#[tokio::test]
async fn a_slash_in_a_user_id_is_percent_encoded_or_spans_segments() {
    let office = office("auth0/u-1", "6789").await;
    let id = &office.record.subscription_id;
    for path in [format!("/auth0%2Fu-1/subscriptions/{id}"), format!("/auth0/u-1/subscriptions/{id}")] {
        let response = office.send("GET", &path, "").await;
        assert_eq!((response.status, &response.body["user_id"]), (200, &json!("auth0/u-1")), "{path}");
    }
}

#[tokio::test]
async fn an_id_that_no_row_can_have_is_named_in_the_error() {
    let office = office("u-1", "6789").await;
    let (most, long) = ("a".repeat(256), "a".repeat(257));
    let none = office.send("GET", &format!("/{most}/explain"), "").await;
    assert_eq!(error(&none), (404, "not_found"), "256 bytes fit into a key: {none:?}");
    for (path, expected) in [
        (format!("/{long}/explain"), "user_id: has 257 bytes, must have 1 to 256"),
        // Two bytes of UTF-8 each, written with three characters a byte.
        (format!("/{}/explain", "%C3%A4".repeat(129)), "user_id: has 258 bytes, must have 1 to 256"),
        (format!("/u-1/subscriptions/{long}"), "subscription_id: has 257 bytes, must have 1 to 256"),
        ("/%FF/explain".to_owned(), "Invalid UTF-8 in `user_id`"),
        ("/u-1/subscriptions/a%C3/history".to_owned(), "Invalid UTF-8 in `subscription_id`"),
    ] {
        let response = office.send("GET", &path, "").await;
        assert_eq!(error(&response), (404, "no_such_path"), "{path}");
        assert_eq!(message(&response), expected, "{path}");
    }
}

#[tokio::test]
async fn unknown_paths_users_and_records_are_not_found() {
    let office = office("u-1", "6789").await;
    let id = &office.record.subscription_id;
    for path in ["/", "/u-1", "/u-1/subscription", "/u-1/subscriptions/x/forgive"] {
        assert_eq!(error(&office.send("POST", path, "").await), (404, "no_such_path"), "{path}");
    }
    let joins = membership("m-2", "ACTIVATE", "u-2", "2026-01-05T00:00:00Z", monthly("2026-01-31"));
    deliver(&context(office.engine.clone()), &[joins], 1).await;
    for verb in ["pay", "waive", "cancel", "resume", "refund"] {
        for path in [
            format!("/u-1/subscriptions/none/{verb}"),
            format!("/no-such-user/subscriptions/{id}/{verb}"),
            format!("/u-2/subscriptions/{id}/{verb}"),
        ] {
            let response = office.send("POST", &path, "").await;
            assert_eq!(error(&response), (404, "not_found"), "{path}");
            assert!(
                !message(&response).contains("another"),
                "the response does not reveal the owner: {response:?}"
            );
        }
    }
}

#[tokio::test]
async fn other_methods_get_the_allowed_ones() {
    let office = office("u-1", "6789").await;
    for method in ["GET", "PUT", "DELETE", "post"] {
        let response = office.send(method, &office.path("pay"), "").await;
        assert_eq!(
            (error(&response), response.allow.as_deref()),
            ((405, "method_not_allowed"), Some("POST")),
            "{method}"
        );
    }
}

#[tokio::test]
async fn a_locked_user_is_left_alone() {
    let office = office("u-1", "0400").await;
    let other = Locks::new(office.engine.clone(), clock());
    let Acquired::Held(lock) = other.acquire(&UserId::from("u-1")).await.unwrap() else {
        panic!("the lock is free")
    };
    assert_eq!(error(&office.ask("pay", "").await), (409, "locked"));
    lock.release().await;
    assert_eq!(office.ask("pay", "").await.status, 200);
}

#[tokio::test]
async fn a_store_that_is_unavailable_and_one_that_fails_are_different_errors() {
    let office = office("u-1", "6789").await;
    let engine = Faulty::after(office.engine.clone(), 0);
    let api = Api::new(Collector::new(store(engine.clone()), Sandbox::new(store(engine), Odds::NONE)));
    for verb in ["pay", "waive"] {
        let response =
            api.handle(Request { method: "POST", path: &office.path(verb), query: "", body: b"" }).await;
        assert_eq!(error(&response), (503, "unavailable"));
        assert!(!message(&response).contains("plug"), "that is for the log: {response:?}");
    }
    let mut broken = Item::new();
    broken.set_text("user_id", "u-1");
    broken.set_text("billing_date", "2026-02-28T00:00:00Z");
    office.engine.put(&BILLING_ACTIVITY, broken, Condition::Always).await.unwrap();
    assert_eq!(error(&office.ask("waive", "").await), (500, "store"));
}

async fn through_api_gateway(office: &Office, event: Value) -> HttpApiResponse {
    let request: HttpApiRequest = serde_json::from_value(event).unwrap();
    http_api(&router(office.api.clone()), request).await
}

/// An event as API Gateway sends it, with the fields that the handler ignores.
fn event(stage: &str, method: &str, path: &str, body: Value, base64: bool) -> Value {
    json!({"version": "2.0", "routeKey": "$default", "rawPath": path, "rawQueryString": "",
        "headers": {"content-type": "application/json"},
        "requestContext": {"accountId": "000000000000", "apiId": "a", "stage": stage, "requestId": "r",
            "http": {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1"}},
        "body": body, "isBase64Encoded": base64})
}

#[tokio::test]
async fn api_gateway_events_are_answered_in_its_shape() {
    let office = office("auth0|u", "6789").await;
    let path = |verb: &str| format!("/auth0|u/subscriptions/{}/{verb}", office.record.subscription_id);
    let no = through_api_gateway(&office, event("$default", "GET", &path("pay"), Value::Null, false)).await;
    let said = serde_json::to_value(&no).unwrap();
    assert_eq!(said["statusCode"], json!(405));
    assert_eq!(said["headers"], json!({"allow": "POST", "content-type": "application/json"}));
    assert_eq!(said["isBase64Encoded"], json!(false));

    // {"pause_duration_months":2}
    let body = "eyJwYXVzZV9kdXJhdGlvbl9tb250aHMiOjJ9";
    let paused = through_api_gateway(
        &office,
        event("prod", "POST", &format!("/prod{}", path("pause")), json!(body), true),
    )
    .await;
    let record: Value = serde_json::from_str(&paused.body).unwrap();
    assert_eq!(
        (paused.status_code, &record["outcome"], &record["pause_duration_months"]),
        (200, &json!("paused"), &json!(2))
    );

    let broken =
        through_api_gateway(&office, event("$default", "POST", &path("pause"), json!("%%%"), true)).await;
    assert_eq!(broken.status_code, 422);
    let encoded = path("resume").replace('|', "%7C");
    let mut minimal = event("$default", "POST", &encoded, Value::Null, false);
    minimal.as_object_mut().unwrap().retain(|field, _| field == "rawPath" || field == "requestContext");
    assert_eq!(through_api_gateway(&office, minimal).await.status_code, 200);
}

#[tokio::test]
async fn decisions_name_the_caller_that_api_gateway_authenticated() {
    let office = office("u-1", "6789").await;
    let arn = "arn:aws:iam::000000000000:user/grace";
    for (transaction, authorizer, actor) in [
        ("c-1", json!({"jwt": {"claims": {"sub": "ada", "scope": ["a"]}, "scopes": null}}), "ada"),
        ("c-2", json!({"iam": {"userArn": arn, "userId": "AIDA"}}), arn),
        ("c-3", Value::Null, "api"),
        ("c-4", json!({"jwt": {"claims": null}}), "api"),
    ] {
        let settled = ReportKind::Settled {
            amount: "5.00".parse().unwrap(),
            currency: Currency::USD,
            receipt: Receipt::default(),
        };
        let attempt = AttemptName { transaction_id: Some(transaction.into()), number: None };
        let report = Report { attempt, kind: settled };
        let store = &office.api.collector.store;
        let kind = EventKind::Reported(report.clone());
        let id = format!("p-{transaction}").into();
        let settlement = Settlement {
            user_id: "u-9".into(),
            subscription_id: "of/another".into(),
            event: Event::internal_at(id, store.clock.now(), "site-payments", None, kind),
        };
        assert!(store.list_money_without_record(&settlement, &report).await.unwrap());
        // API Gateway decodes the path: the id spans two segments.
        let path = format!("/money/of/another:{transaction}/dismiss");
        let mut request = event("$default", "POST", &path, json!(r#"{"reason": "a test"}"#), false);
        request["requestContext"]["authorizer"] = authorizer;
        let response = through_api_gateway(&office, request).await;
        assert_eq!(response.status_code, 200, "{response:?}");
        let row: Value = serde_json::from_str(&response.body).unwrap();
        assert_eq!((&row["actor"], &row["status"]), (&json!(actor), &json!("DISMISSED")), "{row}");
    }
}
