//! What Stripe tells: subscriptions, invoices, checkouts, payments, and money that goes back.
//!
//! Events come at least once and in any order, and `created` counts whole seconds, so two events of one object can tie. Each kind of
//! state here is ordered by how far it is in its life: of two events of one object take the one with the later
//! `(created, rank or state, event id)`, whichever arrived first.

mod stored;
mod words;

pub use words::{BillingReason, CheckoutMode, CheckoutState, DisputeState, Purchase, RefundStatus, SubscriptionStatus};

use crate::ids::{
    ChargeId, CheckoutId, CustomerId, DisputeId, EventId, InvoiceId, PaymentIntentId, RefundId, StripeSubscriptionId, UserId,
};
use crate::money::Money;
use crate::record::Provider;
use crate::stamp::Stamp;
use crate::time::Time;
use serde::{Deserialize, Serialize};

/// One event of Stripe's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StripeEvent {
    /// The identity of the fact.
    pub id: EventId,
    /// When it was made, in whole seconds.
    pub created: Time,
    /// False in Stripe's test mode.
    pub livemode: bool,
    /// The API version that its object was written in.
    pub api_version: Option<Box<str>>,
    /// Its type, such as `invoice.paid`.
    pub source: &'static str,
    /// What it says.
    pub fact: Fact,
    /// How records remember it. The same event in two API versions has one stamp.
    pub stamp: Stamp,
}

/// What an event says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// How a subscription stands now.
    Subscription(Subscription),
    /// An invoice was paid. Stripe says so twice, as `invoice.paid` and `invoice.payment_succeeded`, with two event ids.
    InvoicePaid(Invoice),
    /// An attempt to collect an invoice failed.
    InvoiceFailed(Invoice),
    /// A visit to the checkout page was completed, or its money came or failed to come later.
    Checkout(Checkout),
    /// A payment succeeded or failed.
    PaymentIntent(PaymentIntent),
    /// A refund was made, or moved on.
    Refund(Refund),
    /// A charge was refunded, in part or in full.
    ChargeRefunded(ChargeRefunded),
    /// A payment is disputed, or the dispute is over.
    Dispute(Dispute),
}

impl Fact {
    /// What the stamp covers. Not the links from an invoice to its payment and back: only some API versions have them, and during a
    /// change of version Stripe sends one event in both.
    pub(crate) fn content(&self) -> String {
        let unlinked = |invoice: &Invoice| Invoice { payment_intent: None, charge: None, ..invoice.clone() };
        let stamped = match self {
            Self::InvoicePaid(invoice) => Self::InvoicePaid(unlinked(invoice)),
            Self::InvoiceFailed(invoice) => Self::InvoiceFailed(unlinked(invoice)),
            Self::PaymentIntent(payment) => Self::PaymentIntent(PaymentIntent { invoice: None, ..payment.clone() }),
            Self::Subscription(_) | Self::Checkout(_) | Self::Refund(_) | Self::ChargeRefunded(_) | Self::Dispute(_) => self.clone(),
        };
        format!("{stamped:?}")
    }
}

impl StripeEvent {
    /// An event, with the stamp that its content makes.
    #[must_use]
    pub fn new(id: EventId, created: Time, livemode: bool, api_version: Option<Box<str>>, source: &'static str, fact: Fact) -> Self {
        let stamp = Stamp::new(&id, &[source, &created.timestamp().to_string(), &livemode.to_string(), &fact.content()]);
        Self { id, created, livemode, api_version, source, fact, stamp }
    }

    /// Whose it is, if it says so.
    #[must_use]
    pub fn user(&self) -> Option<&UserId> {
        match &self.fact {
            Fact::Subscription(subscription) => subscription.user.as_ref(),
            Fact::InvoicePaid(invoice) | Fact::InvoiceFailed(invoice) => invoice.user.as_ref(),
            Fact::Checkout(checkout) => checkout.user.as_ref(),
            Fact::PaymentIntent(payment) => payment.user.as_ref(),
            Fact::Refund(_) | Fact::ChargeRefunded(_) | Fact::Dispute(_) => None,
        }
    }

    /// The objects that it names, by which events find their user that do not name one. Those come first that can only be one user's: a payment
    /// before a customer.
    #[must_use]
    pub fn objects(&self) -> Vec<&str> {
        let (payment, charge, subscription, customer) = match &self.fact {
            Fact::Subscription(subscription) => (None, None, Some(&subscription.id), subscription.customer.as_ref()),
            Fact::InvoicePaid(invoice) | Fact::InvoiceFailed(invoice) => {
                (invoice.payment_intent.as_ref(), invoice.charge.as_ref(), invoice.subscription.as_ref(), invoice.customer.as_ref())
            }
            Fact::Checkout(checkout) => {
                (checkout.payment_intent.as_ref(), None, checkout.subscription.as_ref(), checkout.customer.as_ref())
            }
            Fact::PaymentIntent(payment) => (Some(&payment.id), None, None, payment.customer.as_ref()),
            Fact::Refund(refund) => (refund.payment_intent.as_ref(), refund.charge.as_ref(), None, None),
            Fact::ChargeRefunded(charge) => (charge.payment_intent.as_ref(), Some(&charge.charge), None, charge.customer.as_ref()),
            Fact::Dispute(dispute) => (dispute.payment_intent.as_ref(), dispute.charge.as_ref(), None, None),
        };
        let named = [payment.map(PaymentIntentId::as_str), charge.map(ChargeId::as_str), subscription.map(StripeSubscriptionId::as_str)];
        named.into_iter().chain([customer.map(CustomerId::as_str)]).flatten().collect()
    }

    /// The tier that it names, if that is none.
    #[must_use]
    pub fn unknown_tier(&self) -> Option<&str> {
        let tier = match &self.fact {
            Fact::Subscription(subscription) => subscription.tier.as_deref(),
            Fact::InvoicePaid(invoice) | Fact::InvoiceFailed(invoice) => invoice.tier.as_deref(),
            Fact::Checkout(_) | Fact::PaymentIntent(_) | Fact::Refund(_) | Fact::ChargeRefunded(_) | Fact::Dispute(_) => None,
        };
        tier.filter(|tier| crate::tier::PlanTier::read(tier).is_none())
    }
}

/// An amount as Stripe counts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// Dollars.
    Usd(Money),
    /// Any other currency: kept as it came, because only the currency knows how many decimals it has.
    Other {
        /// Three letters.
        currency: Box<str>,
        /// In the currency's smallest unit.
        minor_units: u64,
    },
}

impl Amount {
    /// The dollars, if they are dollars.
    #[must_use]
    pub fn usd(&self) -> Option<Money> {
        match self {
            Self::Usd(money) => Some(*money),
            Self::Other { .. } => None,
        }
    }

    /// Whether it is more than nothing, in whatever currency.
    #[must_use]
    pub fn is_positive(&self) -> bool {
        match self {
            Self::Usd(money) => *money > Money::ZERO,
            Self::Other { minor_units, .. } => *minor_units > 0,
        }
    }
}

/// What is paid for: from the start until before the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Period {
    /// The first second.
    pub start: Time,
    /// When the next one begins.
    pub end: Time,
}

/// How a subscription stands now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    /// Which.
    pub id: StripeSubscriptionId,
    /// Who pays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<CustomerId>,
    /// Who it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserId>,
    /// Where that user signs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// The tier, as `metadata.planTier` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Box<str>>,
    /// How it stands.
    pub status: SubscriptionStatus,
    /// The current period; of several, the one that ends last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// It will not be renewed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_at_period_end: bool,
    /// When it was made.
    pub created_at: Time,
    /// Stripe has deleted it: nothing comes after that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
}

/// How far a subscription is in its life: the larger one is the later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    over: bool,
    period_start: Option<Time>,
    status: SubscriptionStatus,
    cancelling: bool,
}

impl Subscription {
    /// Which of two states that Stripe dates to the same second is the later one. In this order:
    ///
    /// 1. An end is final: a deleted, cancelled or expired subscription never comes back; a new one is made instead.
    /// 2. A later period: periods only move on.
    /// 3. The status, by the way that Stripe moves it without anybody's help: a first payment makes `incomplete` `active`, a trial
    ///    ends in `active`, a failed renewal in `past_due`, the last retry in `unpaid`, a trial without a card in `paused`. The way
    ///    back (a card that works again, a resumed subscription) takes a person, and that is another second.
    /// 4. A planned end after none: it is planned while the subscription runs.
    #[must_use]
    pub fn rank(&self) -> Rank {
        let over = match self.status {
            SubscriptionStatus::IncompleteExpired | SubscriptionStatus::Canceled => true,
            SubscriptionStatus::Incomplete
            | SubscriptionStatus::Trialing
            | SubscriptionStatus::Active
            | SubscriptionStatus::PastDue
            | SubscriptionStatus::Unpaid
            | SubscriptionStatus::Paused => self.ended,
        };
        Rank { over, period_start: self.period.map(|period| period.start), status: self.status, cancelling: self.cancel_at_period_end }
    }
}

/// An invoice that was paid, or was not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invoice {
    /// Which.
    pub invoice: InvoiceId,
    /// What it bills for; `None` for an invoice that somebody wrote by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<StripeSubscriptionId>,
    /// Who pays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<CustomerId>,
    /// Who it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserId>,
    /// Where that user signs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// The tier, as the subscription's `metadata.planTier` named it when the invoice was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Box<str>>,
    /// Why it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billing_reason: Option<BillingReason>,
    /// What came in.
    pub amount_paid: Amount,
    /// What was asked for.
    pub amount_due: Amount,
    /// What the subscription's line is for; of several, the one that ends last. `None` when there are only prorations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// The payment. API versions since 2025-03-31 leave it out of webhooks: then the payment names the invoice, in
    /// [`PaymentIntent::invoice`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment_intent: Option<PaymentIntentId>,
    /// The charge, before 2025-03-31.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge: Option<ChargeId>,
}

/// A visit to the checkout page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkout {
    /// Which.
    pub session: CheckoutId,
    /// What for.
    pub mode: CheckoutMode,
    /// Whether the money is here.
    pub state: CheckoutState,
    /// Its payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment_intent: Option<PaymentIntentId>,
    /// Its subscription.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<StripeSubscriptionId>,
    /// Who pays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<CustomerId>,
    /// Who it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserId>,
    /// Where that user signs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// What was bought, if it is a pass or credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purchase: Option<Purchase>,
    /// The price; `None` only when a card was kept without a payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount_total: Option<Amount>,
}

/// A payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentIntent {
    /// Which.
    pub id: PaymentIntentId,
    /// Whether this attempt brought the money.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub succeeded: bool,
    /// Who pays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<CustomerId>,
    /// Who it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserId>,
    /// Where that user signs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// What was bought, if it is a pass or credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purchase: Option<Purchase>,
    /// The invoice that it pays, if it pays one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invoice: Option<InvoiceId>,
    /// What came in; what was asked for, when it failed.
    pub amount: Amount,
}

/// Money given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// Which.
    pub id: RefundId,
    /// The payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment_intent: Option<PaymentIntentId>,
    /// The charge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge: Option<ChargeId>,
    /// How much.
    pub amount: Amount,
    /// How it stands.
    pub status: RefundStatus,
}

/// A charge of which something was given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChargeRefunded {
    /// Which.
    pub charge: ChargeId,
    /// Its payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment_intent: Option<PaymentIntentId>,
    /// Who paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<CustomerId>,
    /// The sum of all its refunds.
    pub amount_refunded: Amount,
    /// Whether nothing is left of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refunded: bool,
}

/// A payment that its payer disputes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispute {
    /// Which.
    pub id: DisputeId,
    /// The charge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge: Option<ChargeId>,
    /// The payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment_intent: Option<PaymentIntentId>,
    /// How much.
    pub amount: Amount,
    /// How it stands.
    pub state: DisputeState,
}
