//! `dues usage`: actions are counted against plans, and reset when their day is over.

use dues_tests::fixtures::stripe::subscription;
use serde_json::json;

use crate::support::run::{Dues, assert_says};

const MONDAY: &str = "2026-01-05T12:00:00Z";

impl Dues {
    fn count(&self, user: &str, key: &str, as_of: &str) -> Vec<String> {
        ["usage", "count", user, "simulations", "--action", "simulation_run", "--key", key, "--as-of", as_of]
            .map(str::to_owned)
            .to_vec()
    }
}

fn args(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

#[test]
fn actions_are_counted_up_to_the_limit_of_the_plan() {
    let dues = Dues::new();
    let first = dues.json(&args(&dues.count("ada", "k-0", MONDAY)));
    assert_eq!(
        (&first["usage_before"], &first["usage_after"], &first["limit"], &first["plan_id"]),
        (&json!(0), &json!(1), &json!(3), &json!("free"))
    );
    assert_eq!(
        dues.ok(&args(&dues.count("ada", "k-0", MONDAY))),
        "ada: simulations 1 of 3 today, plan free\n",
        "once for each key"
    );
    for key in ["k-1", "k-2"] {
        dues.ok(&args(&dues.count("ada", key, MONDAY)));
    }
    let refused = dues.fails(&args(&dues.count("ada", "k-3", MONDAY)));
    assert_says(
        &refused,
        &["ada has reached the daily limit of simulations: 3 of 3 used, resets at 2026-01-06T00:00:00Z"],
    );

    // A plan removes the limit. It is past due, because the program shows the plan of today.
    let (_, event) = subscription("e-1", "created", MONDAY, "ada", "SAGE", "past_due", MONDAY);
    dues.ingest("stripe", &[event]);
    assert_eq!(dues.ok(&args(&dues.count("ada", "k-3", MONDAY))), "ada: simulations 4 today, plan pro\n");
    dues.ok(&args(&dues.count("ben", "k-0", MONDAY)));
    let shown = dues.json(&["show", "ada"]);
    assert_eq!(
        (&shown["usage"]["plan_id"], &shown["usage"]["subscriptions"][0]["status"]),
        (&json!("pro"), &json!("past_due"))
    );
    assert_says(
        &dues.ok(&["show", "ada"]),
        &[
            "usage     plan pro; today: ai_recommendations 0, simulations 0, strategies 0",
            "sub_ada pro past_due",
        ],
    );

    // The users who use it most.
    let who = dues.json(&["usage", "who", "simulations", "--at-least", "2", "--as-of", MONDAY]);
    assert_eq!(who["usage"].as_array().unwrap().len(), 1);
    assert_eq!((&who["usage"][0]["user_id"], &who["usage"][0]["usage_count"]), (&json!("ada"), &json!(4)));
    assert_says(&dues.ok(&["usage", "who", "simulations", "--as-of", MONDAY]), &["ada", "ben"]);
    assert_says(
        &dues.ok(&["usage", "who", "strategies", "--as-of", MONDAY]),
        &["no user of strategies today reaches that count"],
    );

    // The day is over.
    let reset = dues.json(&["usage", "reset", "--as-of", "2026-01-06"]);
    assert_eq!((&reset["rows"], &reset["through"]), (&json!(2), &json!("2026-01-06")));
    assert_eq!(
        dues.ok(&["usage", "reset", "--as-of", "2026-01-06"]),
        "0 usage rows deleted, through 2026-01-06\n"
    );
    assert_says(&dues.ok(&["usage", "who", "simulations", "--as-of", MONDAY]), &["no user of simulations"]);
    assert_eq!(
        dues.ok(&args(&dues.count("ben", "k-9", "2026-01-06T01:00:00Z"))),
        "ben: simulations 1 of 3 today, plan free\n"
    );
}

#[test]
fn plans_are_configured_and_what_is_wrong_is_named() {
    let dues = Dues::new();
    let few = [("DUES_PLANS", "free:laps=1")];
    let count = [
        "usage",
        "count",
        "ada",
        "laps",
        "--action",
        "lap",
        "--details",
        r#"{"track":"spa"}"#,
        "--as-of",
        MONDAY,
    ];
    assert_eq!(dues.json_with(&count, &few)["remaining"], json!(0));
    assert_says(
        &dues.fails(&count),
        &["unknown feature \"laps\": the plans have ai_recommendations, simulations, strategies"],
    );
    let mut wrong = dues.command(&count);
    let output = wrong.env("DUES_PLANS", "free").output().unwrap();
    assert_says(
        &String::from_utf8(output.stderr).unwrap(),
        &["DUES_PLANS", "\"free\" is not PLAN:FEATURE=LIMIT"],
    );
    assert_says(
        &dues.fails(&["usage", "count", "ada", "simulations", "--action", "x", "--details", "[]"]),
        &["is not a JSON object"],
    );
}
