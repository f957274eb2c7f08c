//! The log: its destination, format and volume, and what it must never contain.

use std::process::Stdio;

use dues_tests::fixtures::webhook::event;
use serde_json::{Value, json};

use crate::support::records::{activate, plain};
use crate::support::run::{Dues, assert_has, assert_says, program};
use crate::support::server::{Serving, until};

const TOKEN: &str = "a-token-of-some-length";

/// The lines of a log; each is an object with a time, a level, a message and a target.
#[track_caller]
fn lines(said: &str) -> Vec<Value> {
    let lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{line:?}: {why}")))
        .collect();
    for line in &lines {
        let time = line["time"].as_str().unwrap();
        assert!(time.ends_with('Z') && time.parse::<dues_events::Time>().is_ok(), "{line}");
        assert!(["level", "message", "target"].iter().all(|name| line[name].is_string()), "{line}");
    }
    lines
}

fn named<'a>(lines: &'a [Value], message: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["message"] == message).collect()
}

#[test]
fn the_log_has_ids_and_never_payloads() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    dues.ingest_bytes("memberships", b"{\"private\":\"a private word\"}\n");
    let parked = dues.parked()[0]["parked_id"].as_str().unwrap().to_owned();
    let (id, bearer) = (dues.id("u-1", 0), format!("Bearer {TOKEN}"));
    let serving = Serving::with(&dues, &[], &[("DUES_TOKEN", TOKEN)]);
    let ask = |method: &str, path: &str, body: &[u8]| {
        serving.ask(method, path, &[("Authorization", &bearer)], body).status
    };
    assert_eq!(
        serving
            .ask("GET", "/u-1/subscriptions", &[("Authorization", "Bearer wrong-but-long-enough")], b"")
            .status,
        401
    );
    assert_eq!(ask("POST", &format!("/u-1/subscriptions/{id}/waive"), b"{\"private\":1}"), 200);
    assert_eq!(ask("POST", &format!("/console/parked/memberships/{parked}/redrive"), b""), 303);
    for n in 0..20 {
        assert_eq!(
            ask(
                "POST",
                "/streams/memberships",
                activate(&format!("n-{n}"), &format!("v-{n}")).to_string().as_bytes()
            ),
            202
        );
    }
    until("all are processed", || dues.statuses("v-19") == ["SCHEDULED"]);
    let address = serving.address.to_string();
    serving.signal("-TERM");
    let (status, said) = serving.ended();
    assert_eq!(status.code(), Some(0));
    for never in [TOKEN, "wrong-but-long-enough", "private", "a private word"] {
        assert!(!said.contains(never), "{never} is in the log:\n{said}");
    }
    let lines = lines(&said);
    assert_has(named(&lines, "listening")[0], &json!({"level": "INFO", "address": address, "token": true}));
    assert_has(
        named(&lines, "request rejected")[0],
        &json!({"level": "WARN", "from": "127.0.0.1", "code": "wrong_token", "status": 401, "method": "GET"}),
    );
    assert_has(
        named(&lines, "api")[0],
        &json!({"method": "POST", "user": "u-1", "subscription": id, "status": 200}),
    );
    assert_has(
        named(&lines, "redriven from the console")[0],
        &json!({"stream": "memberships", "parked": parked, "fate": "parked"}),
    );
    assert_eq!(lines.last().unwrap()["message"], "stopped");
    // A normally processed record, and a request that ingests some, are not logged.
    assert!(lines.iter().all(|line| line["level"] != "DEBUG" && !line.to_string().contains("v-1")), "{said}");
    assert!(lines.len() < 15, "{said}");
}

#[test]
fn more_can_be_asked_for_and_of_one_part_alone() {
    let dues = Dues::new();
    let serving = Serving::with(
        &dues,
        &["--log", "warn,dues::serve=debug"],
        &[("DUES_LOG", "off"), ("DUES_STRIPE_SECRETS", "whsec_x")],
    );
    assert_eq!(
        serving
            .ask("POST", "/streams/memberships", &[], activate("m-1", "u-1").to_string().as_bytes())
            .status,
        202
    );
    assert_has(
        &serving.wait_for_log("taken"),
        &json!({"level": "DEBUG", "stream": "memberships", "records": 1}),
    );
    assert_has(&serving.wait_for_log("batch"), &json!({"stream": "memberships", "applied": 1}));
    drop(serving);
    let quiet = Serving::with(&dues, &[], &[("DUES_LOG", "off")]);
    assert_eq!(quiet.webhook(&event("evt_1", "invoice.paid", "u-1")).status, 404);
    quiet.signal("-TERM");
    assert_eq!(quiet.ended().1, "");
}

#[test]
fn commands_that_run_once_say_what_they_said_and_log_when_asked() {
    let dues = Dues::new();
    let unknown = |event: &str| {
        dues.file("members", plain(event, "CANCEL", "no-such-user", "2026-01-06").to_string().as_bytes())
    };
    let run = |file: &str, settings: &[(&str, &str)]| {
        let mut command = dues.command(&["ingest", "--stream", "memberships", file]);
        let output = command.envs(settings.iter().copied()).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(run(&unknown("m-1"), &[]), "", "what is parked is in the summary");
    let logged = lines(&run(&unknown("m-2"), &[("DUES_LOG", "warn")]));
    assert_has(named(&logged, "parked a record")[0], &json!({"level": "WARN", "event": "m-2"}));
}

#[test]
fn a_level_that_is_none_is_wrong_usage_and_named() {
    let dues = Dues::new();
    for (args, settings) in
        [(&["--log", "loud", "parked"][..], &[][..]), (&["parked"], &[("DUES_LOG", "loud")])]
    {
        let output = dues.command(args).envs(settings.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_says(&String::from_utf8(output.stderr).unwrap(), &["--log", "\"loud\"", "error, warn, info"]);
    }
}

/// The program's output on a terminal, with an early stop: `script` provides the terminal.
fn on_a_terminal(dues: &Dues, settings: &[(&str, &str)]) -> String {
    let serve = format!("{} --data {} serve --port 0", program().display(), dues.data().display());
    let mut command = dues.command(&[]);
    let environment: Vec<_> =
        command.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
    command = std::process::Command::new("timeout");
    command.args([
        "--preserve-status",
        "-s",
        "TERM",
        "2",
        "script",
        "-qefc",
        &format!("exec {serve}"),
        "/dev/null",
    ]);
    for (name, _) in environment {
        command.env_remove(name);
    }
    let output = command
        .env("DUES_SCHEDULE", "off")
        .envs(settings.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn on_a_terminal_lines_are_for_people_and_colours_can_be_refused() {
    let dues = Dues::new();
    let said = on_a_terminal(&dues, &[]);
    assert_says(&said, &["listening on http://", "\u{1b}[", "no Stripe secret is configured"]);
    let plain = on_a_terminal(&dues, &[("NO_COLOR", "1")]);
    assert_says(&plain, &["INFO dues::commands::serve: listening address=127.0.0.1:", " WARN ", "Z "]);
    assert!(!plain.contains('\u{1b}'), "{plain}");
}
