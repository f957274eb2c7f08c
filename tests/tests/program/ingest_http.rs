//! Records over HTTP: durable when acknowledged, processed asynchronously, refused with a reason, and
//! throttled when there are too many.

use dues_store::embedded::Embedded;
use serde_json::{Value, json};

use crate::support::records::{Debit, activate};
use crate::support::run::{Dues, assert_says};
use crate::support::server::{Serving, TIMEOUT, head, until};

/// The limits of one request, in bytes and in records.
const LARGEST: usize = 4 * 1024 * 1024;
const MOST: usize = 5000;

impl Serving {
    fn post(&self, stream: &str, body: &[u8]) -> crate::support::server::Answer {
        self.ask("POST", &format!("/streams/{stream}"), &[], body)
    }
}

/// Waits until the handler has processed the whole stream.
pub(crate) fn processed(dues: &Dues, stream: &str) {
    let engine = Embedded::open(&dues.data().join("dues.db")).unwrap();
    until("the stream is processed", || {
        engine.checkpoint(stream, stream).unwrap() >= engine.last_record(stream).unwrap()
    });
}

#[test]
fn records_in_lines_or_in_an_array_are_taken_and_processed() {
    let dues = Dues::new();
    let serving = Serving::start(&dues);
    let lines = format!("{}\r\n\n{}\n", activate("m-1", "u-1"), activate("m-2", "u-2"));
    let answer = serving.post("memberships", lines.as_bytes());
    assert_eq!((answer.status, answer.json()), (202, json!({"stream": "memberships", "accepted": 2})));
    let array = serde_json::to_vec_pretty(&[activate("m-3", "u-3"), activate("m-1", "u-1")]).unwrap();
    assert_eq!(serving.post("memberships", &array).json()["accepted"], 2);
    processed(&dues, "memberships");
    assert_eq!(
        ["u-1", "u-2", "u-3"].map(|user| dues.statuses(user)),
        [["SCHEDULED"], ["SCHEDULED"], ["SCHEDULED"]]
    );
    let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
    let payments = json!([debit.submitted("p-1", "2026-02-02"), debit.completed("p-2", "2026-02-04")]);
    assert_eq!(serving.post("site-payments", payments.to_string().as_bytes()).status, 202);
    processed(&dues, "site-payments");
    assert_eq!(dues.statuses("u-1"), ["COMPLETED", "SCHEDULED"]);
    assert_eq!(dues.parked(), Vec::<Value>::new());
    let engine = Embedded::open(&dues.data().join("dues.db")).unwrap();
    let keys: Vec<String> = engine
        .records("memberships", 0, 10)
        .unwrap()
        .into_iter()
        .map(|record| record.partition_key)
        .collect();
    assert_eq!(keys, ["u-1", "u-2", "u-3", "u-1"]);
    assert_eq!(
        ["", "\n\n", "[]"]
            .map(|body| serving.post("memberships", body.as_bytes()).json()["accepted"].clone()),
        [0, 0, 0]
    );
}

#[test]
fn what_cannot_be_read_is_taken_and_parked_and_what_is_no_text_is_refused() {
    let dues = Dues::new();
    let serving = Serving::start(&dues);
    let lines = format!("nonsense\n{}\n{{\"event_id\":\"m-2\"}}\n", activate("m-1", "u-1"));
    assert_eq!(serving.post("memberships", lines.as_bytes()).json()["accepted"], 3);
    processed(&dues, "memberships");
    assert_eq!(dues.statuses("u-1"), ["SCHEDULED"]);
    let parked: Vec<Value> = dues.parked().iter().map(|parked| parked["record"].clone()).collect();
    assert!(parked.len() == 2 && parked.contains(&json!("nonsense")), "{parked:?}");
    for (body, status, code) in [
        (&b"{}\n\xff\xfe"[..], 400, "not_utf8"),
        (b"[{}, ", 400, "not_json"),
        (b"[{}] {}", 400, "not_json"),
        ("{}\n".repeat(MOST + 1).as_bytes(), 413, "too_many_records"),
    ] {
        assert_eq!(serving.post("memberships", body).refusal(), (status, code.to_owned()));
    }
    // No byte of the body is sent.
    let answer = serving.raw(head("POST", "/streams/memberships", &[], LARGEST + 1).as_bytes());
    assert_eq!(answer.refusal(), (413, "too_large".to_owned()));
    assert_eq!(serving.post("memberships", "{}\n".repeat(MOST).as_bytes()).json()["accepted"], MOST);
    assert_eq!(serving.post("changes", b"{}").refusal(), (404, "no_such_stream".to_owned()));
    assert_says(&serving.post("x", b"{}").body, &["site-payments", "memberships", "stripe", "app-events"]);
    let refused = serving.ask("GET", "/streams/memberships", &[], b"");
    assert_eq!(refused.refusal(), (405, "method_not_allowed".to_owned()));
    assert_eq!(
        serving.ask("POST", "/streams/memberships", &[("Origin", "https://evil.example")], b"{}").refusal().1,
        "not_local"
    );
}

#[test]
fn a_stream_that_is_too_far_behind_takes_no_more_and_says_when_to_come_again() {
    let dues = Dues::new();
    let serving = Serving::with(&dues, &["--max-backlog", "4"], &[]);
    let database = rusqlite::Connection::open(dues.data().join("dues.db")).unwrap();
    database.busy_timeout(TIMEOUT).unwrap();
    until("the program is ready", || serving.ask("GET", "/ready", &[], b"").status == 200);
    // The stream's checkpoint cannot be written for a while.
    database.execute("ALTER TABLE checkpoints RENAME TO elsewhere", []).unwrap();
    let records: Vec<String> =
        (0..8).map(|n| activate(&format!("m-{n}"), &format!("u-{n}")).to_string()).collect();
    assert_eq!(serving.post("memberships", records[..4].join("\n").as_bytes()).status, 202);
    while serving.wait_for_log("consumer stalled")["who"] != "memberships" {}
    let refused = serving.post("memberships", records[4].as_bytes());
    assert_eq!(refused.refusal(), (429, "too_busy".to_owned()));
    assert_says(&refused.head, &["retry-after: 5"]);
    assert_says(&refused.body, &["memberships", "the most is 4"]);
    assert_eq!(serving.post("site-payments", b"{}").status, 202, "another stream is not held back");
    let unready = serving.ask("GET", "/ready", &[], b"");
    assert_eq!((unready.status, unready.json()["ready"].clone()), (503, json!(false)));
    assert!(unready.json()["last_error"]["what"].is_string(), "{unready:?}");
    database.execute("ALTER TABLE elsewhere RENAME TO checkpoints", []).unwrap();
    until("more is taken", || serving.post("memberships", records[4..].join("\n").as_bytes()).status == 202);
    processed(&dues, "memberships");
    while serving.wait_for_log("consumer recovered")["who"] != "memberships" {}
    until("the program is ready again", || serving.ask("GET", "/ready", &[], b"").status == 200);
    assert!((0..8).all(|n| dues.statuses(&format!("u-{n}")) == ["SCHEDULED"]));
}
