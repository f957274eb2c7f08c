//! The paths below `/models/usage/`: every response that they give.

use dues_processors::api::Api;
use dues_processors::collections::Collector;
use dues_processors::collections::gateway::sandbox::{Odds, Sandbox};
use dues_processors::read_models::{ReadModel, ReadModels};
use dues_processors::usage::Settings;
use dues_store::Engine;
use dues_tests::engines::faulty::Faulty;
use dues_tests::engines::memory::Memory;
use dues_tests::fixtures::company::t;
use dues_tests::fixtures::usage::{asked, at, did};
use dues_tests::rest::{Request, Response, Serve as _};
use serde_json::{Value, json};

dues_tests::on_engines! {
    an_action_is_counted_until_the_limit_and_then_refused_with_429,
    a_user_a_feature_and_actions_are_listed,
}

const NOON: &str = "2026-01-05T12:00:00.25Z";

fn api<E: Engine>(engine: &E) -> Api<E, Sandbox<E>> {
    let store = at(engine, t(NOON));
    Api::new(Collector::new(store.clone(), Sandbox::new(store, Odds::NONE)))
}

async fn send<E: Engine>(engine: &E, method: &str, path: &str, body: &str) -> Response {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let path = format!("/models/usage/{path}");
    api(engine).handle(Request { method, path: &path, query, body: body.as_bytes() }).await
}

fn run(key: &str) -> String {
    json!({"action_type": "simulation_run", "action_details": {"track": "monaco"}, "idempotency_key": key})
        .to_string()
}

fn error(response: &Response) -> (u16, &str, &str) {
    let error = &response.body["error"];
    (
        response.status,
        error["code"].as_str().unwrap_or_default(),
        error["message"].as_str().unwrap_or_default(),
    )
}

async fn an_action_is_counted_until_the_limit_and_then_refused_with_429<E: Engine>(engine: E) {
    let first = send(&engine, "POST", "auth0%7Cada/simulations", &run("k-0")).await;
    let expected = json!({
        "user_id": "auth0|ada", "feature": "simulations", "action_id": "k-0", "action_type": "simulation_run",
        "plan_id": "free",
        "occurred_at": NOON, "usage_before": 0, "usage_after": 1, "limit": 3, "remaining": 2,
        "reset_at": "2026-01-06T00:00:00Z",
    });
    assert_eq!((first.status, &first.body), (200, &expected));
    for key in ["k-1", "k-2"] {
        assert_eq!(send(&engine, "POST", "auth0%7Cada/simulations", &run(key)).await.status, 200);
    }
    let refused = send(&engine, "POST", "auth0%7Cada/simulations", &run("k-3")).await;
    let message = "simulations was used 3 times today, the most is 3: again after 2026-01-06T00:00:00Z";
    assert_eq!(error(&refused), (429, "usage_limit_exceeded", message));
    assert_eq!(
        (&refused.body["limit"], &refused.body["used"], &refused.body["reset_at"]),
        (&json!(3), &json!(3), &json!("2026-01-06T00:00:00Z"))
    );
    assert_eq!(refused.retry_after, Some(43_200), "twelve hours, less a part of a second");

    let again = send(&engine, "POST", "auth0%7Cada/simulations", &run("k-0")).await;
    assert_eq!((again.status, again.body), (200, expected), "the same answer as the first time");
    let other = run("k-0").replace("monaco", "spa");
    let different = send(&engine, "POST", "auth0%7Cada/simulations", &other).await;
    assert_eq!(error(&different), (409, "key_was_used", "idempotency_key: it was used for another action"));
    // Without a key each request is a separate action.
    for n in 1..=2 {
        let counted = send(&engine, "POST", "ben/ai_recommendations", r#"{"action_type":"asked"}"#).await;
        assert_eq!((counted.status, &counted.body["usage_after"]), (200, &json!(n)));
    }
}

async fn a_user_a_feature_and_actions_are_listed<E: Engine>(engine: E) {
    let settings = Settings::default();
    for (n, (time, user)) in
        [("2026-01-05T10:00:00Z", "ada"), ("2026-01-05T11:00:00Z", "ben"), ("2026-01-05T11:30:00Z", "ada")]
            .into_iter()
            .enumerate()
    {
        let _ = did(
            &at(&engine, t(time)),
            &settings,
            &asked(user, "simulations", "simulation_run", &format!("k-{n}")),
        )
        .await;
    }
    let ada = send(&engine, "GET", "ada", "").await;
    assert_eq!(
        (ada.status, ada.body),
        (
            200,
            json!({"user_id": "ada", "plan_id": "free", "subscriptions": [],
                "reset_at": "2026-01-06T00:00:00Z", "usage": {
                "simulations": {"used": 2, "limit": 3}, "ai_recommendations": {"used": 0, "limit": 2},
                "strategies": {"used": 0, "limit": 1},
            }})
        )
    );
    let times = |response: &Response| -> Vec<Value> {
        assert_eq!(response.status, 200, "{response:?}");
        response.body["actions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|action| action["timestamp"].clone())
            .collect()
    };
    let history = send(&engine, "GET", "ada/actions", "").await;
    assert_eq!(times(&history), ["2026-01-05T11:30:00.000000000Z", "2026-01-05T10:00:00.000000000Z"]);
    assert_eq!(history.body["more"], json!(false));
    let action = &history.body["actions"][0];
    assert_eq!(
        (&action["usage_before"], &action["usage_after"], &action["plan_id"]),
        (&json!(1), &json!(2), &json!("free"))
    );
    let one = send(&engine, "GET", "ada/actions?limit=1", "").await;
    assert_eq!((times(&one).len(), &one.body["more"]), (1, &json!(true)));
    let until =
        send(&engine, "GET", "ada/actions?from=2026-01-05T09%3A00%3A00Z&to=2026-01-05T11:00:00Z", "").await;
    assert_eq!(times(&until), ["2026-01-05T10:00:00.000000000Z"]);
    assert_eq!(times(&send(&engine, "GET", "actions?from=2026-01-05T11:00:00Z", "").await).len(), 2);
    assert_eq!(
        times(&send(&engine, "GET", "actions?type=simulation_run&to=2026-01-05T11:00:00Z", "").await).len(),
        2
    );
    assert_eq!(times(&send(&engine, "GET", "actions?type=pit_stop", "").await).len(), 0);

    let users = |response: &Response| -> Vec<Value> {
        let mut users: Vec<Value> =
            response.body["usage"].as_array().unwrap().iter().map(|row| row["user_id"].clone()).collect();
        users.sort_by_key(ToString::to_string);
        users
    };
    let today = send(&engine, "GET", "features/simulations", "").await;
    assert_eq!(
        (&today.body["date"], &today.body["reset_date"]),
        (&json!("2026-01-05"), &json!("2026-01-06"))
    );
    assert_eq!((users(&today), &today.body["more"]), (vec![json!("ada"), json!("ben")], &json!(false)));
    assert_eq!(send(&engine, "GET", "features/simulations?limit=1", "").await.body["more"], json!(true));
    assert_eq!(users(&send(&engine, "GET", "features/simulations?at_least=2", "").await), ["ada"]);
    assert!(users(&send(&engine, "GET", "features/simulations?date=2026-01-04", "").await).is_empty());
}

#[tokio::test]
async fn what_is_wrong_is_named() {
    let engine = Memory::default();
    for (method, path, body, status, code, said) in [
        (
            "POST",
            "ada/racing",
            "{}",
            404,
            "no_such_feature",
            "\"racing\" is not one of ai_recommendations, simulations, strategies",
        ),
        (
            "GET",
            "features/racing",
            "",
            404,
            "no_such_feature",
            "\"racing\" is not one of ai_recommendations, simulations, strategies",
        ),
        (
            "POST",
            "ada/simulations",
            "",
            422,
            "invalid_field",
            "body: is not JSON: EOF while parsing a value at line 1 column 0",
        ),
        ("POST", "ada/simulations", "{}", 422, "invalid_field", "action_type: is missing"),
        (
            "POST",
            "ada/simulations",
            r#"{"action_type":"x","idempotency_key":""}"#,
            422,
            "invalid_field",
            "idempotency_key: is empty",
        ),
        (
            "POST",
            "ada/simulations",
            r#"{"action_type":"x","action_details":[]}"#,
            422,
            "invalid_field",
            "action_details: is not a JSON object",
        ),
        (
            "GET",
            "ada/actions?limit=0",
            "",
            422,
            "invalid_field",
            "limit: \"0\" is not a whole number from 1 to 1000",
        ),
        (
            "GET",
            "actions?from=noon",
            "",
            422,
            "invalid_field",
            "from: \"noon\" is not an RFC 3339 time: premature end of input",
        ),
        (
            "GET",
            "features/simulations?date=today",
            "",
            422,
            "invalid_field",
            "date: \"today\" is not a day such as 2024-01-15",
        ),
        (
            "GET",
            "features/simulations?at_least=-1",
            "",
            422,
            "invalid_field",
            "at_least: \"-1\" is not a whole number",
        ),
        (
            "GET",
            "features/simulations?date=%2B262142-12-31",
            "",
            422,
            "invalid_field",
            "date: \"+262142-12-31\" is not a day such as 2024-01-15",
        ),
        ("GET", "actions?type=", "", 422, "invalid_field", "type: \"\" is not a text of 1 to 256 bytes"),
        ("POST", "features/simulations", "{}", 405, "method_not_allowed", "the only method here is GET"),
        ("GET", "ada/simulations", "", 405, "method_not_allowed", "the only method here is POST"),
        ("POST", "ada", "", 405, "method_not_allowed", "the only method here is GET"),
        ("POST", "ada/actions", "{}", 405, "method_not_allowed", "the only method here is GET"),
        ("DELETE", "actions", "", 405, "method_not_allowed", "the only method here is GET"),
        (
            "GET",
            "ada/simulations/more",
            "",
            404,
            "no_such_path",
            "there is no /models/usage/ada/simulations/more",
        ),
    ] {
        assert_eq!(error(&send(&engine, method, path, body).await), (status, code, said), "{method} {path}");
    }
}

#[tokio::test]
async fn other_plans_and_other_deployments() {
    let engine = Memory::default();
    let few = ReadModels::default().with_usage(super::settings("free:laps=1"));
    let ask = async |models: &ReadModels| {
        let request = Request {
            method: "POST",
            path: "/models/usage/ada/laps",
            query: "",
            body: br#"{"action_type":"lap"}"#,
        };
        Api { read_models: models.clone(), ..api(&engine) }.handle(request).await.status
    };
    assert_eq!([ask(&few).await, ask(&few).await], [200, 429]);
    let none: ReadModels = [ReadModel::Serenya].into_iter().collect();
    assert_eq!(ask(&none).await, 404, "this deployment does not have it");
    let down = Faulty::after(Memory::default(), 0);
    assert_eq!(error(&send(&down, "POST", "ada/simulations", &run("k")).await).0, 503);
}
