//! `dues collect` through the simulated network: what is due is debited, once, by the rules.

use serde_json::{Value, json};

use crate::support::records::{activate, change, plain, plus, tier};
use crate::support::run::{Dues, assert_has, assert_says, counts, texts};

/// A Monday, the day after the first due date.
const FIRST: &str = "2026-02-02T08:00:00Z";
/// A day on which the debits of that day have settled.
const SETTLED: &str = "2026-02-05T08:00:00Z";
/// A Friday after every day on which a return of the first debit can be planned to be presented again: two
/// banking days, and up to nine more.
const AGAIN: &str = "2026-02-20T08:00:00Z";
/// The last day that can be planned for the last presentment, which is kept for a signal until 18 March.
const LAST: &str = "2026-03-31T08:00:00Z";
/// A Monday, the day after the second due date.
const SECOND: &str = "2026-03-02T08:00:00Z";

/// A member with an account that ends in these digits, first due on 1 February 2026.
fn with_mask(mask: &str) -> Dues {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    dues.account("u-1", mask);
    dues
}

/// The same, debited on the first day.
fn debited(mask: &str) -> Dues {
    let dues = with_mask(mask);
    assert_eq!(dues.collect("INITIAL", FIRST), counts([("sent", 1)]));
    dues
}

/// The same, with the debit returned under that code.
fn returned(code: &str) -> Dues {
    let dues = debited(&format!("00{code}"));
    assert_eq!(dues.deliver(SETTLED), 1);
    assert_eq!(dues.statuses("u-1"), ["ERROR", "SCHEDULED"]);
    let error = first(&dues)["usio_error"].as_str().unwrap().to_owned();
    assert!(error.starts_with(&format!("R{code} ")), "{error}");
    dues
}

fn first(dues: &Dues) -> Value {
    dues.subscriptions("u-1")[0].clone()
}

fn key(dues: &Dues, record: usize, attempt: usize) -> String {
    format!("{}-{attempt}", dues.id("u-1", record))
}

#[test]
fn what_is_due_is_debited_and_nothing_else() {
    let terms = |due: &str, term: &str, week: Value, amount: &str| {
        json!({"tier": "Plus", "version": "v2",
        "term": term, "amount": amount, "billing_date": due, "billing_week": week, "provider": "cognito"})
    };
    let join = |user: &str, terms: Value| change(&format!("m-{user}"), "ACTIVATE", user, "2026-01-05", terms);
    let dues = Dues::new();
    dues.members(&[
        join("monthly", terms("2026-02-01T00:00:00Z", "MONTHLY", Value::Null, "14.99")),
        join("yearly", terms("2026-02-02T08:00:00Z", "YEARLY", Value::Null, "99.00")),
        join("a-minute-later", terms("2026-02-02T08:05:00Z", "MONTHLY", Value::Null, "14.99")),
        join("friday", terms("2026-02-06T00:00:00Z", "MONTHLY", json!(1), "4.99")),
        join("next-month", plus("2026-03-01")),
    ]);
    let summary = dues.json(&["collect", "--process", "INITIAL", "--as-of", FIRST]);
    assert_eq!(
        summary,
        json!({"read": 2, "queued": 2, "unreadable": [], "closed": null, "users": 2, "locked": 0, "sent": 2,
            "collected": 0, "refused": 0,
            "in_doubt": 0, "free": 0, "cancelled": 0, "stale": 0, "pause_expired": 0, "pause_ending": 0,
            "withdrawn": 0, "left": {}, "failed": 0,
            "sandbox": {"applied": 0, "duplicate": 0, "ignored": 0, "parked": 0}})
    );
    let debits = || -> Vec<(String, String)> {
        let mut debits: Vec<_> =
            dues.books().into_iter().map(|booked| (booked.user, booked.amount)).collect();
        debits.sort();
        debits
    };
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect()
    };
    assert_eq!(debits(), pairs(&[("monthly", "14.99"), ("yearly", "99.00")]));
    assert_eq!(dues.collect("INITIAL", FIRST), counts([]), "the same day again");
    assert_eq!(dues.collect("RETRY", FIRST), counts([]), "a debit that is under way is no failure");

    let summary = dues.json(&["collect", "--process", "INITIAL", "--as-of", "2026-02-06T08:00:00Z"]);
    assert_eq!(
        (&summary["sent"], &summary["sandbox"]["applied"]),
        (&json!(2), &json!(2)),
        "two more fell due, and the first two have settled"
    );
    assert_eq!(
        debits(),
        pairs(&[("a-minute-later", "14.99"), ("friday", "4.99"), ("monthly", "14.99"), ("yearly", "99.00")])
    );
    for (user, statuses, next) in [
        ("monthly", ["COMPLETED", "SCHEDULED"], "2026-03-01T00:00:00Z"),
        ("yearly", ["COMPLETED", "SCHEDULED"], "2027-02-02T08:00:00Z"),
        ("friday", ["ACHSENT", "SCHEDULED"], "2026-03-06T00:00:00Z"),
    ] {
        assert_eq!(dues.statuses(user), statuses, "{user}");
        assert_eq!(dues.subscriptions(user)[1]["billing_date"], next);
    }
    assert_eq!(dues.statuses("next-month"), ["SCHEDULED"]);
}

#[test]
fn a_debit_is_on_record_with_its_key_and_confirmation_and_the_next_record_is_there_once() {
    let dues = debited("6789");
    let booked = dues.books();
    assert_eq!(booked.len(), 1);
    let records = dues.subscriptions("u-1");
    let (id, next) = (&records[0]["subscription_id"], &records[1]["subscription_id"]);
    assert_has(
        &records[0],
        &json!({"billing_status": "ACHSENT", "process": "INITIAL", "attempts": 1, "usio_error": "",
            "transaction_id": booked[0].transaction, "next_subscription_id": next}),
    );
    assert!(
        records[0]["initial_run_date"].as_str().unwrap().starts_with("2026-02-02T08:00:"),
        "{records:#?}"
    );
    assert_has(
        &records[1],
        &json!({"billing_status": "SCHEDULED", "billing_date": "2026-03-01T00:00:00Z",
            "billing_amount": "14.99"}),
    );
    assert_eq!((&booked[0].key, &json!(booked[0].subscription)), (&key(&dues, 0, 1), id));
    let rows = dues.history(id.as_str().unwrap());
    assert_eq!(texts(&rows, "source"), ["memberships ACTIVATE", "dues attempt", "dues gateway"]);
    assert_eq!(texts(&rows, "billing_status"), ["SCHEDULED", "ACHSENT", "ACHSENT"]);

    for day in [FIRST, "2026-02-03T08:00:00Z", "2026-02-20T08:00:00Z"] {
        assert_eq!(dues.collect("INITIAL", day), counts([]), "{day}");
    }
    assert_eq!(dues.statuses("u-1"), ["COMPLETED", "SCHEDULED"]);
    assert_eq!(dues.id("u-1", 1), next.as_str().unwrap());
    assert_eq!(dues.books().len(), 1);
}

#[test]
fn debits_settle_on_the_second_banking_day() {
    for (submitted, settles) in [
        ("2026-02-02", "2026-02-04"),
        // A weekend.
        ("2026-02-05", "2026-02-09"),
        // A weekend and Presidents' Day.
        ("2026-02-13", "2026-02-18"),
        // Independence Day is a Saturday, which leaves the Friday open.
        ("2026-07-02", "2026-07-06"),
        // Christmas Day and a weekend.
        ("2026-12-24", "2026-12-29"),
    ] {
        let dues = Dues::new();
        dues.members(&[change("m-1", "ACTIVATE", "u-1", "2026-01-05", plus(submitted))]);
        assert_eq!(dues.collect("INITIAL", &format!("{submitted}T08:00:00Z")), counts([("sent", 1)]));
        assert_eq!(dues.deliver(&format!("{settles}T05:59:00Z")), 0, "{submitted}");
        assert_eq!(first(&dues)["billing_status"], "ACHSENT");
        assert_eq!(dues.deliver(&format!("{settles}T06:00:00Z")), 1, "{submitted}");
        assert_eq!(dues.deliver("2027-06-01"), 0, "it is delivered once");
        let record = first(&dues);
        assert_has(
            &record,
            &json!({"billing_status": "COMPLETED", "completion_date": format!("{settles}T06:00:00Z"),
                "receipt_payment_type": "ACH",
                "transaction_id": dues.books()[0].transaction}),
        );
        assert_eq!(record["receipt_account_mask"].as_str().unwrap().len(), 4);
    }
}

#[test]
fn nothing_is_collected_while_banks_are_closed_and_the_run_says_why() {
    let dues = with_mask("6789");
    for (day, why) in
        [("2026-02-07", "weekend"), ("2026-02-08", "weekend"), ("2026-02-16", "Presidents' Day")]
    {
        for process in ["INITIAL", "RETRY"] {
            let args = ["collect", "--process", process, "--as-of", day];
            assert_eq!(dues.ok(&args), format!("no collections today: banks are closed: {why}\n"));
            let summary = dues.json(&args);
            assert_eq!(
                (&summary["closed"], &summary["read"]),
                (&json!(format!("banks are closed: {why}")), &json!(0))
            );
        }
    }
    assert_eq!((dues.statuses("u-1"), dues.books()), (vec!["SCHEDULED".to_owned()], vec![]));
    assert_eq!(dues.collect("INITIAL", "2026-02-17"), counts([("sent", 1)]), "the next banking day");
    assert_eq!(dues.debits("u-1"), [key(&dues, 0, 1)]);
}

#[test]
fn the_summary_of_a_run_is_readable_text() {
    let dues = with_mask("6789");
    assert_says(&dues.ok(&["collect", "--process", "INITIAL", "--as-of", FIRST]), &["debits sent", " 1 "]);
    let said = dues.ok(&["collect", "--process", "RETRY", "--as-of", SETTLED]);
    assert_says(&said, &["sandbox delivered 1 outcomes: 1 applied", "nothing to do: 0 records checked"]);
}

#[test]
fn insufficient_funds_are_presented_twice_again_for_the_same_amount_and_never_a_third_time() {
    let dues = returned("01");
    dues.members(&[change("m-2", "UPGRADE", "u-1", "2026-02-05", tier("Max", "49.99"))]);
    assert_eq!(dues.collect("INITIAL", SETTLED), counts([]), "a failure is not what INITIAL collects");
    assert_eq!(
        dues.collect("RETRY", SETTLED),
        counts([("left.retry_planned", 1)]),
        "the day after its return"
    );
    assert_eq!(dues.collect("RETRY", AGAIN), counts([("sent", 1)]));
    assert_has(&first(&dues), &json!({"billing_status": "ACHSENT", "process": "RETRY", "attempts": 2}));
    assert_eq!(dues.collect("RETRY", "2026-02-23T08:00:00Z"), counts([]), "it is under way");
    assert_eq!(
        dues.collect("RETRY", "2026-03-17T08:00:00Z"),
        counts([("left.retry_planned", 1)]),
        "the last one is kept for a signal"
    );
    assert_eq!(dues.collect("RETRY", LAST), counts([("sent", 1)]));
    assert_eq!(dues.deliver("2026-04-03"), 1);

    dues.account("u-1", "6789");
    for day in ["2026-04-03", "2026-04-10", "2026-04-20"] {
        assert_eq!(dues.collect("RETRY", &format!("{day}T08:00:00Z")).get("sent"), None, "{day}");
    }
    let id = dues.id("u-1", 0);
    let said = dues.fails(&["pay", "u-1", &id, "--new-account", "--as-of", "2026-04-20T09:00:00Z"]);
    assert_says(&said, &["nothing was debited", "presented 3 times"]);
    assert_eq!(dues.debits("u-1"), [1, 2, 3].map(|attempt| key(&dues, 0, attempt)));
    assert!(dues.books().iter().all(|booked| booked.amount == "14.99"), "{:#?}", dues.books());
    assert_has(
        &first(&dues),
        &json!({"billing_status": "ERROR", "usio_error": "R01 Insufficient funds",
            "billing_amount": "14.99"}),
    );
    assert_eq!(dues.statuses("u-1").len(), 2, "one next record, however often it is presented");

    let next = dues.collect("INITIAL", "2026-04-20T09:00:00Z");
    assert_eq!(next, counts([("sent", 1)]), "the next period is not held up");
    assert_eq!(dues.books().last().unwrap().amount, "49.99");
}

#[test]
fn a_run_reports_exhausted_records() {
    let dues = returned("01");
    for day in [AGAIN, LAST] {
        assert_eq!(dues.collect("RETRY", day), counts([("sent", 1)]));
    }
    assert_eq!(dues.collect("RETRY", "2026-04-03T08:00:00Z"), counts([("left.exhausted", 1)]));
}

#[test]
fn a_second_presentment_that_settles_completes_the_record() {
    let dues = returned("09");
    dues.account("u-1", "6789");
    assert_eq!(dues.collect("RETRY", AGAIN), counts([("sent", 1)]));
    assert_eq!(dues.deliver("2026-02-24T06:00:00Z"), 1);
    assert_has(
        &first(&dues),
        &json!({"billing_status": "COMPLETED", "usio_error": "", "attempts": 2,
            "receipt_account_mask": "6789"}),
    );
}

#[test]
fn a_return_that_stops_debits_stops_the_next_period_too() {
    for code in ["02", "03", "04", "08", "11", "16", "20"] {
        let dues = returned(code);
        dues.account("u-1", "6789");
        assert_eq!(first(&dues).get("collection_bar"), None, "R{code} is no bar");
        assert_eq!(dues.collect("RETRY", SETTLED), counts([("left.stopped", 1)]), "R{code}");
        assert_eq!(dues.collect("INITIAL", SECOND), counts([("left.stopped", 1)]), "R{code}");
        assert_says(
            &dues.ok(&["collect", "--process", "INITIAL", "--as-of", SECOND]),
            &["skipped: stopped", " 1 "],
        );
        assert_eq!(dues.debits("u-1"), [key(&dues, 0, 1)], "R{code}");
        assert_eq!(dues.statuses("u-1"), ["ERROR", "SCHEDULED"]);
    }
}

#[test]
fn a_member_who_did_not_authorise_is_never_debited_again_by_any_command() {
    for code in ["05", "07", "10", "29"] {
        let dues = returned(code);
        dues.account("u-1", "6789");
        assert!(first(&dues)["collection_bar"].as_str().unwrap().starts_with(&format!("R{code} ")));
        assert_says(&dues.ok(&["show", "u-1"]), &["barred: R"]);
        assert_never_debited_again(&dues);
    }
}

/// No trigger or command debits a barred member again.
fn assert_never_debited_again(dues: &Dues) {
    let before = dues.debits("u-1");
    assert_eq!(dues.collect("RETRY", "2026-03-10T08:00:00Z").get("sent"), None);
    assert_eq!(dues.collect("INITIAL", "2026-03-10T08:00:00Z"), counts([("left.barred", 1)]));
    for n in 0..2 {
        let said = dues.fails(&[
            "pay",
            "u-1",
            &dues.id("u-1", n),
            "--new-account",
            "--as-of",
            "2026-03-10T09:00:00Z",
        ]);
        assert_says(&said, &["nothing was debited", "barred"]);
    }
    dues.members(&[change("m-again", "REACTIVATE", "u-1", "2026-03-11", plus("2026-03-20"))]);
    assert_eq!(
        dues.collect("INITIAL", "2026-03-20T08:00:00Z").get("sent"),
        None,
        "a new membership does not lift a bar"
    );
    let new = dues
        .subscriptions("u-1")
        .into_iter()
        .find(|record| record["billing_date"] == "2026-03-20T00:00:00Z")
        .unwrap();
    let id = new["subscription_id"].as_str().unwrap();
    assert_says(&dues.fails(&["pay", "u-1", id, "--as-of", "2026-03-20T09:00:00Z"]), &["barred"]);
    assert_eq!(dues.debits("u-1"), before);
}

#[test]
fn a_bar_is_not_forgotten_behind_two_years_of_waived_periods() {
    let dues = returned("10");
    for n in 1..=24 {
        dues.ok(&["waive", "u-1", &dues.id("u-1", n), "--as-of", "2026-02-06T08:00:00Z"]);
    }
    assert_eq!(dues.subscriptions("u-1")[25]["billing_date"], "2028-03-01T00:00:00Z");
    assert_eq!(dues.collect("INITIAL", "2028-03-02T08:00:00Z"), counts([("left.barred", 1)]));
    assert_eq!(dues.debits("u-1"), [key(&dues, 0, 1)]);
}

#[test]
fn a_late_return_takes_a_completed_payment_back_and_bars() {
    let dues = debited("0110");
    assert_eq!(dues.deliver(SETTLED), 1);
    assert_has(
        &first(&dues),
        &json!({"billing_status": "COMPLETED", "completion_date": "2026-02-04T06:00:00Z"}),
    );
    assert_eq!(dues.deliver("2026-02-25T05:59:00Z"), 0);
    assert_eq!(dues.deliver("2026-02-25T06:00:00Z"), 1);
    let record = first(&dues);
    assert_has(
        &record,
        &json!({"billing_status": "ERROR", "usio_error": "R10 Customer advises not authorised"}),
    );
    assert_eq!(record["collection_bar"], "R10 Customer advises not authorised");
    assert_eq!(record.get("completion_date"), None);
    dues.account("u-1", "6789");
    assert_never_debited_again(&dues);
}

#[test]
fn a_settled_payment_can_be_refunded_or_charged_back() {
    let dues = debited("0200");
    assert_eq!(dues.deliver("2026-02-09T05:59:00Z"), 1);
    assert_eq!(first(&dues)["billing_status"], "COMPLETED");
    assert_eq!(dues.deliver("2026-02-09T06:00:00Z"), 1);
    assert_eq!(dues.statuses("u-1"), ["REFUNDED", "SCHEDULED"]);
    dues.account("u-1", "6789");
    assert_eq!(
        dues.collect("RETRY", "2026-02-10T08:00:00Z"),
        counts([]),
        "what was given back is not collected again"
    );
    assert_eq!(dues.collect("INITIAL", SECOND), counts([("sent", 1)]), "a refund is no bar");

    let dues = debited("0300");
    assert_eq!(dues.deliver("2026-03-06T05:59:00Z"), 1);
    assert_eq!(first(&dues)["billing_status"], "COMPLETED");
    assert_eq!(dues.deliver("2026-03-06T06:00:00Z"), 1);
    assert_eq!(dues.statuses("u-1"), ["ERROR", "SCHEDULED"]);
    dues.account("u-1", "6789");
    assert_never_debited_again(&dues);
}

#[test]
fn what_is_collected_at_once_is_complete_at_once() {
    let dues = with_mask("0400");
    assert_eq!(dues.collect("INITIAL", FIRST), counts([("collected", 1)]));
    let record = first(&dues);
    assert_has(
        &record,
        &json!({"billing_status": "COMPLETED", "process": "INITIAL", "attempts": 1,
            "receipt_account_mask": "0400", "usio_error": "",
            "transaction_id": dues.books()[0].transaction}),
    );
    assert!(record["completion_date"].as_str().unwrap().starts_with("2026-02-02T08:00:"), "{record:#}");
    assert_eq!(dues.deliver("2026-03-01"), 0, "nothing is left to deliver");
    assert_eq!(dues.statuses("u-1"), ["COMPLETED", "SCHEDULED"]);
}

#[test]
fn what_is_refused_at_once_is_an_error_that_follows_the_same_rules() {
    let dues = with_mask("0501");
    assert_eq!(dues.collect("INITIAL", FIRST), counts([("refused", 1)]));
    assert_has(
        &first(&dues),
        &json!({"billing_status": "ERROR", "usio_error": "R01 Insufficient funds", "attempts": 1}),
    );
    assert_eq!(dues.statuses("u-1"), ["ERROR", "SCHEDULED"]);
    for (attempt, day) in [(2, AGAIN), (3, LAST)] {
        assert_eq!(dues.collect("RETRY", day), counts([("refused", 1)]));
        assert_eq!(first(&dues)["attempts"], attempt);
    }
    dues.account("u-1", "6789");
    assert_eq!(dues.collect("RETRY", LAST).get("sent"), None);
    assert_eq!(dues.books().into_iter().map(|booked| booked.answer).collect::<Vec<_>>(), ["R01"; 3]);

    let dues = with_mask("0503");
    assert_eq!(dues.collect("INITIAL", FIRST), counts([("refused", 1)]));
    assert_eq!(dues.collect("RETRY", SETTLED), counts([("left.stopped", 1)]));
}

#[test]
fn what_is_too_old_becomes_stale_and_is_not_debited() {
    let none: &[(&str, &str)] = &[];
    for (more, settings, last_day, too_late) in [
        (&[][..], none, "2026-05-01T23:00:00Z", "2026-05-04T08:00:00Z"),
        (&["--old-days", "30"], none, "2026-03-02T23:00:00Z", "2026-03-03T00:00:01Z"),
        (&[], &[("OLD_SUBSCRIPTION_DAYS", "10")], "2026-02-10T23:00:00Z", "2026-02-11T00:00:01Z"),
    ] {
        let dues = with_mask("6789");
        assert_eq!(
            dues.collect_with("INITIAL", too_late, more, settings),
            counts([("stale", 1)]),
            "{too_late}"
        );
        assert_eq!(
            (first(&dues)["billing_status"].as_str(), dues.books().len()),
            (Some("STALE"), 0),
            "{too_late}"
        );
        assert_eq!(dues.collect_with("INITIAL", too_late, more, settings), counts([]));
        let dues = with_mask("6789");
        assert_eq!(
            dues.collect_with("INITIAL", last_day, more, settings),
            counts([("sent", 1)]),
            "{last_day}"
        );
    }
    let dues = returned("01");
    assert_eq!(
        dues.collect_with("RETRY", "2026-03-04T08:00:00Z", &["--old-days", "30"], &[]),
        counts([("stale", 1)])
    );
    assert_eq!(first(&dues)["billing_status"], "STALE");
    assert_eq!(dues.debits("u-1").len(), 1);
}

#[test]
fn a_cancellation_is_carried_out_at_the_due_date_and_nothing_is_debited() {
    let dues = with_mask("6789");
    dues.ok(&["cancel", "u-1", &dues.id("u-1", 0), "--as-of", "2026-01-20"]);
    assert_has(&first(&dues), &json!({"billing_status": "SCHEDULED", "cancel_at": "2026-02-01T00:00:00Z"}));
    assert_eq!(dues.collect("INITIAL", "2026-01-30T08:00:00Z"), counts([]), "not yet");
    assert_eq!(dues.collect("INITIAL", FIRST), counts([("cancelled", 1)]));
    assert_eq!(dues.collect("INITIAL", FIRST), counts([]));
    assert_eq!((dues.statuses("u-1"), dues.books()), (vec!["CANCELLED".to_owned()], vec![]));
    assert_eq!(dues.status("u-1"), "INACTIVE");

    // From the stream, while the first period is paid: the second is cancelled.
    let dues = debited("6789");
    dues.members(&[plain("m-2", "CANCEL", "u-1", "2026-02-10")]);
    assert_eq!(dues.collect("INITIAL", SECOND), counts([("cancelled", 1)]));
    assert_eq!(dues.statuses("u-1"), ["COMPLETED", "CANCELLED"]);
    assert_eq!(dues.debits("u-1"), [key(&dues, 0, 1)]);
}

#[test]
fn a_downgrade_takes_effect_at_the_turn_of_the_period() {
    let dues = with_mask("6789");
    dues.members(&[change("m-2", "DOWNGRADE", "u-1", "2026-01-10", tier("Basic", "4.99"))]);
    assert_eq!(first(&dues)["is_pending_downgrade"], true);
    assert_eq!(dues.collect("INITIAL", FIRST), counts([("sent", 1)]));
    assert_eq!(texts(&dues.subscriptions("u-1"), "receipt_tier_name"), ["Plus:v2", "Basic:v3"]);
    assert_eq!(dues.collect("INITIAL", SECOND), counts([("sent", 1)]));
    assert_eq!(dues.books().into_iter().map(|booked| booked.amount).collect::<Vec<_>>(), ["14.99", "4.99"]);
    assert_eq!(texts(&dues.subscriptions("u-1"), "billing_amount"), ["14.99", "4.99", "4.99"]);
}

#[test]
fn a_pause_is_announced_as_ending_once_then_expires_once_and_billing_goes_on() {
    let dues = with_mask("6789");
    dues.ok(&["pause", "u-1", &dues.id("u-1", 0), "--months", "2", "--as-of", "2026-01-10"]);
    for process in ["INITIAL", "RETRY", "PAUSE"] {
        assert_eq!(dues.collect(process, FIRST), counts([]), "{process}");
    }
    // It ends on 1 April: a week before that is 25 March.
    assert_eq!(dues.collect("PAUSE", "2026-03-24T23:00:00Z"), counts([]));
    assert_eq!(dues.collect("PAUSE", "2026-03-25T00:00:00Z"), counts([("pause_ending", 1)]));
    assert_has(
        &first(&dues),
        &json!({"billing_status": "PAUSED", "updated_event": "pause-pending-resume", "process": "PAUSE"}),
    );
    assert_eq!(dues.collect("PAUSE", "2026-03-25T00:00:00Z"), counts([]));
    assert_eq!(dues.collect("PAUSE", "2026-03-31T23:00:00Z"), counts([]), "once for each pause");
    assert_eq!(dues.statuses("u-1"), ["PAUSED"]);

    // A Saturday: pauses end on any day.
    assert_eq!(dues.collect("PAUSE", "2026-04-04T08:00:00Z"), counts([("pause_expired", 1)]));
    let records = dues.subscriptions("u-1");
    assert_eq!(texts(&records, "billing_status"), ["PAUSED_SKIPPED", "SCHEDULED"]);
    assert_has(
        &records[0],
        &json!({"updated_event": "pause-skipped", "next_subscription_id": records[1]["subscription_id"]}),
    );
    assert_eq!(records[1]["billing_date"], "2026-04-01T00:00:00Z");
    assert_eq!(dues.collect("PAUSE", "2026-04-04T08:00:00Z"), counts([]));
    assert_eq!(dues.subscriptions("u-1"), records, "twice changes nothing");
    assert_eq!(dues.books(), []);

    assert_eq!(dues.collect("INITIAL", "2026-04-06T08:00:00Z"), counts([("sent", 1)]));
    assert_eq!(dues.debits("u-1"), [key(&dues, 1, 1)]);
}

#[test]
fn a_period_that_costs_nothing_completes_without_a_debit() {
    let mut terms = plus("2026-02-01");
    terms["amount"] = json!("0.00");
    let dues = Dues::new();
    dues.members(&[change("m-1", "ACTIVATE", "u-1", "2026-01-05", terms)]);
    assert_eq!(dues.collect("INITIAL", "2026-01-30T08:00:00Z"), counts([]), "not before it is due");
    assert_eq!(dues.collect("INITIAL", FIRST), counts([("free", 1)]));
    assert_has(
        &first(&dues),
        &json!({"billing_status": "COMPLETED", "transaction_id": "", "billing_amount": "0.00"}),
    );
    assert_eq!(dues.statuses("u-1"), ["COMPLETED", "SCHEDULED"]);
    assert_eq!(dues.books(), []);
}
