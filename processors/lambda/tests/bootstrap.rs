//! The real binary, in front of a stand-in for Lambda's runtime API.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

/// What the binary asked of the runtime API: `next`, or an answer with its path.
type Asked = (String, Value);

/// Hands out events, one for each time that it is asked, and then nothing; reports everything that it is
/// asked.
fn runtime_api(events: Vec<Value>) -> (String, Receiver<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (report, asked) = channel();
    std::thread::spawn(move || {
        let mut waiting = events.into_iter().enumerate();
        for stream in listener.incoming().flatten() {
            answer_all(stream, &mut waiting, &report);
        }
    });
    (address, asked)
}

fn answer_all(stream: TcpStream, waiting: &mut impl Iterator<Item = (usize, Value)>, report: &Sender<Asked>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    while let Some((line, body)) = read_request(&mut reader) {
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        if path.ends_with("/next") {
            let _ = report.send(("next".to_owned(), Value::Null));
            // Nothing more: Lambda lets a function wait as well.
            let Some((n, event)) = waiting.next() else {
                std::thread::park_timeout(TIMEOUT * 4);
                return;
            };
            let event = event.to_string();
            let _ = write!(
                writer,
                "HTTP/1.1 200 OK\r\nlambda-runtime-aws-request-id: r-{n}\r\nlambda-runtime-deadline-ms: \
                    4102444800000\r\nlambda-runtime-invoked-function-arn: arn\r\ncontent-length: \
                    {}\r\n\r\n{event}",
                event.len()
            );
        } else {
            let _ = report.send((path, serde_json::from_slice(&body).unwrap_or(Value::Null)));
            let _ = write!(writer, "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n");
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let (mut first, mut length, mut chunked) = (String::new(), 0, false);
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim().to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(text) = line.strip_prefix("content-length:") {
            length = text.trim().parse().ok()?;
        }
        chunked |= line == "transfer-encoding: chunked";
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    while chunked {
        let mut size = String::new();
        reader.read_line(&mut size).ok()?;
        let mut chunk = vec![0; usize::from_str_radix(size.trim(), 16).ok()? + 2];
        reader.read_exact(&mut chunk).ok()?;
        chunked = chunk.len() > 2;
        body.extend_from_slice(&chunk[..chunk.len() - 2]);
    }
    Some((first, body))
}

/// The binary, with nothing in its environment but this and what Lambda itself sets.
fn bootstrap(handler: &str, api: &str, variables: &[(&str, &str)]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_bootstrap"))
        .env_clear()
        .envs([("_HANDLER", handler), ("AWS_LAMBDA_RUNTIME_API", api), ("AWS_REGION", "eu-central-1")])
        .envs([("AWS_ACCESS_KEY_ID", "000000000000"), ("AWS_SECRET_ACCESS_KEY", "none")])
        .envs([
            ("AWS_LAMBDA_FUNCTION_NAME", "f"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
        ])
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const WEBHOOK: [(&str, &str); 2] = [
    ("STRIPE_STREAM_NAME", "stripe"),
    ("STRIPE_SECRET_ARN", "arn:aws:secretsmanager:eu-central-1:000000000000:secret:s"),
];

#[test]
fn an_unknown_handler_fails_at_start_with_the_list_of_names() {
    let output = bootstrap("projektor", "127.0.0.1:9", &[]).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output)
            .contains("there is no handler \"projektor\"; the handlers are ach-handler, memberships, "),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_missing_setting_fails_at_start_and_is_named() {
    for (handler, variables, missing) in [
        ("stripe", &[][..], "STRIPE_STREAM_NAME is not set"),
        ("stripe", &WEBHOOK[..1], "STRIPE_SECRET_ARN is not set"),
        ("collections-job", &[], "COLLECTIONS_QUEUE_URL is not set"),
        ("collections-worker", &[], "GATEWAY_URL is not set"),
        (
            "api",
            &[("GATEWAY_URL", "ftp://x")],
            "GATEWAY_URL: the payments service's address has to begin with https:// or http://",
        ),
        ("notifier-scheduler", &[], "EVENT_BUS_NAME is not set"),
        ("projector", &[("DUES_TIERS", "Plus")], "DUES_TIERS: \"Plus\" is not NAME=TIER"),
        ("ach-handler", &[("AWS_SECRET_ACCESS_KEY", "")], "AWS_SECRET_ACCESS_KEY is not set"),
    ] {
        let output = bootstrap(handler, "127.0.0.1:9", variables).wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), stderr(&output).trim()),
            (Some(1), format!("bootstrap: {missing}").as_str())
        );
    }
}

#[test]
fn events_are_answered_one_after_another_and_a_failure_ends_nothing() {
    let uninteresting = json!({"source": "aws.partner/stripe.com/ed_1",
        "detail": {"id": "evt_1", "type": "tax_rate.created"}});
    let foreign = json!({"source": "other.source", "detail": {}});
    let (api, asked) = runtime_api(vec![uninteresting.clone(), foreign, json!([]), uninteresting]);
    let child = bootstrap("stripe", &api, &WEBHOOK);
    let mut answers = Vec::new();
    while answers.len() < 4 {
        let (path, body) = asked.recv_timeout(TIMEOUT).unwrap();
        if path != "next" {
            answers.push((path.rsplit('/').next().unwrap().to_owned(), body));
        }
    }
    let answer = |n: usize| (answers[n].0.as_str(), &answers[n].1);
    assert_eq!(answer(0), ("response", &json!({"handled": false})));
    assert_eq!(answer(1).0, "error");
    let why = answer(1).1["errorMessage"].as_str().unwrap();
    assert_eq!(
        why,
        "an event from \"other.source\" is not Stripe's: its source would start with aws.partner/stripe.com/"
    );
    assert_eq!(answer(2).0, "error", "an event of another kind: {:?}", answer(2).1);
    assert_eq!(answer(3), ("response", &json!({"handled": false})), "and on it goes");

    // It waits for the next event, which does not come.
    assert_eq!(asked.recv_timeout(TIMEOUT).unwrap().0, "next");
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let webhooks: Vec<&Value> =
        lines.iter().filter(|line| line["message"] == "webhook").map(|line| &line["request_id"]).collect();
    assert_eq!(webhooks, ["r-0", "r-3"], "each line has the id of its invocation");
    assert!(lines.iter().any(|line| line["message"] == "webhook"
        && line["_aws"]["CloudWatchMetrics"][0]["Metrics"][0]["Name"] == "skipped"));
    assert_eq!(lines.last().unwrap()["message"], "asked to end");
}
