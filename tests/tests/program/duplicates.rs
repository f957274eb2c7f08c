//! The same fact again changes nothing.

use crate::support::records::{Debit, activate, change, plain, plus, tier};
use crate::support::run::{Dues, counts};

#[test]
fn a_file_that_is_read_again_is_all_duplicates_and_changes_no_byte() {
    let dues = Dues::new();
    let members = [
        activate("m-1", "u-1"),
        activate("m-2", "u-2"),
        change("m-3", "UPGRADE", "u-2", "2026-01-06", tier("Pro", "29.99")),
        change("m-4", "ACTIVATE", "u-2", "2026-01-07", plus("2026-02-01")),
        plain("m-5", "CANCEL", "u-2", "2026-01-08"),
        change("m-6", "REACTIVATE", "u-2", "2026-01-09", plus("2026-02-09")),
    ];
    assert_eq!(dues.members(&members), counts([("applied", 5), ("ignored", 1)]));
    let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
    let payments = [
        debit.submitted("p-1", "2026-02-01"),
        debit.returned("p-2", "2026-02-02", "R01", "Insufficient funds"),
        debit.again("c-2").submitted("p-3", "2026-02-05"),
        debit.completed("p-4", "2026-02-06"),
        debit.again("c-2").completed("p-5", "2026-02-07"),
    ];
    // The first attempt settles after all, and so does the second: a surplus.
    assert_eq!(dues.payments(&payments), counts([("applied", 5)]));

    let before = everything(&dues);
    assert_eq!(dues.members(&members), counts([("duplicate", 6)]));
    assert_eq!(dues.payments(&payments), counts([("duplicate", 5)]));
    assert_eq!(everything(&dues), before);
}

#[test]
fn a_producer_that_repeats_itself_inside_one_file_is_counted_and_changes_nothing() {
    let (once, repeated) = (Dues::new(), Dues::new());
    for dues in [&once, &repeated] {
        dues.members(&[activate("m-1", "u-1"), activate("m-2", "u-2")]);
    }
    assert_eq!(once.members(&[activate("m-1", "u-1"), activate("m-1", "u-1")]), counts([("duplicate", 2)]));
    let debit = Debit::new("u-1", &once.id("u-1", 0), "c-1");
    let (sent, settled) = (debit.submitted("p-1", "2026-02-01"), debit.completed("p-2", "2026-02-03"));
    assert_eq!(once.payments(&[sent.clone(), settled.clone()]), counts([("applied", 2)]));
    let again = [sent.clone(), sent.clone(), settled.clone(), sent, settled.clone(), settled];
    assert_eq!(repeated.payments(&again), counts([("applied", 2), ("duplicate", 4)]));
    assert_eq!(everything(&repeated), everything(&once));
}

/// A producer's retry is a new delivery of the same fact: other white space, other order of fields, unknown
/// fields.
#[test]
fn the_same_fact_in_other_bytes_is_a_duplicate() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    let before = everything(&dues);
    let line = activate("m-1", "u-1").to_string();
    let spaced = line.replacen('{', "{ \"retry\" : 3 , ", 1);
    assert_eq!(dues.ingest_bytes("memberships", spaced.as_bytes()), counts([("duplicate", 1)]));
    assert_eq!(everything(&dues), before);
}

/// A rejected record is not accepted on redelivery: whether a run was cut short and the batch redelivered
/// must not show in the result.
#[test]
fn a_parked_record_that_is_delivered_again_does_not_apply_to_what_came_later() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
    dues.payments(&[debit.submitted("p-1", "2026-02-01"), debit.completed("p-2", "2026-02-02")]);
    dues.members(&[plain("m-2", "CLOSEACCOUNT", "u-1", "2026-02-03")]);
    // Nothing is open that could be paused. A reactivation then opens a record that could.
    let pause = change("m-3", "PAUSE", "u-1", "2026-02-05", serde_json::json!({"pause_duration_months": 2}));
    assert_eq!(dues.members(std::slice::from_ref(&pause)), counts([("parked", 1)]));
    dues.members(&[change("m-4", "REACTIVATE", "u-1", "2026-02-04", plus("2026-03-09"))]);
    let (before, outcomes) = (everything(&dues), dues.outcomes(&debit.subscription));
    let again = dues.members(&[pause]);
    assert_eq!(
        dues.outcomes(&debit.subscription),
        outcomes,
        "reading the file again changed the record; it counted {again:?}"
    );
    assert_eq!(everything(&dues), before);
}

/// The complete output of the program for two users.
fn everything(dues: &Dues) -> Vec<String> {
    let mut all = vec![dues.ok(&["parked", "--json"])];
    for user in ["u-1", "u-2"] {
        all.push(dues.shown(user));
        for record in dues.subscriptions(user) {
            all.push(dues.ok(&["history", record["subscription_id"].as_str().unwrap(), "--json"]));
        }
    }
    all
}
