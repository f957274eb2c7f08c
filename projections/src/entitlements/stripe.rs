//! What a user's Stripe events fold to: subscriptions, founder passes, the tier of the profile, and the
//! credits that payments grant.
//!
//! The fold takes a *set* of events: each object is as its latest event says, by time and then by rank, and
//! a grant holds unless its payment was reversed. So neither delivery order nor repeats matter. The time is
//! passed in: a founder pass grants credits every month.

pub(crate) mod credit_movements;
mod founder_months;
mod reversals;
mod rows;

pub use credit_movements::{movements, regrant};
pub use rows::rows;

use dues_events::billing::record::Provider;
use dues_events::entitlements::credits::MovementKind;
use dues_events::entitlements::stripe::{
    Checkout, CheckoutState, Fact, Invoice, PaymentIntent, Period, Purchase, Rank, StripeEvent, Subscription,
};
use dues_events::entitlements::tier::PlanTier;
use dues_events::ids::{PaymentIntentId, StripeSubscriptionId};
use dues_events::{EventId, GoTime, Money, Time};
use rust_decimal::Decimal;
use std::collections::BTreeMap;

use reversals::Returns;

/// What a user's events fold to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entitlement {
    /// Where the user signs in.
    pub provider: Option<Provider>,
    /// Whether the events say anything about the tier: of a subscription, or of a pass, refunded or not.
    pub says_a_tier: bool,
    /// Subscriptions, by id.
    pub subscriptions: BTreeMap<StripeSubscriptionId, HeldSubscription>,
    /// Founder passes.
    pub passes: BTreeMap<Purchase, FounderPass>,
    /// The credits that payments granted, by the name of the grant.
    pub grants: BTreeMap<String, CreditGrant>,
    /// When a founder pass grants the next credits.
    pub next_grant: Option<Time>,
}

/// A subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldSubscription {
    /// The subscription as of its latest event.
    pub latest: Subscription,
    /// Its tier.
    pub tier: PlanTier,
    /// When Stripe created that event.
    pub updated: Time,
}

/// A founder pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FounderPass {
    /// The payment that bought it.
    pub payment: PaymentIntentId,
    /// When it was bought.
    pub purchased: Time,
    /// The first event that reported it.
    pub source: EventId,
}

/// Credits that a payment granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreditGrant {
    /// Whether they were granted or bought.
    pub kind: MovementKind,
    /// How many were granted.
    pub granted: u64,
    /// How many remain after reversals: none, once the whole payment was reversed.
    pub stands: u64,
    /// When they were granted.
    pub at: Time,
    /// The first event that reported it.
    pub source: EventId,
    /// The payment, if it is known.
    pub payment: Option<PaymentIntentId>,
    /// The refund or dispute that reversed it.
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

/// Folds a user's events as of a time. Order and repeats do not matter.
#[must_use]
pub fn fold<'a>(events: impl IntoIterator<Item = &'a StripeEvent>, now: Time) -> Entitlement {
    // Deduplicate, in an order independent of delivery.
    let events: BTreeMap<(Time, &EventId), &StripeEvent> =
        events.into_iter().map(|event| ((event.created, &event.id), event)).collect();
    let events: Vec<&StripeEvent> = events.into_values().collect();
    let mut entitlement = Entitlement {
        provider: events.iter().rev().find_map(|event| provider(&event.fact)),
        ..Entitlement::default()
    };
    entitlement.subscriptions = subscriptions(&events);
    let money = Returns::read(&events);
    let bought = purchases(&events);
    let has_pass = bought.values().any(|(purchase, ..)| tier_of_pass(*purchase).is_some());
    entitlement.says_a_tier = has_pass || !entitlement.subscriptions.is_empty();
    for (payment, (purchase, price, event)) in &bought {
        let back = money.returned(payment);
        match tier_of_pass(*purchase) {
            Some(_) if !back.whole => {
                let pass = FounderPass {
                    payment: payment.clone(),
                    purchased: event.created,
                    source: event.id.clone(),
                };
                let known = entitlement.passes.entry(*purchase).or_insert_with(|| pass.clone());
                // If bought twice, the first purchase counts.
                if (pass.purchased, &pass.payment) < (known.purchased, &known.payment) {
                    *known = pass;
                }
            }
            Some(_) => {}
            None => {
                let granted = credits_for(*price);
                let kept = if back.whole {
                    Money::ZERO
                } else {
                    price.checked_sub(back.amount).unwrap_or(Money::ZERO)
                };
                let grant = CreditGrant {
                    kind: MovementKind::TopUp,
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
    entitlement.next_grant = founder_months::grants(&entitlement.passes, now, &mut entitlement.grants);
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

fn subscriptions(events: &[&StripeEvent]) -> BTreeMap<StripeSubscriptionId, HeldSubscription> {
    let mut latest: BTreeMap<&StripeSubscriptionId, (&StripeEvent, &Subscription)> = BTreeMap::new();
    let mut tiers: BTreeMap<&StripeSubscriptionId, PlanTier> = BTreeMap::new();
    for event in events {
        let Fact::Subscription(subscription) = &event.fact else { continue };
        // Events are sorted by time: a later one that does not name the tier does not take it away.
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
        let tier = subscription
            .tier
            .as_deref()
            .and_then(PlanTier::read)
            .or_else(|| tiers.get(id).copied())
            .unwrap_or_default();
        (id.clone(), HeldSubscription { latest: subscription.clone(), tier, updated: event.created })
    };
    latest.into_iter().map(held).collect()
}

/// Paid purchases by payment, each with the first event that reports it.
fn purchases<'a>(
    events: &[&'a StripeEvent],
) -> BTreeMap<PaymentIntentId, (Purchase, Money, &'a StripeEvent)> {
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
            Fact::PaymentIntent(PaymentIntent {
                succeeded: true,
                purchase: Some(purchase),
                id,
                amount,
                ..
            }) => Some((id, *purchase, amount.usd())),
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

/// Two credits per dollar.
fn credits_for(price: Money) -> u64 {
    let credits = price.decimal() * Decimal::TWO;
    credits.trunc().try_into().unwrap_or(0)
}

/// Grants the credits of each paid period once, however often Stripe reports the payment.
fn monthly(events: &[&StripeEvent], returns: &Returns<'_>, grants: &mut BTreeMap<String, CreditGrant>) {
    for event in events {
        let Fact::InvoicePaid(invoice) = &event.fact else { continue };
        let Some((subscription, period)) = brings_credits(invoice) else { continue };
        let tier = invoice
            .tier
            .as_deref()
            .and_then(PlanTier::read)
            .or_else(|| tier_at(events, subscription, event.created));
        let granted = u64::from(tier.unwrap_or_default().monthly_credits());
        let payment = returns.payment_of(invoice).cloned();
        let back = payment.as_ref().map(|payment| returns.returned(payment)).unwrap_or_default();
        let name = format!("grant:{subscription}:{}", GoTime::trimmed(period.start).text());
        let grant = grants.entry(name).or_insert_with(|| CreditGrant {
            kind: MovementKind::Grant,
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

/// The tier of a subscription at a time, for an invoice that names none: a later upgrade does not make an
/// earlier month worth more. Before the first event of the subscription, its initial tier.
fn tier_at(events: &[&StripeEvent], id: &StripeSubscriptionId, at: Time) -> Option<PlanTier> {
    let mut states: Vec<(Time, Rank, PlanTier)> = events
        .iter()
        .filter_map(|event| match &event.fact {
            Fact::Subscription(subscription) if subscription.id == *id => Some((
                event.created,
                subscription.rank(),
                subscription.tier.as_deref().and_then(PlanTier::read)?,
            )),
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
    let begins = invoice.billing_reason.as_ref().is_some_and(|reason| reason.starts_period());
    (begins && invoice.amount_paid.is_positive()).then_some((invoice.subscription.as_ref()?, invoice.period?))
}
