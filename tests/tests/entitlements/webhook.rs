//! Stripe's webhook and partner events: a verified event is in the inbox byte for byte; of any other,
//! nothing is written.

use chrono::TimeDelta;
use dues_events::Time;
use dues_events::entitlements::stripe::wire::types;
use dues_processors::api::Response;
use dues_processors::aws::clients::kinesis_inbox::Kinesis;
use dues_processors::aws::triggers::eventbridge::EventBridgeEvent;
use dues_processors::aws::triggers::http_api::{HttpApiRequest, HttpApiResponse};
use dues_processors::entitlements::stripe_webhook::partner::{PartnerError, Received, stripe_partner};
use dues_processors::entitlements::stripe_webhook::{MAX_BODY_BYTES, Request, Secrets, Webhook, http_api};
use dues_processors::messaging::inbox::InboxError;
use dues_store::embedded::Embedded;
use dues_tests::aws::ministack::{new_account, python};
use dues_tests::aws::recording_proxy::{Meddler, Mischief};
use dues_tests::clock::TestClock;
use dues_tests::engines::embedded;

use dues_tests::fixtures::webhook::{StreamInbox, event, fixtures, received, sign, signature};
use dues_tests::log_capture::LogCapture;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const SECRET: &str = "whsec_5WbX5kEWLlfzsGNjH64I8lOOqUB6e8FH";
const OTHER: &str = "whsec_qXzN4gPdlNqSd6YyKeTTpBXyZ0VmRxcA";
/// The time of all tests here.
const NOW: i64 = 1_772_452_800;
const OURS: &str = "customer.subscription.updated";

/// A webhook endpoint, and its store.
struct Endpoint {
    engine: Embedded,
    webhook: Webhook<StreamInbox>,
    _folder: TempDir,
}

fn endpoint(secrets: &str) -> Endpoint {
    let (engine, _folder) = embedded();
    let clock = TestClock::frozen(Time::from_timestamp(NOW, 0).unwrap()).shared();
    let webhook = Webhook::new(StreamInbox(engine.clone()), Secrets::read(secrets), clock);
    Endpoint { engine, webhook, _folder }
}

impl Endpoint {
    async fn post(&self, header: Option<&str>, body: &[u8]) -> Response {
        self.webhook.receive(Request { method: "POST", signature: header, body }).await
    }

    async fn signed(&self, body: &[u8]) -> Response {
        self.post(Some(&sign(SECRET, NOW, body)), body).await
    }

    fn received(&self) -> Vec<(String, Vec<u8>)> {
        received(&self.engine)
    }
}

/// The status and the error's code.
fn refusal(response: &Response) -> (u16, &str) {
    (response.status, response.body["error"]["code"].as_str().unwrap_or_else(|| panic!("{response:?}")))
}

fn taken() -> Value {
    json!({"received": true, "handled": true})
}

fn passed_over() -> Value {
    json!({"received": true, "handled": false})
}

/// The headers that Stripe's own library makes for these bodies.
fn signed_by_stripe(bodies: &[Vec<u8>]) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("stripe/sign.py");
    let mut child =
        Command::new(python()).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let cases = bodies
        .iter()
        .map(|body| json!({"secret": SECRET, "at": NOW, "body": std::str::from_utf8(body).unwrap()}));
    let lines: String = cases.map(|case| format!("{case}\n")).collect();
    let writes = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writes.join().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn what_stripes_library_signs_lies_in_the_inbox_byte_by_byte() {
    let (endpoint, fixtures) = (endpoint(SECRET), fixtures());
    let names: BTreeSet<&str> = fixtures.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, types().collect(), "there is an event of every type");
    let bodies: Vec<Vec<u8>> = fixtures.into_iter().map(|(_, body)| body).collect();
    let headers = signed_by_stripe(&bodies);
    assert_eq!(headers.len(), bodies.len());
    for (header, body) in headers.iter().zip(&bodies) {
        assert_eq!(*header, sign(SECRET, NOW, body), "the tests sign as Stripe does");
        let response = endpoint.post(Some(header), body).await;
        assert_eq!((response.status, &response.body), (200, &taken()));
        assert_eq!(endpoint.received().last().unwrap().1, *body, "when it is answered, it is there");
    }
    assert_eq!(endpoint.received().into_iter().map(|(_, body)| body).collect::<Vec<_>>(), bodies);
}

#[tokio::test]
async fn the_key_is_the_user_or_the_customer_or_the_event() {
    let endpoint = endpoint(SECRET);
    let of = |object: Value| {
        json!({"id": "evt_1", "type": OURS, "data": {"object": object}}).to_string().into_bytes()
    };
    for (body, key) in [
        (event("evt_1", OURS, "auth0|u-1"), "auth0|u-1"),
        (of(json!({"customer": "cus_1"})), "cus_1"),
        (of(json!({"customer": {"id": "cus_2"}})), "cus_2"),
        (of(json!({})), "evt_1"),
        (b"not JSON".to_vec(), "nameless"),
    ] {
        assert_eq!(endpoint.signed(&body).await.status, 200);
        assert_eq!(endpoint.received().pop().unwrap(), (key.to_owned(), body));
    }
}

#[tokio::test]
async fn what_is_not_believed_gets_400_and_writes_nothing() {
    let endpoint = endpoint(SECRET);
    let body = event("evt_1", OURS, "u-1");
    let good = sign(SECRET, NOW, &body);
    let right = signature(SECRET, NOW, &body);
    let at = |at: i64| Some(sign(SECRET, at, &body));
    let cases: [(&str, Option<String>, &str); 21] = [
        ("no header", None, "signature_missing"),
        ("an empty header", Some(String::new()), "signature_missing"),
        ("noise", Some("v1".to_owned()), "signature_malformed"),
        ("no time", Some(format!("v1={right}")), "signature_malformed"),
        ("two times", Some(format!("t={NOW},t={NOW},v1={right}")), "signature_malformed"),
        ("a time that is none", Some(format!("t=soon,v1={right}")), "signature_malformed"),
        ("cut before the signature", Some(good[..12].to_owned()), "signature_malformed"),
        ("the fake scheme alone", Some(format!("t={NOW},v0={right}")), "signature_malformed"),
        ("no digits", Some(format!("t={NOW},v1=")), "signature_mismatch"),
        ("a digit short", Some(good[..good.len() - 1].to_owned()), "signature_mismatch"),
        ("half of it", Some(good[..good.len() - 32].to_owned()), "signature_mismatch"),
        ("a digit more", Some(format!("{good}0")), "signature_mismatch"),
        ("not hex", Some(format!("t={NOW},v1={}", "z".repeat(64))), "signature_mismatch"),
        ("zeros", Some(format!("t={NOW},v1={}", "0".repeat(64))), "signature_mismatch"),
        ("another secret", Some(sign(OTHER, NOW, &body)), "signature_mismatch"),
        ("another body's", Some(sign(SECRET, NOW, b"{}")), "signature_mismatch"),
        ("another time's", Some(format!("t={},v1={right}", NOW + 1)), "signature_mismatch"),
        ("old", at(NOW - 301), "signature_too_old"),
        ("of last year", at(NOW - 31_536_000), "signature_too_old"),
        ("of the future", at(NOW + 301), "signature_too_new"),
        ("beyond all calendars", at(i64::MAX), "signature_too_new"),
    ];
    for (case, header, code) in cases {
        let response = endpoint.post(header.as_deref(), &body).await;
        assert_eq!(refusal(&response), (400, code), "{case}");
        assert_eq!(endpoint.received(), [], "{case}");
    }
    for changed in [&body[..body.len() - 1], &[&body[..], b"\n"].concat(), &event("evt_2", OURS, "u-1"), b""]
    {
        assert_eq!(refusal(&endpoint.post(Some(&good), changed).await), (400, "signature_mismatch"));
    }
    assert_eq!(endpoint.received(), []);
    assert_eq!(
        endpoint.post(Some(&good), &body).await.status,
        200,
        "the header that all of these were made from is good"
    );
    assert_eq!(endpoint.received().len(), 1);
}

#[tokio::test]
async fn a_signature_is_good_for_five_minutes_or_as_long_as_is_configured() {
    let body = event("evt_1", OURS, "u-1");
    let usual = endpoint(SECRET);
    for at in [NOW - 300, NOW, NOW + 300] {
        assert_eq!(usual.post(Some(&sign(SECRET, at, &body)), &body).await.status, 200, "{at}");
    }
    let strict = Endpoint { webhook: usual.webhook.clone().with_tolerance(TimeDelta::seconds(10)), ..usual };
    assert_eq!(
        refusal(&strict.post(Some(&sign(SECRET, NOW - 11, &body)), &body).await),
        (400, "signature_too_old")
    );
    assert_eq!(strict.received().len(), 3);
}

#[tokio::test]
async fn while_a_secret_is_replaced_both_are_good() {
    let body = event("evt_1", OURS, "u-1");
    let (ours_rolls, stripe_rolls) = (endpoint(&format!("{OTHER}\n{SECRET}\n")), endpoint(SECRET));
    for secret in [SECRET, OTHER] {
        assert_eq!(ours_rolls.post(Some(&sign(secret, NOW, &body)), &body).await.status, 200);
    }
    let both = format!("t={NOW},v1={},v1={}", signature(OTHER, NOW, &body), signature(SECRET, NOW, &body));
    assert_eq!(stripe_rolls.post(Some(&both), &body).await.status, 200);
    assert_eq!(
        refusal(&ours_rolls.post(Some(&sign("whsec_third", NOW, &body)), &body).await),
        (400, "signature_mismatch")
    );
}

#[tokio::test]
async fn without_a_secret_nothing_is_believed() {
    let body = event("evt_1", OURS, "u-1");
    for secrets in ["", " \n , "] {
        let (endpoint, log) = (endpoint(secrets), LogCapture::start());
        for signed_with in ["", " ", SECRET] {
            assert_eq!(
                refusal(&endpoint.post(Some(&sign(signed_with, NOW, &body)), &body).await),
                (404, "no_secret")
            );
        }
        assert_eq!(refusal(&endpoint.post(None, &body).await), (404, "no_secret"));
        assert_eq!(endpoint.received(), []);
        let lines = log.lines();
        assert_eq!(lines.len(), 4);
        assert!(
            lines
                .iter()
                .all(|line| line.starts_with("ERROR") && line.contains("no Stripe secret is configured")),
            "{lines:?}"
        );
    }
}

#[tokio::test]
async fn a_body_may_have_256_kilobytes_and_no_more() {
    let endpoint = endpoint(SECRET);
    let mut body = event("evt_1", OURS, "u-1");
    body.resize(MAX_BODY_BYTES, b' ');
    assert_eq!(MAX_BODY_BYTES, 256 * 1024);
    assert_eq!(endpoint.signed(&body).await.status, 200);
    assert_eq!(endpoint.received(), [("u-1".to_owned(), body.clone())]);
    body.push(b' ');
    assert_eq!(refusal(&endpoint.signed(&body).await), (413, "too_large"));
    assert_eq!(
        refusal(&endpoint.post(None, &body).await),
        (413, "too_large"),
        "before the signature is checked"
    );
    assert_eq!(endpoint.received().len(), 1);
}

#[tokio::test]
async fn types_that_are_not_ours_are_answered_counted_and_not_written() {
    let (endpoint, log) = (endpoint(SECRET), LogCapture::start());
    for kind in [
        "customer.created",
        "invoice.created",
        "plan.created",
        "customer.subscription.trial_will_end",
        "made.up",
    ] {
        let response = endpoint.signed(&event("evt_9", kind, "u-1")).await;
        assert_eq!((response.status, response.body), (200, passed_over()), "{kind}");
    }
    // Whatever the other fields contain.
    let response = endpoint.signed(br#"{"type":"balance.available","id":7,"data":[]}"#).await;
    assert_eq!((response.status, response.body), (200, passed_over()));
    assert_eq!(endpoint.received(), []);
    let counted = log.lines().iter().filter(|line| line.contains("skipped=1")).count();
    assert_eq!(counted, 6);
}

#[tokio::test]
async fn what_is_signed_and_cannot_be_read_is_stored_for_the_worker_to_park() {
    let endpoint = endpoint(SECRET);
    let deep = [b"[".repeat(5000), b"]".repeat(5000)].concat();
    let missing = json!({"id": "evt_1", "type": OURS}).to_string().into_bytes();
    let unreadable = [
        b"{".to_vec(),
        b"".to_vec(),
        b"[]".to_vec(),
        b"\xff\xfe".to_vec(),
        b"{\"type\":7}".to_vec(),
        b"{}".to_vec(),
        deep,
        missing,
    ];
    for body in &unreadable {
        let response = endpoint.signed(body).await;
        assert_eq!((response.status, response.body), (200, taken()), "{}", String::from_utf8_lossy(body));
    }
    assert_eq!(endpoint.received().into_iter().map(|(_, body)| body).collect::<Vec<_>>(), unreadable);
}

#[tokio::test]
async fn post_is_the_only_method() {
    let endpoint = endpoint(SECRET);
    let body = event("evt_1", OURS, "u-1");
    let header = sign(SECRET, NOW, &body);
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "post"] {
        let response =
            endpoint.webhook.receive(Request { method, signature: Some(&header), body: &body }).await;
        assert_eq!(
            (refusal(&response), response.allow.as_deref()),
            ((405, "method_not_allowed"), Some("POST")),
            "{method}"
        );
    }
    assert_eq!(endpoint.received(), []);
}

#[tokio::test]
async fn an_event_that_cannot_be_stored_gets_503_and_is_taken_when_it_comes_again() {
    let clock = TestClock::skipping();
    // The first webhook makes six attempts.
    let meddler = Meddler::new(|asked| {
        if asked.number < 6 { Mischief::Refuse(500, "InternalFailure") } else { Mischief::None }
    });
    let client = meddler.kinesis(&new_account());
    let webhook =
        Webhook::new(Kinesis::new(&client, "stripe", clock.shared()), Secrets::read(SECRET), clock.shared());
    let body = event("evt_1", OURS, "u-1");
    let header = sign(SECRET, NOW, &body);
    let post = || webhook.receive(Request { method: "POST", signature: Some(&header), body: &body });
    let busy = post().await;
    assert_eq!((refusal(&busy), busy.retry_after), ((503, "unavailable"), Some(5)));
    // Then Kinesis answers, but the stream does not exist.
    let gone = post().await;
    assert_eq!((refusal(&gone), gone.retry_after), ((503, "unavailable"), Some(5)));
    assert!(
        !busy.body.to_string().contains("Internal") && !gone.body.to_string().contains("NotFound"),
        "why is for the log"
    );
    client.create_stream().stream_name("stripe").shard_count(1).send().await.unwrap();
    let response = post().await;
    assert_eq!((response.status, response.body), (200, taken()));
    assert_eq!(meddler.asked()[7].entries[0]["PartitionKey"], "u-1");
    // A type that we do not read makes no request.
    let (not_ours, asked) = (event("evt_2", "plan.created", "u-1"), meddler.asked().len());
    let header = sign(SECRET, NOW, &not_ours);
    assert_eq!(
        webhook.receive(Request { method: "POST", signature: Some(&header), body: &not_ours }).await.body,
        passed_over()
    );
    assert_eq!(meddler.asked().len(), asked);
}

#[tokio::test]
async fn the_log_has_ids_and_neither_bodies_nor_signatures_nor_secrets() {
    let (endpoint, log) = (endpoint(SECRET), LogCapture::start());
    let body = json!({
        "id": "evt_1", "type": OURS, "note": "4111111111111111",
        "data": {"object": {"metadata": {"user_id": "u-1"}}},
    });
    let body = body.to_string().into_bytes();
    let good = sign(SECRET, NOW, &body);
    endpoint.post(Some(&good), &body).await;
    endpoint.post(Some(&sign(OTHER, NOW, &body)), &body).await;
    endpoint.post(None, &body).await;
    endpoint.signed(&event("evt_2", "plan.created", "u-1")).await;
    let lines = log.lines();
    assert_eq!(lines.len(), 4, "{lines:#?}");
    assert!(lines[0].contains("event=\"evt_1\"") && lines[0].contains("user=\"u-1\""), "{}", lines[0]);
    assert!(
        lines[1].contains("code=\"signature_mismatch\"") && lines[2].contains("code=\"signature_missing\""),
        "{lines:#?}"
    );
    for secret in ["4111", "whsec", &signature(SECRET, NOW, &body), &signature(OTHER, NOW, &body)] {
        assert!(!lines.concat().contains(secret), "{secret} in {lines:#?}");
    }
    assert!(!format!("{:?}", Secrets::read(SECRET)).contains("whsec"));
}

/// A request as API Gateway passes it to a function.
async fn through_api_gateway(
    endpoint: &Endpoint,
    header: (&str, &str),
    body: &str,
    base64: bool,
) -> HttpApiResponse {
    let request = json!({"version": "2.0", "routeKey": "POST /webhooks/stripe", "rawPath": "/webhooks/stripe",
        "rawQueryString": "", "headers": {"content-type": "application/json", header.0: header.1},
        "body": body, "isBase64Encoded": base64,
        "requestContext": {"stage": "$default", "http": {"method": "POST", "path": "/webhooks/stripe"}}});
    let request: HttpApiRequest = serde_json::from_value(request).unwrap();
    http_api(&endpoint.webhook, request).await
}

#[tokio::test]
async fn api_gateway_brings_bodies_as_text_or_base64() {
    let endpoint = endpoint(SECRET);
    let body = "{\"id\":\"evt_1\", \"note\":\"\u{fc}\\u00fc\", \"type\":\"invoice.paid\"}\r\n";
    // Encoded independently: `base64` of those bytes.
    let base64 = "eyJpZCI6ImV2dF8xIiwgIm5vdGUiOiLDvFx1MDBmYyIsICJ0eXBlIjoiaW52b2ljZS5wYWlkIn0NCg==";
    let header = sign(SECRET, NOW, body.as_bytes());
    for (name, sent, encoded) in [
        ("stripe-signature", body, false),
        ("stripe-signature", base64, true),
        ("Stripe-Signature", base64, true),
    ] {
        let response = through_api_gateway(&endpoint, (name, &header), sent, encoded).await;
        assert_eq!((response.status_code, response.body), (200, taken().to_string()), "{name} {encoded}");
        assert_eq!(response.headers["content-type"], "application/json");
    }
    let stored = ("evt_1".to_owned(), body.as_bytes().to_vec());
    assert_eq!(endpoint.received(), [stored.clone(), stored.clone(), stored]);

    let refused = through_api_gateway(&endpoint, ("x-signature", &header), body, false).await;
    assert!(refused.status_code == 400 && refused.body.contains("signature_missing"), "{refused:?}");
    let refused = through_api_gateway(&endpoint, ("stripe-signature", &header), base64, false).await;
    assert!(refused.status_code == 400 && refused.body.contains("signature_mismatch"), "{refused:?}");
    let refused = through_api_gateway(&endpoint, ("stripe-signature", &header), "not base64!", true).await;
    assert!(refused.status_code == 400 && refused.body.contains("invalid_body"), "{refused:?}");
    let refused =
        through_api_gateway(&endpoint, ("stripe-signature", &header), &"x".repeat(MAX_BODY_BYTES + 1), false)
            .await;
    assert_eq!(refused.status_code, 413);
    assert_eq!(endpoint.received().len(), 3);
}

#[tokio::test]
async fn api_gateway_gets_the_allowed_method_and_when_to_retry() {
    let get = json!({"rawPath": "/webhooks/stripe", "requestContext": {"http": {"method": "GET"}}});
    let response = http_api(&endpoint(SECRET).webhook, serde_json::from_value(get).unwrap()).await;
    assert_eq!((response.status_code, response.headers["allow"].as_str()), (405, "POST"));

    let clock = TestClock::skipping();
    let client = Meddler::new(|_| Mischief::Refuse(503, "ServiceUnavailable")).kinesis(&new_account());
    let webhook =
        Webhook::new(Kinesis::new(&client, "stripe", clock.shared()), Secrets::read(SECRET), clock.shared());
    let post = json!({"rawPath": "/webhooks/stripe", "requestContext": {"http": {"method": "POST"}},
        "body": "{}", "headers": {"stripe-signature": sign(SECRET, NOW, b"{}")}});
    let response = http_api(&webhook, serde_json::from_value(post).unwrap()).await;
    assert_eq!((response.status_code, response.headers["retry-after"].as_str()), (503, "5"));
}

/// An event as a partner's bus delivers it.
fn partner(source: &str, detail: &Value) -> EventBridgeEvent {
    let kind = detail["type"].as_str().unwrap_or_default();
    serde_json::from_value(
        json!({"version": "0", "id": "d-1", "detail-type": kind, "source": source, "account": "123456789012",
        "time": "2026-03-02T12:00:00Z", "region": "us-east-1", "resources": [source], "detail": detail}),
    )
    .unwrap()
}

const STRIPE: &str = "aws.partner/stripe.com/ed_test_61P7";

#[tokio::test]
async fn partner_events_lie_in_the_inbox_as_json() {
    let (engine, _folder) = embedded();
    let inbox = StreamInbox(engine.clone());
    for (n, (name, body)) in fixtures().into_iter().enumerate() {
        let detail: Value = serde_json::from_slice(&body).unwrap();
        let event = partner(STRIPE, &detail);
        assert_eq!((event.source.as_str(), &event.detail_type), (STRIPE, &name));
        assert_eq!(stripe_partner(&inbox, event).await, Ok(Received { handled: true }));
        let stored = received(&engine);
        assert_eq!((stored.len(), serde_json::from_slice::<Value>(&stored[n].1).unwrap()), (n + 1, detail));
    }
    let before = received(&engine).len();
    let not_ours = json!({"id": "evt_1", "type": "plan.created"});
    assert_eq!(stripe_partner(&inbox, partner(STRIPE, &not_ours)).await, Ok(Received { handled: false }));
    assert_eq!(received(&engine).len(), before);
    // An unreadable event is stored too: the worker parks it.
    assert_eq!(stripe_partner(&inbox, partner(STRIPE, &Value::Null)).await, Ok(Received { handled: true }));
    assert_eq!(received(&engine).pop().unwrap(), ("nameless".to_owned(), b"null".to_vec()));
}

#[tokio::test]
async fn an_event_of_another_source_is_refused_by_name() {
    let (engine, _folder) = embedded();
    let ours = json!({"id": "evt_1", "type": OURS});
    for source in
        ["", "dues", "aws.partner/stripe.com", "aws.partner/stripe.com.evil/x", "x/aws.partner/stripe.com/y"]
    {
        let error = stripe_partner(&StreamInbox(engine.clone()), partner(source, &ours)).await.unwrap_err();
        assert_eq!(error, PartnerError::NotStripe(source.to_owned()));
        assert!(error.to_string().contains(&format!("{source:?} is not Stripe's")), "{error}");
    }
    assert_eq!(received(&engine), []);
}

#[tokio::test]
async fn a_partner_event_that_cannot_be_stored_is_delivered_again() {
    let clock = TestClock::skipping();
    let client = Meddler::new(|_| Mischief::Refuse(500, "InternalFailure")).kinesis(&new_account());
    let inbox = Kinesis::new(&client, "stripe", clock.shared());
    let error =
        stripe_partner(&inbox, partner(STRIPE, &json!({"id": "evt_1", "type": OURS}))).await.unwrap_err();
    assert!(matches!(error, PartnerError::Inbox(InboxError::Unavailable(_))), "{error}");
}
