//! Stripe events: subscriptions, invoices, checkouts, payments, refunds and disputes.
//!
//! Events are delivered at least once and in any order. `created` has a resolution of one second, so two
//! events of one object can tie. Each kind of state here is ordered by its life cycle: of two events of one
//! object, take the one with the larger `(created, rank or state, event id)`, whichever arrived first.

pub mod signature;
pub mod wire;

mod codec;
mod enums;

pub use enums::{
    BillingReason, CheckoutMode, CheckoutState, DisputeState, Purchase, RefundStatus, SubscriptionStatus,
};

use crate::billing::idempotency::IdempotencyToken;
use crate::billing::record::Provider;
use crate::ids::{
    ChargeId, CheckoutId, CustomerId, DisputeId, EventId, InvoiceId, PaymentIntentId, RefundId,
    StripeSubscriptionId, UserId,
};
use crate::money::Money;
use crate::time::Time;
use serde::{Deserialize, Serialize};

/// A Stripe event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StripeEvent {
    /// Identifies the fact.
    pub id: EventId,
    /// Creation time, in whole seconds.
    pub created: Time,
    /// False in Stripe's test mode.
    pub livemode: bool,
    /// The API version of its object.
    pub api_version: Option<Box<str>>,
    /// Its type, such as `invoice.paid`.
    pub source: &'static str,
    /// The decoded fact.
    pub fact: Fact,
    /// Its idempotency token. The same event in two API versions has the same token.
    pub token: IdempotencyToken,
}

/// The fact that an event states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The current state of a subscription.
    Subscription(Subscription),
    /// An invoice was paid. Stripe sends this twice, as `invoice.paid` and `invoice.payment_succeeded`,
    /// with two event ids.
    InvoicePaid(Invoice),
    /// An attempt to collect an invoice failed.
    InvoiceFailed(Invoice),
    /// A checkout session was completed, or its delayed payment succeeded or failed.
    Checkout(Checkout),
    /// A payment succeeded or failed.
    PaymentIntent(PaymentIntent),
    /// A refund was created or changed.
    Refund(Refund),
    /// A charge was refunded, in part or in full.
    ChargeRefunded(ChargeRefunded),
    /// A dispute was opened or changed, or has ended.
    Dispute(Dispute),
}

impl Fact {
    /// The content that the token covers. It excludes the links between an invoice and its payment: only
    /// some API versions have them, and during a version change Stripe sends one event in both.
    pub(crate) fn content(&self) -> String {
        let unlinked = |invoice: &Invoice| Invoice { payment_intent: None, charge: None, ..invoice.clone() };
        let stamped = match self {
            Self::InvoicePaid(invoice) => Self::InvoicePaid(unlinked(invoice)),
            Self::InvoiceFailed(invoice) => Self::InvoiceFailed(unlinked(invoice)),
            Self::PaymentIntent(payment) => {
                Self::PaymentIntent(PaymentIntent { invoice: None, ..payment.clone() })
            }
            Self::Subscription(_)
            | Self::Checkout(_)
            | Self::Refund(_)
            | Self::ChargeRefunded(_)
            | Self::Dispute(_) => self.clone(),
        };
        format!("{stamped:?}")
    }
}

impl StripeEvent {
    /// An event, with the token of its content.
    #[must_use]
    pub fn new(
        id: EventId,
        created: Time,
        livemode: bool,
        api_version: Option<Box<str>>,
        source: &'static str,
        fact: Fact,
    ) -> Self {
        let token = IdempotencyToken::new(
            &id,
            &[source, &created.timestamp().to_string(), &livemode.to_string(), &fact.content()],
        );
        Self { id, created, livemode, api_version, source, fact, token }
    }

    /// The user, if the event names one.
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

    /// The Stripe objects that the event names, used to resolve the user when the event names none. Objects
    /// that belong to exactly one user come first: a payment before a customer.
    #[must_use]
    pub fn objects(&self) -> Vec<&str> {
        let (payment, charge, subscription, customer) = match &self.fact {
            Fact::Subscription(subscription) => {
                (None, None, Some(&subscription.id), subscription.customer.as_ref())
            }
            Fact::InvoicePaid(invoice) | Fact::InvoiceFailed(invoice) => (
                invoice.payment_intent.as_ref(),
                invoice.charge.as_ref(),
                invoice.subscription.as_ref(),
                invoice.customer.as_ref(),
            ),
            Fact::Checkout(checkout) => (
                checkout.payment_intent.as_ref(),
                None,
                checkout.subscription.as_ref(),
                checkout.customer.as_ref(),
            ),
            Fact::PaymentIntent(payment) => (Some(&payment.id), None, None, payment.customer.as_ref()),
            Fact::Refund(refund) => (refund.payment_intent.as_ref(), refund.charge.as_ref(), None, None),
            Fact::ChargeRefunded(charge) => {
                (charge.payment_intent.as_ref(), Some(&charge.charge), None, charge.customer.as_ref())
            }
            Fact::Dispute(dispute) => (dispute.payment_intent.as_ref(), dispute.charge.as_ref(), None, None),
        };
        let named = [
            payment.map(PaymentIntentId::as_str),
            charge.map(ChargeId::as_str),
            subscription.map(StripeSubscriptionId::as_str),
        ];
        named.into_iter().chain([customer.map(CustomerId::as_str)]).flatten().collect()
    }

    /// The tier that the event names, if it is not a known one.
    #[must_use]
    pub fn unknown_tier(&self) -> Option<&str> {
        let tier = match &self.fact {
            Fact::Subscription(subscription) => subscription.tier.as_deref(),
            Fact::InvoicePaid(invoice) | Fact::InvoiceFailed(invoice) => invoice.tier.as_deref(),
            Fact::Checkout(_)
            | Fact::PaymentIntent(_)
            | Fact::Refund(_)
            | Fact::ChargeRefunded(_)
            | Fact::Dispute(_) => None,
        };
        tier.filter(|tier| crate::entitlements::tier::PlanTier::read(tier).is_none())
    }
}

/// An amount, as Stripe counts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// Dollars.
    Usd(Money),
    /// Any other currency, kept in minor units: the number of decimals depends on the currency.
    Other {
        /// Three-letter currency code.
        currency: Box<str>,
        /// In the currency's smallest unit.
        minor_units: u64,
    },
}

impl Amount {
    /// The amount in dollars; `None` for other currencies.
    #[must_use]
    pub fn usd(&self) -> Option<Money> {
        match self {
            Self::Usd(money) => Some(*money),
            Self::Other { .. } => None,
        }
    }

    /// Whether the amount is greater than zero, in any currency.
    #[must_use]
    pub fn is_positive(&self) -> bool {
        match self {
            Self::Usd(money) => *money > Money::ZERO,
            Self::Other { minor_units, .. } => *minor_units > 0,
        }
    }
}

/// A paid period, from `start` to before `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Period {
    /// The first second.
    pub start: Time,
    /// The start of the next period.
    pub end: Time,
}

/// The current state of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    /// Its Stripe id.
    pub id: StripeSubscriptionId,
    /// The paying customer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<CustomerId>,
    /// The user it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserId>,
    /// Where that user signs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// The tier, as `metadata.planTier` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Box<str>>,
    /// Its Stripe status.
    pub status: SubscriptionStatus,
    /// The current period; of several, the one that ends last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// Whether it ends with the current period instead of renewing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_at_period_end: bool,
    /// Creation time.
    pub created_at: Time,
    /// Whether Stripe has deleted it; nothing follows a deletion.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
}

/// Position in a subscription's life cycle: the larger one is later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    over: bool,
    period_start: Option<Time>,
    status: SubscriptionStatus,
    cancelling: bool,
}

impl Subscription {
    /// Orders two states that Stripe dates to the same second, by these criteria:
    ///
    /// 1. An end is final: a deleted, cancelled or expired subscription never returns; a new one is created
    ///    instead.
    /// 2. A later period: periods only advance.
    /// 3. The status, in the order in which Stripe changes it on its own: a first payment makes `incomplete`
    ///    `active`, a trial ends in `active`, a failed renewal in `past_due`, the last retry in `unpaid`, a
    ///    trial without a card in `paused`. The reverse (a card that works again, a resumed subscription)
    ///    takes a person, and so another second.
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
        Rank {
            over,
            period_start: self.period.map(|period| period.start),
            status: self.status,
            cancelling: self.cancel_at_period_end,
        }
    }
}

/// A paid or failed invoice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invoice {
    /// Its Stripe id.
    pub invoice: InvoiceId,
    /// The billed subscription; `None` for an invoice created by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<StripeSubscriptionId>,
    /// The paying customer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<CustomerId>,
    /// The user it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserId>,
    /// Where that user signs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// The subscription's `metadata.planTier` when the invoice was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Box<str>>,
    /// Why it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billing_reason: Option<BillingReason>,
    /// The amount paid.
    pub amount_paid: Amount,
    /// The amount due.
    pub amount_due: Amount,
    /// The period of the subscription's line; of several, the one that ends last. `None` when there are
    /// only prorations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// The payment. API versions since 2025-03-31 omit it from webhooks; there the payment names the
    /// invoice, in [`PaymentIntent::invoice`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment_intent: Option<PaymentIntentId>,
    /// The charge; only before 2025-03-31.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge: Option<ChargeId>,
}

/// A checkout session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkout {
    /// Its Stripe id.
    pub session: CheckoutId,
    /// Its purpose.
    pub mode: CheckoutMode,
    /// Whether its payment has arrived.
    pub state: CheckoutState,
    /// Its payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment_intent: Option<PaymentIntentId>,
    /// Its subscription.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<StripeSubscriptionId>,
    /// The paying customer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<CustomerId>,
    /// The user it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserId>,
    /// Where that user signs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// The purchase, if it is a pass or credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purchase: Option<Purchase>,
    /// The total; `None` only when a card was saved without a payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount_total: Option<Amount>,
}

/// A payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentIntent {
    /// Its Stripe id.
    pub id: PaymentIntentId,
    /// Whether this attempt succeeded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub succeeded: bool,
    /// The paying customer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<CustomerId>,
    /// The user it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserId>,
    /// Where that user signs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// The purchase, if it is a pass or credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purchase: Option<Purchase>,
    /// The invoice that it pays, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invoice: Option<InvoiceId>,
    /// The amount received; when it failed, the amount requested.
    pub amount: Amount,
}

/// A refund.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// Its Stripe id.
    pub id: RefundId,
    /// The refunded payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment_intent: Option<PaymentIntentId>,
    /// The refunded charge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge: Option<ChargeId>,
    /// The refunded amount.
    pub amount: Amount,
    /// Its status.
    pub status: RefundStatus,
}

/// A charge that was refunded, in part or in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChargeRefunded {
    /// Its Stripe id.
    pub charge: ChargeId,
    /// Its payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment_intent: Option<PaymentIntentId>,
    /// The paying customer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<CustomerId>,
    /// The sum of all its refunds.
    pub amount_refunded: Amount,
    /// Whether it is refunded in full.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refunded: bool,
}

/// A dispute of a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispute {
    /// Its Stripe id.
    pub id: DisputeId,
    /// The disputed charge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge: Option<ChargeId>,
    /// The disputed payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment_intent: Option<PaymentIntentId>,
    /// The disputed amount.
    pub amount: Amount,
    /// Its state.
    pub state: DisputeState,
}
