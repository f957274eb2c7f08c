//! The usual path of dues.

use serde_json::{Value, json};

use crate::support::records::{Debit, activate};
use crate::support::run::{Dues, assert_has, counts, ndjson, outcomes, texts};

#[test]
fn a_membership_is_activated_debited_and_settled_and_the_next_period_is_scheduled() {
    let dues = Dues::new();
    assert_eq!(dues.members(&[activate("m-1", "u-1")]), counts([("applied", 1)]));
    let first = dues.only("u-1");
    assert_eq!(first["billing_status"], "SCHEDULED");
    assert_eq!(dues.status("u-1"), "SCHEDULED");
    let id = first["subscription_id"].as_str().unwrap();

    let debit = Debit::new("u-1", id, "c-991");
    assert_eq!(dues.payments(&[debit.submitted("p-1", "2026-02-01")]), counts([("applied", 1)]));
    let sent = &dues.subscriptions("u-1")[0];
    assert_eq!((&sent["billing_status"], &sent["transaction_id"]), (&json!("ACHSENT"), &json!("c-991")));
    assert_eq!(sent["initial_run_date"], "2026-02-01T15:30:00Z");
    assert_eq!(dues.payments(&[debit.completed("p-2", "2026-02-03")]), counts([("applied", 1)]));

    let records = dues.subscriptions("u-1");
    assert_eq!(texts(&records, "billing_status"), ["COMPLETED", "SCHEDULED"], "exactly one next record");
    assert_has(
        &records[0],
        &json!({
            "subscription_id": id, "user_id": "u-1", "billing_date": "2026-02-01T00:00:00Z",
            "billing_period": "02/2026",
            "billing_amount": "14.99", "transaction_id": "c-991", "usio_error": "",
            "completion_date": "2026-02-03T15:30:00Z",
            "initial_run_date": "2026-02-01T15:30:00Z", "last_run_date": "2026-02-03T15:30:00.000000000Z",
            "created_date": "2026-01-05T12:00:00Z", "term": "MONTHLY", "receipt_account_mask": "6789",
            "receipt_payment_type": "ACH",
            "receipt_tier_name": "Plus:v2", "pause_duration_months": 0,
            "next_subscription_id": records[1]["subscription_id"],
        }),
    );
    assert_has(
        &records[1],
        &json!({
            "billing_date": "2026-03-01T00:00:00Z", "billing_period": "03/2026", "billing_amount": "14.99",
            "transaction_id": "",
            "usio_error": "", "process": "INITIAL", "receipt_tier_name": "Plus:v2",
            "receipt_account_mask": "",
        }),
    );
    assert_ne!(records[0]["subscription_id"], records[1]["subscription_id"]);
    assert_eq!(records[1].get("completion_date"), None);
    assert_eq!(dues.parked(), Vec::<Value>::new());
}

#[test]
fn history_has_every_event_and_its_source_in_order() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
    dues.payments(&[debit.submitted("p-1", "2026-02-01"), debit.completed("p-2", "2026-02-03")]);

    let rows = dues.history(&debit.subscription);
    assert_eq!(texts(&rows, "event_id"), ["m-1", "p-1", "p-2"]);
    assert_eq!(
        texts(&rows, "source"),
        [
            "memberships ACTIVATE",
            "site-payments SUBSCRIPTION_SUBMITTED",
            "site-payments SUBSCRIPTION_COMPLETED"
        ]
    );
    assert_eq!(texts(&rows, "billing_status"), ["SCHEDULED", "ACHSENT", "COMPLETED"]);
    assert_eq!(texts(&rows, "outcome"), ["applied"; 3]);
    for (n, row) in rows.iter().enumerate() {
        assert_eq!(
            (row["previous_version"].as_u64(), row["version"].as_u64()),
            (Some(n as u64), Some(n as u64 + 1)),
            "{row}"
        );
        assert_eq!(row["subscription_id"], debit.subscription.as_str());
    }
    assert_eq!(rows[2]["data_amount"], "14.99", "history keeps what the payment said");
    assert_eq!(dues.subscriptions("u-1")[0].get("data_amount"), None, "the primary row does not");
    let next = dues.history(&dues.id("u-1", 1));
    assert_eq!(texts(&next, "event_id"), [format!("next:{}", debit.subscription)]);
}

#[test]
fn a_file_is_read_like_standard_input_whatever_its_line_ends_and_blank_lines() {
    let dues = Dues::new();
    let mut text = format!("\n  \n{}\r\n\r\n{}", activate("m-1", "u-1"), activate("m-2", "u-2"));
    let file = dues.file("members.ndjson", text.as_bytes());
    let summary = dues.json(&["ingest", "--stream", "memberships", &file]);
    assert_eq!(
        summary,
        json!({"read": 2, "applied": 2, "duplicate": 0, "ignored": 0, "skipped": 0, "parked": 0})
    );
    text += "\n";
    assert_eq!(dues.ingest_bytes("memberships", text.as_bytes()), counts([("duplicate", 2)]));
    assert_eq!(dues.only("u-2")["billing_status"], "SCHEDULED");
}

#[test]
fn a_summary_has_exactly_six_counts_and_they_add_up() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1"), activate("m-2", "u-2")]);
    let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
    let lines = [
        debit.submitted("p-1", "2026-02-01"),
        debit.submitted("p-1", "2026-02-01"),
        debit.returned("p-2", "2026-02-02", "C01", "a notice"),
        debit.completed("p-3", "2026-02-03"),
        json!({"event_id": "x-1", "type": "ONE_TIME_PAYMENT", "anything": [1, 2]}),
        json!({"event_id": "x-2", "type": "SUBSCRIPTION_COMPLETED"}),
    ];
    let file = dues.file("payments.ndjson", &ndjson(&lines));
    let summary = dues.json(&["ingest", "--stream", "site-payments", &file]);
    assert_eq!(
        summary,
        json!({"read": 6, "applied": 3, "duplicate": 1, "ignored": 0, "skipped": 1, "parked": 1})
    );
    outcomes(&summary);
    assert_eq!(dues.payments(&[]), counts([]), "an empty file is no error");
}

#[test]
fn an_account_number_never_gets_further_than_its_last_four_digits() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
    let mut completed = debit.completed("p-2", "2026-02-03");
    completed["payment"]["account_mask"] = json!("000123456789");
    dues.payments(&[debit.submitted("p-1", "2026-02-01"), completed]);
    assert_eq!(dues.subscriptions("u-1")[0]["receipt_account_mask"], "6789");
    for text in [dues.ok(&["show", "u-1", "--json"]), dues.ok(&["history", &debit.subscription, "--json"])] {
        assert!(!text.contains("123456789"), "{text}");
    }
}
