//! `dues notify`: members are reminded of what falls due, once for each record.

use serde_json::{Value, json};

use crate::support::records::{activate, change, plain, plus};
use crate::support::run::{Dues, assert_has, counts, texts};

impl Dues {
    fn notify(&self, as_of: &str, more: &[&str]) -> (u64, u64, u64) {
        let summary = self.json(&[&["notify", "--as-of", as_of], more].concat());
        let count = |name: &str| summary[name].as_u64().unwrap();
        assert_eq!((&summary["failed"], &summary["locked"]), (&json!(0), &json!(false)));
        assert_eq!(count("due_soon"), count("told") + count("known"), "{summary}");
        (count("due_soon"), count("told"), count("known"))
    }

    /// The reminders on the bus, in order.
    fn messages(&self) -> Vec<Value> {
        let records = self.engine().records("events", 0, 1000).unwrap();
        let messages = records.iter().map(|record| serde_json::from_slice::<Value>(&record.data).unwrap());
        messages.filter(|message| message["detail-type"] == "SubscriptionDueSoon").collect()
    }
}

#[test]
fn a_member_is_reminded_once_for_each_record() {
    let dues = Dues::new();
    dues.members(&[
        activate("m-1", "u-1"),
        change("m-2", "ACTIVATE", "u-2", "2026-01-05", plus("2026-02-03")),
    ]);
    assert_eq!(dues.notify("2026-01-28T12:00:00Z", &[]), (0, 0, 0), "more than three days ahead");
    assert_eq!(dues.notify("2026-01-29T12:00:00Z", &[]), (1, 1, 0));
    assert_eq!(dues.notify("2026-01-29T12:00:00Z", &[]), (1, 0, 1));
    assert_eq!(dues.notify("2026-01-31T12:00:00Z", &[]), (2, 1, 1), "the other one falls due soon, too");
    assert_eq!(dues.notify("2026-02-04T12:00:00Z", &[]), (0, 0, 0), "what has fallen due is not ahead");

    let record = dues.only("u-1");
    assert_has(&record, &json!({"due_notice": "2026-02-01T00:00:00Z", "billing_status": "SCHEDULED"}));
    assert_eq!(
        texts(&dues.history(record["subscription_id"].as_str().unwrap()), "source"),
        ["memberships ACTIVATE", "dues notifier"]
    );
    let messages = dues.messages();
    assert_eq!(messages.len(), 2);
    assert_has(
        &messages[0]["detail"],
        &json!({"user_id": "u-1", "subscription_id": record["subscription_id"],
            "billing_date": "2026-02-01T00:00:00Z",
            "billing_amount": "14.99", "billing_period": "02/2026", "tier": "Plus:v2", "term": "MONTHLY"}),
    );
    assert_eq!(messages[1]["detail"]["user_id"], "u-2");

    // The next period has its own record.
    assert_eq!(dues.collect("INITIAL", "2026-02-04T12:00:00Z"), counts([("sent", 2)]));
    assert_eq!(dues.notify("2026-02-27T12:00:00Z", &[]), (1, 1, 0));
    assert_eq!(dues.messages().len(), 3);
}

#[test]
fn how_many_days_ahead_can_be_chosen() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    assert_eq!(dues.notify("2026-01-25T12:00:00Z", &["--days", "6"]), (0, 0, 0));
    assert_eq!(dues.notify("2026-01-25T12:00:00Z", &["--days", "7"]), (1, 1, 0));
    assert_eq!(dues.notify("2026-01-30T12:00:00Z", &["--days", "1"]), (0, 0, 0));
    assert_eq!(dues.notify("2026-01-31T12:00:00Z", &["--days", "1"]), (1, 0, 1));
    let said = dues.ok(&["notify", "--as-of", "2026-01-31T12:00:00Z"]);
    assert_eq!(said, "1 records due within 3 days: 0 reminders published, 1 already published\n");
}

#[test]
fn a_debit_that_will_not_be_made_is_not_announced() {
    let dues = Dues::new();
    let users = ["cancels", "closed", "pauses", "waived"];
    dues.members(&users.map(|user| activate(&format!("m-{user}"), user)));
    dues.members(&[
        plain("m-1", "CANCEL", "cancels", "2026-01-10"),
        plain("m-2", "CLOSEACCOUNT", "closed", "2026-01-10"),
        change("m-3", "PAUSE", "pauses", "2026-01-10", json!({"pause_duration_months": 2})),
    ]);
    dues.ok(&["waive", "waived", &dues.id("waived", 0), "--as-of", "2026-01-10"]);
    assert_eq!(dues.notify("2026-01-30T12:00:00Z", &[]), (0, 0, 0));
    assert_eq!(dues.messages(), Vec::<Value>::new());
}

#[test]
fn a_barred_member_gets_no_reminder() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    dues.account("u-1", "0010");
    assert_eq!(dues.collect("INITIAL", "2026-02-02T08:00:00Z"), counts([("sent", 1)]));
    assert_eq!(dues.deliver("2026-02-05"), 1);
    assert_eq!(dues.notify("2026-02-27T12:00:00Z", &[]), (0, 0, 0));
    assert_eq!(
        dues.collect("INITIAL", "2026-03-02T08:00:00Z"),
        counts([("left.barred", 1)]),
        "it is not made"
    );
}

#[test]
fn a_run_that_was_killed_does_not_silence_the_later_ones() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    dues.hold("dues:notifier-scheduler");
    let notify = |more: &[&str]| dues.json(&[&["notify", "--as-of", "2026-01-30T12:00:00Z"], more].concat());
    assert_eq!(notify(&["--no-wait"])["locked"], true, "its holder may still be alive");
    assert_eq!(notify(&[])["told"], 1, "its lease has passed");
}
