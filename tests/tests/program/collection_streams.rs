//! `income-detected`, `account-balance` and `batch` as streams of the program: each may debit what has failed
//! or is due, once.

use serde_json::{Value, json};

use crate::support::records::{activate, change, plus};
use crate::support::run::{Dues, counts, ndjson, outcomes};
use crate::support::server::{Serving, until};

/// A Monday, the day after the due date; the return; the Friday after it.
const DUE: &str = "2026-02-02T08:00:00Z";
const RETURNED: &str = "2026-02-05T08:00:00Z";
const FRIDAY: &str = "2026-02-06T08:00:00Z";

/// A member with a debit that was returned for want of money, and money in the account since.
fn returned() -> Dues {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    dues.account("u-1", "0001");
    assert_eq!(dues.collect("INITIAL", DUE), counts([("sent", 1)]));
    assert_eq!(dues.deliver(RETURNED), 1);
    assert_eq!(dues.statuses("u-1"), ["ERROR", "SCHEDULED"]);
    dues.account("u-1", "6789");
    dues
}

fn ingest(dues: &Dues, stream: &str, record: &Value, as_of: &str) -> Vec<(String, u64)> {
    let file = dues.file("signal.ndjson", &ndjson(std::slice::from_ref(record)));
    let printed = dues.json(&["ingest", "--stream", stream, &file, "--as-of", as_of]);
    outcomes(&printed).into_iter().filter(|(_, count)| *count > 0).collect()
}

fn all(outcome: &str) -> Vec<(String, u64)> {
    vec![(outcome.to_owned(), 1)]
}

/// The record's status, process, and debits so far.
fn state(dues: &Dues) -> (String, String, usize) {
    let record = dues.subscriptions("u-1")[0].clone();
    let text = |name: &str| record[name].as_str().unwrap().to_owned();
    (text("billing_status"), text("process"), dues.debits("u-1").len())
}

fn is(status: &str, process: &str, debits: usize) -> (String, String, usize) {
    (status.to_owned(), process.to_owned(), debits)
}

#[test]
fn an_income_from_the_threshold_on_collects_what_has_failed_once() {
    let dues = returned();
    let income = |id: &str, amount: &str| {
        json!({"event_id": id, "user_id": "u-1", "amount": amount,
            "detected_at": "2026-02-06T07:00:00Z"})
    };
    assert_eq!(ingest(&dues, "income-detected", &income("i-1", "74.99"), FRIDAY), all("ignored"));
    assert_eq!(state(&dues), is("ERROR", "INITIAL", 1));
    assert_eq!(ingest(&dues, "income-detected", &income("i-2", "75.00"), FRIDAY), all("applied"));
    assert_eq!(state(&dues), is("ACHSENT", "WEBHOOK", 2));
    for repeated in ["i-2", "i-3"] {
        ingest(&dues, "income-detected", &income(repeated, "75.00"), FRIDAY);
        assert_eq!(state(&dues), is("ACHSENT", "WEBHOOK", 2));
    }
    assert_eq!(dues.deliver("2026-02-11T08:00:00Z"), 1);
    assert_eq!(dues.statuses("u-1"), ["COMPLETED", "SCHEDULED"]);
}

#[test]
fn a_balance_collects_what_it_covers() {
    let dues = returned();
    let balance = |id: &str, available: &str| {
        json!({"event_id": id, "user_id": "u-1", "available": available,
            "observed_at": "2026-02-06T07:00:00Z"})
    };
    for (id, available) in [("b-1", "14.98"), ("b-2", "-3.00")] {
        assert_eq!(ingest(&dues, "account-balance", &balance(id, available), FRIDAY), all("applied"));
        assert_eq!(state(&dues), is("ERROR", "INITIAL", 1), "{available}");
    }
    assert_eq!(ingest(&dues, "account-balance", &balance("b-3", "14.99"), FRIDAY), all("applied"));
    assert_eq!(state(&dues), is("ACHSENT", "WEBHOOK_BALANCE", 2));
}

#[test]
fn a_list_collects_its_records_and_parks_the_unknown_ones() {
    let dues = returned();
    let id = dues.id("u-1", 0);
    let list = json!({"subscription_ids": [id, "no-such-record"]});
    assert_eq!(ingest(&dues, "batch", &list, FRIDAY), all("applied"));
    assert_eq!(state(&dues), is("ACHSENT", "BATCH", 2));
    let parked = dues.parked();
    assert_eq!(parked.len(), 1, "{parked:?}");
    assert_eq!((&parked[0]["stream"], &parked[0]["code"]), (&json!("batch"), &json!("unknown_subscription")));
    let redriven = dues.json(&["parked", "redrive", "--all"]);
    assert_eq!(redriven["redriven"][0]["fate"], "stays parked");
}

#[test]
fn a_malformed_signal_is_parked_and_names_its_field() {
    let dues = returned();
    for (stream, record, reason) in [
        ("income-detected", json!({"event_id": "i-1", "user_id": "u-1", "amount": 80}), "amount"),
        (
            "account-balance",
            json!({"event_id": "b-1", "user_id": "u-1", "available": "x",
            "observed_at": "2026-02-06T07:00:00Z"}),
            "available",
        ),
        ("batch", json!({"subscription_ids": "all"}), "subscription_ids"),
    ] {
        assert_eq!(ingest(&dues, stream, &record, FRIDAY), all("parked"), "{stream}");
        let parked = dues.parked();
        let parked = parked.iter().find(|parked| parked["stream"] == stream).unwrap();
        assert!(parked["reason"].as_str().unwrap().contains(reason), "{parked}");
    }
    assert_eq!(state(&dues), is("ERROR", "INITIAL", 1));
}

#[test]
fn the_server_takes_lists_and_signals() {
    let dues = Dues::new();
    let due = chrono::Utc::now() - chrono::TimeDelta::days(2);
    let day = due.format("%Y-%m-%d").to_string();
    dues.members(&[change("m-1", "ACTIVATE", "u-1", "2026-01-05", plus(&day))]);
    let serving = Serving::with(&dues, &["--schedule", "off"], &[]);
    let post = |stream: &str, record: Value| {
        let answer = serving.ask("POST", &format!("/streams/{stream}"), &[], record.to_string().as_bytes());
        assert_eq!(answer.status, 202, "{stream}");
    };
    post("income-detected", json!({"event_id": "i-1", "user_id": "u-1", "amount": "a lot"}));
    post("batch", json!({"subscription_ids": [dues.id("u-1", 0)]}));
    until("the list has been collected", || state(&dues).0 == "ACHSENT");
    assert_eq!(state(&dues), is("ACHSENT", "BATCH", 1));
    until("the signal is parked", || dues.parked().len() == 1);
    assert_eq!(dues.parked()[0]["stream"], "income-detected");
}
