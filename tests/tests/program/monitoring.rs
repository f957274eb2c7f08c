//! `dues serve` in operation: readiness and metrics, access by token, one instance per folder, and missed
//! jobs.

use dues_store::embedded::Embedded;
use serde_json::json;

use crate::ingest_http::processed;
use crate::support::records::{activate, change, plus};
use crate::support::run::{Dues, assert_has, assert_says};
use crate::support::server::{Serving, now, until};

const TOKEN: &str = "a-token-of-some-length";

/// Runs a future to completion.
fn wait_for<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

#[test]
fn readiness_and_metrics_report_the_state() {
    let dues = Dues::new();
    let serving = Serving::start(&dues);
    let lines = format!("nonsense\n{}\n", activate("m-1", "u-1"));
    assert_eq!(serving.ask("POST", "/streams/memberships", &[], lines.as_bytes()).status, 202);
    processed(&dues, "memberships");
    assert_eq!(serving.ask("GET", "/u-1/subscriptions", &[], b"").json()["status"], "SCHEDULED");
    let metric = |line: &str| {
        let answer = serving.ask("GET", "/metrics", &[], b"");
        assert_says(&answer.head, &["content-type: text/plain; version=0.0.4"]);
        answer.body.lines().any(|found| found == line)
    };
    for line in [
        r#"dues_records_total{stream="memberships",fate="applied"} 1"#,
        r#"dues_records_total{stream="memberships",fate="parked"} 1"#,
        r#"dues_stream_lag_records{stream="memberships"} 0"#,
        r#"dues_stream_lag_seconds{stream="memberships"} 0"#,
        r#"dues_stream_lag_records{stream="changes"} 0"#,
        r#"dues_parked_records{stream="memberships"} 1"#,
        r#"dues_http_requests_total{route="/streams/{name}",method="POST",status="202"} 1"#,
        r#"dues_http_requests_total{route="/{user_id}/subscriptions",method="GET",status="200"} 1"#,
        r#"dues_http_request_duration_seconds_bucket{route="/streams/{name}",method="POST",status="202",le="+Inf"} 1"#,
        r#"dues_writer_queue_depth 0"#,
        r#"dues_troubles 0"#,
    ] {
        until(line, || metric(line));
    }
    let page = serving.ask("GET", "/metrics", &[], b"").body;
    let held: u64 = page
        .lines()
        .find_map(|line| line.strip_prefix("process_resident_memory_bytes "))
        .unwrap()
        .parse()
        .unwrap();
    assert!(held > 1 << 20, "{held}");
    let ready = serving.ask("GET", "/ready", &[], b"");
    assert_eq!(
        (ready.status, ready.json()["writable"].clone(), ready.json()["last_error"].clone()),
        (200, json!(true), json!(null))
    );
    assert_eq!(ready.json()["streams"]["memberships"], json!({"lag_records": 0, "lag_seconds": 0}));
    for path in ["/ready", "/metrics"] {
        assert_eq!(serving.ask("POST", path, &[], b"").status, 405);
    }
}

#[test]
fn a_second_one_on_the_same_data_refuses_and_other_commands_work_beside_it() {
    let dues = Dues::new();
    let serving = Serving::start(&dues);
    let output = dues.run(&["serve", "--port", "0"]);
    assert_eq!(output.status.code(), Some(1));
    assert_says(
        &String::from_utf8(output.stderr).unwrap(),
        &["another dues serve (process ", "has the data in", "--data"],
    );
    dues.members(&[activate("m-1", "u-1")]);
    assert_eq!(serving.ask("GET", "/u-1/subscriptions", &[], b"").json()["status"], "SCHEDULED");
    // However it ends, the next instance may open the data.
    serving.kill();
    let next = Serving::start(&dues);
    assert_eq!(next.ask("GET", "/health", &[], b"").status, 200);
}

#[test]
fn it_serves_other_machines_only_with_a_token() {
    let dues = Dues::new();
    assert_says(
        &dues.fails(&["serve", "--port", "0", "--host", "0.0.0.0"]),
        &["0.0.0.0", "--token-file", "127.0.0.1"],
    );
    let file = dues.file("token", format!("{TOKEN}\n").as_bytes());
    let serving = Serving::with(
        &dues,
        &["--host", "0.0.0.0", "--token-file", &file],
        &[("DUES_STRIPE_SECRETS", "whsec_x")],
    );
    assert!(serving.address.ip().is_unspecified());
    let bearer = format!("Bearer {TOKEN}");
    let body = activate("m-1", "u-1").to_string();
    for (method, path, body) in [
        ("GET", "/metrics", ""),
        ("GET", "/ready", ""),
        ("GET", "/u-1/subscriptions", ""),
        ("POST", "/streams/memberships", body.as_str()),
    ] {
        let ask = |headers: &[(&str, &str)]| serving.ask(method, path, headers, body.as_bytes());
        let refused = ask(&[("Host", "dues.example")]);
        assert_eq!(refused.refusal(), (401, "no_token".to_owned()), "{path}");
        assert_says(&refused.head, &["www-authenticate: bearer"]);
        assert_eq!(
            ask(&[("Authorization", "Bearer a-token-of-some-lengtH")]).refusal(),
            (401, "wrong_token".to_owned())
        );
        let answer = ask(&[("Host", "dues.example"), ("Authorization", &bearer)]);
        assert!([200, 202].contains(&answer.status), "{path}: {answer:?}");
    }
    assert_eq!(serving.ask("GET", "/health", &[], b"").status, 200, "whether it is there is no secret");
    assert_eq!(
        serving.ask("POST", "/webhooks/stripe", &[], b"{}").refusal().1,
        "signature_missing",
        "Stripe signs, and has no token"
    );
    drop(serving);
    let settings = [("DUES_TOKEN", TOKEN)];
    let serving = Serving::with(&dues, &[], &settings);
    assert_eq!(
        serving.ask("GET", "/metrics", &[], b"").status,
        401,
        "on this machine too, where one is asked for"
    );
    drop(serving);
    let short = dues.file("short", b"123\n");
    assert_says(&dues.fails(&["serve", "--port", "0", "--token-file", &short]), &["fewer than 16"]);
}

#[test]
fn a_job_that_was_missed_runs_when_it_starts_and_not_again() {
    let dues = Dues::new();
    let tomorrow =
        dues_events::Time::from_timestamp(now() + 36 * 3600, 0).unwrap().format("%Y-%m-%d").to_string();
    dues.members(&[change("m-1", "ACTIVATE", "u-1", "2026-01-05", plus(&tomorrow))]);
    let engine = Embedded::open(&dues.data().join("dues.db")).unwrap();
    // Its last run was long ago.
    wait_for(engine.set_checkpoint("schedule", "notifier", 1)).unwrap();
    let times = [("DUES_SCHEDULE", "notifier=00:00,retry=off,scheduled=off,pause=off")];
    let serving = Serving::with(&dues, &[], &times);
    let done = serving.wait_for_log("job done");
    assert_has(
        &done,
        &json!({"level": "INFO", "job": "notifier",
            "outcome": "published 1 reminders, 0 were published before"}),
    );
    let published = engine.records("events", 0, 100).unwrap();
    let reminders = published
        .iter()
        .filter(|record| String::from_utf8_lossy(&record.data).contains("SubscriptionDueSoon"));
    assert_eq!(reminders.count(), 1, "{published:?}");
    serving.signal("-TERM");
    assert_eq!(serving.ended().0.code(), Some(0));
    let again = Serving::with(&dues, &[], &times);
    until("it is ready", || again.ask("GET", "/ready", &[], b"").status == 200);
    again.signal("-TERM");
    let (_, said) = again.ended();
    assert!(!said.contains("job done"), "{said}");
    assert_says(
        &dues.fails(&["serve", "--port", "0", "--schedule", "retry=25:00"]),
        &["retry: \"25:00\" is not HH:MM"],
    );
}
