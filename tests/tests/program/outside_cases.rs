//! Cases that attackers found with the specification and the program alone. Each was wrong once.

use serde_json::{Value, json};

use crate::support::records::{Debit, activate, change, plain, plus, tier};
use crate::support::run::{Dues, assert_says, counts};

/// Mondays after a due date on the first of the month.
const FEBRUARY: &str = "2026-02-02T08:00:00Z";
const MARCH: &str = "2026-03-02T08:00:00Z";

fn member() -> Dues {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    dues
}

/// A member with a debit of the first record in flight.
fn in_flight() -> (Dues, Debit) {
    let dues = member();
    let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
    assert_eq!(dues.payments(&[debit.submitted("p-1", "2026-02-02")]), counts([("applied", 1)]));
    (dues, debit)
}

fn audit(dues: &Dues) {
    dues.ok(&["audit"]);
}

fn with_amount(mut report: Value, amount: &str) -> Value {
    report["payment"]["amount"] = json!(amount);
    report
}

/// Two settlements of one period, the surplus applied to the next period, and the first one returned: the
/// bank holds one payment, and one period is paid.
#[test]
fn applied_money_pays_one_period() {
    let dues = member();
    let (first, second) = (Debit::new("u-1", &dues.id("u-1", 0), "c-1"), "c-2");
    let surplus = first.again(second);
    dues.payments(&[first.completed("p-1", "2026-02-03"), surplus.completed("p-2", "2026-02-04")]);
    let (paid, next) = (dues.id("u-1", 0), dues.id("u-1", 1));
    dues.ok(&["money", "apply", &format!("{paid}:c-2"), &next]);
    assert_eq!(&dues.statuses("u-1")[..2], ["COMPLETED", "COMPLETED"]);
    dues.payments(&[first.returned("p-3", "2026-02-10", "R01", "no funds")]);
    assert_eq!(&dues.statuses("u-1")[..2], ["ERROR", "COMPLETED"]);
    audit(&dues);
}

/// The bank took the money back before the operator applied it; its report comes afterwards.
#[test]
fn money_that_had_gone_back_pays_nothing() {
    for (kind, status) in [("returned", "ERROR"), ("refunded", "REFUNDED"), ("charged back", "ERROR")] {
        let dues = member();
        let first = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
        let surplus = first.again("c-2");
        dues.payments(&[first.completed("p-1", "2026-02-03"), surplus.completed("p-2", "2026-02-04")]);
        let (paid, next) = (dues.id("u-1", 0), dues.id("u-1", 1));
        dues.ok(&["money", "apply", &format!("{paid}:c-2"), &next]);
        let report = match kind {
            "returned" => surplus.returned("p-3", "2026-02-05", "R10", "not authorised"),
            "refunded" => surplus.refunded("p-3", "2026-02-05"),
            _ => surplus.charged_back("p-3", "2026-02-05"),
        };
        assert_eq!(dues.payments(&[report]), counts([("applied", 1)]), "{kind}");
        assert_eq!(&dues.statuses("u-1")[..2], ["COMPLETED", status], "{kind}");
        audit(&dues);
    }
}

/// One decision about money: the second finds the first.
#[test]
fn money_is_decided_about_once() {
    let dues = member();
    let first = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
    dues.payments(&[first.completed("p-1", "2026-02-03"), first.again("c-2").completed("p-2", "2026-02-04")]);
    let money = format!("{}:c-2", dues.id("u-1", 0));
    let next = dues.id("u-1", 1);
    let decisions = [
        vec!["money", "apply", &money, &next],
        vec!["money", "dismiss", &money, "--reason", "one"],
        vec!["money", "dismiss", &money, "--reason", "another"],
    ];
    // At once, each in a process of its own.
    let done = std::thread::scope(|scope| {
        let running = decisions.each_ref().map(|args| scope.spawn(|| dues.run(args).status.success()));
        running.map(|run| run.join().unwrap()).into_iter().filter(|done| *done).count()
    });
    assert_eq!(done, 1);
    let applied = dues.statuses("u-1")[1] == "COMPLETED";
    let history = dues.history(&dues.id("u-1", 0));
    let decided = |row: &&Value| row["source"] == "dues money-decision" && row["outcome"] == "applied";
    assert_eq!(history.iter().filter(decided).count(), 1, "{history:#?}");
    let listed = dues.ok(&["money", "list", "--status", "APPLIED", "--json"]);
    assert_eq!(applied, listed.contains(&money));
    audit(&dues);
}

/// A refund takes what was paid in excess first: COMPLETED − refunds + unapplied = what the bank holds.
#[test]
fn a_refund_of_the_excess_is_counted_once() {
    for (refunded, of_the_record, left) in
        [("5.01", None, None), ("2.00", None, Some("3.01")), ("15.00", Some("9.99"), None)]
    {
        let dues = member();
        let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
        dues.payments(&[
            with_amount(debit.completed("p-1", "2026-02-03"), "20.00"),
            with_amount(debit.refunded("p-2", "2026-02-05"), refunded),
        ]);
        let record = dues.subscriptions("u-1")[0].clone();
        assert_eq!(record["billing_status"], "COMPLETED", "{refunded}");
        assert_eq!(record.get("refunded_amount").and_then(Value::as_str), of_the_record, "{refunded}");
        let open = dues.ok(&["money", "list", "--status", "OPEN", "--json"]);
        let open: Option<Value> = open.lines().next().map(|line| serde_json::from_str(line).unwrap());
        assert_eq!(open.as_ref().map(|row| row["amount"].as_str().unwrap()), left, "{refunded}");
        audit(&dues);
    }
}

/// Two memberships that begin at the same instant, the second due earlier: it is collected.
#[test]
fn the_later_of_two_memberships_of_one_instant_is_collected() {
    for kinds in [["ACTIVATE", "REACTIVATE"], ["REACTIVATE", "REACTIVATE"]] {
        let dues = Dues::new();
        dues.members(&[
            change("m-1", kinds[0], "u-1", "2026-01-05", plus("2026-02-10")),
            change("m-2", kinds[1], "u-1", "2026-01-05", plus("2026-02-02")),
        ]);
        assert_eq!(dues.collect("INITIAL", FEBRUARY), counts([("sent", 1)]), "{kinds:?}");
        assert_eq!(dues.deliver("2026-02-06T08:00:00Z"), 1);
        assert_eq!(dues.collect("INITIAL", MARCH), counts([("sent", 1)]), "{kinds:?}");
        audit(&dues);
    }
}

/// An activation after the account was closed begins a membership, also while the old debit is in flight.
#[test]
fn an_activation_after_the_end_of_a_membership_is_not_lost() {
    for settles in [true, false] {
        let (dues, debit) = in_flight();
        dues.members(&[
            plain("m-2", "CLOSEACCOUNT", "u-1", "2026-02-03"),
            change("m-3", "ACTIVATE", "u-1", "2026-02-04", plus("2026-02-20")),
        ]);
        dues.payments(&[match settles {
            true => debit.completed("p-2", "2026-02-05"),
            false => debit.returned("p-2", "2026-02-05", "R01", "no funds"),
        }]);
        let open: Vec<Value> = dues
            .subscriptions("u-1")
            .into_iter()
            .filter(|record| record["billing_status"] == "SCHEDULED")
            .collect();
        assert_eq!(open.len(), 1, "{:?}", dues.statuses("u-1"));
        assert_eq!(open[0]["billing_date"], "2026-02-20T00:00:00Z");
        audit(&dues);
    }
}

/// A return that occurred before the account was closed and arrives after it: the next run closes its record.
#[test]
fn a_late_return_of_a_closed_account_is_closed_too() {
    let (dues, debit) = in_flight();
    dues.members(&[plain("m-2", "CLOSEACCOUNT", "u-1", "2026-02-06")]);
    dues.payments(&[debit.returned("p-2", "2026-02-04", "R01", "no funds")]);
    dues.collect("RETRY", "2026-02-09T08:00:00Z");
    assert_eq!(dues.statuses("u-1"), ["CANCELLED", "CANCELLED"]);
    assert_eq!(dues.debits("u-1"), Vec::<String>::new());
}

/// A cancellation that has taken effect cannot be retracted.
#[test]
fn a_closed_account_is_not_half_reopened() {
    let (dues, debit) = in_flight();
    dues.payments(&[debit.completed("p-2", "2026-02-04")]);
    dues.members(&[plain("m-2", "CLOSEACCOUNT", "u-1", "2026-02-05")]);
    assert_eq!(dues.members(&[plain("m-3", "RETRACT", "u-1", "2026-02-06")]), counts([("ignored", 1)]));
    dues.payments(&[debit.returned("p-3", "2026-02-10", "R01", "late")]);
    assert_eq!(dues.statuses("u-1"), ["CANCELLED", "CANCELLED"]);
}

/// What a member is behind with is not paused, and no record moves into a month that another one bills.
#[test]
fn operators_cannot_bill_a_month_twice_or_forgive_one_by_a_pause() {
    let (dues, debit) = in_flight();
    dues.payments(&[debit.returned("p-2", "2026-02-04", "R01", "no funds")]);
    let (failed, next) = (dues.id("u-1", 0), dues.id("u-1", 1));
    let refused = dues.fails(&["pause", "u-1", &failed, "--months", "2", "--as-of", "2026-02-05"]);
    assert_says(&refused, &["pause the record that follows it"]);
    for (id, to) in [(&next, "2026-02-20"), (&failed, "2026-03-09")] {
        let refused = dues.fails(&["move", "u-1", id, "--to", to, "--as-of", "2026-02-05"]);
        assert_says(&refused, &["another record of this member bills"]);
    }
    dues.ok(&["move", "u-1", &next, "--to", "2026-03-09", "--as-of", "2026-02-05"]);
    audit(&dues);
}

/// A time that no row can hold is refused at the edge, and nothing else suffers.
#[test]
fn a_time_out_of_range_is_parked_and_harms_no_other_record() {
    let (dues, debit) = in_flight();
    for (n, time) in ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59.999999999Z"]
        .into_iter()
        .enumerate()
    {
        let mut due =
            change(&format!("d-{n}"), "ACTIVATE", &format!("x-{n}"), "2026-01-05", plus("2026-02-01"));
        due["membership"]["billing_date"] = json!(time);
        let mut occurred = plain(&format!("o-{n}"), "CANCEL", "u-1", "2026-01-05");
        occurred["occurred_at"] = json!(time);
        assert_eq!(dues.members(&[due, occurred]), counts([("parked", 2)]), "{time}");
        let mut paid = debit.completed(&format!("q-{n}"), "2026-02-04");
        paid["occurred_at"] = json!(time);
        assert_eq!(dues.payments(&[paid]), counts([("parked", 1)]), "{time}");
        dues.fails(&["move", "u-1", &dues.id("u-1", 1), "--to", time]);
    }
    let reasons: Vec<String> =
        dues.parked().iter().map(|parked| parked["reason"].as_str().unwrap().to_owned()).collect();
    for field in ["membership.billing_date", "occurred_at"] {
        assert!(reasons.iter().any(|reason| reason.starts_with(field)), "{reasons:?}");
    }
    for command in ["audit", "sweep", "risk", "replay"] {
        dues.ok(&[command]);
    }
    dues.ok(&["export", dues.beside("all.ndjson").to_str().unwrap()]);
    assert_eq!(dues.statuses("u-1"), ["ACHSENT", "SCHEDULED"]);
}

/// However many changes a record has seen, it can be debited, and the account can be closed.
#[test]
fn a_record_with_very_many_changes_is_still_billed_and_closed() {
    let dues = member();
    let upgrades: Vec<Value> = (0..600)
        .map(|n| {
            let mut upgrade =
                change(&format!("up-{n}"), "UPGRADE", "u-1", "2026-01-06", tier("Pro", "29.99"));
            upgrade["occurred_at"] = json!(format!("2026-01-06T{:02}:{:02}:00Z", n / 60, n % 60));
            upgrade
        })
        .collect();
    dues.members(&upgrades);
    assert_eq!(dues.collect("INITIAL", FEBRUARY), counts([("sent", 1)]));
    assert_eq!(dues.members(&[plain("m-9", "CLOSEACCOUNT", "u-1", "2026-02-03")]), counts([("applied", 1)]));
    assert_eq!(dues.statuses("u-1"), ["ACHSENT", "CANCELLED"]);
}

/// When all money went back, so did the credits, whichever of several transactions paid, and when.
#[test]
fn credits_go_back_with_the_last_of_the_money() {
    let first = |dues: &Dues| Debit::new("u-1", &dues.id("u-1", 0), "c-1");
    let balance = |dues: &Dues| dues.json(&["show", "u-1"])["credits"]["balance"].as_i64().unwrap();
    let day = |n: usize| format!("2026-02-{n:02}");
    for (steps, credits) in [
        // Another transaction is under way while the one that paid is returned.
        ("1 sent 2, 2 settled 3, 2 returned 4", 0),
        ("1 sent 2, 2 settled 3, 2 returned 4, 1 returned 5", 0),
        // The second takes over, and is returned too.
        ("1 settled 3, 2 settled 4, 1 returned 5", 5),
        ("1 settled 3, 2 settled 4, 1 returned 5, 2 returned 6", 0),
        ("1 settled 3, 2 settled 4, 1 refunded 5, 2 charged 6", 0),
        // Both settled at the same instant, as one batch of the bank.
        ("1 settled 3, 1 returned 4, 2 settled 3", 5),
        ("1 settled 3, 1 returned 4, 2 settled 3, 2 returned 5", 0),
        ("1 settled 3, 2 settled 3, 1 returned 4", 5),
        ("1 settled 3, 2 settled 3, 1 returned 4, 2 returned 5", 0),
    ] {
        let dues = member();
        let debit = first(&dues);
        for (n, step) in steps.split(", ").enumerate() {
            let words: Vec<&str> = step.split(' ').collect();
            let (debit, on) = (debit.again(&format!("c-{}", words[0])), day(words[2].parse().unwrap()));
            let event = format!("p-{n}");
            let report = match words[1] {
                "sent" => debit.submitted(&event, &on),
                "settled" => debit.completed(&event, &on),
                "returned" => debit.returned(&event, &on, "R01", "no funds"),
                "refunded" => debit.refunded(&event, &on),
                _ => debit.charged_back(&event, &on),
            };
            assert_eq!(dues.payments(&[report]), counts([("applied", 1)]), "{steps}: {step}");
        }
        assert_eq!(balance(&dues), credits, "{steps}");
        audit(&dues);
    }
}

/// A listing that does not say what its record says is found, whatever it was changed to.
#[test]
fn a_forged_listing_of_money_is_found() {
    let dues = member();
    let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
    dues.payments(&[debit.completed("p-1", "2026-02-03"), debit.again("c-2").completed("p-2", "2026-02-04")]);
    let file = dues.beside("all.ndjson");
    dues.ok(&["export", file.to_str().unwrap()]);
    let exported = std::fs::read_to_string(&file).unwrap();
    let forged = |n: usize, from: &str, to: &str| {
        let lines = exported.lines().map(|line| match line.contains("\"dues-unapplied-money\"") {
            true => line.replacen(from, to, 1),
            false => line.to_owned(),
        });
        let text = lines.collect::<Vec<_>>().join("\n");
        assert_eq!(text == exported.trim_end(), from == to, "{from}");
        let file = dues.file(&format!("forged-{n}.ndjson"), text.as_bytes());
        let data = dues.beside(&format!("forged-{n}"));
        let run = |args: &[&str]| {
            let data = ["--data", data.to_str().unwrap()];
            std::process::Command::new(crate::support::run::program()).args(data).args(args).output().unwrap()
        };
        assert!(run(&["import", &file]).status.success());
        run(&["audit"]).status.success()
    };
    assert!(forged(0, "14.99", "14.99"));
    assert!(!forged(1, "14.99", "1.99"));
    assert!(!forged(2, "OPEN", "DISMISSED"));
}
