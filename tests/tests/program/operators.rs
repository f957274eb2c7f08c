//! Operator commands: explain, audit and replay, parked records.

use serde_json::{Value, json};

use crate::support::run::{Dues, assert_says, counts};

/// A member with first dues that were paid and returned late, and a settlement for an unknown record.
fn returned_late(dues: &Dues) -> String {
    let terms = json!({"tier": "Plus", "version": "v2", "term": "MONTHLY", "amount": "14.99",
        "billing_date": "2026-01-31T00:00:00Z", "provider": "cognito"});
    let joins = json!({"event_id": "m-1", "type": "ACTIVATE", "occurred_at": "2026-01-05T00:00:00Z",
        "user_id": "u-1", "membership": terms});
    assert_eq!(dues.members(&[joins]), counts([("applied", 1)]));
    let id = dues.id("u-1", 0);
    let payments = [
        settlement(&id, "p-1", "SUBMITTED", "2026-02-02"),
        settlement(&id, "p-2", "COMPLETED", "2026-02-04"),
        settlement(&id, "p-3", "RETURNED", "2026-02-06"),
    ];
    assert_eq!(dues.payments(&payments), counts([("applied", 3)]));
    id
}

fn settlement(id: &str, event: &str, kind: &str, day: &str) -> Value {
    let status = match kind {
        "SUBMITTED" => "PENDING",
        "COMPLETED" => "COMPLETED",
        _ => "FAILED",
    };
    let code = (kind == "RETURNED").then_some("R01");
    json!({"event_id": event, "type": format!("SUBSCRIPTION_{kind}"),
        "occurred_at": format!("{day}T00:00:00Z"), "payment": {"payment_id": format!("pay-{event}"),
        "subscription_id": id, "user_id": "u-1", "status": status, "amount": "14.99", "currency": "USD",
        "processor": "JPM", "confirmation_id": "c-1",
        "payment_type":"ACH","account_mask":"6789","return_code":code,"message":null}})
}

#[test]
fn a_member_is_explained_as_of_any_time() {
    let dues = Dues::new();
    let id = returned_late(&dues);
    let text = dues.ok(&["explain", "u-1", "--at", "2026-02-07"]);
    assert_says(
        &text,
        &[
            "The record for 01/2026 was created: $14.99 for Plus:v2, due 2026-01-31. [SCHEDULED]",
            "A debit of $14.99 went to the bank",
            "The money arrived: $14.99 (transaction c-1). [ACHSENT → COMPLETED]",
            "↳ The tier went from free to JOURNEYMAN, and the group is dues-journeyman.",
            "↳ 5 credits were granted",
            "The bank took the money back, after it had arrived: R01. [COMPLETED → ERROR]",
            "↳ The tier went from JOURNEYMAN to free.",
            "↳ 5 credits were taken back",
            "event p-3, site-payments SUBSCRIPTION_RETURNED",
            "Access    free",
            "Credits   0",
            // Two banking days after the return of the sixth, and five more by the spread of this record.
            "Next      2026-02-18 07:00: $14.99 are presented to the bank again, for the second time, on \
             2026-02-18: no payday is known, so returns are spread over banking days.",
            "Next      2026-03-02 08:00: $14.99 for Plus:v2 are debited.",
        ],
    );
    let then = dues.json(&["explain", "u-1", "--at", "2026-02-05"]);
    assert_eq!(
        (&then["access"]["tier"], &then["credits"], &then["records"][0]["status"]),
        (&json!("JOURNEYMAN"), &json!(5), &json!("COMPLETED"))
    );
    let entries = then["story"].as_array().unwrap();
    assert_eq!(entries.last().unwrap()["event_id"], "p-2", "later events are absent");
    assert!(
        entries.iter().all(|entry| entry["event_id"].is_string() && entry["subscription_id"].is_string()),
        "{entries:#?}"
    );
    assert!(entries.iter().any(|entry| entry["subscription_id"] == id.as_str()
        && entry["from"] == "ACHSENT"
        && entry["to"] == "COMPLETED"));
    let before = dues.json(&["explain", "u-1", "--at", "2026-01-06"]);
    assert_eq!(before["next"][0]["at"], "2026-02-02T08:00:00Z", "the thirty-first is a Saturday");
    assert_says(&dues.fails(&["explain", "no-such-user"]), &["unknown member no-such-user"]);
}

#[test]
fn an_audit_agrees_until_a_row_is_changed_by_hand() {
    let dues = Dues::new();
    returned_late(&dues);
    assert_says(&dues.ok(&["audit"]), &["events folded", "all match"]);
    let file = rusqlite::Connection::open(dues.data().join("dues.db")).unwrap();
    assert_eq!(file.execute(r#"DELETE FROM "billing-activity" WHERE sk LIKE '2026-01-31%'"#, []).unwrap(), 1);
    drop(file);
    let output = dues.run(&["audit", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let missing = findings.iter().find(|finding| finding["kind"] == "missing").unwrap();
    assert_eq!(
        (&missing["table"], &missing["key"]),
        (&json!("billing-activity"), &json!("u-1/2026-01-31T00:00:00Z")),
        "{findings:#?}"
    );
    assert_says(&String::from_utf8_lossy(&output.stderr), &["do not match"]);

    // Replay can repair it, and does so without `--dry-run`.
    let dry = dues.run(&["replay", "--read-model", "billing", "--dry-run"]);
    assert_eq!(dry.status.code(), Some(1));
    assert_says(
        &String::from_utf8_lossy(&dry.stdout),
        &["u-1/2026-01-31T00:00:00Z", "is missing", "nothing was written"],
    );
    assert_eq!(dues.run(&["audit"]).status.code(), Some(1), "nothing was written");
    let replayed = dues.json(&["replay"]);
    assert_eq!(replayed["replayed"][0]["differences"][0]["key"], "u-1/2026-01-31T00:00:00Z", "{replayed}");
    assert_says(&dues.ok(&["audit"]), &["all match"]);
    assert_says(&dues.ok(&["replay", "--dry-run"]), &["every row matches"]);
}

#[test]
fn parked_records_are_shown_whole_and_driven_through_again() {
    let dues = Dues::new();
    let id = "1b4e28ba-2fa1-51d2-883f-0016d3cca427";
    assert_eq!(dues.payments(&[settlement(id, "p-9", "SUBMITTED", "2026-02-04")]), counts([("parked", 1)]));
    let parked = dues.parked();
    let name = parked[0]["parked_id"].as_str().unwrap();
    assert_says(
        &dues.ok(&["parked", "show", &name[..8]]),
        &["site-payments", "p-9", r#""confirmation_id":"c-1""#],
    );
    assert_says(&dues.ok(&["parked", "redrive", name]), &["stays parked", "0 redriven, 1 still parked"]);
    assert_says(&dues.fails(&["parked", "show", "zz"]), &["no parked record zz"]);
    assert_eq!(dues.run(&["parked", "redrive"]).status.code(), Some(2), "which ones has to be said");
    // A tier that is not in the map: fixed by configuration, then redriven.
    let terms = json!({"tier": "Gold", "version": "v1", "term": "MONTHLY", "amount": "14.99",
        "billing_date": "2026-01-31T00:00:00Z"});
    dues.members(&[json!({"event_id": "m-1", "type": "ACTIVATE", "occurred_at": "2026-01-05T00:00:00Z",
        "user_id": "u-1", "membership": terms})]);
    let id = dues.id("u-1", 0);
    dues.payments(&[
        settlement(&id, "p-1", "SUBMITTED", "2026-02-02"),
        settlement(&id, "p-2", "COMPLETED", "2026-02-04"),
    ]);
    assert_eq!(dues.parked().iter().filter(|parked| parked["code"] == "unknown_tier").count(), 1);
    let redriven = dues
        .json_with(&["parked", "redrive", "--stream", "billing-activity"], &[("DUES_TIERS", "Gold=SAGE")]);
    assert_eq!(redriven["redriven"][0]["fate"], "applied", "{redriven}");
    assert_eq!(dues.parked().len(), 1, "only the debit of an unknown record is left");
    assert_eq!(dues.json(&["show", "u-1"])["profile"]["tier"], "SAGE");
}
