//! The paths below `/models/figureforge/`.

use super::*;
use dues_processors::api::Api;
use dues_processors::collections::Collector;
use dues_processors::collections::gateway::sandbox::{Odds, Sandbox};
use dues_processors::figureforge::Settings;
use dues_processors::read_models::ReadModels;
use dues_projections::figureforge::presign::Signer;
use dues_tests::clock::TestClock;
use dues_tests::rest::{Request, Response, Serve as _};

dues_tests::on_engines! {
    every_entity_is_made_read_deleted_and_restored,
    lists_are_paged_with_a_cursor,
    a_job_goes_through_its_states,
    a_report_is_filed_and_judged,
    a_command_that_is_repeated_changes_nothing,
    what_is_wrong_is_named,
    signed_url_ttl_default_ten_minutes,
    an_image_from_before_1970_has_a_url,
    what_no_table_can_hold_is_refused,
}

struct Client<E: Engine> {
    forge: Forge<E>,
    api: Api<Logged<E>, Sandbox<Logged<E>>>,
}

impl<E: Engine> Client<E> {
    fn new(engine: E) -> Self {
        let forge = Forge::new(engine);
        let sandbox = Sandbox::new(forge.store.clone(), Odds::NONE);
        Self { api: Api::new(Collector::new(forge.store.clone(), sandbox)), forge }
    }

    async fn send(&self, method: &str, path: &str, query: &str, body: Value) -> Response {
        let (path, body) = (
            format!("/models/figureforge/{path}"),
            if body.is_null() { String::new() } else { body.to_string() },
        );
        self.api.handle(Request { method, path: &path, query, body: body.as_bytes() }).await
    }

    async fn get(&self, path: &str, query: &str) -> Value {
        let response = self.send("GET", path, query, Value::Null).await;
        assert_eq!(response.status, 200, "{path}: {response:?}");
        response.body
    }

    /// Sends a command that must succeed.
    async fn done(&self, method: &str, path: &str, body: Value) -> Value {
        let response = self.send(method, path, "", body).await;
        assert_eq!(response.status, 200, "{path}: {response:?}");
        response.body
    }
}

fn code(response: &Response) -> (u16, &str) {
    (response.status, response.body["error"]["code"].as_str().unwrap_or("none"))
}

async fn every_entity_is_made_read_deleted_and_restored<E: Engine>(engine: E) {
    let mut client = Client::new(engine);
    for (path, body, name) in [
        ("users/u-1", json!({"email": "a@b"}), "user_id"),
        ("jobs/j-1", json!({"user_id": "u-1"}), "job_id"),
        (
            "images/i-1",
            json!({"user_id": "u-1", "url": "x", "public": true, "tags": ["pose:standing"]}),
            "image_id",
        ),
        ("images/i-1/reports/r-1", json!({"reason": "spam"}), "report_id"),
        ("flags/video", json!({"enabled": true}), "flag_name"),
        ("plans/SAGE", json!({"name": "Sage", "active": true}), "plan_id"),
    ] {
        assert_eq!(
            code(&client.send("DELETE", path, "", json!({"event_id": "e-0"})).await),
            (404, "not_found"),
            "{path}"
        );
        let mut put = body.clone();
        put["event_id"] = format!("put {path}").into();
        put["occurred_at"] = "2026-02-01T00:00:00Z".into();
        let made = client.done("PUT", path, put).await;
        assert_eq!(
            (&made[name], &made["deleted_at"]),
            (&json!(path.rsplit('/').next().unwrap()), &Value::Null),
            "{path}"
        );
        assert_eq!(client.get(path, "").await, made, "{path}");
        let gone = client
            .done("DELETE", path, json!({"event_id": "e-1", "occurred_at": "2026-02-01T00:00:01Z"}))
            .await;
        assert_eq!(gone["deleted_at"], json!(MIDNIGHT + 1), "{path}");
        assert_eq!(client.get(path, "").await, gone, "what is asked for by its key says that it is deleted");
        let back = client
            .done(
                "POST",
                &format!("{path}/restore"),
                json!({"event_id": "e-2", "occurred_at": "2026-02-01T00:00:02Z"}),
            )
            .await;
        assert_eq!(back, made, "{path}");
    }
    client.forge.follow().await;
    assert_eq!(client.get("users", "email=A%40b").await["items"][0]["user_id"], "u-1");
    assert_eq!(client.get("users/u-1/images", "").await["items"][0]["image_id"], "i-1");
    assert_eq!(client.get("users/u-1/jobs", "").await["items"][0]["job_id"], "j-1");
    assert_eq!(client.get("plans", "active=true").await["items"][0]["plan_id"], "SAGE");
    assert_eq!(client.get("flags", "").await["items"][0]["flag_name"], "video");
    assert_eq!(client.get("images/i-1", "").await["flag_status"], "human_pending");
    let tagged = client.get("tags/pose%3Astanding", "").await;
    assert_eq!(
        tagged,
        json!({"items": [{"tag": "pose:standing", "image_id": "i-1", "created_at": MIDNIGHT}], "next": null})
    );
    client.done("PUT", "images/i-1/tags", json!({"event_id": "e-3", "tags": ["x"]})).await;
    client.done("PUT", "images/i-1/favorites", json!({"event_id": "e-4", "favorited_count": 2})).await;
    let flagged =
        client.done("PUT", "images/i-1/flag", json!({"event_id": "e-5", "flag_status": "clean"})).await;
    assert_eq!(
        (&flagged["tags"], &flagged["favorited_count"], &flagged["flag_status"]),
        (&json!(["x"]), &json!(2), &json!("clean"))
    );
    client.forge.follow().await;
    assert_eq!(
        (
            client.get("tags/pose:standing", "").await["items"].clone(),
            client.get("tags/x", "").await["items"].as_array().unwrap().len()
        ),
        (json!([]), 1)
    );
    let start = "2026-01-01T00:00:00Z";
    client
        .forge
        .deliver(&[dues_tests::fixtures::stripe::subscription(
            "evt_1", "created", start, "u-1", "SAGE", "active", start,
        )])
        .await;
    assert_eq!(client.get("subscriptions/sub_u-1", "").await["user_id"], "u-1");
    assert_eq!(client.get("users/u-1/subscriptions", "").await["items"][0]["plan"], "PLAN#SAGE");
    let purge = json!({"event_id": "e-6"});
    for _ in 0..2 {
        assert_eq!(client.done("POST", "images/i-1/purge", purge.clone()).await, json!({"image_id": "i-1"}));
    }
    assert_eq!(code(&client.send("GET", "images/i-1", "", Value::Null).await), (404, "not_found"));
    assert_eq!(
        code(&client.send("PUT", "images/i-1", "", json!({"event_id": "e-7", "url": "x"})).await),
        (409, "purged")
    );
}

async fn lists_are_paged_with_a_cursor<E: Engine>(engine: E) {
    let mut client = Client::new(engine);
    let images: Vec<Sent> =
        (0..7).map(|n| image(&format!("e-{n}"), n, &format!("i-{n}"), Some("u-1"), &["t"])).collect();
    client.forge.deliver(&images).await;
    for (path, newest_first) in [("users/u-1/images", true), ("tags/t", false)] {
        let (mut listed, mut query) = (Vec::new(), "limit=3".to_owned());
        loop {
            let page = client.get(path, &query).await;
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 3);
            listed.extend(items.iter().map(|item| item["image_id"].as_str().unwrap().to_owned()));
            match page["next"].as_str() {
                Some(next) => query = format!("limit=3&after={next}"),
                None => break,
            }
        }
        let mut expected: Vec<String> = (0..7).map(|n| format!("i-{n}")).collect();
        if newest_first {
            expected.reverse();
        }
        assert_eq!(listed, expected, "{path}");
    }
}

async fn a_job_goes_through_its_states<E: Engine>(engine: E) {
    let client = Client::new(engine);
    let at = |second: u32| format!("2026-02-01T00:00:0{second}Z");
    client.done("PUT", "jobs/j-1", json!({"event_id": "e-1", "user_id": "u-1", "occurred_at": at(1)})).await;
    assert_eq!(client.get("jobs", "status=queued").await["items"][0]["job_id"], "j-1");
    let running =
        client.done("POST", "jobs/j-1/start", json!({"event_id": "e-2", "occurred_at": at(2)})).await;
    assert_eq!(running["status"], "running");
    let over = client
        .done(
            "POST",
            "jobs/j-1/succeed",
            json!({"event_id": "e-3", "image_id": "i-1", "cost_cents": 7, "occurred_at": at(3)}),
        )
        .await;
    assert_eq!(
        (&over["status"], &over["image_id"], &over["cost_cents"]),
        (&json!("succeeded"), &json!("i-1"), &json!(7))
    );
    for verb in ["fail", "cancel"] {
        let late = client
            .done("POST", &format!("jobs/j-1/{verb}"), json!({"event_id": verb, "occurred_at": at(4)}))
            .await;
        assert_eq!(late["status"], "succeeded", "an end is final");
    }
    assert_eq!(client.get("jobs", "status=queued").await["items"], json!([]));
}

async fn a_report_is_filed_and_judged<E: Engine>(engine: E) {
    let mut client = Client::new(engine);
    client.done("PUT", "images/i-1", json!({"event_id": "e-1", "url": "x", "public": true})).await;
    for (n, (method, verb, status, flag)) in [
        ("PUT", "", "filed", "human_pending"),
        ("POST", "/review", "reviewed", "human_pending"),
        ("POST", "/dismiss", "dismissed", "clean"),
        ("POST", "/uphold", "upheld", "removed"),
    ]
    .into_iter()
    .enumerate()
    {
        let body = json!({"event_id": format!("r-{n}"), "reason": "spam",
            "occurred_at": format!("2026-03-01T00:00:0{n}Z")});
        let report = client.done(method, &format!("images/i-1/reports/r-1{verb}"), body).await;
        assert_eq!(report["status"], status);
        assert_eq!(client.get("reports", &format!("status={status}")).await["items"][0], report);
        client.forge.follow().await;
        assert_eq!(client.get("images/i-1", "").await["flag_status"], flag, "{status}");
    }
    assert_eq!(client.get("images/i-1/reports", "").await["items"].as_array().unwrap().len(), 1);
}

async fn a_command_that_is_repeated_changes_nothing<E: Engine>(engine: E) {
    let client = Client::new(engine);
    let put = json!({"event_id": "e-1", "email": "a@b"});
    let made = client.done("PUT", "users/u-1", put.clone()).await;
    let again = later(&client)
        .handle(Request {
            method: "PUT",
            path: "/models/figureforge/users/u-1",
            query: "",
            body: put.to_string().as_bytes(),
        })
        .await;
    assert_eq!((again.status, &again.body), (200, &made), "though the clock has moved on");
    let other = client.send("PUT", "users/u-1", "", json!({"event_id": "e-1", "email": "c@d"})).await;
    assert_eq!(code(&other), (409, "event_id_was_used"));
    let dated = client
        .send(
            "PUT",
            "users/u-1",
            "",
            json!({"event_id": "e-1", "email": "a@b", "occurred_at": "2026-02-02T00:00:00Z"}),
        )
        .await;
    assert_eq!(code(&dated), (409, "event_id_was_used"), "another time is something else");
    assert_eq!(client.get("users/u-1", "").await, made);
}

/// The same API, an hour later.
fn later<E: Engine>(client: &Client<E>) -> Api<Logged<E>, Sandbox<Logged<E>>> {
    let clock = TestClock::frozen(dues_tests::fixtures::company::t("2026-03-01T01:00:00Z")).shared();
    let store = Store::new(client.forge.engine.clone(), clock);
    Api::new(Collector::new(store.clone(), Sandbox::new(store, Odds::NONE)))
}

async fn what_is_wrong_is_named<E: Engine>(engine: E) {
    let client = Client::new(engine);
    for (method, path, query, body, wrong) in [
        (
            "PUT",
            "users/u-1",
            "",
            json!({"email": "a@b"}),
            "event_id: is missing, or not a text of 1 to 256 bytes",
        ),
        ("PUT", "users/u-1", "", json!({"event_id": "e", "email": "ada"}), "email: is no email address"),
        (
            "PUT",
            "users/u-1",
            "",
            json!({"event_id": "e", "email": "a@b", "occurred_at": "noon"}),
            "occurred_at: is not an RFC 3339 time",
        ),
        ("PUT", "images/i-1", "", json!({"event_id": "e"}), "url: is missing"),
        ("PUT", "images/i-1", "", json!([1]), "body: is not a JSON object"),
        ("PUT", "images/a%2Fb", "", json!({"event_id": "e", "url": "x"}), "image_id: has a slash"),
        ("GET", "jobs", "", Value::Null, "status: is missing"),
        (
            "GET",
            "jobs",
            "status=done",
            Value::Null,
            "status: \"done\" is not one of queued, running, succeeded, failed, cancelled",
        ),
        ("GET", "plans", "active=yes", Value::Null, "active: \"yes\" is not one of true, false"),
        ("GET", "flags", "limit=0", Value::Null, "limit: \"0\" is not a whole number from 1 to 1000"),
        ("GET", "flags", "after=x", Value::Null, "after: is not from a page before"),
    ] {
        let response = client.send(method, path, query, body).await;
        assert_eq!(
            (code(&response), response.body["error"]["message"].as_str().unwrap()),
            ((422, "invalid_field"), wrong),
            "{method} {path}?{query}"
        );
    }
    let refused = client.send("POST", "users/u-1", "", Value::Null).await;
    assert_eq!(
        (code(&refused), refused.allow.as_deref()),
        ((405, "method_not_allowed"), Some("GET, PUT, DELETE"))
    );
    assert_eq!(code(&client.send("GET", "albums", "", Value::Null).await), (404, "no_such_path"));
    for path in [
        "users/u",
        "jobs/j",
        "images/i",
        "images/i/reports/r",
        "flags/f",
        "plans/p",
        "subscriptions/s",
        "images/i/url",
    ] {
        assert_eq!(code(&client.send("GET", path, "", Value::Null).await), (404, "not_found"), "{path}");
    }
}

fn signer() -> Signer {
    Signer {
        host: "figureforge-prod.s3.us-east-1.amazonaws.com".into(),
        region: "us-east-1".into(),
        access_key_id: "AKIAIOSFODNN7EXAMPLE".into(),
        secret_access_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
        session_token: None,
    }
}

async fn signed_url_ttl_default_ten_minutes<E: Engine>(engine: E) {
    let mut client = Client::new(engine);
    client
        .forge
        .deliver(&[image("e-1", 1, "i-1", Some("u-1"), &[]), image("e-2", 1, "i-2", None, &[])])
        .await;
    assert_eq!(code(&client.send("GET", "images/i-1/url", "", Value::Null).await), (404, "no_signer"));
    let signing = |ttl: Option<u32>| {
        let settings = Settings::default();
        let settings = Settings {
            signer: Some(signer()),
            signed_url_ttl: ttl.unwrap_or(settings.signed_url_ttl),
            ..settings
        };
        ReadModels::default().with_figureforge(settings)
    };
    client.api.read_models = signing(None);
    let signed = client.get("images/i-1/url", "").await;
    assert_eq!(
        (&signed["key"], &signed["expires_in"]),
        (&json!("users/u-1/2026/02/01/i-1.jpg"), &json!(600))
    );
    let url = signed["url"].as_str().unwrap();
    assert!(
        url.starts_with("https://figureforge-prod.s3.us-east-1.amazonaws.com/users/u-1/2026/02/01/i-1.jpg?"),
        "{url}"
    );
    assert!(
        url.contains("X-Amz-Date=20260301T000000Z&X-Amz-Expires=600&") && !url.contains("wJalr"),
        "{url}"
    );
    assert_eq!(client.get("images/i-2/url", "").await["key"], "public/teaser/i-2.jpg");
    client.api.read_models = signing(Some(60));
    assert!(client.get("images/i-1/url", "").await["url"].as_str().unwrap().contains("X-Amz-Expires=60&"));
    client.forge.deliver(&[event("e-3", 2, "image.deleted", json!({"image_id": "i-1"}))]).await;
    assert_eq!(code(&client.send("GET", "images/i-1/url", "", Value::Null).await), (404, "not_found"));
}

async fn an_image_from_before_1970_has_a_url<E: Engine>(engine: E) {
    let mut client = Client::new(engine);
    client.api.read_models =
        ReadModels::default().with_figureforge(Settings { signer: Some(signer()), ..Settings::default() });
    client
        .done(
            "PUT",
            "images/i-1",
            json!({"event_id": "e", "url": "x", "user_id": "u-1", "occurred_at": "1960-01-02T00:00:00Z"}),
        )
        .await;
    assert_eq!(client.get("images/i-1/url", "").await["key"], "users/u-1/1960/01/02/i-1.jpg");
}

/// DynamoDB's limits are 32 levels, numbers of 125 digits, and a key length. The API refuses values beyond
/// them; it never answers with 500.
async fn what_no_table_can_hold_is_refused<E: Engine>(engine: E) {
    let client = Client::new(engine);
    let deep = (0..40).fold(json!(1), |inside, _| json!([inside]));
    for (path, field, body) in [
        ("flags/f", "value", json!({"enabled": true, "value": deep})),
        ("flags/f", "value", json!({"enabled": true, "value": [1e300]})),
        ("jobs/j", "prompt_json", json!({"user_id": "u-1", "prompt_json": {"a": 1e-300}})),
        ("images/i", "prompt_json", json!({"url": "x", "prompt_json": deep})),
    ] {
        let mut body = body;
        body["event_id"] = "e".into();
        let refused = client.send("PUT", path, "", body).await;
        assert_eq!(code(&refused), (422, "invalid_field"), "{path}: {refused:?}");
        assert!(
            refused.body["error"]["message"].as_str().unwrap().starts_with(&format!("{field}: ")),
            "{refused:?}"
        );
    }
    let email = format!("email={}%40b", "x".repeat(3000));
    assert_eq!(code(&client.send("GET", "users", &email, Value::Null).await), (422, "invalid_field"));
}
