//! Stripe events in two API generations. `tests/stripe/old` and `new` hold the same events, as written by
//! an API version before and one after 2025-03-31, so both must decode to the same facts.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dues_events::billing::record::Provider;
use dues_events::entitlements::stripe::wire::{decode, peek_ids, types};
use dues_events::entitlements::stripe::{
    Amount, BillingReason, ChargeRefunded, Checkout, CheckoutMode, CheckoutState, Dispute, DisputeState,
    Fact, Invoice, PaymentIntent, Period, Purchase, Refund, RefundStatus, StripeEvent, Subscription,
    SubscriptionStatus,
};
use dues_events::ids::{
    ChargeId, CheckoutId, CustomerId, DisputeId, InvoiceId, PaymentIntentId, RefundId, UserId,
};
use dues_events::wire::{MAX_RECORD_BYTES, WireError};
use dues_events::{Money, Time};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::path::PathBuf;

const GENERATIONS: [&str; 2] = ["old", "new"];
const PAYMENT: &str = "pi_3SmGuildQ7wPay1";
const CHARGE: &str = "ch_3SmGuildQ7wChg1";
const CUSTOMER: &str = "cus_Tj4Qw8ZkLm2xRa";
const SUBSCRIPTION: &str = "sub_1SmGuildQ7wJrny";
const INVOICE: &str = "in_1SmGuildQ7wInv1";

fn folder(generation: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/stripe").join(generation)
}

fn fixture(generation: &str, kind: &str) -> Value {
    let text = std::fs::read(folder(generation).join(format!("{kind}.json"))).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn read(json: &Value) -> StripeEvent {
    decode(json.to_string().as_bytes()).unwrap().unwrap()
}

fn said(json: &Value) -> String {
    let error: WireError = decode(json.to_string().as_bytes()).unwrap_err();
    error.to_string()
}

fn with(mut base: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = base.pointer_mut(parent).unwrap();
    match name.parse::<usize>() {
        Ok(place) => parent[place] = value,
        Err(_) => parent[name] = value,
    }
    base
}

fn without(mut base: Value, pointer: &str) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    base.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
    base
}

fn t(text: &str) -> Time {
    dues_events::time::parse(text).unwrap()
}

fn usd(text: &str) -> Amount {
    Amount::Usd(text.parse::<Money>().unwrap())
}

fn january() -> Period {
    Period { start: t("2026-01-05T14:00:00Z"), end: t("2026-02-05T14:00:00Z") }
}

fn subscription(status: SubscriptionStatus, cancel_at_period_end: bool, ended: bool) -> Fact {
    Fact::Subscription(Subscription {
        id: SUBSCRIPTION.into(),
        customer: Some(CUSTOMER.into()),
        user: Some("u-1".into()),
        provider: Some(Provider::Cognito),
        tier: Some("JOURNEYMAN".into()),
        status,
        period: Some(january()),
        cancel_at_period_end,
        created_at: t("2026-01-05T14:00:00Z"),
        ended,
    })
}

/// An invoice with the links to its payment, as in the old API.
fn invoice(reason: BillingReason, paid: &str, due: &str) -> Invoice {
    Invoice {
        invoice: INVOICE.into(),
        subscription: Some(SUBSCRIPTION.into()),
        customer: Some(CUSTOMER.into()),
        user: Some("u-1".into()),
        provider: Some(Provider::Cognito),
        tier: Some("JOURNEYMAN".into()),
        billing_reason: Some(reason),
        amount_paid: usd(paid),
        amount_due: usd(due),
        period: Some(january()),
        payment_intent: Some(PAYMENT.into()),
        charge: Some(CHARGE.into()),
    }
}

fn checkout(
    session: &str,
    state: CheckoutState,
    payment: &str,
    user: &str,
    purchase: Purchase,
    total: &str,
) -> Checkout {
    Checkout {
        session: CheckoutId::from(session),
        mode: CheckoutMode::Payment,
        state,
        payment_intent: Some(payment.into()),
        subscription: None,
        customer: None,
        user: Some(user.into()),
        provider: None,
        purchase: Some(purchase),
        amount_total: Some(usd(total)),
    }
}

fn refund(status: RefundStatus) -> Fact {
    let id = RefundId::from("re_3SmGuildQ7wRef1");
    Fact::Refund(Refund {
        id,
        payment_intent: Some(PAYMENT.into()),
        charge: Some(CHARGE.into()),
        amount: usd("15.00"),
        status,
    })
}

fn dispute(state: DisputeState) -> Fact {
    let id = DisputeId::from("du_1SmGuildQ7wDis1");
    Fact::Dispute(Dispute {
        id,
        charge: Some(CHARGE.into()),
        payment_intent: Some(PAYMENT.into()),
        amount: usd("15.00"),
        state,
    })
}

/// Time and fact of each fixture, for both generations.
fn expected() -> Vec<(&'static str, &'static str, Fact)> {
    use SubscriptionStatus::{Active, Canceled, Incomplete, Paused};
    vec![
        ("customer.subscription.created", "2026-01-05T14:00:01Z", subscription(Incomplete, false, false)),
        ("customer.subscription.updated", "2026-01-05T15:00:00Z", subscription(Active, true, false)),
        ("customer.subscription.deleted", "2026-02-05T14:00:00Z", subscription(Canceled, true, true)),
        ("customer.subscription.paused", "2026-01-12T14:00:00Z", subscription(Paused, false, false)),
        ("customer.subscription.resumed", "2026-01-13T14:00:00Z", subscription(Active, false, false)),
        (
            "invoice.paid",
            "2026-01-05T14:00:02Z",
            Fact::InvoicePaid(invoice(BillingReason::SubscriptionCycle, "17.50", "17.50")),
        ),
        (
            "invoice.payment_succeeded",
            "2026-01-05T14:00:02Z",
            Fact::InvoicePaid(invoice(BillingReason::SubscriptionCreate, "15.00", "15.00")),
        ),
        (
            "invoice.payment_failed",
            "2026-01-05T15:00:00Z",
            Fact::InvoiceFailed(invoice(BillingReason::SubscriptionCycle, "0.00", "15.00")),
        ),
        (
            "checkout.session.completed",
            "2026-01-05T14:00:10Z",
            Fact::Checkout(Checkout {
                provider: Some(Provider::Local),
                ..checkout(
                    "cs_live_a1SmGuildFounder",
                    CheckoutState::Paid,
                    "pi_3SmGuildQ7wFndr",
                    "u-2",
                    Purchase::FoundingMember,
                    "199.00",
                )
            }),
        ),
        (
            "checkout.session.async_payment_succeeded",
            "2026-01-08T14:00:00Z",
            Fact::Checkout(Checkout {
                provider: Some(Provider::Cognito),
                customer: Some(CustomerId::from(CUSTOMER)),
                ..checkout(
                    "cs_live_a1SmGuildCredits",
                    CheckoutState::Paid,
                    "pi_3SmGuildQ7wCred",
                    "u-3",
                    Purchase::Credits,
                    "5.00",
                )
            }),
        ),
        (
            "checkout.session.async_payment_failed",
            "2026-01-08T14:00:00Z",
            Fact::Checkout(checkout(
                "cs_live_a1SmGuildBuilder",
                CheckoutState::Failed,
                "pi_3SmGuildQ7wBldr",
                "u-4",
                Purchase::GuildBuilder,
                "999.00",
            )),
        ),
        (
            "payment_intent.succeeded",
            "2026-01-05T14:00:02Z",
            Fact::PaymentIntent(PaymentIntent {
                id: PaymentIntentId::from(PAYMENT),
                succeeded: true,
                customer: Some(CUSTOMER.into()),
                user: None,
                provider: None,
                purchase: None,
                invoice: Some(InvoiceId::from(INVOICE)),
                amount: usd("15.00"),
            }),
        ),
        (
            "payment_intent.payment_failed",
            "2026-01-05T14:00:05Z",
            Fact::PaymentIntent(PaymentIntent {
                id: "pi_3SmGuildQ7wFail".into(),
                succeeded: false,
                customer: None,
                user: Some(UserId::from("u-3")),
                provider: Some(Provider::Cognito),
                purchase: Some(Purchase::Credits),
                invoice: None,
                amount: usd("5.00"),
            }),
        ),
        ("refund.created", "2026-01-06T14:00:00Z", refund(RefundStatus::Pending)),
        ("refund.updated", "2026-01-06T14:01:40Z", refund(RefundStatus::Succeeded)),
        ("refund.failed", "2026-01-12T14:00:00Z", refund(RefundStatus::Failed)),
        (
            "charge.refunded",
            "2026-01-06T14:00:00Z",
            Fact::ChargeRefunded(ChargeRefunded {
                charge: ChargeId::from(CHARGE),
                payment_intent: Some(PAYMENT.into()),
                customer: Some(CUSTOMER.into()),
                amount_refunded: usd("15.00"),
                refunded: true,
            }),
        ),
        ("charge.dispute.created", "2026-01-07T14:00:00Z", dispute(DisputeState::Open)),
        ("charge.dispute.closed", "2026-02-04T14:00:00Z", dispute(DisputeState::Lost)),
        ("charge.dispute.funds_reinstated", "2026-02-05T14:00:00Z", dispute(DisputeState::Reinstated)),
    ]
}

/// Removes what the new API omits from an invoice: `payments` names the payment where it is included, and
/// never the charge behind it.
fn as_new(kind: &str, fact: Fact) -> Fact {
    match fact {
        Fact::InvoicePaid(invoice) if kind == "invoice.paid" => {
            Fact::InvoicePaid(Invoice { charge: None, ..invoice })
        }
        Fact::InvoicePaid(invoice) => {
            Fact::InvoicePaid(Invoice { charge: None, payment_intent: None, ..invoice })
        }
        Fact::InvoiceFailed(invoice) => {
            Fact::InvoiceFailed(Invoice { charge: None, payment_intent: None, ..invoice })
        }
        Fact::Subscription(_)
        | Fact::Checkout(_)
        | Fact::PaymentIntent(_)
        | Fact::Refund(_)
        | Fact::ChargeRefunded(_)
        | Fact::Dispute(_) => fact,
    }
}

#[test]
fn every_type_is_read_in_both_generations() {
    for (kind, created, fact) in expected() {
        let (old, new) = (read(&fixture("old", kind)), read(&fixture("new", kind)));
        for (event, version) in [(&old, "2024-06-20"), (&new, "2025-09-30.clover")] {
            assert_eq!((event.created, event.source), (t(created), kind));
            assert_eq!((event.livemode, event.api_version.as_deref()), (true, Some(version)), "{kind}");
        }
        assert_eq!(old.fact, fact, "old {kind}");
        assert_eq!(new.fact, as_new(kind, fact), "new {kind}");
        assert_eq!(
            (&old.id, old.token),
            (&new.id, new.token),
            "{kind}: one event, whichever version an endpoint asks for"
        );
    }
}

#[test]
fn what_the_store_keeps_of_an_event_reads_back_as_the_event() {
    for (kind, ..) in expected() {
        for generation in GENERATIONS {
            let body = fixture(generation, kind);
            let event = read(&body);
            let kept = event.to_json().unwrap();
            assert_eq!(StripeEvent::from_json(&kept).unwrap(), event, "{generation} {kind}");
            // One write unit including its key, however long the event was, and without names or addresses.
            assert!(kept.len() < 800, "{generation} {kind}: {} bytes", kept.len());
            assert!(!kept.contains('@'), "{kept}");
        }
    }
    for bad in [
        "",
        "{}",
        r#"{"id":"e","created":"2026-01-01T00:00:00Z","livemode":true,"source":"no.such.type","fact":{}}"#,
    ] {
        assert!(StripeEvent::from_json(bad).is_err(), "{bad}");
    }
}

#[test]
fn an_event_names_its_user_and_the_objects_by_which_others_find_that_user() {
    let links = |kind: &str| {
        let event = read(&fixture("old", kind));
        (
            event.user().is_some(),
            event
                .objects()
                .into_iter()
                .map(|id| id.split('_').next().unwrap().to_owned())
                .collect::<Vec<_>>(),
        )
    };
    let some = |ids: &[&str]| (true, ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>());
    assert_eq!(links("customer.subscription.created"), some(&["sub", "cus"]));
    assert_eq!(links("invoice.paid"), some(&["pi", "ch", "sub", "cus"]));
    assert_eq!(links("payment_intent.succeeded").1, ["pi", "cus"]);
    assert_eq!(links("refund.created"), (false, vec!["pi".to_owned(), "ch".into()]));
    assert_eq!(links("charge.refunded"), (false, vec!["pi".to_owned(), "ch".into(), "cus".into()]));
    assert_eq!(links("charge.dispute.closed"), (false, vec!["pi".to_owned(), "ch".into()]));
    let mut event = read(&fixture("new", "customer.subscription.updated"));
    assert_eq!(event.unknown_tier(), None);
    let Fact::Subscription(subscription) = &mut event.fact else { panic!("{event:?}") };
    subscription.tier = Some("GOLD".into());
    assert_eq!(event.unknown_tier(), Some("GOLD"));
}

#[test]
fn each_type_of_the_contract_has_its_two_fixtures_and_nothing_else_is_there() {
    let mut listed: Vec<&str> = types().collect();
    listed.sort_unstable();
    let mut tested: Vec<&str> = expected().iter().map(|(kind, ..)| *kind).collect();
    tested.sort_unstable();
    assert_eq!(listed, tested);
    for generation in GENERATIONS {
        let files = std::fs::read_dir(folder(generation))
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut files: Vec<String> = files.collect();
        files.sort_unstable();
        assert_eq!(files, listed.iter().map(|kind| format!("{kind}.json")).collect::<Vec<_>>());
    }
}

#[test]
fn other_types_are_skipped_whatever_their_shape() {
    for event in [
        json!({"type":"customer.created"}),
        json!({"type":"invoice.finalized","id":7,"created":"yesterday","data":[]}),
        json!({"type":"v1.billing.meter.error_report_triggered","object":"v2.core.event"}),
        with(fixture("new", "invoice.paid"), "/type", json!("invoice.upcoming")),
    ] {
        assert_eq!(decode(event.to_string().as_bytes()).unwrap(), None);
    }
}

#[test]
fn expanded_objects_stand_for_their_ids() {
    for (generation, kind, pointers) in [
        ("old", "invoice.paid", &["customer", "subscription", "payment_intent", "charge"][..]),
        (
            "new",
            "invoice.paid",
            &[
                "customer",
                "parent/subscription_details/subscription",
                "payments/data/1/payment/payment_intent",
            ],
        ),
        ("old", "customer.subscription.updated", &["customer"]),
        ("new", "checkout.session.async_payment_succeeded", &["customer", "payment_intent"]),
        ("old", "payment_intent.succeeded", &["customer", "invoice"]),
        ("new", "refund.created", &["charge", "payment_intent"]),
        ("new", "charge.refunded", &["customer", "payment_intent"]),
        ("new", "charge.dispute.created", &["charge", "payment_intent"]),
    ] {
        let plain = fixture(generation, kind);
        let mut expanded = plain.clone();
        for pointer in pointers {
            let pointer = format!("/data/object/{pointer}");
            let id = plain.pointer(&pointer).unwrap().clone();
            assert!(id.is_string(), "{kind} {pointer}");
            expanded = with(
                expanded,
                &pointer,
                json!({"object": "something", "id": id, "livemode": true, "metadata": {}}),
            );
        }
        assert_eq!(read(&expanded), read(&plain), "{generation} {kind}");
    }
}

#[test]
fn a_missing_required_field_is_named() {
    let everywhere = ["/id", "/type", "/created", "/livemode", "/data", "/data/object", "/data/object/id"];
    for (kind, pointers) in [
        ("customer.subscription.updated", &["status", "created"][..]),
        ("invoice.paid", &["amount_paid", "amount_due", "currency"]),
        ("invoice.payment_failed", &["amount_due"]),
        ("checkout.session.completed", &["mode", "payment_status", "amount_total", "currency"]),
        ("checkout.session.async_payment_failed", &["mode", "amount_total"]),
        ("payment_intent.succeeded", &["amount", "currency"]),
        ("refund.updated", &["amount", "currency", "status"]),
        ("charge.refunded", &["amount_refunded", "currency", "refunded"]),
        ("charge.dispute.created", &["amount", "currency"]),
        ("charge.dispute.closed", &["amount", "currency", "status"]),
    ] {
        let pointers =
            pointers.iter().map(|name| format!("/data/object/{name}")).chain(everywhere.map(str::to_owned));
        for pointer in pointers {
            for generation in GENERATIONS {
                let message = format!("{}: is missing", pointer[1..].replace('/', "."));
                assert_eq!(
                    said(&without(fixture(generation, kind), &pointer)),
                    message,
                    "{generation} {kind}"
                );
                if pointer != "/data/object" {
                    assert_eq!(
                        said(&with(fixture(generation, kind), &pointer, Value::Null)),
                        message,
                        "{generation} {kind}, null"
                    );
                }
            }
        }
    }
}

#[test]
fn a_malformed_field_is_named() {
    for (generation, kind, pointer, value, message) in [
        ("new", "invoice.paid", "/type", json!(7), "type: invalid type: integer `7`"),
        ("new", "invoice.paid", "/id", json!(""), "id: is empty"),
        ("new", "invoice.paid", "/id", json!("e".repeat(300)), "id: has 300 bytes, the most is 256"),
        ("new", "invoice.paid", "/created", json!("2026-01-05"), "created: invalid type: string"),
        ("new", "invoice.paid", "/created", json!(1.5), "created: invalid type: floating point"),
        ("new", "invoice.paid", "/created", json!(-1), "created: -1 is not a time in seconds since 1970"),
        ("new", "invoice.paid", "/created", json!(i64::MAX), "created: 9223372036854775807 is not a time"),
        ("new", "invoice.paid", "/livemode", json!("true"), "livemode: invalid type: string"),
        ("new", "invoice.paid", "/data", json!([1]), "data: invalid type: sequence, expected an object"),
        (
            "new",
            "invoice.paid",
            "/data/object",
            json!(["in_1"]),
            "data.object: invalid type: sequence, expected an object",
        ),
        (
            "new",
            "invoice.paid",
            "/data/object/amount_paid",
            json!("15"),
            "data.object.amount_paid: invalid type: string",
        ),
        (
            "new",
            "invoice.paid",
            "/data/object/amount_paid",
            json!(-1),
            "data.object.amount_paid: -0.01 is negative",
        ),
        (
            "new",
            "invoice.paid",
            "/data/object/amount_paid",
            json!(i64::MAX),
            "data.object.amount_paid: 92233720368547758.07 is larger",
        ),
        (
            "new",
            "invoice.paid",
            "/data/object/currency",
            json!("dollars"),
            "data.object.currency: \"dollars\" is not a code of three",
        ),
        (
            "new",
            "invoice.paid",
            "/data/object/customer",
            json!(7),
            "data.object.customer: invalid type: integer `7`, expected an id or",
        ),
        (
            "new",
            "invoice.paid",
            "/data/object/customer",
            json!(["c"]),
            "data.object.customer: invalid type: sequence",
        ),
        (
            "new",
            "invoice.paid",
            "/data/object/customer",
            json!({"a":1}),
            "data.object.customer: is an object without an id",
        ),
        (
            "new",
            "invoice.paid",
            "/data/object/customer",
            json!("c".repeat(257)),
            "data.object.customer: has 257 bytes, the most is 256",
        ),
        (
            "new",
            "invoice.paid",
            "/data/object/lines",
            json!([]),
            "data.object.lines: invalid type: sequence, expected an object",
        ),
        (
            "new",
            "invoice.paid",
            "/data/object/lines/data/1",
            json!([]),
            "data.object.lines.data[1]: invalid type: sequence",
        ),
        (
            "new",
            "invoice.paid",
            "/data/object/lines/data/1/period/start",
            json!("x"),
            "data.object.lines.data[1].period.start: invalid",
        ),
        (
            "new",
            "invoice.paid",
            "/data/object/lines/data/1/period/end",
            json!(null),
            "data.object.lines.data[1].period.end: is missing",
        ),
        (
            "new",
            "invoice.paid",
            "/data/object/parent/subscription_details/metadata/provider",
            json!("ldap"),
            "data.object.parent.subscription_details.metadata.provider: \"ldap\" is not cognito or local",
        ),
        (
            "old",
            "invoice.paid",
            "/data/object/subscription_details/metadata/user_id",
            json!("u".repeat(300)),
            "data.object.subscription_details.metadata.user_id: has 300 bytes, the most is 256",
        ),
        (
            "old",
            "customer.subscription.updated",
            "/data/object/current_period_end",
            json!(null),
            "data.object.current_period_end: is missing",
        ),
        (
            "new",
            "customer.subscription.updated",
            "/data/object/items/data/0/current_period_start",
            json!(null),
            "data.object.items.data[0].current_period_start: is missing",
        ),
        (
            "new",
            "customer.subscription.updated",
            "/data/object/status",
            json!("resting"),
            "data.object.status: \"resting\" is not a status of a subscription",
        ),
        (
            "new",
            "refund.created",
            "/data/object/status",
            json!("lost"),
            "data.object.status: \"lost\" is not a status of a refund",
        ),
        (
            "new",
            "charge.dispute.closed",
            "/data/object/status",
            json!("under_review"),
            "data.object.status: \"under_review\" is not how",
        ),
        (
            "new",
            "checkout.session.completed",
            "/data/object/mode",
            json!("gift"),
            "data.object.mode: \"gift\" is not payment, subscrip",
        ),
        (
            "new",
            "checkout.session.completed",
            "/data/object/metadata/purchase",
            json!("TEA"),
            "data.object.metadata.purchase: \"TEA\" is not FOUNDING_MEMBER, GUILD_BUILDER or CREDITS",
        ),
    ] {
        let said = said(&with(fixture(generation, kind), pointer, value));
        assert!(said.starts_with(message), "{generation} {kind} {pointer}: {said}");
    }
}

#[test]
fn what_is_not_one_json_object_or_too_large_is_said_so() {
    let said = |bytes: &[u8]| decode(bytes).unwrap_err().to_string();
    assert!(said(b"").starts_with("record: is not JSON: EOF"));
    assert!(said(b"{\"type\":\"invoice.paid\"").starts_with("record: is not JSON: EOF"));
    assert_eq!(said(b"[{\"type\":\"invoice.paid\"}]"), "record: is not a JSON object");
    assert_eq!(said(b"{\"type\":\"invoice.paid\"} {}"), "record: has more after its end");
    let long =
        with(fixture("new", "invoice.paid"), "/data/object/description", json!("x".repeat(MAX_RECORD_BYTES)));
    assert!(said(long.to_string().as_bytes()).starts_with("record: has 2"));
}

fn invoice_of(event: StripeEvent) -> Invoice {
    let (Fact::InvoicePaid(invoice) | Fact::InvoiceFailed(invoice)) = event.fact else {
        panic!("not that sort of fact")
    };
    invoice
}

fn subscription_of(event: StripeEvent) -> Subscription {
    let Fact::Subscription(subscription) = event.fact else { panic!("not that sort of fact") };
    subscription
}

fn checkout_of(event: StripeEvent) -> Checkout {
    let Fact::Checkout(checkout) = event.fact else { panic!("not that sort of fact") };
    checkout
}

#[test]
fn another_currency_is_kept_and_not_taken_for_dollars() {
    let yen = invoice_of(read(&with(fixture("new", "invoice.paid"), "/data/object/currency", json!("jpy"))));
    assert_eq!(yen.amount_paid, Amount::Other { currency: "jpy".into(), minor_units: 1750 });
    assert_eq!((yen.amount_paid.usd(), yen.amount_paid.is_positive()), (None, true));
    assert!(!usd("0.00").is_positive() && usd("0.01").is_positive());
}

#[test]
fn who_and_what_is_found_wherever_the_invoice_says_it() {
    let all = |invoice: &Invoice| (invoice.user.clone(), invoice.provider, invoice.tier.clone());
    for generation in GENERATIONS {
        let plain = fixture(generation, "invoice.payment_succeeded");
        let expected = all(&invoice_of(read(&plain)));
        let bare = ["subscription_details", "parent"]
            .into_iter()
            .fold(plain.clone(), |invoice, name| without(invoice, &format!("/data/object/{name}")));
        assert_eq!(all(&invoice_of(read(&bare))), expected, "{generation}: by the line");
        let line_less = with(bare.clone(), "/data/object/lines/data/0/metadata", json!({}));
        assert_eq!(all(&invoice_of(read(&line_less))), (None, None, None), "{generation}");
        let own = with(line_less, "/data/object/metadata", json!({"user_id":"u-9","planTier":"SAGE"}));
        assert_eq!(
            all(&invoice_of(read(&own))),
            (Some("u-9".into()), None, Some("SAGE".into())),
            "{generation}: by itself"
        );
    }
}

#[test]
fn an_invoice_without_subscription_or_lines_has_neither() {
    let mut plain = fixture("new", "invoice.payment_succeeded");
    plain["data"]["object"]["parent"] = Value::Null;
    plain["data"]["object"]["billing_reason"] = json!("manual");
    plain["data"]["object"]["lines"]["data"] = json!([null]);
    let invoice = invoice_of(read(&plain));
    assert_eq!((invoice.subscription, invoice.period), (None, None));
    let reason = invoice.billing_reason.unwrap();
    assert_eq!((&reason, reason.starts_period()), (&BillingReason::Other("manual".into()), false));
    assert!(
        BillingReason::SubscriptionCreate.starts_period() && BillingReason::SubscriptionCycle.starts_period()
    );
}

#[test]
fn prorations_do_not_make_the_period_of_an_invoice() {
    for (generation, pointer) in [("old", "proration"), ("new", "parent/subscription_item_details/proration")]
    {
        let pointer = format!("/data/object/lines/data/1/{pointer}");
        let only_prorations = with(fixture(generation, "invoice.paid"), &pointer, json!(true));
        assert_eq!(invoice_of(read(&only_prorations)).period, None, "{generation}");
    }
}

#[test]
fn of_several_periods_the_last_to_end_counts() {
    let mut plain = fixture("new", "customer.subscription.updated");
    let mut year = plain["data"]["object"]["items"]["data"][0].clone();
    year["current_period_end"] = json!(1_799_157_600);
    plain["data"]["object"]["items"]["data"].as_array_mut().unwrap().push(year);
    let subscription = subscription_of(read(&plain));
    assert_eq!(subscription.period, Some(Period { end: t("2027-01-05T14:00:00Z"), ..january() }));
    plain["data"]["object"]["items"]["data"] = json!([]);
    assert_eq!(subscription_of(read(&plain)).period, None);
}

#[test]
fn an_end_is_planned_by_flag_or_by_date() {
    let plain = fixture("new", "customer.subscription.resumed");
    let cancels = |at: Value, flag: Value| {
        let dated = with(plain.clone(), "/data/object/cancel_at", at);
        subscription_of(read(&with(dated, "/data/object/cancel_at_period_end", flag))).cancel_at_period_end
    };
    assert!(!cancels(json!(null), json!(false)) && !cancels(json!(null), json!(null)));
    assert!(cancels(json!(null), json!(true)));
    assert!(cancels(json!(1_770_300_000), json!(false)), "as the customer portal does in flexible billing");
    assert!(!cancels(json!(1_770_300_001), json!(false)), "after the next renewal");
}

#[test]
fn a_checkout_is_paid_only_when_stripe_says_paid() {
    for (status, state) in [
        ("paid", CheckoutState::Paid),
        ("unpaid", CheckoutState::Pending),
        ("no_payment_required", CheckoutState::Pending),
    ] {
        let session =
            with(fixture("new", "checkout.session.completed"), "/data/object/payment_status", json!(status));
        assert_eq!(checkout_of(read(&session)).state, state);
    }
    let mut setup = fixture("new", "checkout.session.completed");
    for (name, value) in [
        ("mode", json!("setup")),
        ("amount_total", json!(null)),
        ("currency", json!(null)),
        ("payment_intent", json!(null)),
    ] {
        setup["data"]["object"][name] = value;
    }
    let kept = checkout_of(read(&setup));
    assert_eq!((kept.mode, kept.amount_total, kept.payment_intent), (CheckoutMode::Setup, None, None));
}

#[test]
fn a_dispute_ends_by_its_status() {
    for (status, state) in [
        ("won", DisputeState::Won),
        ("warning_closed", DisputeState::Won),
        ("prevented", DisputeState::Won),
        ("lost", DisputeState::Lost),
    ] {
        let closed = with(fixture("old", "charge.dispute.closed"), "/data/object/status", json!(status));
        assert_eq!(read(&closed).fact, dispute(state), "{status}");
    }
    let reinstated =
        with(fixture("old", "charge.dispute.funds_reinstated"), "/data/object/status", json!("lost"));
    assert_eq!(read(&reinstated).fact, dispute(DisputeState::Reinstated));
}

#[test]
fn only_an_invoice_is_an_invoice_and_what_came_in_is_the_amount() {
    let payment = |json: &Value| {
        let Fact::PaymentIntent(payment) = read(json).fact else { panic!("{json}") };
        payment
    };
    let plain = fixture("new", "payment_intent.succeeded");
    let shop = with(plain.clone(), "/data/object/payment_details/order_reference", json!("order-7"));
    assert_eq!(payment(&shop).invoice, None);
    assert_eq!(payment(&with(plain.clone(), "/data/object/amount_received", json!(900))).amount, usd("9.00"));
    assert_eq!(payment(&without(plain, "/data/object/amount_received")).amount, usd("15.00"));
}

#[test]
fn two_states_of_one_second_have_an_order() {
    let base = subscription_of(read(&fixture("new", "customer.subscription.resumed")));
    let next = Period { start: january().end, end: t("2026-03-05T14:00:00Z") };
    let with_status = |status| Subscription { status, ..base.clone() };
    let order = [
        Subscription { period: None, ..with_status(SubscriptionStatus::Incomplete) },
        with_status(SubscriptionStatus::Incomplete),
        with_status(SubscriptionStatus::Trialing),
        with_status(SubscriptionStatus::Active),
        Subscription { cancel_at_period_end: true, ..with_status(SubscriptionStatus::Active) },
        with_status(SubscriptionStatus::PastDue),
        with_status(SubscriptionStatus::Unpaid),
        with_status(SubscriptionStatus::Paused),
        Subscription { period: Some(next), ..with_status(SubscriptionStatus::Active) },
        Subscription { period: Some(next), ..with_status(SubscriptionStatus::PastDue) },
        Subscription { ended: true, ..with_status(SubscriptionStatus::Active) },
        with_status(SubscriptionStatus::IncompleteExpired),
        with_status(SubscriptionStatus::Canceled),
        Subscription { period: Some(next), ..with_status(SubscriptionStatus::Canceled) },
    ];
    assert!(
        order.iter().map(Subscription::rank).is_sorted_by(|earlier, later| earlier < later),
        "{order:#?}"
    );
    assert!(
        [RefundStatus::RequiresAction, RefundStatus::Pending, RefundStatus::Succeeded, RefundStatus::Failed]
            .is_sorted()
    );
    assert!(
        [DisputeState::Open, DisputeState::Won, DisputeState::Lost, DisputeState::Reinstated].is_sorted()
    );
    assert!([CheckoutState::Pending, CheckoutState::Failed, CheckoutState::Paid].is_sorted());
}

#[test]
fn the_idempotency_token_depends_on_content_alone() {
    let plain = fixture("new", "invoice.paid");
    let one = read(&plain).token;
    for (pointer, value) in [
        ("/pending_webhooks", json!(0)),
        ("/api_version", json!("2026-01-28.clover")),
        ("/data/object/footer", json!("Thank you")),
    ] {
        assert_eq!(read(&with(plain.clone(), pointer, value)).token, one, "{pointer}");
    }
    for (pointer, value) in [
        ("/id", json!("evt_other")),
        ("/created", json!(1_767_621_603)),
        ("/livemode", json!(false)),
        ("/type", json!("invoice.payment_succeeded")),
        ("/data/object/amount_paid", json!(1)),
        ("/data/object/parent/subscription_details/metadata/user_id", json!("u-2")),
        ("/data/object/parent/subscription_details/subscription", json!("sub_other")),
    ] {
        assert_ne!(read(&with(plain.clone(), pointer, value)).token, one, "{pointer}");
    }
}

#[test]
fn ids_of_a_malformed_event_are_extracted() {
    let peeked = |json: &Value| peek_ids(json.to_string().as_bytes());
    let id = |json: &Value| json["id"].as_str().map(str::to_owned);
    for generation in GENERATIONS {
        for (kind, user) in [
            ("customer.subscription.updated", Some("u-1")),
            ("invoice.paid", Some("u-1")),
            ("checkout.session.async_payment_failed", Some("u-4")),
            ("refund.created", None),
        ] {
            let broken = with(fixture(generation, kind), "/created", json!("broken"));
            assert_eq!(peeked(&broken), (id(&broken), user.map(str::to_owned)), "{generation} {kind}");
        }
    }
    assert_eq!(peek_ids(b"{"), (None, None));
}

/// Inserts a value somewhere into another; `steps` choose the path.
fn put(into: &mut Value, steps: &[usize], value: Value) {
    let choices = match into {
        Value::Object(fields) => fields.values_mut().collect(),
        Value::Array(elements) => elements.iter_mut().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    match steps.split_first() {
        Some((step, rest)) if !choices.is_empty() => {
            let place = step % choices.len();
            put(choices.into_iter().nth(place).unwrap(), rest, value);
        }
        Some(_) | None => *into = value,
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let names = prop_oneof![
            Just("id".to_owned()),
            Just("data".to_owned()),
            Just("start".to_owned()),
            "[a-z_]{1,8}"
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_change_of_an_event_is_read_or_refused_and_never_panics(
        kind in 0usize..20,
        generation in 0usize..2,
        changes in prop::collection::vec((prop::collection::vec(0usize..64, 1..9), any_json()), 1..4),
    ) {
        let mut event = fixture(GENERATIONS[generation], types().nth(kind).unwrap());
        for (steps, value) in changes {
            // Into the object, where the fields are; the envelope has its own tests.
            put(&mut event["data"]["object"], &steps, value);
        }
        let text = event.to_string();
        match decode(text.as_bytes()) {
            Ok(event) => prop_assert!(event.is_some()),
            Err(error) => prop_assert!(error.field.starts_with("data.object"), "{error}"),
        }
        let _ = peek_ids(text.as_bytes());
    }

    #[test]
    fn any_bytes_are_read_or_refused_and_never_panic(bytes in any::<Vec<u8>>()) {
        let _ = decode(&bytes);
        let _ = peek_ids(&bytes);
    }

    #[test]
    fn an_event_cut_anywhere_is_refused(kind in 0usize..20, share in 0usize..1000) {
        let whole = fixture("new", types().nth(kind).unwrap()).to_string();
        prop_assert!(decode(&whole.as_bytes()[..whole.len() * share / 1000]).is_err());
    }
}
