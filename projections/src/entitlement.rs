//! What a user's Stripe events come to: subscriptions, founder passes, the tier of the profile, and the credits that payments bring.
//!
//! The fold takes a *set* of events: each object is as its latest event says, by time and then by rank, and what a payment granted stands unless that
//! payment went back. So neither the order of delivery nor repeats can matter, and nothing here asks what time it is.

use dues_events::ids::{ChargeId, DisputeId, InvoiceId, PaymentIntentId, RefundId, StripeSubscriptionId};
use dues_events::record::Provider;
use dues_events::stripe::{
    Checkout, CheckoutState, DisputeState, Fact, Invoice, PaymentIntent, Period, Purchase, Rank, RefundStatus, StripeEvent, Subscription,
    SubscriptionStatus,
};
use dues_events::tier::PlanTier;
use dues_events::{EventId, GoTime, Money, Time};
use rust_decimal::Decimal;
use std::collections::{BTreeMap, BTreeSet};

/// What a user's events come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entitlement {
    /// Where the user signs in.
    pub provider: Option<Provider>,
    /// The tier that the profile shows.
    pub tier: PlanTier,
    /// Subscriptions, by id.
    pub subscriptions: BTreeMap<StripeSubscriptionId, Held>,
    /// Founder passes.
    pub passes: BTreeMap<Purchase, Pass>,
    /// The credits that payments brought, by the name of the grant.
    pub grants: BTreeMap<String, Grant>,
}

/// A subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// As its latest event says.
    pub latest: Subscription,
    /// Its tier.
    pub tier: PlanTier,
    /// When that event was made.
    pub updated: Time,
}

/// A founder pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// The payment that bought it.
    pub payment: PaymentIntentId,
    /// When.
    pub purchased: Time,
}

/// Credits that a payment brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// What it brought.
    pub granted: u64,
    /// What stands of it: nothing, once the payment went back.
    pub stands: u64,
    /// When.
    pub at: Time,
    /// The event that told of it first.
    pub source: EventId,
    /// The payment, if it is known.
    pub payment: Option<PaymentIntentId>,
    /// What took it back: the refund or the dispute.
    pub taken_back_by: Option<String>,
}

/// The tier that a pass gives for life.
#[must_use]
pub fn tier_of_pass(pass: Purchase) -> Option<PlanTier> {
    match pass {
        Purchase::FoundingMember => Some(PlanTier::Sage),
        Purchase::GuildBuilder => Some(PlanTier::Guildmaster),
        Purchase::Credits => None,
    }
}

/// Folds a user's events, in any order, with or without repeats.
#[must_use]
pub fn fold<'a>(events: impl IntoIterator<Item = &'a StripeEvent>) -> Entitlement {
    // One of each, in an order that does not depend on how they came.
    let events: BTreeMap<(Time, &EventId), &StripeEvent> = events.into_iter().map(|event| ((event.created, &event.id), event)).collect();
    let events: Vec<&StripeEvent> = events.into_values().collect();
    let mut entitlement = Entitlement { provider: events.iter().rev().find_map(|event| provider(&event.fact)), ..Entitlement::default() };
    entitlement.subscriptions = subscriptions(&events);
    entitlement.tier =
        entitlement.subscriptions.values().filter(|held| gives_tier(held.latest.status)).map(|held| held.tier).max().unwrap_or_default();
    let money = Returns::read(&events);
    let bought = purchases(&events);
    for (payment, (purchase, price, event)) in &bought {
        let back = money.returned(payment);
        match tier_of_pass(*purchase) {
            Some(_) if !back.whole => {
                let pass = Pass { payment: payment.clone(), purchased: event.created };
                entitlement.passes.entry(*purchase).or_insert(pass);
            }
            Some(_) => {}
            None => {
                let granted = credits_for(*price);
                let kept = if back.whole { Money::ZERO } else { price.checked_sub(back.amount).unwrap_or(Money::ZERO) };
                let grant = Grant {
                    granted,
                    stands: credits_for(kept),
                    at: event.created,
                    source: event.id.clone(),
                    payment: Some(payment.clone()),
                    taken_back_by: back.cause,
                };
                entitlement.grants.insert(format!("topup:{payment}"), grant);
            }
        }
    }
    monthly(&events, &money, &mut entitlement.grants);
    entitlement
}

fn provider(fact: &Fact) -> Option<Provider> {
    match fact {
        Fact::Subscription(subscription) => subscription.provider,
        Fact::InvoicePaid(invoice) | Fact::InvoiceFailed(invoice) => invoice.provider,
        Fact::Checkout(checkout) => checkout.provider,
        Fact::PaymentIntent(payment) => payment.provider,
        Fact::Refund(_) | Fact::ChargeRefunded(_) | Fact::Dispute(_) => None,
    }
}

/// A subscription that is paid for, or that Stripe still tries to collect.
fn gives_tier(status: SubscriptionStatus) -> bool {
    match status {
        SubscriptionStatus::Active | SubscriptionStatus::Trialing | SubscriptionStatus::PastDue => true,
        SubscriptionStatus::Incomplete
        | SubscriptionStatus::Unpaid
        | SubscriptionStatus::Paused
        | SubscriptionStatus::IncompleteExpired
        | SubscriptionStatus::Canceled => false,
    }
}

fn subscriptions(events: &[&StripeEvent]) -> BTreeMap<StripeSubscriptionId, Held> {
    let mut latest: BTreeMap<&StripeSubscriptionId, (&StripeEvent, &Subscription)> = BTreeMap::new();
    let mut tiers: BTreeMap<&StripeSubscriptionId, PlanTier> = BTreeMap::new();
    for event in events {
        let Fact::Subscription(subscription) = &event.fact else { continue };
        // The order of the events is that of their times: a later one that does not name the tier does not take it away.
        if let Some(tier) = subscription.tier.as_deref().and_then(PlanTier::read) {
            tiers.insert(&subscription.id, tier);
        }
        let place = |event: &StripeEvent, subscription: &Subscription| (event.created, subscription.rank());
        let known = latest.entry(&subscription.id).or_insert((event, subscription));
        if place(event, subscription) > place(known.0, known.1) {
            *known = (event, subscription);
        }
    }
    let held = |(id, (event, subscription)): (&StripeSubscriptionId, (&StripeEvent, &Subscription))| {
        let tier = subscription.tier.as_deref().and_then(PlanTier::read).or_else(|| tiers.get(id).copied()).unwrap_or_default();
        (id.clone(), Held { latest: subscription.clone(), tier, updated: event.created })
    };
    latest.into_iter().map(held).collect()
}

/// What was bought and paid for, by its payment: the first event that says so.
fn purchases<'a>(events: &[&'a StripeEvent]) -> BTreeMap<PaymentIntentId, (Purchase, Money, &'a StripeEvent)> {
    let mut bought = BTreeMap::new();
    for event in events {
        let paid = match &event.fact {
            Fact::Checkout(Checkout {
                state: CheckoutState::Paid,
                purchase: Some(purchase),
                payment_intent: Some(payment),
                amount_total,
                ..
            }) => Some((payment, *purchase, amount_total.as_ref().and_then(|amount| amount.usd()))),
            Fact::PaymentIntent(PaymentIntent { succeeded: true, purchase: Some(purchase), id, amount, .. }) => {
                Some((id, *purchase, amount.usd()))
            }
            Fact::Checkout(_)
            | Fact::PaymentIntent(_)
            | Fact::Subscription(_)
            | Fact::InvoicePaid(_)
            | Fact::InvoiceFailed(_)
            | Fact::Refund(_)
            | Fact::ChargeRefunded(_)
            | Fact::Dispute(_) => None,
        };
        if let Some((payment, purchase, price)) = paid {
            bought.entry(payment.clone()).or_insert((purchase, price.unwrap_or(Money::ZERO), *event));
        }
    }
    bought
}

/// Five dollars are ten credits.
fn credits_for(price: Money) -> u64 {
    let credits = price.decimal() * Decimal::TWO;
    credits.trunc().try_into().unwrap_or(0)
}

/// The credits of each period that was paid for, once, however often Stripe says that it was.
fn monthly(events: &[&StripeEvent], returns: &Returns<'_>, grants: &mut BTreeMap<String, Grant>) {
    for event in events {
        let Fact::InvoicePaid(invoice) = &event.fact else { continue };
        let Some((subscription, period)) = brings_credits(invoice) else { continue };
        let tier = invoice.tier.as_deref().and_then(PlanTier::read).or_else(|| tier_at(events, subscription, event.created));
        let granted = u64::from(tier.unwrap_or_default().monthly_credits());
        let payment = returns.payment_of(invoice).cloned();
        let back = payment.as_ref().map(|payment| returns.returned(payment)).unwrap_or_default();
        let name = format!("grant:{subscription}:{}", GoTime::trimmed(period.start).text());
        let grant = grants.entry(name).or_insert_with(|| Grant {
            granted,
            stands: granted,
            at: event.created,
            source: event.id.clone(),
            payment: None,
            taken_back_by: None,
        });
        grant.granted = grant.granted.max(granted);
        grant.payment = grant.payment.take().or(payment);
        grant.taken_back_by = grant.taken_back_by.take().or(back.cause.filter(|_| back.whole));
        grant.stands = if grant.taken_back_by.is_some() { 0 } else { grant.granted };
    }
}

/// The tier that a subscription had at a time, for an invoice that does not say: a later change does not make an earlier month worth more. Before the
/// first event of the subscription it is the tier that it began with.
fn tier_at(events: &[&StripeEvent], id: &StripeSubscriptionId, at: Time) -> Option<PlanTier> {
    let mut states: Vec<(Time, Rank, PlanTier)> = events
        .iter()
        .filter_map(|event| match &event.fact {
            Fact::Subscription(subscription) if subscription.id == *id => {
                Some((event.created, subscription.rank(), subscription.tier.as_deref().and_then(PlanTier::read)?))
            }
            Fact::Subscription(_)
            | Fact::InvoicePaid(_)
            | Fact::InvoiceFailed(_)
            | Fact::Checkout(_)
            | Fact::PaymentIntent(_)
            | Fact::Refund(_)
            | Fact::ChargeRefunded(_)
            | Fact::Dispute(_) => None,
        })
        .collect();
    states.sort_unstable();
    let before = states.iter().rev().find(|(created, ..)| *created <= at);
    before.or(states.first()).map(|(_, _, tier)| *tier)
}

fn brings_credits(invoice: &Invoice) -> Option<(&StripeSubscriptionId, Period)> {
    let begins = invoice.billing_reason.as_ref().is_some_and(|reason| reason.begins_a_period());
    (begins && invoice.amount_paid.is_positive()).then_some((invoice.subscription.as_ref()?, invoice.period?))
}

/// What went back of a payment.
#[derive(Debug, Clone)]
struct Back {
    amount: Money,
    whole: bool,
    cause: Option<String>,
}

impl Default for Back {
    fn default() -> Self {
        Self { amount: Money::ZERO, whole: false, cause: None }
    }
}

/// Refunds and disputes, as they stand in the end, and which payment they belong to.
#[derive(Default)]
struct Returns<'a> {
    /// Of a refund: how it stands, how much, and of which payment.
    refunds: BTreeMap<&'a RefundId, (RefundStatus, Money, &'a PaymentIntentId)>,
    /// Payments whose charge has nothing left.
    emptied: BTreeSet<&'a PaymentIntentId>,
    disputes: BTreeMap<&'a DisputeId, (DisputeState, &'a PaymentIntentId)>,
    /// What came in.
    paid: BTreeMap<&'a PaymentIntentId, Money>,
    of_charge: BTreeMap<&'a ChargeId, &'a PaymentIntentId>,
    of_invoice: BTreeMap<&'a InvoiceId, &'a PaymentIntentId>,
}

impl<'a> Returns<'a> {
    fn read(events: &[&'a StripeEvent]) -> Self {
        let mut returns = Self::default();
        for event in events {
            returns.link(&event.fact);
        }
        for event in events {
            returns.take(&event.fact);
        }
        returns
    }

    /// Which charge and which invoice belong to which payment. Not every event names both.
    fn link(&mut self, fact: &'a Fact) {
        let (charge, payment, invoice) = match fact {
            Fact::InvoicePaid(invoice) | Fact::InvoiceFailed(invoice) => {
                (invoice.charge.as_ref(), invoice.payment_intent.as_ref(), Some(&invoice.invoice))
            }
            Fact::PaymentIntent(payment) => (None, Some(&payment.id), payment.invoice.as_ref()),
            Fact::Refund(refund) => (refund.charge.as_ref(), refund.payment_intent.as_ref(), None),
            Fact::ChargeRefunded(charge) => (Some(&charge.charge), charge.payment_intent.as_ref(), None),
            Fact::Dispute(dispute) => (dispute.charge.as_ref(), dispute.payment_intent.as_ref(), None),
            Fact::Subscription(_) | Fact::Checkout(_) => (None, None, None),
        };
        let Some(payment) = payment else { return };
        if let Some(charge) = charge {
            self.of_charge.insert(charge, payment);
        }
        if let Some(invoice) = invoice {
            self.of_invoice.insert(invoice, payment);
        }
    }

    fn take(&mut self, fact: &'a Fact) {
        match fact {
            Fact::InvoicePaid(invoice) => {
                if let (Some(payment), Some(paid)) = (self.payment_of(invoice), invoice.amount_paid.usd()) {
                    self.paid.insert(payment, paid);
                }
            }
            Fact::Checkout(checkout) => {
                if let (Some(payment), Some(paid)) =
                    (&checkout.payment_intent, checkout.amount_total.as_ref().and_then(|amount| amount.usd()))
                {
                    self.paid.insert(payment, paid);
                }
            }
            Fact::PaymentIntent(payment) if payment.succeeded => {
                if let Some(paid) = payment.amount.usd() {
                    self.paid.insert(&payment.id, paid);
                }
            }
            Fact::Refund(refund) => {
                if let Some(payment) = self.payment(refund.payment_intent.as_ref(), refund.charge.as_ref()) {
                    let known = self.refunds.entry(&refund.id).or_insert((refund.status, Money::ZERO, payment));
                    // A refund moves on in one direction only.
                    *known = (known.0.max(refund.status), refund.amount.usd().unwrap_or(known.1), payment);
                }
            }
            Fact::ChargeRefunded(charge) if charge.refunded => {
                self.emptied.extend(self.payment(charge.payment_intent.as_ref(), Some(&charge.charge)));
            }
            Fact::Dispute(dispute) => {
                if let Some(payment) = self.payment(dispute.payment_intent.as_ref(), dispute.charge.as_ref()) {
                    let known = self.disputes.entry(&dispute.id).or_insert((dispute.state, payment));
                    *known = (known.0.max(dispute.state), payment);
                }
            }
            Fact::Subscription(_) | Fact::InvoiceFailed(_) | Fact::PaymentIntent(_) | Fact::ChargeRefunded(_) => {}
        }
    }

    fn payment(&self, payment: Option<&'a PaymentIntentId>, charge: Option<&ChargeId>) -> Option<&'a PaymentIntentId> {
        payment.or_else(|| charge.and_then(|charge| self.of_charge.get(charge).copied()))
    }

    /// The payment of an invoice: it may be the one that names the other.
    fn payment_of(&self, invoice: &'a Invoice) -> Option<&'a PaymentIntentId> {
        let named = self.payment(invoice.payment_intent.as_ref(), invoice.charge.as_ref());
        named.or_else(|| self.of_invoice.get(&invoice.invoice).copied())
    }

    /// What went back of a payment: a dispute that was lost takes all of it, refunds what they gave back.
    fn returned(&self, payment: &PaymentIntentId) -> Back {
        let lost = self.disputes.iter().find(|(_, (state, of))| *of == payment && *state == DisputeState::Lost);
        if let Some((id, _)) = lost {
            return Back { amount: Money::ZERO, whole: true, cause: Some(id.to_string()) };
        }
        let given_back = self.refunds.iter().filter(|(_, (status, _, of))| *of == payment && *status == RefundStatus::Succeeded);
        let mut back = Back::default();
        for (id, (_, amount, _)) in given_back {
            back.amount = back.amount.checked_add(*amount).unwrap_or(back.amount);
            back.cause = Some(id.to_string());
        }
        let all = self.paid.get(payment).is_some_and(|paid| back.amount >= *paid && *paid > Money::ZERO);
        // A refund that failed after all leaves the charge's own word for it out of date.
        let failed = self.refunds.values().any(|(status, _, of)| *of == payment && *status > RefundStatus::Succeeded);
        back.whole = all || (self.emptied.contains(payment) && !failed);
        if back.whole && back.cause.is_none() {
            back.cause = Some(format!("refund of {payment}"));
        }
        back
    }
}
