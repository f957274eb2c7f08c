//! Every membership change.

use serde_json::{Value, json};

use crate::support::records::{Debit, activate, change, plain, plus, tier};
use crate::support::run::{Dues, counts, texts};

/// A user with one SCHEDULED record, due on 1 February 2026.
fn member() -> Dues {
    let dues = Dues::new();
    assert_eq!(dues.members(&[activate("m-1", "u-1")]), counts([("applied", 1)]));
    dues
}

/// The same, with its first debit returned: an ERROR record, and the next one SCHEDULED.
fn in_arrears() -> (Dues, Debit) {
    let dues = member();
    let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
    dues.payments(&[
        debit.submitted("p-1", "2026-02-01"),
        debit.returned("p-2", "2026-02-03", "R01", "Insufficient funds"),
    ]);
    assert_eq!(dues.statuses("u-1"), ["ERROR", "SCHEDULED"]);
    (dues, debit)
}

fn at(n: usize, dues: &Dues) -> Value {
    dues.subscriptions("u-1")[n].clone()
}

#[test]
fn a_second_activation_changes_nothing_while_a_record_is_scheduled() {
    let dues = member();
    let before = dues.only("u-1");
    let mut other = plus("2026-02-15");
    other["amount"] = json!("99.99");
    assert_eq!(
        dues.members(&[change("m-2", "ACTIVATE", "u-1", "2026-01-06", other)]),
        counts([("ignored", 1)])
    );
    let mut after = dues.only("u-1");
    for commit in ["version", "chain"] {
        after[commit] = before[commit].clone();
    }
    assert_eq!(after, before);
    assert_eq!(
        dues.history(before["subscription_id"].as_str().unwrap())[1]["outcome"],
        "ignored: already active"
    );
}

#[test]
fn a_reactivation_writes_a_new_record_and_leaves_the_old_error_uncollected() {
    let (dues, debit) = in_arrears();
    let again = change("m-2", "REACTIVATE", "u-1", "2026-02-10", plus("2026-02-20"));
    assert_eq!(dues.members(&[again]), counts([("applied", 1)]));
    let records = dues.subscriptions("u-1");
    let new = records.iter().find(|r| r["billing_date"] == "2026-02-20T00:00:00Z").unwrap();
    assert_eq!((&new["billing_status"], &new["process"]), (&json!("SCHEDULED"), &json!("REACTIVATION")));
    assert_eq!(new["updated_event"], "user-reactivated");
    assert_eq!(records[0]["subscription_id"], debit.subscription.as_str());
    assert_eq!(
        (&records[0]["billing_status"], &records[0]["usio_error"]),
        (&json!("ERROR"), &json!("R01 Insufficient funds"))
    );
    assert_eq!(records[0]["superseded_by"], new["subscription_id"]);
    let scheduled: Vec<_> = records.iter().filter(|r| r["billing_status"] == "SCHEDULED").collect();
    assert_eq!(scheduled, [new], "only the new membership is collected");
    assert_eq!(dues.status("u-1"), "SCHEDULED");
}

#[test]
fn a_cancelled_member_can_come_back() {
    let dues = member();
    dues.members(&[plain("m-2", "CLOSEACCOUNT", "u-1", "2026-01-10")]);
    assert_eq!(dues.status("u-1"), "INACTIVE");
    assert_eq!(
        dues.members(&[change("m-3", "REACTIVATE", "u-1", "2026-01-20", plus("2026-03-01"))]),
        counts([("applied", 1)])
    );
    assert_eq!(dues.statuses("u-1"), ["CANCELLED", "SCHEDULED"]);
    assert_eq!(dues.status("u-1"), "SCHEDULED");
}

#[test]
fn a_cancellation_waits_for_the_period_to_end_and_can_be_retracted() {
    let dues = member();
    assert_eq!(dues.members(&[plain("m-2", "CANCEL", "u-1", "2026-01-10")]), counts([("applied", 1)]));
    let record = dues.only("u-1");
    assert_eq!(
        (&record["cancel_at"], &record["billing_status"]),
        (&json!("2026-02-01T00:00:00Z"), &json!("SCHEDULED"))
    );
    assert_eq!(dues.members(&[plain("m-3", "RETRACT", "u-1", "2026-01-11")]), counts([("applied", 1)]));
    let record = dues.only("u-1");
    assert_eq!((record.get("cancel_at"), &record["billing_status"]), (None, &json!("SCHEDULED")));
    assert_eq!(
        dues.members(&[plain("m-4", "RETRACT", "u-1", "2026-01-12")]),
        counts([("ignored", 1)]),
        "nothing is pending any more"
    );
}

#[test]
fn a_cancellation_after_the_period_has_ended_takes_effect_at_once() {
    let dues = member();
    dues.members(&[plain("m-2", "CANCEL", "u-1", "2026-02-02")]);
    let record = dues.only("u-1");
    assert_eq!(
        (&record["billing_status"], &record["completion_date"]),
        (&json!("CANCELLED"), &json!("2026-02-02T12:00:00Z"))
    );
    assert_eq!(dues.status("u-1"), "INACTIVE");
}

#[test]
fn closing_the_account_cancels_every_open_record_at_once() {
    let (dues, _) = in_arrears();
    assert_eq!(dues.members(&[plain("m-2", "CLOSEACCOUNT", "u-1", "2026-02-10")]), counts([("applied", 1)]));
    let records = dues.subscriptions("u-1");
    assert_eq!(texts(&records, "billing_status"), ["CANCELLED", "CANCELLED"]);
    assert_eq!(texts(&records, "completion_date"), ["2026-02-10T12:00:00Z"; 2]);
    assert_eq!(dues.status("u-1"), "INACTIVE");
}

#[test]
fn money_in_flight_is_not_moved_by_closing_the_account_and_a_return_then_cancels() {
    for (settled, last) in [(true, "COMPLETED"), (false, "CANCELLED")] {
        let dues = member();
        let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
        dues.payments(&[debit.submitted("p-1", "2026-02-01")]);
        dues.members(&[plain("m-2", "CLOSEACCOUNT", "u-1", "2026-02-02")]);
        assert_eq!(dues.statuses("u-1"), ["ACHSENT", "CANCELLED"]);
        dues.payments(&[match settled {
            true => debit.completed("p-2", "2026-02-03"),
            false => debit.returned("p-2", "2026-02-03", "R01", "Insufficient funds"),
        }]);
        assert_eq!(dues.statuses("u-1"), [last, "CANCELLED"]);
    }
}

#[test]
fn a_pause_rests_the_record_and_unpausing_schedules_it_again() {
    let dues = member();
    let mut pause = plus("2026-02-01");
    pause["pause_duration_months"] = json!(3);
    assert_eq!(dues.members(&[change("m-2", "PAUSE", "u-1", "2026-01-10", pause)]), counts([("applied", 1)]));
    let record = dues.only("u-1");
    assert_eq!((&record["billing_status"], &record["pause_duration_months"]), (&json!("PAUSED"), &json!(3)));
    assert_eq!(dues.status("u-1"), "PAUSED");
    // What another service debits all the same is known; the pause goes over to the next record.
    let debit = Debit::new("u-1", record["subscription_id"].as_str().unwrap(), "c-1");
    assert_eq!(dues.payments(&[debit.submitted("p-1", "2026-01-15")]), counts([("applied", 1)]));
    assert_eq!(dues.statuses("u-1"), ["ACHSENT", "PAUSED"]);
    let other = member();
    other.members(&[change("m-2", "PAUSE", "u-1", "2026-01-10", json!({"pause_duration_months": 3}))]);
    let dues = other;

    assert_eq!(dues.members(&[plain("m-3", "UNPAUSE", "u-1", "2026-01-20")]), counts([("applied", 1)]));
    let record = dues.only("u-1");
    assert_eq!(
        (&record["billing_status"], &record["pause_duration_months"]),
        (&json!("SCHEDULED"), &json!(0))
    );
    assert_eq!(record["updated_event"], "pause-resume");
    assert_eq!(dues.members(&[plain("m-4", "UNPAUSE", "u-1", "2026-01-21")]), counts([("ignored", 1)]));
}

#[test]
fn both_ends_of_the_range_of_pauses_are_accepted() {
    for months in [1, 12] {
        let dues = member();
        let pause = change("m-2", "PAUSE", "u-1", "2026-01-10", json!({"pause_duration_months": months}));
        assert_eq!(dues.members(&[pause]), counts([("applied", 1)]));
        assert_eq!(dues.only("u-1")["pause_duration_months"], months);
    }
}

#[test]
fn an_upgrade_takes_tier_and_amount_now() {
    let dues = member();
    assert_eq!(
        dues.members(&[change("m-2", "UPGRADE", "u-1", "2026-01-10", tier("Pro", "29.99"))]),
        counts([("applied", 1)])
    );
    let record = dues.only("u-1");
    assert_eq!(
        (&record["receipt_tier_name"], &record["billing_amount"]),
        (&json!("Pro:v3"), &json!("29.99"))
    );
    assert_eq!((&record["billing_status"], record.get("is_pending_downgrade")), (&json!("SCHEDULED"), None));
}

#[test]
fn an_upgrade_during_a_debit_changes_the_next_record_and_not_the_money_in_flight() {
    let dues = member();
    let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
    dues.payments(&[debit.submitted("p-1", "2026-02-01")]);
    assert_eq!(
        dues.members(&[change("m-2", "UPGRADE", "u-1", "2026-02-02", tier("Pro", "29.99"))]),
        counts([("applied", 1)])
    );
    dues.payments(&[debit.completed("p-2", "2026-02-03")]);
    let records = dues.subscriptions("u-1");
    assert_eq!(texts(&records, "billing_status"), ["COMPLETED", "SCHEDULED"]);
    assert_eq!(texts(&records, "billing_amount"), ["14.99", "29.99"]);
    assert_eq!(texts(&records, "receipt_tier_name"), ["Plus:v2", "Pro:v3"]);
}

#[test]
fn a_downgrade_is_pending_until_the_next_record_takes_it_over() {
    let dues = member();
    assert_eq!(
        dues.members(&[change("m-2", "DOWNGRADE", "u-1", "2026-01-10", tier("Basic", "4.99"))]),
        counts([("applied", 1)])
    );
    let record = dues.only("u-1");
    assert_eq!(record["is_pending_downgrade"], true);
    assert_eq!(
        (&record["receipt_tier_name"], &record["billing_amount"]),
        (&json!("Plus:v2"), &json!("14.99")),
        "this period is as agreed"
    );

    let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
    dues.payments(&[debit.submitted("p-1", "2026-02-01"), debit.completed("p-2", "2026-02-03")]);
    let records = dues.subscriptions("u-1");
    assert_eq!(texts(&records, "billing_amount"), ["14.99", "4.99"]);
    assert_eq!(texts(&records, "receipt_tier_name"), ["Plus:v2", "Basic:v3"]);
    assert!(records.iter().all(|r| r.get("is_pending_downgrade").is_none()), "{records:#?}");
}

#[test]
fn an_upgrade_withdraws_a_downgrade_that_was_still_pending() {
    let dues = member();
    dues.members(&[
        change("m-2", "DOWNGRADE", "u-1", "2026-01-10", tier("Basic", "4.99")),
        change("m-3", "UPGRADE", "u-1", "2026-01-11", tier("Pro", "29.99")),
    ]);
    assert_eq!(dues.only("u-1").get("is_pending_downgrade"), None);
    let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
    dues.payments(&[debit.submitted("p-1", "2026-02-01")]);
    assert_eq!(texts(&dues.subscriptions("u-1"), "billing_amount"), ["29.99", "29.99"]);
}

#[test]
fn friday_billing_goes_to_the_same_friday_of_each_month_and_the_last_when_there_is_no_fifth() {
    let fifth = ["2026-01-30", "2026-02-27", "2026-03-27", "2026-04-24", "2026-05-29"];
    let second = ["2026-01-09", "2026-02-13", "2026-03-13", "2026-04-10", "2026-05-08"];
    for (week, due) in [(5, fifth), (2, second)] {
        let mut terms = plus(due[0]);
        terms["billing_week"] = json!(week);
        let dues = Dues::new();
        dues.members(&[change("m-1", "ACTIVATE", "u-1", "2026-01-02", terms)]);
        pay_every_period(&dues, &due);
        assert!(dues.subscriptions("u-1").iter().all(|r| r["billing_week"] == week));
    }
}

#[test]
fn due_dates_are_counted_from_the_anchor_so_that_31_january_comes_back_to_the_31st() {
    let dues = Dues::new();
    dues.members(&[change("m-1", "ACTIVATE", "u-1", "2026-01-02", plus("2026-01-31"))]);
    pay_every_period(&dues, &["2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30", "2026-05-31"]);
}

#[test]
fn yearly_dues_from_29_february_come_back_to_it_in_leap_years() {
    let mut terms = plus("2024-02-29");
    terms["term"] = json!("YEARLY");
    let dues = Dues::new();
    dues.members(&[change("m-1", "ACTIVATE", "u-1", "2024-01-02", terms)]);
    assert_eq!(dues.only("u-1")["term"], "YEARLY");
    pay_every_period(&dues, &["2024-02-29", "2025-02-28", "2026-02-28", "2027-02-28", "2028-02-29"]);
}

#[test]
fn a_change_for_an_unknown_user_is_parked_and_names_the_user() {
    let dues = member();
    let unknown = [
        plain("m-2", "CANCEL", "u-9", "2026-01-10"),
        change("m-3", "UPGRADE", "u-9", "2026-01-10", tier("Pro", "29.99")),
        change("m-4", "PAUSE", "u-9", "2026-01-10", json!({"pause_duration_months": 2})),
    ];
    assert_eq!(dues.members(&unknown), counts([("parked", 3)]));
    assert!(
        texts(&dues.parked(), "reason").iter().all(|reason| reason == "user_id: u-9 has no billing record")
    );
    assert_eq!(at(0, &dues)["billing_status"], "SCHEDULED");
}

/// Pays period after period, and checks when the next one is due.
fn pay_every_period(dues: &Dues, due: &[&str]) {
    for (n, day) in due.iter().enumerate() {
        let records = dues.subscriptions("u-1");
        assert_eq!(records.len(), n + 1);
        assert_eq!(records[n]["billing_date"], format!("{day}T00:00:00Z"));
        let (year, month) = (&day[..4], &day[5..7]);
        assert_eq!(records[n]["billing_period"], format!("{month}/{year}"));
        let debit = Debit::new("u-1", records[n]["subscription_id"].as_str().unwrap(), &format!("c-{n}"));
        let paid = [debit.submitted(&format!("p-{n}"), day), debit.completed(&format!("q-{n}"), day)];
        assert_eq!(dues.payments(&paid), counts([("applied", 2)]));
    }
}

/// A record that was presented and got the wrong amount waits again, for what it was presented with.
#[test]
fn a_new_plan_does_not_change_what_was_presented() {
    for kind in ["UPGRADE", "DOWNGRADE"] {
        let dues = member();
        let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
        let mut short = debit.completed("p-2", "2026-02-03");
        short["payment"]["amount"] = json!("10.00");
        dues.payments(&[debit.submitted("p-1", "2026-02-01"), short]);
        assert_eq!(dues.statuses("u-1"), ["SCHEDULED", "SCHEDULED"]);
        dues.members(&[change("m-2", kind, "u-1", "2026-02-04", tier("Pro", "29.99"))]);
        let shown = dues.subscriptions("u-1");
        let (amount, pending) = match kind {
            "UPGRADE" => ("29.99", Value::Null),
            _ => ("14.99", json!("29.99")),
        };
        assert_eq!(texts(&shown, "billing_amount"), ["14.99", amount], "{kind}");
        let pendings = [&shown[0]["pending_amount"], &shown[1]["pending_amount"]];
        assert_eq!(pendings, [&Value::Null, &pending], "{kind}");
    }
}
