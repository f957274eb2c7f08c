//! `dues tail`: the records on a local stream, and new ones as they come.

use dues_tests::fixtures::company::t;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::sandbox_ledger::wait_for;
use crate::support::records::{activate, plain};
use crate::support::run::{Dues, assert_says, ndjson};

const STREAMS: [&str; 5] = ["subscriptions", "events", "site-payments", "memberships", "stripe"];

impl Dues {
    /// The records of a stream, as the command prints them.
    pub(crate) fn tail(&self, stream: &str, more: &[&str]) -> Vec<Value> {
        let text = self.ok(&[&["tail", stream, "--json"], more].concat());
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[test]
fn the_newest_records_come_last_and_others_can_be_asked_for() {
    let dues = Dues::new();
    let many: Vec<Value> = (0..30).map(|n| activate(&format!("m-{n}"), &format!("u-{n}"))).collect();
    dues.members(&many);
    let all = dues.tail("memberships", &["--all"]);
    assert_eq!(all.iter().map(|record| record["data"].clone()).collect::<Vec<_>>(), many);
    assert_eq!(dues.tail("memberships", &[]), all[10..], "twenty, unless an option says otherwise");
    assert_eq!(dues.tail("memberships", &["--last", "2"]), all[28..]);
    assert_eq!(dues.tail("memberships", &["--last", "0"]), Vec::<Value>::new());
    let from = all[7]["seq"].to_string();
    assert_eq!(dues.tail("memberships", &["--from", &from]), all[7..]);
    assert_eq!(dues.tail("stripe", &[]), Vec::<Value>::new());
    // Records of different users come in any order.
    dues.members(&[activate("m-last", "u-last")]);
    let said = dues.ok(&["tail", "subscriptions", "--last", "1"]);
    assert_says(&said, &["u-last", "subscription-updated", "\"billing_status\":\"SCHEDULED\""]);
    assert_eq!(said.lines().count(), 1);
}

#[test]
fn a_record_that_is_no_json_is_shown_as_a_text() {
    let dues = Dues::new();
    dues.ingest_bytes(
        "memberships",
        &[b"{\"broken \x1b[31m\n".as_slice(), &ndjson(&[plain("m-1", "CANCEL", "u-1", "2026-01-06")])]
            .concat(),
    );
    let data: Vec<Value> =
        dues.tail("memberships", &[]).into_iter().map(|record| record["data"].clone()).collect();
    assert_eq!(data[0], json!("{\"broken \u{1b}[31m"));
    assert!(!dues.ok(&["tail", "memberships"]).contains('\u{1b}'), "nothing that a terminal would obey");
}

#[test]
fn an_unknown_stream_is_an_error_that_lists_the_names() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    assert_says(&dues.fails(&["tail", "payments"]), &STREAMS);
    assert_says(&dues.fails(&["tail", "events", "--from", "1", "--all"]), &["--from", "--all"]);
    assert_says(&Dues::new().fails(&["tail", "events"]), &["no data in"]);
}

#[test]
fn it_follows_until_it_is_interrupted_and_ends_well() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    for signal in ["-INT", "-TERM"] {
        let mut child = dues
            .command(&["tail", "subscriptions", "--follow", "--json", "--last", "1"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
        let before = next();
        let user = format!("u{signal}");
        dues.members(&[activate(&format!("m{signal}"), &user)]);
        let come = next();
        assert_eq!(come["data"]["user_id"], user);
        assert!(come["seq"].as_u64() > before["seq"].as_u64());
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        assert!(child.wait().unwrap().success(), "{signal}");
        assert!(lines.next().is_none());
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_without_a_word() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    for follow in [&["tail", "events"][..], &["tail", "events", "--follow"]] {
        let mut child = dues.command(follow).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", output.status);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[test]
fn published_events_are_kept_for_a_day() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    let engine = dues.engine();
    for stream in ["subscriptions", "events"] {
        // Backdated, as if it had been published long ago.
        let all = engine.records(stream, 0, 10).unwrap();
        wait_for(engine.trim_stream(stream, engine.last_record(stream).unwrap(), t("9999-01-01T00:00:00Z")))
            .unwrap();
        let old = all.into_iter().map(|record| (record.partition_key, record.data)).collect();
        wait_for(engine.append(stream, t("2026-01-01T00:00:00Z"), old)).unwrap();
    }
    drop(engine);
    dues.members(&[activate("m-2", "u-2")]);
    for stream in ["subscriptions", "events"] {
        let kept: Vec<String> =
            dues.tail(stream, &["--all"]).iter().map(|record| record["data"].to_string()).collect();
        assert!(kept.len() == 1 && kept[0].contains("\"u-2\""), "{stream}: {kept:?}");
    }
}
