//! Stripe's events for one made-up member, as the webhook delivers them: just what is read of them, in the newer of the two shapes.

use dues_events::Time;
use serde_json::{Value, json};

use crate::world::{Sent, t};

/// Seconds of the Unix epoch.
fn seconds(at: &str) -> i64 {
    t(at).timestamp()
}

fn event(id: &str, kind: &str, at: &str, object: Value) -> Sent {
    let event = json!({"id": id, "object": "event", "api_version": "2025-09-30.clover", "created": seconds(at), "livemode": true, "type": kind,
        "data": {"object": object}});
    ("stripe", event)
}

/// A month from that day on, as seconds.
fn month(from: &str) -> (i64, i64) {
    let start: Time = t(from);
    (start.timestamp(), start.checked_add_months(chrono::Months::new(1)).unwrap().timestamp())
}

/// How the subscription of a user stands: `kind` is the last word of the type. Its month begins at `from`.
pub fn subscription(id: &str, kind: &str, at: &str, user: &str, tier: &str, status: &str, from: &str) -> Sent {
    let (start, end) = month(from);
    let object = json!({"id": format!("sub_{user}"), "object": "subscription", "customer": format!("cus_{user}"), "status": status, "created": seconds(from),
        "cancel_at_period_end": false, "metadata": {"user_id": user, "planTier": tier, "provider": "cognito"},
        "items": {"object": "list", "data": [{"id": "si_1", "current_period_start": start, "current_period_end": end}]}});
    event(id, &format!("customer.subscription.{kind}"), at, object)
}

/// The invoice of a month was paid; `kind` is `paid` or `payment_succeeded`. Without a user: only the subscription and the customer tell whose it is.
pub fn invoice(id: &str, kind: &str, at: &str, user: &str, from: &str) -> Sent {
    let (start, end) = month(from);
    let object = json!({"id": format!("in_{user}_{start}"), "object": "invoice", "customer": format!("cus_{user}"), "currency": "usd", "amount_paid": 1500,
        "amount_due": 1500, "billing_reason": "subscription_cycle",
        "parent": {"type": "subscription_details", "subscription_details": {"subscription": format!("sub_{user}"), "metadata": {}}},
        "lines": {"object": "list", "data": [{"id": "il_1", "period": {"start": start, "end": end},
            "parent": {"type": "subscription_item_details", "subscription_item_details": {"subscription": format!("sub_{user}"), "proration": false}}}]}});
    event(id, &format!("invoice.{kind}"), at, object)
}

/// The payment of that month's invoice.
pub fn invoice_payment(id: &str, at: &str, user: &str, from: &str) -> Sent {
    let (start, _) = month(from);
    let object = json!({"id": format!("pi_{user}_{start}"), "object": "payment_intent", "customer": format!("cus_{user}"), "currency": "usd", "amount": 1500,
        "amount_received": 1500, "status": "succeeded", "metadata": {}, "payment_details": {"order_reference": format!("in_{user}_{start}")}});
    event(id, "payment_intent.succeeded", at, object)
}

/// The id of the payment of that month's invoice.
pub fn payment_of(user: &str, from: &str) -> String {
    format!("pi_{user}_{}", month(from).0)
}

/// A checkout of a pass or of credits; `status` is `paid` or `unpaid`.
pub fn checkout(id: &str, at: &str, user: &str, purchase: &str, cents: u32, payment: &str, status: &str) -> Sent {
    let object = json!({"id": format!("cs_{payment}"), "object": "checkout.session", "mode": "payment", "payment_status": status, "status": "complete",
        "payment_intent": payment, "customer": null, "subscription": null, "currency": "usd", "amount_total": cents,
        "metadata": {"user_id": user, "provider": "cognito", "purchase": purchase}});
    event(id, "checkout.session.completed", at, object)
}

/// The money of a checkout came later.
pub fn paid_later(id: &str, at: &str, user: &str, purchase: &str, cents: u32, payment: &str) -> Sent {
    let (stream, mut event) = checkout(id, at, user, purchase, cents, payment, "paid");
    event["type"] = "checkout.session.async_payment_succeeded".into();
    (stream, event)
}

/// A refund; it names its payment and nobody.
pub fn refund(id: &str, kind: &str, at: &str, refund: &str, payment: &str, cents: u32, status: &str) -> Sent {
    let object = json!({"id": refund, "object": "refund", "amount": cents, "currency": "usd", "payment_intent": payment, "charge": format!("ch_{payment}"),
        "status": status});
    event(id, &format!("refund.{kind}"), at, object)
}

/// A dispute; `kind` is `created`, `closed` or `funds_reinstated`.
pub fn dispute(id: &str, kind: &str, at: &str, payment: &str, status: &str) -> Sent {
    let object = json!({"id": format!("dp_{payment}"), "object": "dispute", "amount": 1500, "currency": "usd", "payment_intent": payment,
        "charge": format!("ch_{payment}"), "status": status});
    event(id, &format!("charge.dispute.{kind}"), at, object)
}
