//! Operator commands on one record: pay, waive, cancel, pause, resume.

use serde_json::{Value, json};

use crate::support::records::activate;
use crate::support::run::{Dues, assert_has, assert_says, counts, texts};

/// A Monday, the day after the first due date.
const FIRST: &str = "2026-02-02T08:00:00Z";
/// A day on which the debits of that day have been returned.
const BACK: &str = "2026-02-05T08:00:00Z";

fn member() -> Dues {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1"), activate("m-2", "u-2")]);
    dues
}

/// A member with a first debit returned under that code, and an account that can pay now.
fn in_arrears(code: &str) -> Dues {
    let dues = member();
    dues.account("u-1", &format!("00{code}"));
    assert_eq!(dues.collect("INITIAL", FIRST), counts([("sent", 2)]));
    assert_eq!(dues.deliver(BACK), 2);
    assert_eq!(dues.statuses("u-1"), ["ERROR", "SCHEDULED"]);
    dues.account("u-1", "6789");
    dues
}

impl Dues {
    /// Runs a command on the n-th record of `u-1`, and returns the record after it.
    fn ask(&self, verb: &str, n: usize, as_of: &str, more: &[&str]) -> Value {
        let id = self.id("u-1", n);
        let answer = self.json(&[&[verb, "u-1", &id, "--as-of", as_of], more].concat());
        assert_eq!(
            answer,
            self.subscriptions("u-1")
                .into_iter()
                .find(|record| record["subscription_id"] == id.as_str())
                .unwrap()
        );
        answer
    }

    /// Runs a command that must fail: exit code 1, and this message.
    #[track_caller]
    fn refuses(&self, verb: &str, n: usize, as_of: &str, more: &[&str], wanted: &[&str]) {
        let id = self.id("u-1", n);
        self.refuses_of("u-1", &id, verb, as_of, more, wanted);
    }

    #[track_caller]
    fn refuses_of(&self, user: &str, id: &str, verb: &str, as_of: &str, more: &[&str], wanted: &[&str]) {
        let args = [&[verb, user, id, "--as-of", as_of], more].concat();
        let before = self.subscriptions("u-1");
        let message = self.fails(&args);
        assert_eq!(self.run(&args).status.code(), Some(1), "{args:?}");
        assert!(message.starts_with("dues: "), "{message}");
        assert_says(&message, wanted);
        assert_eq!(self.subscriptions("u-1"), before, "{args:?} changed something");
    }

    /// The source of the latest history row of the n-th record of `u-1`.
    fn latest_source(&self, n: usize) -> String {
        texts(&self.history(&self.id("u-1", n)), "source").pop().unwrap()
    }
}

#[test]
fn a_failed_record_is_paid_by_hand_on_any_day() {
    let dues = in_arrears("01");
    // A Saturday.
    let paid = dues.ask("pay", 0, "2026-02-07T10:00:00Z", &[]);
    assert_has(
        &paid,
        &json!({"billing_status": "ACHSENT", "process": "MANUAL_REPAYMENT", "attempts": 2, "usio_error": ""}),
    );
    let id = dues.id("u-1", 0);
    assert_eq!(dues.debits("u-1"), [format!("{id}-1"), format!("{id}-2")]);
    let rows = dues.history(&id);
    let sources = texts(&rows, "source");
    assert_eq!(sources[sources.len() - 2..], ["dues attempt", "dues gateway"]);
    assert_eq!(rows[rows.len() - 2]["process"], "MANUAL_REPAYMENT");
    // Debited on the Monday, settled on the Wednesday.
    assert_eq!(dues.deliver("2026-02-11T05:59:00Z"), 0);
    assert_eq!(dues.deliver("2026-02-11T06:00:00Z"), 1);
    assert_eq!(dues.statuses("u-1"), ["COMPLETED", "SCHEDULED"]);
    dues.refuses("pay", 0, "2026-02-12", &[], &["nothing was debited", "COMPLETED"]);
}

#[test]
fn paying_says_in_words_what_became_of_the_record() {
    let dues = in_arrears("01");
    let id = dues.id("u-1", 0);
    let said = dues.ok(&["pay", "u-1", &id, "--as-of", BACK]);
    assert_eq!(said, format!("{id}: ACHSENT, transaction {}\n", dues.books().last().unwrap().transaction));
}

#[test]
fn a_new_account_lifts_what_only_a_new_account_can() {
    for code in ["02", "03", "04"] {
        let dues = in_arrears(code);
        dues.refuses(
            "pay",
            0,
            BACK,
            &[],
            &[&format!("R{code}"), "stops debits until a new account is on file"],
        );
        assert_eq!(dues.debits("u-1").len(), 1);
        assert_has(
            &dues.ask("pay", 0, BACK, &["--new-account"]),
            &json!({"billing_status": "ACHSENT", "attempts": 2}),
        );
        assert_eq!(dues.deliver("2026-02-09T06:00:00Z"), 1);
        assert_eq!(
            dues.collect("INITIAL", "2026-03-02T08:00:00Z"),
            counts([("sent", 2)]),
            "what was paid since lifts it for good"
        );
    }
    // Paying authorises the debit, but does not unfreeze a frozen account.
    for code in ["08", "11"] {
        let dues = in_arrears(code);
        dues.refuses("pay", 0, BACK, &[], &["nothing was debited", "stops debits until"]);
        assert_has(&dues.ask("pay", 0, BACK, &["--authorised"]), &json!({"billing_status": "ACHSENT"}));
    }
    let frozen = in_arrears("16");
    frozen.refuses("pay", 0, BACK, &["--new-account"], &["R16", "stops debits"]);
    assert_eq!(frozen.debits("u-1").len(), 1);
}

#[test]
fn what_cannot_be_paid_is_refused_with_its_reason() {
    let dues = in_arrears("01");
    dues.refuses("pay", 1, BACK, &[], &["nothing was debited", "not due before 2026-03-01T00:00:00Z"]);
    dues.refuses_of("u-2", &dues.id("u-1", 0), "pay", BACK, &[], &["belongs to another user"]);
    dues.refuses_of("u-1", "no-such-record", "pay", BACK, &[], &["no billing record no-such-record"]);
    dues.refuses_of(
        "no-such-user",
        "no-such-record",
        "pay",
        BACK,
        &[],
        &["no billing record no-such-record"],
    );
    dues.ask("pause", 1, BACK, &["--months", "1"]);
    dues.refuses("pay", 1, BACK, &[], &["nothing was debited", "paused"]);
    assert_eq!(dues.debits("u-1").len(), 1);

    let sent = in_arrears("01");
    sent.ask("pay", 0, BACK, &[]);
    sent.refuses("pay", 0, BACK, &[], &["nothing was debited", "a debit is already under way"]);
    let barred = in_arrears("10");
    barred.refuses(
        "pay",
        0,
        BACK,
        &["--new-account"],
        &["nothing was debited", "barred from collection", "R10"],
    );
    assert_eq!((sent.debits("u-1").len(), barred.debits("u-1").len()), (2, 1));
}

#[test]
fn a_payment_that_the_gateway_refuses_is_a_failure_that_is_on_record() {
    let dues = in_arrears("01");
    dues.account("u-1", "0501");
    let id = dues.id("u-1", 0);
    assert_says(
        &dues.fails(&["pay", "u-1", &id, "--as-of", BACK]),
        &["the gateway refused", "R01 Insufficient funds"],
    );
    assert_has(
        &dues.subscriptions("u-1")[0],
        &json!({"billing_status": "ERROR", "process": "MANUAL_REPAYMENT", "attempts": 2,
            "usio_error": "R01 Insufficient funds"}),
    );
    dues.fails(&["pay", "u-1", &id, "--as-of", BACK]);
    dues.refuses("pay", 0, BACK, &[], &["nothing was debited", "presented 3 times"]);
    assert_eq!(dues.debits("u-1").len(), 3);
}

/// Nothing is debited, so a script that pays needs a failing exit code.
#[test]
fn paying_what_is_too_old_is_a_failure() {
    let dues = in_arrears("01");
    let id = dues.id("u-1", 0);
    let output = dues.run(&["pay", "u-1", &id, "--as-of", "2026-05-15T08:00:00Z"]);
    assert_eq!(dues.debits("u-1").len(), 1);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn paying_counts_days_as_collecting_does() {
    let dues = in_arrears("01");
    let id = dues.id("u-1", 0);
    let mut command = dues.command(&["pay", "u-1", &id, "--as-of", "2026-05-15T08:00:00Z"]);
    assert!(command.env("OLD_SUBSCRIPTION_DAYS", "120").output().unwrap().status.success());
    assert_eq!(dues.statuses("u-1"), ["ACHSENT", "SCHEDULED"]);
}

#[test]
fn a_waived_period_is_over_and_the_next_one_follows() {
    let dues = member();
    assert_has(&dues.ask("waive", 0, "2026-01-20T09:00:00Z", &[]), &json!({"billing_status": "WAIVED"}));
    assert_eq!(dues.latest_source(0), "dues waive");
    assert_eq!(dues.statuses("u-1"), ["WAIVED", "SCHEDULED"]);
    dues.refuses("waive", 0, "2026-01-21", &[], &["waive rejected", "WAIVED is final"]);
    dues.refuses("pay", 0, FIRST, &[], &["nothing was debited", "WAIVED"]);
    assert_eq!(dues.collect("INITIAL", FIRST), counts([("sent", 1)]), "only the other member's");
    assert_eq!(dues.debits("u-1"), Vec::<String>::new());

    let dues = in_arrears("01");
    dues.ask("waive", 0, BACK, &[]);
    assert_eq!(
        dues.statuses("u-1"),
        ["WAIVED", "SCHEDULED"],
        "the next record was there before, and is there once"
    );
    assert_eq!(dues.collect("RETRY", BACK), counts([]));
}

#[test]
fn a_record_is_cancelled_when_its_period_ends_or_at_once() {
    let dues = member();
    let waiting = dues.ask("cancel", 0, "2026-01-20T09:00:00Z", &[]);
    assert_has(&waiting, &json!({"billing_status": "SCHEDULED", "cancel_at": "2026-02-01T00:00:00Z"}));
    assert_eq!(dues.latest_source(0), "dues cancel");
    assert_says(&dues.ok(&["show", "u-1"]), &["cancels 2026-02-01"]);
    let ended = dues.ask("cancel", 0, "2026-01-21T09:00:00Z", &["--now"]);
    assert_eq!(ended["billing_status"], "CANCELLED");
    assert!(ended["completion_date"].as_str().unwrap().starts_with("2026-01-21T09:00:"), "{ended:#}");
    assert_eq!((dues.latest_source(0).as_str(), dues.status("u-1")), ("dues cancel", json!("INACTIVE")));
    dues.refuses("cancel", 0, "2026-01-22", &["--now"], &["cancel rejected", "CANCELLED is final"]);
    assert_eq!(dues.collect("INITIAL", FIRST), counts([("sent", 1)]), "only the other member's");
    assert_eq!(dues.debits("u-1"), Vec::<String>::new());
}

#[test]
fn money_in_flight_is_neither_waived_nor_paused_nor_resumed() {
    let dues = member();
    assert_eq!(dues.collect("INITIAL", FIRST), counts([("sent", 2)]));
    for (verb, more) in [("waive", &[][..]), ("pause", &["--months", "2"])] {
        dues.refuses(verb, 0, FIRST, more, &[&format!("{verb} rejected"), "a debit is under way"]);
    }
    dues.refuses("resume", 0, FIRST, &[], &["resume rejected", "ACHSENT is not paused"]);
    assert_eq!(dues.deliver(BACK), 2);
    for (verb, more) in [("waive", &[][..]), ("pause", &["--months", "2"])] {
        dues.refuses(verb, 0, BACK, more, &[&format!("{verb} rejected"), "already paid"]);
    }
    // A paid record stays paid; the next one is cancelled.
    assert_has(&dues.ask("cancel", 0, BACK, &["--now"]), &json!({"billing_status": "COMPLETED"}));
    assert_eq!(dues.statuses("u-1"), ["COMPLETED", "CANCELLED"]);
    dues.refuses("cancel", 0, BACK, &[], &["cancel rejected", "already paid"]);
}

#[test]
fn a_pause_rests_a_record_until_it_is_resumed() {
    let dues = member();
    let paused = dues.ask("pause", 0, "2026-01-20T09:00:00Z", &["--months", "3"]);
    assert_has(&paused, &json!({"billing_status": "PAUSED", "pause_duration_months": 3}));
    assert_eq!(dues.latest_source(0), "dues pause");
    dues.refuses("pause", 0, "2026-01-21", &["--months", "1"], &["pause rejected", "paused"]);
    assert_eq!(dues.collect("INITIAL", FIRST), counts([("sent", 1)]), "only the other member's");
    // Resumed after the due date: months of the pause are not billed, the next due date is.
    let resumed = dues.ask("resume", 0, "2026-02-03T09:00:00Z", &[]);
    assert_has(&resumed, &json!({"billing_status": "PAUSED_SKIPPED", "updated_event": "pause-resume"}));
    assert_eq!(dues.latest_source(0), "dues resume");
    dues.refuses("resume", 0, "2026-02-03", &[], &["resume rejected", "PAUSED_SKIPPED is final"]);
    assert_eq!(dues.collect("INITIAL", "2026-02-03T10:00:00Z"), counts([]));
    assert_eq!(dues.statuses("u-1"), ["PAUSED_SKIPPED", "SCHEDULED"]);
    assert_eq!(dues.debits("u-1").len(), 0);

    // Resumed before it: as if there had been no pause.
    let early = member();
    early.ask("pause", 0, "2026-01-20T09:00:00Z", &["--months", "3"]);
    assert_has(
        &early.ask("resume", 0, "2026-01-25T09:00:00Z", &[]),
        &json!({"billing_status": "SCHEDULED", "pause_duration_months": 0, "updated_event": "pause-resume"}),
    );
    early.refuses("resume", 0, "2026-01-25", &[], &["resume rejected", "SCHEDULED is not paused"]);
    assert_eq!(early.collect("INITIAL", FIRST), counts([("sent", 2)]));
    assert_eq!(early.debits("u-1").len(), 1);
    for verb in ["waive", "cancel", "resume"] {
        dues.refuses_of("u-2", &dues.id("u-1", 1), verb, BACK, &[], &["belongs to another user"]);
        dues.refuses_of("u-1", "no-such-record", verb, BACK, &[], &["no billing record no-such-record"]);
    }
}

#[test]
fn a_pause_does_not_make_a_stopped_account_good() {
    let dues = in_arrears("03");
    dues.ask("pause", 1, BACK, &["--months", "1"]);
    dues.ask("resume", 1, "2026-02-06T08:00:00Z", &[]);
    // The next period meets the same account.
    assert_eq!(dues.statuses("u-1"), ["ERROR", "SCHEDULED"]);
    assert_eq!(
        dues.collect("INITIAL", "2026-03-02T08:00:00Z"),
        counts([("left.stopped", 1), ("sent", 1)]),
        "only the other member's"
    );
    assert_eq!(dues.debits("u-1").len(), 1);
}

#[test]
fn wrong_usage_and_refusals_have_different_exit_codes() {
    let dues = member();
    let id = dues.id("u-1", 0);
    for (args, wanted) in [
        (&["pay"][..], "<USER>"),
        (&["pay", "u-1"], "<SUBSCRIPTION>"),
        (&["pay", "u-1", &id, "--as-of", "tomorrow"], "RFC 3339"),
        (&["pay", "u-1", &id, "--sandbox-odds", "fair"], "fair"),
        (&["waive", "u-1", &id, "--new-account"], "--new-account"),
        (&["pause", "u-1", &id], "--months"),
        (&["pause", "u-1", &id, "--months", "0"], "1..=12"),
        (&["pause", "u-1", &id, "--months", "13"], "1..=12"),
        (&["collect"], "--process"),
        (&["collect", "--process", "WEBHOOK"], "INITIAL, RETRY, PAUSE"),
        (&["collect", "--process", "INITIAL", "--old-days", "0"], "1..=3650"),
        (&["notify", "--days", "0"], "1..=366"),
        (&["sandbox", "account", "u-1", "12345"], "four digits"),
        (&["sandbox", "account", "u-1", "12a4"], "four digits"),
        (&["sandbox"], "Usage"),
    ] {
        assert_eq!(dues.run(args).status.code(), Some(2), "{args:?}");
        assert_says(&dues.fails(args), &[wanted]);
    }
    assert_eq!(dues.only("u-1")["version"], 1);
}

#[test]
fn asking_where_there_is_no_data_fails_and_makes_none() {
    let dues = Dues::new();
    for args in [
        &["collect", "--process", "INITIAL"][..],
        &["pay", "u-1", "s-1"],
        &["cancel", "u-1", "s-1", "--now"],
        &["notify"],
        &["risk"],
        &["sandbox", "deliver"],
    ] {
        assert_says(&dues.fails(args), &["no data in"]);
        assert_eq!(dues.run(args).status.code(), Some(1));
    }
    assert!(!dues.data().exists());
}

#[test]
fn a_worker_that_was_killed_does_not_keep_its_member_from_paying() {
    let dues = member();
    dues.hold("subscription-billing:user_id:u-1");
    let id = dues.id("u-1", 0);
    let pay = |more: &[&str]| dues.run(&[&["pay", "u-1", &id, "--as-of", FIRST], more].concat());
    assert_says(&String::from_utf8(pay(&["--no-wait"]).stderr).unwrap(), &["another worker", "try again"]);
    let waited = pay(&[]);
    assert_says(&String::from_utf8(waited.stderr).unwrap(), &["locked by another worker: waiting"]);
    assert!(waited.status.success(), "its lease has passed");
    assert_eq!(dues.debits("u-1").len(), 1);
}
