//! Stripe events of the simulated customers: subscriptions, invoices, founder passes, credits, refunds and
//! disputes.

use chrono::{Datelike as _, Months};
use dues_events::Time;
use fastrand::Rng;
use serde_json::{Value, json};

/// Tier and price in cents.
const TIERS: [(&str, u32); 3] = [("INITIATE", 100), ("JOURNEYMAN", 1500), ("SAGE", 4900)];

struct Customer {
    id: String,
    tier: usize,
    /// The day of the month on which the subscription renews.
    day: u32,
    provider: &'static str,
    active: bool,
}

pub(super) struct Customers {
    all: Vec<Customer>,
    rng: Rng,
    events: u64,
}

impl Customers {
    /// One for every eight members.
    pub(super) fn new(members: u32, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x5712);
        let customer = |n: u32| Customer {
            id: format!("customer-{n:06}"),
            tier: rng.usize(..TIERS.len()),
            day: rng.u32(1..=28),
            provider: if rng.bool() { "cognito" } else { "local" },
            active: true,
        };
        let all = (0..members.div_ceil(8)).map(customer).collect();
        Self { all, rng, events: 0 }
    }

    pub(super) fn len(&self) -> u64 {
        self.all.len() as u64
    }

    /// A day's Stripe events: some twice, and out of order.
    pub(super) fn events(&mut self, day: Time) -> Vec<String> {
        let mut events = Vec::new();
        for n in 0..self.all.len() {
            if self.all[n].active && self.all[n].day == day.day() {
                self.renew(n, day, &mut events);
            }
        }
        for n in (0..events.len()).rev() {
            if self.rng.u8(..40) == 0 {
                events.push(events[n].clone());
            }
        }
        self.rng.shuffle(&mut events);
        events
    }

    /// Renews a subscription: it is paid, cancelled or moved to another tier; some payments are refunded or
    /// disputed.
    fn renew(&mut self, n: usize, day: Time, events: &mut Vec<String>) {
        if self.rng.u8(..8) == 0 {
            self.all[n].tier = self.rng.usize(..TIERS.len());
        }
        let leaves = self.rng.u8(..40) == 0;
        let Customer { id, tier, provider, .. } = &self.all[n];
        let ((tier, cents), id, provider) = (TIERS[*tier], id.clone(), *provider);
        let (start, end) =
            (day.timestamp(), day.checked_add_months(Months::new(1)).unwrap_or(day).timestamp());
        let metadata = json!({"user_id": id, "planTier": tier, "provider": provider});
        let status = if leaves { "canceled" } else { "active" };
        let subscription = json!({"id": format!("sub_{id}"), "object": "subscription",
            "customer": format!("cus_{id}"), "status": status, "created": start,
            "cancel_at_period_end": false, "metadata": metadata,
            "items": {"object": "list", "data": [{"id": "si_1", "current_period_start": start,
                "current_period_end": end}]}});
        let kind = if leaves { "customer.subscription.deleted" } else { "customer.subscription.updated" };
        events.push(self.event(kind, day, subscription));
        if leaves {
            self.all[n].active = false;
            return;
        }
        let (invoice, payment) = (format!("in_{id}_{start}"), format!("pi_{id}_{start}"));
        let paid = json!({"id": invoice, "object": "invoice", "customer": format!("cus_{id}"),
            "currency": "usd", "amount_paid": cents, "amount_due": cents,
            "billing_reason": "subscription_cycle",
            "parent": {"type": "subscription_details",
                "subscription_details": {"subscription": format!("sub_{id}"), "metadata": metadata}},
            "lines": {"object": "list", "data": [{"id": "il_1", "period": {"start": start, "end": end},
                "parent": {"type": "subscription_item_details",
                    "subscription_item_details": {"subscription": format!("sub_{id}"),
                        "proration": false}}}]}});
        // Stripe sends two event types for one payment.
        events.push(self.event("invoice.paid", day, paid.clone()));
        events.push(self.event("invoice.payment_succeeded", day, paid));
        let intent = json!({"id": payment, "object": "payment_intent", "customer": format!("cus_{id}"),
            "currency": "usd", "amount": cents,
            "amount_received": cents, "status": "succeeded", "metadata": {"user_id": id},
            "payment_details": {"order_reference": invoice}});
        events.push(self.event("payment_intent.succeeded", day, intent));
        match self.rng.u8(..60) {
            0 => {
                let refund = json!({"id": format!("re_{id}_{start}"), "object": "refund", "amount": cents,
                    "currency": "usd", "payment_intent": payment,
                    "charge": format!("ch_{payment}"), "status": "succeeded"});
                events.push(self.event("refund.created", day, refund));
            }
            1 => {
                let dispute = json!({"id": format!("dp_{id}_{start}"), "object": "dispute", "amount": cents,
                    "currency": "usd", "payment_intent": payment,
                    "charge": format!("ch_{payment}"), "status": "lost"});
                events.push(self.event("charge.dispute.closed", day, dispute));
            }
            2..=4 => events.push(self.checkout(&id, provider, "CREDITS", 500, day)),
            5 => events.push(self.checkout(&id, provider, "FOUNDING_MEMBER", 49_900, day)),
            _ => {}
        }
    }

    fn checkout(&mut self, id: &str, provider: &str, purchase: &str, cents: u32, day: Time) -> String {
        let payment = format!("pi_{purchase}_{id}_{}", day.timestamp());
        let session = json!({"id": format!("cs_{payment}"), "object": "checkout.session", "mode": "payment",
            "payment_status": "paid", "status": "complete",
            "payment_intent": payment, "customer": null, "subscription": null, "currency": "usd",
            "amount_total": cents,
            "metadata": {"user_id": id, "provider": provider, "purchase": purchase}});
        self.event("checkout.session.completed", day, session)
    }

    fn event(&mut self, kind: &str, day: Time, object: Value) -> String {
        self.events += 1;
        json!({"id": format!("evt_{:07}", self.events), "object": "event", "api_version": "2025-09-30.clover",
            "created": day.timestamp(), "livemode": false,
            "type": kind, "data": {"object": object}})
        .to_string()
    }
}
