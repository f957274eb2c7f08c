//! Those who pay through Stripe: subscriptions, invoices, founder passes and credits, money that goes back. As Stripe would tell of them.

use chrono::{Datelike as _, Months};
use dues_events::Time;
use fastrand::Rng;
use serde_json::{Value, json};

/// Tier, and its price in cents.
const TIERS: [(&str, u32); 3] = [("INITIATE", 100), ("JOURNEYMAN", 1500), ("SAGE", 4900)];

/// Somebody who pays through Stripe.
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
    die: Rng,
    events: u64,
}

impl Customers {
    /// One for every eight members.
    pub(super) fn new(members: u32, seed: u64) -> Self {
        let mut die = Rng::with_seed(seed ^ 0x5712);
        let customer = |n: u32| Customer {
            id: format!("customer-{n:06}"),
            tier: die.usize(..TIERS.len()),
            day: die.u32(1..=28),
            provider: if die.bool() { "cognito" } else { "local" },
            active: true,
        };
        let all = (0..members.div_ceil(8)).map(customer).collect();
        Self { all, die, events: 0 }
    }

    pub(super) fn len(&self) -> u64 {
        self.all.len() as u64
    }

    /// What Stripe tells on a day: some of it twice, and not in order.
    pub(super) fn tell(&mut self, day: Time) -> Vec<String> {
        let mut told = Vec::new();
        for n in 0..self.all.len() {
            if self.all[n].active && self.all[n].day == day.day() {
                self.renew(n, day, &mut told);
            }
        }
        for n in (0..told.len()).rev() {
            if self.die.u8(..40) == 0 {
                told.push(told[n].clone());
            }
        }
        self.die.shuffle(&mut told);
        told
    }

    /// A month begins: it is paid, or the member leaves, or moves to another tier; now and then the money goes back.
    fn renew(&mut self, n: usize, day: Time, told: &mut Vec<String>) {
        if self.die.u8(..8) == 0 {
            self.all[n].tier = self.die.usize(..TIERS.len());
        }
        let leaves = self.die.u8(..40) == 0;
        let Customer { id, tier, provider, .. } = &self.all[n];
        let ((tier, cents), id, provider) = (TIERS[*tier], id.clone(), *provider);
        let (start, end) = (day.timestamp(), day.checked_add_months(Months::new(1)).unwrap_or(day).timestamp());
        let whose = json!({"user_id": id, "planTier": tier, "provider": provider});
        let status = if leaves { "canceled" } else { "active" };
        let subscription = json!({"id": format!("sub_{id}"), "object": "subscription", "customer": format!("cus_{id}"), "status": status, "created": start,
            "cancel_at_period_end": false, "metadata": whose,
            "items": {"object": "list", "data": [{"id": "si_1", "current_period_start": start, "current_period_end": end}]}});
        let kind = if leaves { "customer.subscription.deleted" } else { "customer.subscription.updated" };
        told.push(self.event(kind, day, subscription));
        if leaves {
            self.all[n].active = false;
            return;
        }
        let (invoice, payment) = (format!("in_{id}_{start}"), format!("pi_{id}_{start}"));
        let paid = json!({"id": invoice, "object": "invoice", "customer": format!("cus_{id}"), "currency": "usd", "amount_paid": cents, "amount_due": cents,
            "billing_reason": "subscription_cycle",
            "parent": {"type": "subscription_details", "subscription_details": {"subscription": format!("sub_{id}"), "metadata": whose}},
            "lines": {"object": "list", "data": [{"id": "il_1", "period": {"start": start, "end": end},
                "parent": {"type": "subscription_item_details", "subscription_item_details": {"subscription": format!("sub_{id}"), "proration": false}}}]}});
        // Stripe tells of one payment twice, under two ids.
        told.push(self.event("invoice.paid", day, paid.clone()));
        told.push(self.event("invoice.payment_succeeded", day, paid));
        let intent = json!({"id": payment, "object": "payment_intent", "customer": format!("cus_{id}"), "currency": "usd", "amount": cents,
            "amount_received": cents, "status": "succeeded", "metadata": {"user_id": id}, "payment_details": {"order_reference": invoice}});
        told.push(self.event("payment_intent.succeeded", day, intent));
        match self.die.u8(..60) {
            0 => {
                let refund = json!({"id": format!("re_{id}_{start}"), "object": "refund", "amount": cents, "currency": "usd", "payment_intent": payment,
                    "charge": format!("ch_{payment}"), "status": "succeeded"});
                told.push(self.event("refund.created", day, refund));
            }
            1 => {
                let dispute = json!({"id": format!("dp_{id}_{start}"), "object": "dispute", "amount": cents, "currency": "usd", "payment_intent": payment,
                    "charge": format!("ch_{payment}"), "status": "lost"});
                told.push(self.event("charge.dispute.closed", day, dispute));
            }
            2..=4 => told.push(self.checkout(&id, provider, "CREDITS", 500, day)),
            5 => told.push(self.checkout(&id, provider, "FOUNDING_MEMBER", 49_900, day)),
            _ => {}
        }
    }

    fn checkout(&mut self, id: &str, provider: &str, purchase: &str, cents: u32, day: Time) -> String {
        let payment = format!("pi_{purchase}_{id}_{}", day.timestamp());
        let session = json!({"id": format!("cs_{payment}"), "object": "checkout.session", "mode": "payment", "payment_status": "paid", "status": "complete",
            "payment_intent": payment, "customer": null, "subscription": null, "currency": "usd", "amount_total": cents,
            "metadata": {"user_id": id, "provider": provider, "purchase": purchase}});
        self.event("checkout.session.completed", day, session)
    }

    fn event(&mut self, kind: &str, day: Time, object: Value) -> String {
        self.events += 1;
        json!({"id": format!("evt_{:07}", self.events), "object": "event", "api_version": "2025-09-30.clover", "created": day.timestamp(), "livemode": false,
            "type": kind, "data": {"object": object}})
        .to_string()
    }
}
