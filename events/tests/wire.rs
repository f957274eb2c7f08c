//! Wire shapes: the documented samples, and the errors for everything that deviates from them.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dues_events::billing::event::{AttemptName, EventKind, Report, ReportKind};
use dues_events::billing::membership::Change;
use dues_events::billing::wire::{memberships, site_payments};
use dues_events::money::Currency;
use dues_events::wire::{MAX_RECORD_BYTES, WireError, peek_ids};
use proptest::prelude::*;
use serde_json::{Value, json};

fn payment() -> Value {
    json!({"event_id":"pay-7f3c","type":"SUBSCRIPTION_COMPLETED","occurred_at":"2026-01-05T14:00:00Z",
        "payment":{"payment_id":"p-1","subscription_id":"1b4e28ba-2fa1-11d2-883f-0016d3cca427","user_id":"u-1",
        "status":"COMPLETED","amount":"14.99","currency":"USD","processor":"JPM","confirmation_id":"c-991",
        "payment_type":"ACH","account_mask":"6789","return_code":null,"message":null}})
}

fn membership() -> Value {
    json!({"event_id":"mem-1","type":"REACTIVATE","occurred_at":"2026-01-05T14:00:00Z","user_id":"u-1",
        "membership":{"tier":"Plus","version":"v2","term":"MONTHLY","amount":"14.99",
        "billing_date":"2026-02-01T00:00:00Z","billing_week":null,"pause_duration_months":0,"provider":"cognito"}})
}

fn with(mut base: Value, pointer: &str, value: Value) -> Vec<u8> {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    base.pointer_mut(parent).unwrap()[name] = value;
    base.to_string().into_bytes()
}

fn without(mut base: Value, pointer: &str) -> Vec<u8> {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    base.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
    base.to_string().into_bytes()
}

fn said<T: std::fmt::Debug>(result: Result<Option<T>, WireError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn the_samples_are_read() {
    let settlement = site_payments::decode(payment().to_string().as_bytes()).unwrap().unwrap();
    assert_eq!((settlement.user_id.as_str(), settlement.event.id.as_str()), ("u-1", "pay-7f3c"));
    let EventKind::Reported(Report { attempt, kind: ReportKind::Settled { amount, currency, receipt } }) =
        &settlement.event.kind
    else {
        panic!("{:?}", settlement.event.kind)
    };
    assert_eq!(
        *attempt,
        AttemptName { transaction_id: Some("c-991".into()), number: None },
        "p-1 is no key of ours"
    );
    assert_eq!((amount.to_string().as_str(), *currency), ("14.99", Currency::USD));
    assert_eq!((receipt.account_mask.as_str(), receipt.payment_type.as_str()), ("6789", "ACH"));
    let change = memberships::decode(membership().to_string().as_bytes()).unwrap().unwrap();
    assert!(matches!(&change.change, Change::Reactivate(terms) if terms.plan.tier.as_str() == "Plus:v2"));
}

#[test]
fn each_type_has_its_meaning_and_its_status() {
    for (kind, status, sort) in [
        ("SUBSCRIPTION_SUBMITTED", "PENDING", "Sent"),
        ("SUBSCRIPTION_COMPLETED", "COMPLETED", "Settled"),
        ("SUBSCRIPTION_RETURNED", "FAILED", "Returned"),
        ("SUBSCRIPTION_REFUNDED", "REFUNDED", "Refunded"),
        ("SUBSCRIPTION_CHARGED_BACK", "CHARGED_BACK", "ChargedBack"),
    ] {
        let mut record = payment();
        record["type"] = json!(kind);
        record["payment"]["status"] = json!(status);
        let event = site_payments::decode(record.to_string().as_bytes()).unwrap().unwrap().event;
        let EventKind::Reported(report) = &event.kind else { panic!("{kind}: {:?}", event.kind) };
        assert!(format!("{:?}", report.kind).starts_with(sort), "{kind}: {:?}", report.kind);
        assert_eq!(event.source, format!("site-payments {kind}"));
        record["payment"]["status"] = json!(if status == "FAILED" { "PENDING" } else { "FAILED" });
        assert!(
            said(site_payments::decode(record.to_string().as_bytes())).starts_with("payment.status: is "),
            "{kind}"
        );
    }
}

#[test]
fn a_malformed_field_is_named() {
    for (pointer, value, message) in [
        (
            "/payment/amount",
            json!(14.99),
            "payment.amount: invalid type: floating point `14.99`, expected a string",
        ),
        ("/payment/amount", json!("-1.00"), "payment.amount: -1.00 is negative"),
        ("/payment/amount", json!("1.999"), "payment.amount: 1.999 has more than two decimals"),
        (
            "/payment/status",
            json!("DONE"),
            "payment.status: \"DONE\" is not PENDING, COMPLETED, FAILED, REFUNDED or CHARGED_BACK",
        ),
        ("/payment/return_code", json!("nsf"), "payment.return_code: \"nsf\" is not a code such as R01"),
        ("/payment/user_id", json!(""), "payment.user_id: is empty"),
        ("/payment/user_id", json!(7), "payment.user_id: invalid type: integer `7`, expected a string"),
        (
            "/payment/confirmation_id",
            json!("c".repeat(300)),
            "payment.confirmation_id: has 300 bytes, the most is 256",
        ),
        ("/occurred_at", json!("yesterday"), "occurred_at: \"yesterday\" is not an RFC 3339 time"),
        ("/payment", json!(["p"]), "payment: invalid type: sequence, expected an object"),
    ] {
        let said = said(site_payments::decode(&with(payment(), pointer, value)));
        assert!(said.starts_with(message), "{pointer}: {said}");
    }
    for (pointer, value, message) in [
        (
            "/membership/amount",
            json!("free"),
            "membership.amount: \"free\" is not a decimal amount such as \"14.99\"",
        ),
        ("/membership/term", json!("WEEKLY"), "membership.term: \"WEEKLY\" is not MONTHLY or YEARLY"),
        ("/membership/billing_week", json!(6), "membership.billing_week: 6 is not 1 to 5"),
        ("/membership/billing_week", json!("2"), "membership.billing_week: invalid type: string"),
        ("/membership/provider", json!("ldap"), "membership.provider: \"ldap\" is not cognito or local"),
        ("/membership/tier", json!("a:b"), "membership.tier: has a colon, which separates tier and version"),
    ] {
        let said = said(memberships::decode(&with(membership(), pointer, value)));
        assert!(said.starts_with(message), "{pointer}: {said}");
    }
    let mut pause = membership();
    pause["type"] = json!("PAUSE");
    for months in [0, 13, -1] {
        let said = said(memberships::decode(&with(
            pause.clone(),
            "/membership/pause_duration_months",
            json!(months),
        )));
        assert_eq!(said, format!("membership.pause_duration_months: {months} is not 1 to 12"));
    }
}

#[test]
fn a_missing_required_field_is_named() {
    for pointer in [
        "/event_id",
        "/type",
        "/occurred_at",
        "/payment",
        "/payment/subscription_id",
        "/payment/user_id",
        "/payment/status",
        "/payment/amount",
    ] {
        assert_eq!(
            said(site_payments::decode(&without(payment(), pointer))),
            format!("{}: is missing", pointer[1..].replace('/', "."))
        );
    }
    for pointer in [
        "/event_id",
        "/user_id",
        "/membership",
        "/membership/tier",
        "/membership/amount",
        "/membership/billing_date",
    ] {
        assert_eq!(
            said(memberships::decode(&without(membership(), pointer))),
            format!("{}: is missing", pointer[1..].replace('/', "."))
        );
    }
}

#[test]
fn what_is_not_one_json_object_is_said_so() {
    for (bytes, message) in [
        (&b"{\"event_id\":\"x\""[..], "record: is not JSON: EOF while parsing an object"),
        (b"", "record: is not JSON: EOF"),
        (b"nonsense", "record: is not a JSON object"),
        (b"[1]", "record: is not a JSON object"),
        (b"{\"type\":\"SUBSCRIPTION_COMPLETED\"} {}", "record: has more after its end"),
        (b"{\"type\":\"SUBSCRIPTION_COMPLETED\",\"event_id\":\"\xff\"}", "record: is not JSON"),
    ] {
        let said = said(site_payments::decode(bytes));
        assert!(said.starts_with(message), "{said}");
    }
    let long = with(payment(), "/payment/message", json!("x".repeat(MAX_RECORD_BYTES)));
    assert!(said(site_payments::decode(&long)).starts_with("record: has 2"));
}

#[test]
fn other_types_are_skipped_whatever_their_shape_and_unknown_fields_do_not_matter() {
    for record in [
        json!({"type":"CARD_COMPLETED"}),
        json!({"type":"X","event_id":7,"payment":[]}),
        json!({"type":"INVOICE","payment":{"amount":5}}),
    ] {
        assert_eq!(site_payments::decode(record.to_string().as_bytes()).unwrap(), None);
        assert_eq!(memberships::decode(record.to_string().as_bytes()).unwrap(), None);
    }
    let plain = site_payments::decode(payment().to_string().as_bytes()).unwrap();
    assert_eq!(
        site_payments::decode(&with(payment(), "/payment/new_field", json!({"a":[1]}))).unwrap(),
        plain,
        "not even its token changes"
    );
}

#[test]
fn the_idempotency_token_depends_on_content_alone() {
    let token = |bytes: &[u8]| site_payments::decode(bytes).unwrap().unwrap().event.token;
    let one = token(payment().to_string().as_bytes());
    assert_eq!(token(serde_json::to_string_pretty(&payment()).unwrap().as_bytes()), one);
    for (pointer, value) in [
        ("/payment/amount", json!("15.00")),
        ("/payment/confirmation_id", json!("c-2")),
        ("/occurred_at", json!("2026-01-05T14:00:01Z")),
    ] {
        assert_ne!(token(&with(payment(), pointer, value)), one, "{pointer}");
    }
}

#[test]
fn only_the_last_four_digits_of_an_account_are_kept() {
    let event = site_payments::decode(&with(payment(), "/payment/account_mask", json!("000123456789")))
        .unwrap()
        .unwrap()
        .event;
    let EventKind::Reported(Report { kind: ReportKind::Settled { receipt, .. }, .. }) = event.kind else {
        panic!("{:?}", event.kind)
    };
    assert_eq!(receipt.account_mask, "6789");
}

/// A report names its attempt by `confirmation_id`, and by `payment_id` if that is a key of this record.
#[test]
fn a_report_names_its_attempt() {
    let id = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
    for (confirmation, payment_id, transaction, number) in [
        (json!("c-1"), json!("p-1"), Some("c-1"), None),
        (json!("c-1"), json!(format!("{id}-2")), Some("c-1"), Some(2)),
        (json!(null), json!(format!("{id}-2")), None, Some(2)),
        (json!(""), json!(format!("{id}-12")), None, Some(12)),
        // The key of another record, and what only looks like a key.
        (json!(null), json!("0c6f1e1e-2fa1-11d2-883f-0016d3cca427-2"), None, None),
        (json!(null), json!(format!("{id}-")), None, None),
        (json!(null), json!(format!("{id}-two")), None, None),
        (json!(null), json!(null), None, None),
    ] {
        let mut record = payment();
        record["payment"]["confirmation_id"] = confirmation;
        record["payment"]["payment_id"] = payment_id;
        let event = site_payments::decode(record.to_string().as_bytes()).unwrap().unwrap().event;
        let EventKind::Reported(report) = event.kind else { panic!("{:?}", event.kind) };
        let expected = AttemptName { transaction_id: transaction.map(Into::into), number };
        assert_eq!(report.attempt, expected, "{record}");
    }
}

#[test]
fn amount_and_currency_of_settlements_and_refunds_are_read() {
    for (kind, status) in [("SUBSCRIPTION_COMPLETED", "COMPLETED"), ("SUBSCRIPTION_REFUNDED", "REFUNDED")] {
        for (currency, expected) in [(json!("jpy"), "JPY"), (json!("EUR"), "EUR"), (json!(null), "USD")] {
            let mut record = payment();
            record["type"] = json!(kind);
            record["payment"]["status"] = json!(status);
            record["payment"]["amount"] = json!("0.01");
            record["payment"]["currency"] = currency;
            let event = site_payments::decode(record.to_string().as_bytes()).unwrap().unwrap().event;
            let EventKind::Reported(report) = event.kind else { panic!("{:?}", event.kind) };
            let (ReportKind::Settled { amount, currency, .. } | ReportKind::Refunded { amount, currency }) =
                report.kind
            else {
                panic!("{:?}", report.kind)
            };
            assert_eq!((amount.to_string().as_str(), currency.as_str()), ("0.01", expected), "{record}");
        }
    }
    assert!(
        said(site_payments::decode(&with(payment(), "/payment/currency", json!("dollars"))))
            .starts_with("payment.currency: ")
    );
}

#[test]
fn ids_of_a_malformed_record_are_extracted() {
    assert_eq!(
        peek_ids(&with(payment(), "/payment/amount", json!(5))),
        (Some("pay-7f3c".into()), Some("u-1".into()))
    );
    assert_eq!(peek_ids(b"{"), (None, None));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused_and_never_panic(bytes in any::<Vec<u8>>()) {
        let _ = site_payments::decode(&bytes);
        let _ = memberships::decode(&bytes);
        let _ = peek_ids(&bytes);
    }

    #[test]
    fn a_record_cut_anywhere_is_refused(cut in 0usize..300) {
        let whole = payment().to_string();
        prop_assume!(cut < whole.len());
        prop_assert!(site_payments::decode(&whole.as_bytes()[..cut]).is_err());
    }
}
