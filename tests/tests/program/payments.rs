//! Outcomes of debits, apart from the successful path.

use serde_json::{Value, json};

use crate::support::records::{Debit, activate};
use crate::support::run::{Dues, assert_says, counts, texts};

/// A user with one SCHEDULED record, and the first debit for it.
fn member() -> (Dues, Debit) {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
    (dues, debit)
}

fn first(dues: &Dues) -> Value {
    dues.subscriptions("u-1")[0].clone()
}

#[test]
fn a_return_leaves_an_error_with_code_and_message() {
    let (dues, debit) = member();
    let lines = [
        debit.submitted("p-1", "2026-02-01"),
        debit.returned("p-2", "2026-02-03", "R01", "Insufficient funds"),
    ];
    assert_eq!(dues.payments(&lines), counts([("applied", 2)]));
    let record = first(&dues);
    assert_eq!(record["billing_status"], "ERROR");
    assert_eq!(record["usio_error"], "R01 Insufficient funds");
    assert_eq!(record["transaction_id"], "c-1");
    assert_eq!(record.get("completion_date"), None);
    assert_eq!(record.get("collection_bar"), None, "R01 may be tried again");
    assert_eq!(dues.statuses("u-1"), ["ERROR", "SCHEDULED"]);
}

#[test]
fn a_retry_after_a_return_completes_the_same_record_and_clears_the_error() {
    let (dues, debit) = member();
    let second = debit.again("c-2");
    dues.payments(&[
        debit.submitted("p-1", "2026-02-01"),
        debit.returned("p-2", "2026-02-03", "R09", "Uncollected"),
        second.submitted("p-3", "2026-02-05"),
        second.completed("p-4", "2026-02-07"),
    ]);
    let record = first(&dues);
    assert_eq!((&record["billing_status"], &record["usio_error"]), (&json!("COMPLETED"), &json!("")));
    assert_eq!(record["transaction_id"], "c-2");
    assert_eq!(record.get("attempts"), None, "none of them is an attempt of this system");
    assert_eq!(record["initial_run_date"], "2026-02-01T15:30:00Z", "the first attempt's");
    assert_eq!(
        dues.statuses("u-1"),
        ["COMPLETED", "SCHEDULED"],
        "a second attempt makes no second next record"
    );
}

#[test]
fn a_late_return_takes_a_completed_payment_back() {
    let (dues, debit) = member();
    dues.payments(&[debit.submitted("p-1", "2026-02-01"), debit.completed("p-2", "2026-02-03")]);
    assert_eq!(first(&dues)["billing_status"], "COMPLETED");
    assert_eq!(
        dues.payments(&[debit.returned("p-3", "2026-03-20", "R10", "Not authorized")]),
        counts([("applied", 1)])
    );
    let record = first(&dues);
    assert_eq!(
        (&record["billing_status"], &record["usio_error"]),
        (&json!("ERROR"), &json!("R10 Not authorized"))
    );
    assert_eq!(record.get("completion_date"), None);
    assert_eq!(record["collection_bar"], "R10 Not authorized", "an unauthorised debit bars the user");
}

#[test]
fn a_refund_ends_the_record_from_both_states_that_have_money() {
    for settled in [false, true] {
        let (dues, debit) = member();
        dues.payments(&[debit.submitted("p-1", "2026-02-01")]);
        if settled {
            dues.payments(&[debit.completed("p-2", "2026-02-03")]);
        }
        assert_eq!(dues.payments(&[debit.refunded("p-3", "2026-02-05")]), counts([("applied", 1)]));
        let record = first(&dues);
        assert_eq!(
            (&record["billing_status"], &record["transaction_id"]),
            (&json!("REFUNDED"), &json!("c-1"))
        );
        // Another service debits the period again: under way, and refunded if that comes to nothing.
        let second = debit.again("c-2");
        assert_eq!(dues.payments(&[second.submitted("p-4", "2026-02-06")]), counts([("applied", 1)]));
        assert_eq!(first(&dues)["billing_status"], "ACHSENT");
        dues.payments(&[second.returned("p-5", "2026-02-08", "R01", "Insufficient funds")]);
        let record = first(&dues);
        assert_eq!(
            (&record["billing_status"], &record["refunded_amount"]),
            (&json!("REFUNDED"), &json!("14.99"))
        );
        assert_eq!(dues.parked(), Vec::<Value>::new());
    }
}

#[test]
fn a_chargeback_leaves_an_error_and_bars_the_user_from_collection() {
    for settled in [false, true] {
        let (dues, debit) = member();
        dues.payments(&[debit.submitted("p-1", "2026-02-01")]);
        if settled {
            dues.payments(&[debit.completed("p-2", "2026-02-03")]);
        }
        assert_eq!(dues.payments(&[debit.charged_back("p-3", "2026-02-20")]), counts([("applied", 1)]));
        let record = first(&dues);
        assert_eq!(
            (&record["billing_status"], &record["usio_error"]),
            (&json!("ERROR"), &json!("disputed by the member"))
        );
        assert_eq!(record["collection_bar"], "disputed by the member");
    }
}

/// T1 returned, T2 under way: whatever is said about T1 counts for T1, and never hides what T2 comes to.
#[test]
fn what_concerns_an_old_attempt_counts_for_that_attempt() {
    for (report, status, transaction) in [
        ("returned", "ACHSENT", "c-2"),
        ("completed", "COMPLETED", "c-1"),
        ("refunded", "ACHSENT", "c-2"),
        ("charged back", "ACHSENT", "c-2"),
    ] {
        let (dues, debit) = member();
        let second = debit.again("c-2");
        dues.payments(&[
            debit.submitted("p-1", "2026-02-01"),
            debit.returned("p-2", "2026-02-03", "R01", "Insufficient funds"),
            second.submitted("p-3", "2026-02-05"),
        ]);
        let line = match report {
            "returned" => debit.returned("p-4", "2026-02-06", "R01", "Insufficient funds"),
            "completed" => debit.completed("p-4", "2026-02-06"),
            "refunded" => debit.refunded("p-4", "2026-02-06"),
            _ => debit.charged_back("p-4", "2026-02-06"),
        };
        assert_eq!(dues.payments(&[line]), counts([("applied", 1)]), "{report}");
        let record = first(&dues);
        assert_eq!(
            (&record["billing_status"], &record["transaction_id"]),
            (&json!(status), &json!(transaction)),
            "{report}"
        );
        assert_eq!(record.get("collection_bar").is_some(), report == "charged back");
    }
}

#[test]
fn money_that_arrives_from_an_old_attempt_completes_an_error_record() {
    let (dues, debit) = member();
    let second = debit.again("c-2");
    dues.payments(&[
        debit.submitted("p-1", "2026-02-01"),
        debit.returned("p-2", "2026-02-03", "R01", "Insufficient funds"),
        second.submitted("p-3", "2026-02-05"),
        second.returned("p-4", "2026-02-07", "R01", "Insufficient funds"),
    ]);
    assert_eq!(dues.payments(&[debit.completed("p-5", "2026-02-08")]), counts([("applied", 1)]));
    let record = first(&dues);
    assert_eq!((&record["billing_status"], &record["transaction_id"]), (&json!("COMPLETED"), &json!("c-1")));
    assert_eq!(record["usio_error"], "");
}

#[test]
fn a_settlement_before_its_submission_is_taken_as_it_comes() {
    let (dues, debit) = member();
    let lines = [debit.completed("p-2", "2026-02-03"), debit.submitted("p-1", "2026-02-01")];
    assert_eq!(dues.payments(&lines), counts([("applied", 2)]));
    assert_eq!(first(&dues)["billing_status"], "COMPLETED");
    assert_eq!(texts(&dues.history(&debit.subscription), "event_id"), ["m-1", "p-2", "p-1"]);
    assert_eq!(dues.parked(), Vec::<Value>::new());
}

/// There are enough lines between the two that they are not in one batch.
#[test]
fn a_settlement_far_before_its_submission_is_taken_as_it_comes() {
    let (dues, debit) = member();
    let other = json!({"event_id": "x", "type": "ONE_TIME_PAYMENT"});
    let lines = [
        vec![debit.completed("p-2", "2026-02-03")],
        vec![other; 5000],
        vec![debit.submitted("p-1", "2026-02-01")],
    ]
    .concat();
    assert_eq!(dues.payments(&lines), counts([("applied", 2), ("skipped", 5000)]));
    assert_eq!(first(&dues)["billing_status"], "COMPLETED");
    assert_eq!(dues.parked(), Vec::<Value>::new());
}

#[test]
fn a_settlement_in_an_earlier_file_than_its_submission_makes_the_debit_known() {
    for early in ["COMPLETED", "REFUNDED"] {
        let (dues, debit) = member();
        let line = match early {
            "COMPLETED" => debit.completed("p-2", "2026-02-03"),
            _ => debit.refunded("p-2", "2026-02-03"),
        };
        assert_eq!(dues.payments(std::slice::from_ref(&line)), counts([("applied", 1)]));
        assert_eq!(first(&dues)["billing_status"], early);
        assert_eq!(dues.payments(&[debit.submitted("p-1", "2026-02-01")]), counts([("applied", 1)]));
        assert_eq!(first(&dues)["billing_status"], early);
        assert_eq!(dues.parked(), Vec::<Value>::new());
        assert_eq!(dues.payments(&[line]), counts([("duplicate", 1)]));
    }
}

#[test]
fn a_return_before_its_submission_fails_the_attempt_and_the_submission_does_not_undo_it() {
    let (dues, debit) = member();
    let lines =
        [debit.returned("p-2", "2026-02-03", "R03", "No account"), debit.submitted("p-1", "2026-02-01")];
    assert_eq!(dues.payments(&lines), counts([("applied", 2)]));
    assert_eq!(dues.statuses("u-1"), ["ERROR", "SCHEDULED"]);
    assert_eq!(first(&dues)["usio_error"], "R03 No account");
}

#[test]
fn a_notification_of_change_lets_the_debit_go_on_and_the_next_one_wait() {
    let (dues, debit) = member();
    dues.payments(&[debit.submitted("p-1", "2026-02-01")]);
    assert_eq!(
        dues.payments(&[debit.returned("p-2", "2026-02-02", "C01", "New account number")]),
        counts([("applied", 1)])
    );
    let record = first(&dues);
    assert_eq!(record["billing_status"], "ACHSENT");
    assert_eq!(record["awaits_correction"], "C01 2026-02-02T15:30:00Z");
    assert_eq!(dues.outcomes(&debit.subscription)[2], ("p-2".to_owned(), "applied".to_owned()));
    dues.payments(&[debit.completed("p-3", "2026-02-03")]);
    assert_eq!(dues.statuses("u-1"), ["COMPLETED", "SCHEDULED"]);
    assert_says(&dues.ok(&["show", "u-1"]), &["awaits correction: C01, by 2026-02-10"]);
    assert_says(
        &dues.ok(&["explain", "u-1", "--at", "2026-02-04"]),
        &["The bank asked for a correction of the account (C01 of 2026-02-02, to correct by 2026-02-10)"],
    );
    let march = "2026-03-02T08:00:00Z";
    assert_eq!(dues.collect("INITIAL", march), counts([("left.awaits_correction", 1)]));
    let next = dues.id("u-1", 1);
    assert_says(&dues.fails(&["pay", "u-1", &next, "--as-of", march]), &["correction of the account (C01"]);
    dues.ok(&["pay", "u-1", &next, "--new-account", "--as-of", march]);
    assert_eq!(dues.statuses("u-1"), ["COMPLETED", "ACHSENT", "SCHEDULED"]);
    assert_eq!(first(&dues).get("awaits_correction"), None);
}

#[test]
fn a_settlement_reported_by_two_facts_counts_once() {
    let (dues, debit) = member();
    dues.payments(&[debit.submitted("p-1", "2026-02-01"), debit.completed("p-2", "2026-02-03")]);
    // The same report, in other words: nothing new. A later one of the same money: the latest counts.
    assert_eq!(dues.payments(&[debit.completed("p-3", "2026-02-03")]), counts([("ignored", 1)]));
    assert_eq!(first(&dues)["completion_date"], "2026-02-03T15:30:00Z");
    assert_eq!(dues.payments(&[debit.completed("p-4", "2026-02-04")]), counts([("applied", 1)]));
    assert_eq!(first(&dues)["completion_date"], "2026-02-04T15:30:00Z");
    assert_eq!(dues.statuses("u-1"), ["COMPLETED", "SCHEDULED"]);
}

#[test]
fn a_second_submission_while_one_is_in_flight_is_another_attempt() {
    let (dues, debit) = member();
    let second = debit.again("c-2");
    let lines = [debit.submitted("p-1", "2026-02-01"), second.submitted("p-2", "2026-02-02")];
    assert_eq!(dues.payments(&lines), counts([("applied", 2)]));
    assert_eq!(first(&dues)["transaction_id"], "c-2", "the latest that is under way");
    dues.payments(&[second.returned("p-3", "2026-02-04", "R01", "Insufficient funds")]);
    let record = first(&dues);
    assert_eq!((&record["billing_status"], &record["transaction_id"]), (&json!("ACHSENT"), &json!("c-1")));
    assert_eq!(dues.parked(), Vec::<Value>::new());
}
