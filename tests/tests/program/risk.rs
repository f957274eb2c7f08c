//! `dues risk`: return rates of debits, counted by hand.

use serde_json::{Value, json};

use crate::support::records::activate;
use crate::support::run::{Dues, assert_says, counts};

/// Members with debits that do not simply settle. The refused one never becomes a debit.
const MASKS: [&str; 11] =
    ["0001", "0001", "0002", "0003", "0010", "0016", "0110", "0200", "0300", "0400", "0501"];
/// So that forty debits are sent.
const MEMBERS: usize = 41;

fn company() -> Dues {
    let dues = Dues::new();
    let members: Vec<Value> = (0..MEMBERS).map(|n| activate(&format!("m-{n}"), &format!("u-{n}"))).collect();
    dues.members(&members);
    for (n, mask) in MASKS.iter().enumerate() {
        dues.account(&format!("u-{n}"), mask);
    }
    assert_eq!(
        dues.collect("INITIAL", "2026-02-02T08:00:00Z"),
        counts([("sent", 39), ("collected", 1), ("refused", 1)])
    );
    dues
}

impl Dues {
    fn risk(&self, as_of: &str) -> Value {
        let mut report = self.json(&["risk", "--as-of", as_of]);
        let report = report.as_object_mut().unwrap();
        for end in ["from", "until"] {
            report.remove(end).unwrap();
        }
        json!(report)
    }
}

fn class(returns: u64, percent: &str, limit: &str, over: bool) -> Value {
    json!({"returns": returns, "percent": percent, "limit_percent": limit, "over": over})
}

/// Unauthorised, administrative and overall: returns, of how many debits, in percent, and whether that is
/// over the limit.
fn rates(debits: u64, [unauthorised, administrative, overall]: [(u64, &str, bool); 3]) -> Value {
    json!({
        "debits": debits,
        "unauthorised": class(unauthorised.0, unauthorised.1, "0.5", unauthorised.2),
        "administrative": class(administrative.0, administrative.1, "3", administrative.2),
        "overall": class(overall.0, overall.1, "15", overall.2),
    })
}

#[test]
fn returns_are_counted_by_class_against_their_limits() {
    let dues = company();
    let none = (0, "0", false);
    assert_eq!(dues.risk("2026-02-03"), rates(40, [none; 3]), "nothing has come back yet");
    dues.deliver("2026-02-05");
    // R10; R02 and R03; with them twice R01 and R16: six of forty are not over fifteen percent.
    assert_eq!(dues.risk("2026-02-05"), rates(40, [(1, "2.5", true), (2, "5", true), (6, "15", false)]));
    dues.deliver("2026-02-26");
    assert_eq!(
        dues.risk("2026-02-26"),
        rates(40, [(2, "5", true), (2, "5", true), (7, "17.5", true)]),
        "the late return"
    );
    dues.deliver("2026-03-07");
    assert_eq!(
        dues.risk("2026-03-07"),
        rates(40, [(3, "7.5", true), (2, "5", true), (8, "20", true)]),
        "the charge-back"
    );
    // Later returns do not change the rates of an earlier day.
    assert_eq!(dues.risk("2026-02-05"), rates(40, [(1, "2.5", true), (2, "5", true), (6, "15", false)]));
    assert_eq!(dues.risk("2026-01-31"), rates(0, [none; 3]));

    let said = dues.ok(&["risk", "--as-of", "2026-02-05"]);
    assert_says(
        &said,
        &["40 debits in the 60 days before 2026-02-05", "2.5 %", "0.5 %", "OVER LIMIT", "15 %", "within"],
    );
}

#[test]
fn the_window_is_sixty_days() {
    let dues = company();
    dues.deliver("2026-02-05");
    assert_eq!(dues.risk("2026-04-03T07:59:00Z")["debits"], 40);
    assert_eq!(dues.risk("2026-04-03T08:10:00Z")["debits"], 0, "sixty days after they were sent");
    assert_eq!(dues.risk("2026-04-05T05:59:00Z")["overall"]["returns"], 6);
    assert_eq!(dues.risk("2026-04-05T06:01:00Z")["overall"]["returns"], 0, "sixty days after they came back");
    let report = dues.json(&["risk", "--as-of", "2026-04-03T08:00:00Z"]);
    let ends = ["from", "until"].map(|end| report[end].as_str().unwrap()[..16].to_owned());
    assert_eq!(ends, ["2026-02-02T08:00", "2026-04-03T08:00"]);
}

#[test]
fn every_presentment_is_a_debit_and_shares_have_three_decimals() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1"), activate("m-2", "u-2")]);
    dues.account("u-1", "0001");
    assert_eq!(dues.collect("INITIAL", "2026-02-02T08:00:00Z"), counts([("sent", 2)]));
    assert_eq!(dues.collect("RETRY", "2026-02-20T08:00:00Z"), counts([("sent", 1)]));
    let none = (0, "0", false);
    assert_eq!(dues.risk("2026-02-21"), rates(3, [none, none, (1, "33.333", true)]));
    assert_eq!(dues.deliver("2026-02-25"), 1);
    assert_eq!(dues.risk("2026-02-25"), rates(3, [none, none, (2, "66.667", true)]));
}
