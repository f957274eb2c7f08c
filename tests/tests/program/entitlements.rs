//! Access and credits of members as the program shows them: from Stripe's events and from dues.

use dues_tests::fixtures::stripe::{checkout, invoice, invoice_payment, payment_of, refund, subscription};
use serde_json::{Value, json};

use crate::support::records::{Debit, activate, change, plus};
use crate::support::run::{Dues, assert_says, counts};

const START: &str = "2026-01-01T00:00:00Z";

/// A subscription with a month, a refunded payment of it, a pass, and a top-up. It is past due, because the
/// program runs by the machine's clock, long after the end of that month.
fn life() -> Vec<Value> {
    let events = [
        subscription("e-1", "created", START, "ada", "JOURNEYMAN", "past_due", START),
        invoice("e-2", "paid", START, "ada", START),
        invoice_payment("e-3", START, "ada", START),
        refund(
            "e-4",
            "created",
            "2026-01-20T00:00:00Z",
            "re_1",
            &payment_of("ada", START),
            1500,
            "succeeded",
        ),
        checkout("e-5", "2026-02-01T00:00:00Z", "ada", "CREDITS", 1000, "pi_top", "paid"),
    ];
    events.into_iter().map(|(_, event)| event).collect()
}

#[test]
fn stripes_events_are_read_in_any_order() {
    let mut shown = Vec::new();
    for reversed in [false, true] {
        let dues = Dues::new();
        let mut events = life();
        if reversed {
            events.reverse();
        }
        events.push(json!({"id": "e-9", "type": "customer.created", "created": 1_767_225_600,
            "livemode": true, "data": {"object": {}}}));
        let expected = counts([("applied", 5), ("skipped", 1)]);
        assert_eq!(
            dues.ingest("stripe", &events),
            expected,
            "what waited for others of the file is not parked in the end"
        );
        assert_eq!(dues.ingest("stripe", &events), counts([("duplicate", 5), ("skipped", 1)]));
        assert_eq!(dues.parked(), Vec::<Value>::new());
        let member: Value = serde_json::from_str(&dues.shown("ada")).unwrap();
        shown.push(member);
        let text = dues.ok(&["show", "ada"]);
        assert_says(
            &text,
            &["profile   JOURNEYMAN, provider cognito", "credits   20, expire", "groups    dues-journeyman"],
        );
    }
    assert_eq!(shown[0], shown[1]);
    let ada = &shown[0];
    assert_eq!(
        (&ada["profile"]["tier"], &ada["credits"]["balance"]),
        (&json!("JOURNEYMAN"), &json!(20)),
        "the refunded month is gone"
    );
    assert_eq!((&ada["groups"], &ada["founder_passes"]), (&json!(["dues-journeyman"]), &json!([])));
    assert_eq!(ada["stripe_subscriptions"][0]["subscriptionId"], "sub_ada");
}

#[test]
fn dues_give_a_tier_and_a_late_return_takes_it_back() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
    dues.payments(&[debit.submitted("p-1", "2026-02-02"), debit.completed("p-2", "2026-02-04")]);
    let member = dues.json(&["show", "u-1"]);
    assert_eq!(
        (&member["profile"]["tier"], &member["credits"]["balance"], &member["groups"]),
        (&json!("JOURNEYMAN"), &json!(5), &json!(["dues-journeyman"]))
    );
    assert_eq!(
        (&member["profile"]["duesTier"], &member["profile"]["duesUntil"]),
        (&json!("JOURNEYMAN"), &json!("2026-03-01T00:00:00Z"))
    );
    dues.payments(&[debit.returned("p-3", "2026-03-01", "R10", "not authorised")]);
    let member = dues.json(&["show", "u-1"]);
    assert_eq!(
        (&member["profile"]["tier"], &member["credits"]["balance"], &member["groups"]),
        (&json!("free"), &json!(0), &json!([]))
    );
}

#[test]
fn an_unmapped_tier_is_parked_and_the_map_can_be_given() {
    let platinum = |dues: &Dues| {
        let mut terms = plus("2026-02-01");
        terms["tier"] = "Platinum".into();
        dues.members(&[change("m-1", "ACTIVATE", "u-1", "2026-01-05", terms)]);
        let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
        [debit.submitted("p-1", "2026-02-02"), debit.completed("p-2", "2026-02-04")]
    };
    let dues = Dues::new();
    let paid = platinum(&dues);
    dues.payments(&paid);
    let parked = dues.parked();
    assert_eq!(
        (parked.len(), &parked[0]["stream"], &parked[0]["user_id"]),
        (1, &json!("billing-activity"), &json!("u-1"))
    );
    assert_says(parked[0]["reason"].as_str().unwrap(), &["receipt_tier_name", "Platinum:v2"]);

    let dues = Dues::new();
    let paid = platinum(&dues);
    let file = dues.file("paid.ndjson", &crate::support::run::ndjson(&paid));
    let args = ["ingest", "--stream", "site-payments", &file];
    dues.json_with(&args, &[("DUES_TIERS", "Platinum=GUILDMASTER")]);
    assert_eq!(dues.json(&["show", "u-1"])["profile"]["tier"], "GUILDMASTER");
    let wrong = dues.command(&args).env("DUES_TIERS", "Platinum=GOLD").output().unwrap();
    assert_eq!(wrong.status.code(), Some(1));
    assert_says(&String::from_utf8_lossy(&wrong.stderr), &["DUES_TIERS", "GOLD"]);
}
