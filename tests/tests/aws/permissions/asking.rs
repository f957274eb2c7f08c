//! Every path of the read models.

use dues_lambda::Handle;
use dues_processors::usage::Settings;
use dues_store::usage::count::CountOutcome;
use dues_tests::aws::function_recorder::Site;
use dues_tests::fixtures::company::t;
use dues_tests::fixtures::usage::{asked, at, did};
use serde_json::{Value, json};

use super::collecting::request;

/// Sends a request below a model's path; the status must be 200, 201, 404 or 429.
async fn ask(handle: &Handle, method: &str, path: &str, mut body: Value) {
    if method != "GET" {
        body["event_id"] = format!("{method} {path}").into();
    }
    let answer = handle(request(method, &format!("/models/{path}"), &body)).await.unwrap();
    let status = answer["statusCode"].as_u64().unwrap();
    assert!([200, 201, 404, 429].contains(&status), "{method} {path}: {answer}");
}

/// Plans, counts and the log.
pub(super) async fn usage(site: &Site, handle: &Handle) {
    let action = asked("u-1", "simulations", "simulation_run", "k-0");
    let counted = did(&at(&site.engine, t(super::MONDAY)), &Settings::default(), &action).await;
    assert!(matches!(counted, CountOutcome::Done(_)), "{counted:?}");
    for key in ["k-1", "k-1", "k-2", "k-3"] {
        ask(
            handle,
            "POST",
            "usage/u-1/simulations",
            json!({"action_type": "simulation_run", "idempotency_key": key}),
        )
        .await;
    }
    for path in ["u-1", "u-1/actions", "actions", "actions?type=simulation_run", "features/simulations"] {
        ask(handle, "GET", &format!("usage/{path}"), json!({})).await;
    }
}

/// Users, jobs, images, reports, plans and flags: created, deleted, restored, listed, purged.
pub(super) async fn figureforge(handle: &Handle) {
    for (path, body) in [
        ("users/u-1", json!({"email": "a@b"})),
        ("jobs/j-1", json!({"user_id": "u-1"})),
        ("images/i-1", json!({"user_id": "u-1", "url": "x", "public": true, "tags": ["pose:standing"]})),
        ("images/i-1/reports/r-1", json!({"reason": "spam"})),
        ("flags/video", json!({"enabled": true})),
        ("plans/SAGE", json!({"name": "Sage", "active": true})),
    ] {
        ask(handle, "PUT", &format!("figureforge/{path}"), body).await;
        ask(handle, "GET", &format!("figureforge/{path}"), json!({})).await;
        ask(handle, "DELETE", &format!("figureforge/{path}"), json!({})).await;
        ask(handle, "POST", &format!("figureforge/{path}/restore"), json!({})).await;
    }
    for path in [
        "users?email=a%40b",
        "users/u-1/images",
        "users/u-1/jobs",
        "users/u-1/subscriptions",
        "subscriptions/sub_1",
        "jobs?status=queued",
        "images/i-1/reports",
        "reports?status=filed",
        "tags/pose:standing",
        "flags",
        "plans?active=true",
    ] {
        ask(handle, "GET", &format!("figureforge/{path}"), json!({})).await;
    }
    for (method, path, body) in [
        ("POST", "jobs/j-1/start", json!({})),
        ("POST", "jobs/j-1/succeed", json!({"image_id": "i-1"})),
        ("PUT", "images/i-1/tags", json!({"tags": ["x"]})),
        ("PUT", "images/i-1/favorites", json!({"favorited_count": 2})),
        ("PUT", "images/i-1/flag", json!({"flag_status": "clean"})),
        ("POST", "images/i-1/reports/r-1/review", json!({})),
        ("POST", "images/i-1/purge", json!({})),
    ] {
        ask(handle, method, &format!("figureforge/{path}"), body).await;
    }
}

/// A user with every embedded entity, payments, jobs and the configuration.
pub(super) async fn serenya(handle: &Handle) {
    let ada = json!({"id": "u-1", "email": "ada@example.com", "name": "Ada", "auth_provider": "google",
        "external_id": "x-1"});
    ask(handle, "POST", "serenya/users", ada).await;
    for (path, body) in [
        ("users/u-1", json!({"email": "ada.l@example.com"})),
        ("users/u-1/session", json!({"session_id": "s-1"})),
        ("users/u-1/device", json!({"device_id": "d-1"})),
        ("users/u-1/payments", json!({"payment_id": "p-1", "amount": "9.99", "payment_method": "apple_pay"})),
        ("users/u-1/payments/p-1/refunds", json!({"refund_id": "r-1", "refund_amount": "1.00"})),
        ("users/u-1/usage", json!({})),
        ("users/u-1/jobs/a.pdf/failed", json!({"error_message": "cannot be read"})),
        ("users/find", json!({"email": "ada.l@example.com"})),
        ("users/find", json!({"auth_provider": "google", "external_id": "x-1"})),
        ("users/find", json!({"email": "unknown@example.com"})),
        ("config/app_settings", json!({"version": "v1"})),
    ] {
        ask(handle, "POST", &format!("serenya/{path}"), body).await;
    }
    for path in [
        "subscription-tiers",
        "users/u-1",
        "users/u-1/subscription",
        "users/u-1/payments",
        "users/u-1/usage",
        "users/u-1/jobs",
        "users/u-1/jobs/a.pdf",
        "config/app_settings",
    ] {
        ask(handle, "GET", &format!("serenya/{path}"), json!({})).await;
    }
}
