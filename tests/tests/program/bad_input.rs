//! Poison records never stall the stream: each is parked with a reason, and everything around it is
//! processed.

use serde_json::{Value, json};

use crate::support::records::{Debit, activate, change, plain, plus, tier};
use crate::support::run::{Dues, counts, texts};

/// A line that cannot be processed, and the field that its reason must name.
type Bad = (Vec<u8>, &'static str);

#[test]
fn every_bad_payment_is_parked_with_its_field_and_line_and_every_good_one_between_is_applied() {
    let dues = Dues::new();
    let users: Vec<String> = (0..40).map(|n| format!("u-{n}")).collect();
    dues.members(&users.iter().map(|user| activate(&format!("m-{user}"), user)).collect::<Vec<_>>());
    let debits: Vec<Debit> =
        users.iter().map(|user| Debit::new(user, &dues.id(user, 0), &format!("c-{user}"))).collect();
    let good: Vec<Value> =
        debits.iter().map(|debit| debit.submitted(&format!("p-{}", debit.user), "2026-02-01")).collect();

    // All target the last user's record, which no good line before them touches.
    let target = &debits[39];
    let bad = |event: &str, spoil: &dyn Fn(&mut Value)| {
        let mut line = target.submitted(event, "2026-02-01");
        spoil(&mut line);
        line.to_string().into_bytes()
    };
    let whole = good[39].to_string().into_bytes();
    let mut not_utf8 = whole.clone();
    let place = not_utf8.windows(3).position(|w| w == b"ACH").unwrap();
    not_utf8[place] = 0xff;
    let other_content = {
        let mut line = good[0].clone();
        line["payment"]["amount"] = json!("15.99");
        line.to_string().into_bytes()
    };
    let mut bads: Vec<Bad> = vec![
        (whole[..whole.len() / 2].to_vec(), "record"),
        (b"[]".to_vec(), "record"),
        (b"{}".to_vec(), "type"),
        (b"not json at all".to_vec(), "record"),
        (not_utf8, "record"),
        (bad("x-big", &|line| line["filler"] = json!("x".repeat(1 << 20))), "record"),
        (bad("x-1", &|line| line["payment"]["amount"] = json!(14.99)), "payment.amount"),
        (bad("x-2", &|line| line["payment"]["amount"] = json!("-14.99")), "payment.amount"),
        (bad("x-3", &|line| line["payment"]["amount"] = json!("14.999")), "payment.amount"),
        (bad("x-4", &|line| line["payment"]["amount"] = json!("")), "payment.amount"),
        (bad("x-5", &|line| line["payment"]["status"] = json!("SETTLED")), "payment.status"),
        (bad("x-6", &|line| line["payment"]["status"] = json!("COMPLETED")), "payment.status"),
        (bad("x-7", &|line| line["occurred_at"] = json!("2026-02-30T00:00:00Z")), "occurred_at"),
        (bad("x-8", &|line| line["occurred_at"] = json!("yesterday")), "occurred_at"),
        (bad("x-9", &|line| line["occurred_at"] = Value::Null), "occurred_at"),
        (bad("", &|_| {}), "event_id"),
        (bad("x-10", &|line| line["event_id"] = json!(10)), "event_id"),
        (bad("x-11", &|line| line["event_id"] = json!("e".repeat(1000))), "event_id"),
        (bad("x-12", &|line| line["payment"] = Value::Null), "payment"),
        (bad("x-13", &|line| line["payment"]["user_id"] = Value::Null), "payment.user_id"),
        (bad("x-14", &|line| line["payment"]["return_code"] = json!("Q99!")), "payment.return_code"),
        (bad("x-15", &|line| line["payment"]["subscription_id"] = json!(["a"])), "payment.subscription_id"),
    ];
    bads.push((
        bad("x-16", &|line| line["payment"]["subscription_id"] = json!("no-such-record")),
        "payment.subscription_id",
    ));
    bads.push((
        bad("x-17", &|line| line["payment"]["subscription_id"] = json!(debits[1].subscription)),
        "payment.user_id",
    ));
    bads.push((other_content, "event_id"));
    assert_parked_between(&dues, "site-payments", &good, &bads);
    for user in &users {
        assert_eq!(dues.statuses(user), ["ACHSENT", "SCHEDULED"], "{user}");
    }
}

#[test]
fn every_bad_membership_change_is_parked_with_its_field_and_line_and_every_good_one_between_is_applied() {
    let dues = Dues::new();
    let good: Vec<Value> = (0..40).map(|n| activate(&format!("m-{n}"), &format!("u-{n}"))).collect();
    let bad = |event: &str, kind: &str, spoil: &dyn Fn(&mut Value)| {
        let mut line = change(event, kind, "u-0", "2026-01-06", plus("2026-02-01"));
        spoil(&mut line);
        line.to_string().into_bytes()
    };
    let months = |n: i64| move |line: &mut Value| line["membership"]["pause_duration_months"] = json!(n);
    let other_content =
        change("m-0", "ACTIVATE", "u-0", "2026-01-05", plus("2026-03-01")).to_string().into_bytes();
    let bads: Vec<Bad> = vec![
        (bad("x-1", "PAUSE", &months(0)), "membership.pause_duration_months"),
        (bad("x-2", "PAUSE", &months(13)), "membership.pause_duration_months"),
        (bad("x-3", "PAUSE", &months(-1)), "membership.pause_duration_months"),
        (bad("x-4", "PAUSE", &|line| line["membership"] = json!({})), "membership.pause_duration_months"),
        (
            bad("x-5", "PAUSE", &|line| line["membership"]["pause_duration_months"] = json!("two")),
            "membership.pause_duration_months",
        ),
        (
            bad("x-6", "REACTIVATE", &|line| line["membership"]["billing_week"] = json!(9)),
            "membership.billing_week",
        ),
        (
            bad("x-7", "REACTIVATE", &|line| line["membership"]["billing_week"] = json!(0)),
            "membership.billing_week",
        ),
        (bad("x-8", "UPGRADE", &|line| line["membership"]["amount"] = json!(29.99)), "membership.amount"),
        (bad("x-9", "UPGRADE", &|line| line["membership"]["amount"] = json!("-0.01")), "membership.amount"),
        (
            bad("x-10", "DOWNGRADE", &|line| line["membership"]["amount"] = json!("1.234")),
            "membership.amount",
        ),
        (bad("x-11", "UPGRADE", &|line| line["membership"]["tier"] = Value::Null), "membership.tier"),
        (bad("x-12", "REACTIVATE", &|line| line["membership"]["term"] = json!("WEEKLY")), "membership.term"),
        (
            bad("x-13", "REACTIVATE", &|line| line["membership"]["billing_date"] = json!("2026-13-01")),
            "membership.billing_date",
        ),
        (
            bad("x-14", "REACTIVATE", &|line| line["membership"]["provider"] = json!("ldap")),
            "membership.provider",
        ),
        (bad("x-15", "REACTIVATE", &|line| line["membership"] = Value::Null), "membership"),
        (bad("x-16", "CANCEL", &|line| line["user_id"] = Value::Null), "user_id"),
        (bad("x-17", "CANCEL", &|line| line["user_id"] = json!("")), "user_id"),
        (bad("x-18", "CANCEL", &|line| line["occurred_at"] = json!(1_767_700_000)), "occurred_at"),
        (bad("x-19", "UPGRADE", &|line| line["user_id"] = json!("no-such-user")), "user_id"),
        (b"{\"type\":".to_vec(), "record"),
        (b"{}".to_vec(), "type"),
        (b"\xff\xfe\x00".to_vec(), "record"),
        (other_content, "event_id"),
    ];
    assert_parked_between(&dues, "memberships", &good, &bads);
    for n in 0..40 {
        let record = dues.only(&format!("u-{n}"));
        assert_eq!(
            (&record["billing_status"], &record["billing_amount"]),
            (&json!("SCHEDULED"), &json!("14.99")),
            "{record}"
        );
    }
}

/// Ingests the good lines with a bad one after each, as long as there are any.
fn assert_parked_between(dues: &Dues, stream: &str, good: &[Value], bads: &[Bad]) {
    assert!(bads.len() < good.len(), "a good line must come after the last bad one");
    let mut file = Vec::new();
    for (n, line) in good.iter().enumerate() {
        file.extend(line.to_string().into_bytes());
        file.push(b'\n');
        if let Some((bad, _)) = bads.get(n) {
            file.extend(bad);
            file.push(b'\n');
        }
    }
    let (applied, parked) = (good.len() as u64, bads.len() as u64);
    assert_eq!(dues.ingest_bytes(stream, &file), counts([("applied", applied), ("parked", parked)]));

    let rows = dues.parked();
    assert_eq!(rows.len(), bads.len());
    for (n, (bad, field)) in bads.iter().enumerate() {
        let line = format!("line {}", 2 * n + 2);
        let row = rows
            .iter()
            .find(|row| row["sequence"] == line.as_str())
            .unwrap_or_else(|| panic!("{line} is not parked"));
        let reason = row["reason"].as_str().unwrap();
        assert!(reason.starts_with(&format!("{field}: ")), "{line}: {reason:?} does not name {field}");
        assert!(reason.len() < 200, "{line}: {reason:?}");
        assert_eq!(row["stream"], stream);
        assert_eq!(row["bytes"], bad.len(), "{line}");
        assert_eq!(row["record"].as_str().unwrap(), String::from_utf8_lossy(bad), "{line} is kept whole");
        assert!(!row["parked_id"].as_str().unwrap().is_empty() && !row["code"].as_str().unwrap().is_empty());
    }
    // The same file again: the good lines are duplicates, and no record is parked twice.
    assert_eq!(dues.ingest_bytes(stream, &file), counts([("duplicate", applied), ("parked", parked)]));
    assert_eq!(dues.parked(), rows);
}

#[test]
fn parked_records_name_event_user_and_code() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1"), plain("m-2", "CANCEL", "u-9", "2026-01-06")]);
    let debit = Debit::new("u-1", "no-such-record", "c-1");
    dues.payments(&[
        debit.submitted("p-1", "2026-02-01"),
        json!({"event_id": "p-2", "type": "SUBSCRIPTION_COMPLETED"}),
    ]);
    let mut rows: Vec<Vec<Value>> = dues
        .parked()
        .iter()
        .map(|row| {
            ["event_id", "user_id", "stream", "code", "sequence"]
                .iter()
                .map(|name| row[*name].clone())
                .collect()
        })
        .collect();
    rows.sort_by_key(|row| row[0].to_string());
    assert_eq!(
        json!(rows),
        json!([
            ["m-2", "u-9", "memberships", "unknown_user", "line 2"],
            ["p-1", "u-1", "site-payments", "unknown_subscription", "line 1"],
            ["p-2", null, "site-payments", "malformed", "line 2"],
        ])
    );
}

#[test]
fn a_record_that_is_no_object_is_parked_as_a_whole() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    let id = dues.id("u-1", 0);
    let payment = json!(["p", id, "u-1", "PENDING", "14.99", "USD", "JPM", "c-1", "ACH", "6789", null, null]);
    let lines = [
        json!([]),
        json!([1]),
        json!(["ONE_TIME_PAYMENT"]),
        json!([Debit::new("u-1", &id, "c-1").submitted("p-1", "2026-02-01")]),
        json!(["p-1", "SUBSCRIPTION_SUBMITTED", "2026-02-01T00:00:00Z", payment]),
        json!("text"),
        json!(5),
        json!(true),
        json!(null),
    ];
    let summary = dues.payments(&lines);
    assert_eq!(dues.statuses("u-1"), ["SCHEDULED"], "none of them is a record; counts: {summary:?}");
    assert_eq!(summary, counts([("parked", 9)]));
    for row in dues.parked() {
        assert!(row["reason"].as_str().unwrap().starts_with("record: "), "{row}");
    }
}

#[test]
fn an_event_id_that_comes_again_with_other_content_is_parked_also_for_another_record_of_the_user() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    dues.payments(&[Debit::new("u-1", &dues.id("u-1", 0), "c-1").submitted("p-1", "2026-02-01")]);
    let next = Debit::new("u-1", &dues.id("u-1", 1), "c-2");
    let summary = dues.payments(&[next.submitted("p-1", "2026-03-01")]);
    assert_eq!(dues.statuses("u-1"), ["ACHSENT", "SCHEDULED"]);
    assert_eq!(summary, counts([("parked", 1)]));
    assert_eq!(texts(&dues.parked(), "code"), ["different_content"]);
}

#[test]
fn other_types_are_skipped_whatever_their_shape() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    let before = dues.ok(&["show", "u-1", "--json"]);
    let others = [
        json!({"type": "ONE_TIME_PAYMENT"}),
        json!({"type": "SUBSCRIPTION_PAUSED", "event_id": 7, "payment": "none"}),
        json!({"type": "subscription_completed", "occurred_at": [1], "payment": {"amount": 3}}),
    ];
    assert_eq!(dues.payments(&others), counts([("skipped", 3)]));
    let others = [
        json!({"type": "LOGIN", "user_id": "u-1"}),
        json!({"type": "REFERRED", "user_id": {"id": 1}, "membership": []}),
    ];
    assert_eq!(dues.members(&others), counts([("skipped", 2)]));
    assert_eq!(dues.parked(), Vec::<Value>::new());
    assert_eq!(dues.ok(&["show", "u-1", "--json"]), before);
}

#[test]
fn unknown_fields_are_kept_out_of_the_way() {
    let dues = Dues::new();
    let mut line = activate("m-1", "u-1");
    line["trace"] = json!({"deep": [1, 2, {"x": null}]});
    line["membership"]["colour"] = json!("blue");
    assert_eq!(
        dues.members(&[line, change("m-2", "UPGRADE", "u-1", "2026-01-06", tier("Pro", "29.99"))]),
        counts([("applied", 2)])
    );
    assert!(!dues.ok(&["show", "u-1", "--json"]).contains("blue"));
}
