//! The API's other responses, and what must not be stored.

use super::*;
use dues_processors::runtime::redrive::parked_id;
use dues_processors::serenya::show;

dues_tests::on_engines! {
    consents_device_and_biometric_are_embedded,
    every_command_is_done_once_under_its_id,
    tokens_are_neither_taken_nor_kept,
    a_closed_account_has_no_session,
    what_the_program_shows_of_a_user,
    paths_that_there_are_not,
    times_out_of_range_are_refused,
    days_of_grace_without_end_are_no_end,
    what_no_table_can_hold_is_refused,
    an_id_is_text,
}

async fn consents_device_and_biometric_are_embedded<E: Engine>(engine: E) {
    ada(&engine).await;
    let post = async |path: &str, body: Value| {
        let answer = ask(&engine, "POST", &format!("users/u-1/{path}"), body).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.body["profile"].clone()
    };
    let consents = json!({"event_id": "c", "medical_disclaimers": true, "terms_of_service": true,
        "privacy_policy": true, "consent_version": "v2.1.0",
        "ip_address": "192.0.2.1", "user_agent": "Mozilla/5.0"});
    let mut expected = consents.clone();
    expected.as_object_mut().unwrap().remove("event_id");
    expected["consent_date"] = NOW.into();
    assert_eq!(post("consents", consents).await["consents"], expected);
    let device = json!({"event_id": "d", "device_id": "iphone-1", "device_name": "iPhone 15 Pro",
        "platform": "ios", "platform_version": "17.0.1", "app_version": "1.2.3",
        "biometric_type": "faceid", "device_fingerprint": "a8c5d2e9f7b1c4e8",
        "timezone": "America/New_York"});
    let mut expected = device.clone();
    expected.as_object_mut().unwrap().remove("event_id");
    expected["last_active_at"] = NOW.into();
    assert_eq!(post("device", device).await["current_device"], expected);
    let registered = json!({"event_id": "b", "registration_id": "bio_1", "biometric_type": "faceid",
        "verification_level": "high",
        "challenge_data": "encrypted", "challenge_expires_at": "2026-03-01T01:00:00Z"});
    assert_eq!(post("biometric", registered).await["biometric"]["is_verified"], json!(false));
    post(
        "biometric/failed",
        json!({"event_id": "b-2", "occurred_at": "2026-03-01T00:01:00Z",
        "locked_until": "2026-03-01T00:06:00Z"}),
    )
    .await;
    let verified =
        post("biometric/verified", json!({"event_id": "b-3", "occurred_at": "2026-03-01T00:07:00Z"})).await;
    assert_eq!(
        verified["biometric"],
        json!({"registration_id": "bio_1", "biometric_type": "faceid", "is_verified": true,
            "verification_level": "high", "challenge_data": "encrypted",
            "challenge_expires_at": "2026-03-01T01:00:00Z", "last_verification_at": "2026-03-01T00:07:00Z",
            "failure_count": 0, "locked_until": null})
    );
}

async fn every_command_is_done_once_under_its_id<E: Engine>(engine: E) {
    ada(&engine).await;
    let renamed = |name: &str| json!({"event_id": "n-1", "name": name});
    assert_eq!(ask(&engine, "POST", "users/u-1", renamed("Ada L.")).await.body["outcome"], "applied");
    assert_eq!(
        ask_at(&engine, "2026-03-02T00:00:00Z", "POST", "users/u-1", renamed("Ada L.")).await.body["outcome"],
        "known"
    );
    let other = ask(&engine, "POST", "users/u-1", renamed("Eve")).await;
    assert_eq!((other.status, other.body["error"]["code"].as_str()), (409, Some("key_was_used")));
    assert_eq!(ask(&engine, "POST", "users/u-1/usage", json!({"event_id": "n-1"})).await.status, 409);
    let nameless = ask(&engine, "POST", "users/u-1", json!({"name": "Eve"})).await;
    assert_eq!(
        (nameless.status, nameless.body["error"]["message"].as_str()),
        (422, Some("event_id: is missing"))
    );
    let wrong = ask(&engine, "POST", "users/u-1/payments", json!({"event_id": "p", "amount": 9.999})).await;
    assert_eq!(
        (wrong.status, wrong.body["error"]["message"].as_str()),
        (422, Some("payment.amount: 9.999 has more than two decimals"))
    );
    let odd = ask(&engine, "POST", "users/u-1", json!({"event_id": "n-2", "occurred_at": "noon"})).await;
    assert_eq!(
        (odd.status, odd.body["error"]["message"].as_str()),
        (422, Some("occurred_at: is not an RFC 3339 time"))
    );
    assert_eq!(
        ask(&engine, "POST", "users/u-9/device", json!({"event_id": "d", "device_id": "d"})).await.status,
        404
    );
}

async fn tokens_are_neither_taken_nor_kept<E: Engine>(engine: E) {
    ada(&engine).await;
    let refused = ask(
        &engine,
        "POST",
        "users/u-1/session",
        json!({"event_id": "s", "session_id": "s", "access_token": "very-secret"}),
    )
    .await;
    assert_eq!(
        (refused.status, refused.body["error"]["message"].as_str()),
        (422, Some("access_token: is a token: only its hash is accepted"))
    );
    let body = json!({"user_id": "u-1", "session_id": "s", "tokens": {"refresh_token": "very-secret"}});
    assert_eq!(deliver(&engine, "e-1", "session.started", NOW, body.clone()).await, Outcome::Parked);
    let parked = at(&engine, NOW).parked().await.unwrap();
    assert_eq!(
        (parked.len(), parked[0].reason.as_str()),
        (1, "tokens.refresh_token: is a token: only its hash is accepted")
    );
    assert!(
        !String::from_utf8_lossy(&parked[0].body).contains("very-secret"),
        "not even among the parked records"
    );
    let mut sent = body;
    (sent["event_id"], sent["type"], sent["occurred_at"]) =
        ("e-1".into(), "serenya.session.started".into(), NOW.into());
    assert_eq!(
        parked[0].id,
        parked_id("app-events", sent.to_string().as_bytes()),
        "by which the program knows what it has parked"
    );
}

async fn a_closed_account_has_no_session<E: Engine>(engine: E) {
    ada(&engine).await;
    ask(&engine, "POST", "users/u-1/session", json!({"event_id": "s", "session_id": "s"})).await;
    let closed =
        ask(&engine, "POST", "users/u-1/close", json!({"event_id": "c"})).await.body["profile"].clone();
    assert_eq!(
        (closed["account_status"].as_str(), &closed["current_session"]),
        (Some("closed"), &Value::Null)
    );
    assert_eq!(row(&engine, "PROFILE").await.unwrap().get("ttl"), None);
}

async fn what_the_program_shows_of_a_user<E: Engine>(engine: E) {
    let none = show(&at(&engine, NOW), &"u-1".into()).await.unwrap();
    assert_eq!(none, (json!({"profile": null, "payments": [], "jobs": []}), Vec::new()));
    ada(&engine).await;
    ask(
        &engine,
        "POST",
        "users/u-1/payments",
        json!({"event_id": "p-1", "amount": "9.99", "payment_method": "apple_pay"}),
    )
    .await;
    let (json, lines) = show(&at(&engine, NOW), &"u-1".into()).await.unwrap();
    assert_eq!(json["payments"][0]["payment_id"], "p-1");
    assert_eq!(
        lines,
        ["active, free (active), 0 documents in this period", "payment p-1 9.99 completed by apple_pay"]
    );
}

async fn paths_that_there_are_not<E: Engine>(engine: E) {
    for (method, path, status, allow) in [
        ("GET", "nothing", 404, None),
        ("GET", "users/u-1/nothing", 404, None),
        ("POST", "users/u-1/nothing", 404, None),
        ("GET", "users", 405, Some("POST")),
        ("DELETE", "users/u-1", 405, Some("GET, POST")),
        ("GET", "users/u-1/session/end", 405, Some("POST")),
        ("GET", "users/find", 405, Some("POST")),
        ("PUT", "users/u-1/session", 405, Some("POST")),
        ("POST", "users/u-1/jobs", 405, Some("GET")),
        ("PUT", "users/u-1/jobs", 405, Some("GET")),
        ("PUT", "config/a", 405, Some("GET, POST")),
    ] {
        let answer = ask(&engine, method, path, Value::Null).await;
        assert_eq!((answer.status, answer.allow.as_deref()), (status, allow), "{method} {path}");
    }
}

/// A year of six digits once crashed the request: no time exists one day after the last one.
async fn times_out_of_range_are_refused<E: Engine>(engine: E) {
    ada(&engine).await;
    let far = "+262142-12-31T23:59:59Z";
    for (path, field, body) in [
        ("session", "issued_at", json!({"session_id": "s", "issued_at": far})),
        ("session", "expires_at", json!({"session_id": "s", "expires_at": far})),
        ("session", "expires_at", json!({"session_id": "s", "occurred_at": "9999-12-31T23:59:59Z"})),
        ("session", "biometric_expires_at", json!({"session_id": "s", "biometric_expires_at": far})),
        (
            "biometric",
            "challenge_expires_at",
            json!({"registration_id": "b", "biometric_type": "faceid", "challenge_expires_at": far}),
        ),
        ("biometric/failed", "locked_until", json!({"locked_until": far})),
        ("subscription", "subscription.start_date", subscription(json!({"start_date": far}))),
        ("subscription", "subscription.end_date", subscription(json!({"end_date": far}))),
        ("payments", "payment.initiated_at", json!({"amount": 1, "initiated_at": far})),
    ] {
        let mut body = body;
        body["event_id"] = "e".into();
        let refused = ask(&engine, "POST", &format!("users/u-1/{path}"), body).await;
        let said = format!("{field}: is not in the years 1 to 9999");
        assert_eq!(
            (refused.status, refused.body["error"]["message"].as_str()),
            (422, Some(said.as_str())),
            "{path}"
        );
    }
}

fn subscription(more: Value) -> Value {
    let mut all = json!({"subscription_id": "s-1", "subscription_type": "premium",
        "subscription_status": "active", "provider": "apple",
        "start_date": "2026-01-01T00:00:00Z", "end_date": "2026-02-01T00:00:00Z"});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

async fn days_of_grace_without_end_are_no_end<E: Engine>(engine: E) {
    ada(&engine).await;
    let mut body = subscription(json!({"grace_period_days": u32::MAX}));
    body["event_id"] = "e".into();
    assert_eq!(ask(&engine, "POST", "users/u-1/subscription", body).await.status, 200);
    let usage = ask(&engine, "GET", "users/u-1/usage", Value::Null).await;
    assert_eq!((usage.status, usage.body), (200, json!({"allowed": true})), "premium, long after its end");
}

async fn what_no_table_can_hold_is_refused<E: Engine>(engine: E) {
    let deep = (0..40).fold(json!(1), |inside, _| json!([inside]));
    let refused =
        ask(&engine, "POST", "config/app", json!({"event_id": "e", "version": "v1", "limits": deep})).await;
    assert_eq!(
        (refused.status, refused.body["error"]["message"].as_str()),
        (422, Some("limits: is deeper than 16 levels"))
    );
}

async fn an_id_is_text<E: Engine>(engine: E) {
    let body = json!({"id": 7, "email": "ada@example.com", "name": "Ada", "auth_provider": "google",
        "external_id": "g-1"});
    let refused = ask(&engine, "POST", "users", body).await;
    assert_eq!((refused.status, refused.body["error"]["message"].as_str()), (422, Some("id: is not text")));
}
