//! Subscriptions and their invoices.

use serde::Deserialize;

use super::fields::{
    List, Metadata, MetadataSources, Reference, last_to_end, optional_id, optional_period, optional_seconds,
    required_amount, required_seconds,
};
use crate::entitlements::stripe::{BillingReason, Fact, Invoice, Period, Subscription, SubscriptionStatus};
use crate::ids::{ChargeId, PaymentIntentId, StripeSubscriptionId};
use crate::wire::{Field, WireError, object, required_id};

#[derive(Deserialize)]
pub(super) struct WireSubscription {
    id: Option<String>,
    customer: Option<Reference>,
    status: Option<String>,
    created: Option<i64>,
    cancel_at: Option<i64>,
    cancel_at_period_end: Option<bool>,
    /// Before 2025-03-31.
    current_period_start: Option<i64>,
    current_period_end: Option<i64>,
    #[serde(default, deserialize_with = "object")]
    items: Option<List<WireItem>>,
    #[serde(default, deserialize_with = "object")]
    metadata: Option<Metadata>,
}

/// Since 2025-03-31 each item has its own period.
#[derive(Deserialize)]
struct WireItem {
    current_period_start: Option<i64>,
    current_period_end: Option<i64>,
}

impl WireSubscription {
    pub(super) fn fact(&self, ended: bool) -> Result<Fact, WireError> {
        let metadata = MetadataSources::default().and(&self.metadata, "data.object.metadata");
        let period = self.period()?;
        Ok(Fact::Subscription(Subscription {
            id: required_id(&self.id, "data.object.id")?.into(),
            customer: optional_id(&self.customer, "data.object.customer")?,
            user: metadata.user()?,
            provider: metadata.provider()?,
            tier: metadata.tier()?,
            status: self.status.one_of(
                "data.object.status",
                "a status of a subscription",
                SubscriptionStatus::read,
            )?,
            period,
            cancel_at_period_end: self.is_cancelled_with(period)?,
            created_at: required_seconds(self.created, "data.object.created")?,
            ended,
        }))
    }

    fn period(&self) -> Result<Option<Period>, WireError> {
        let whole = optional_period(
            self.current_period_start,
            self.current_period_end,
            "data.object.current_period_",
        )?;
        if whole.is_some() {
            return Ok(whole);
        }
        let mut periods = Vec::new();
        for (place, item) in List::of(&self.items) {
            let prefix = format!("data.object.items.data[{place}].current_period_");
            periods.extend(optional_period(item.current_period_start, item.current_period_end, &prefix)?);
        }
        Ok(last_to_end(periods))
    }

    /// Whether the subscription ends with the period. Stripe plans an end with the flag or, in flexible
    /// billing mode when a member cancels in the customer portal, with a date and the flag left false.
    fn is_cancelled_with(&self, period: Option<Period>) -> Result<bool, WireError> {
        let cancel_at = optional_seconds(self.cancel_at, "data.object.cancel_at")?;
        let by_date = cancel_at.is_some_and(|at| period.is_none_or(|period| at <= period.end));
        Ok(by_date || self.cancel_at_period_end.unwrap_or(false))
    }
}

#[derive(Deserialize)]
pub(super) struct WireInvoice {
    id: Option<String>,
    customer: Option<Reference>,
    billing_reason: Option<String>,
    currency: Option<String>,
    amount_paid: Option<i64>,
    amount_due: Option<i64>,
    #[serde(default, deserialize_with = "object")]
    lines: Option<List<WireLine>>,
    #[serde(default, deserialize_with = "object")]
    metadata: Option<Metadata>,

    /// Before 2025-03-31.
    subscription: Option<Reference>,
    #[serde(default, deserialize_with = "object")]
    subscription_details: Option<WireSubscriptionDetails>,
    payment_intent: Option<Reference>,
    charge: Option<Reference>,

    /// Since 2025-03-31.
    #[serde(default, deserialize_with = "object")]
    parent: Option<WireParent>,
    #[serde(default, deserialize_with = "object")]
    payments: Option<List<WireInvoicePayment>>,
}

#[derive(Deserialize)]
struct WireParent {
    #[serde(default, deserialize_with = "object")]
    subscription_details: Option<WireSubscriptionDetails>,
}

#[derive(Deserialize)]
struct WireSubscriptionDetails {
    subscription: Option<Reference>,
    #[serde(default, deserialize_with = "object")]
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct WireLine {
    #[serde(default, deserialize_with = "object")]
    period: Option<WirePeriod>,
    #[serde(default, deserialize_with = "object")]
    metadata: Option<Metadata>,

    /// Before 2025-03-31.
    r#type: Option<String>,
    proration: Option<bool>,

    /// Since 2025-03-31.
    #[serde(default, deserialize_with = "object")]
    parent: Option<WireLineParent>,
}

#[derive(Deserialize)]
struct WireLineParent {
    #[serde(default, deserialize_with = "object")]
    subscription_item_details: Option<WireItemDetails>,
}

#[derive(Deserialize)]
struct WireItemDetails {
    proration: Option<bool>,
}

#[derive(Deserialize)]
struct WirePeriod {
    start: Option<i64>,
    end: Option<i64>,
}

#[derive(Deserialize)]
struct WireInvoicePayment {
    status: Option<String>,
    #[serde(default, deserialize_with = "object")]
    payment: Option<WirePayment>,
}

#[derive(Deserialize)]
struct WirePayment {
    payment_intent: Option<Reference>,
    charge: Option<Reference>,
}

impl WireLine {
    /// Whether it is a subscription's own line, not a proration.
    fn is_of_subscription(&self) -> bool {
        match self.parent.as_ref().and_then(|parent| parent.subscription_item_details.as_ref()) {
            Some(details) => details.proration != Some(true),
            None => self.r#type.optional() == Some("subscription") && self.proration != Some(true),
        }
    }
}

impl WireInvoice {
    pub(super) fn fact(&self, paid: bool) -> Result<Fact, WireError> {
        let metadata = self.metadata_sources();
        let (payment_intent, charge) = self.payment()?;
        let invoice = Invoice {
            invoice: required_id(&self.id, "data.object.id")?.into(),
            subscription: self.subscription()?,
            customer: optional_id(&self.customer, "data.object.customer")?,
            user: metadata.user()?,
            provider: metadata.provider()?,
            tier: metadata.tier()?,
            billing_reason: self.billing_reason.optional().map(BillingReason::read),
            amount_paid: required_amount(self.amount_paid, "data.object.amount_paid", &self.currency)?,
            amount_due: required_amount(self.amount_due, "data.object.amount_due", &self.currency)?,
            period: self.period()?,
            payment_intent,
            charge,
        };
        Ok(if paid { Fact::InvoicePaid(invoice) } else { Fact::InvoiceFailed(invoice) })
    }

    fn parent(&self) -> Option<&WireSubscriptionDetails> {
        self.parent.as_ref()?.subscription_details.as_ref()
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &WireLine)> {
        List::of(&self.lines).filter(|(_, line)| line.is_of_subscription())
    }

    /// The subscription's metadata when the invoice was created, then the invoice's own.
    fn metadata_sources(&self) -> MetadataSources<'_> {
        let mut sources = MetadataSources::default();
        if let Some(details) = self.parent() {
            sources = sources.and(&details.metadata, "data.object.parent.subscription_details.metadata");
        }
        if let Some(details) = &self.subscription_details {
            sources = sources.and(&details.metadata, "data.object.subscription_details.metadata");
        }
        for (place, line) in self.lines() {
            sources = sources.and(&line.metadata, format!("data.object.lines.data[{place}].metadata"));
        }
        sources.and(&self.metadata, "data.object.metadata")
    }

    fn subscription(&self) -> Result<Option<StripeSubscriptionId>, WireError> {
        if let Some(details) = self.parent()
            && let Some(id) =
                optional_id(&details.subscription, "data.object.parent.subscription_details.subscription")?
        {
            return Ok(Some(id));
        }
        optional_id(&self.subscription, "data.object.subscription")
    }

    fn period(&self) -> Result<Option<Period>, WireError> {
        let mut periods = Vec::new();
        for (place, line) in self.lines() {
            let prefix = format!("data.object.lines.data[{place}].period.");
            if let Some(period) = &line.period {
                periods.extend(optional_period(period.start, period.end, &prefix)?);
            }
        }
        Ok(last_to_end(periods))
    }

    /// The payment of the invoice. Since 2025-03-31 there can be several: the paid one counts, else the
    /// first.
    fn payment(&self) -> Result<(Option<PaymentIntentId>, Option<ChargeId>), WireError> {
        let is_paid = |(_, payment): &(usize, &WireInvoicePayment)| payment.status.optional() == Some("paid");
        let chosen = List::of(&self.payments).find(is_paid).or_else(|| List::of(&self.payments).next());
        if let Some((place, payment)) = chosen
            && let Some(payment) = &payment.payment
        {
            let path = |name: &str| format!("data.object.payments.data[{place}].payment.{name}");
            return Ok((
                optional_id(&payment.payment_intent, &path("payment_intent"))?,
                optional_id(&payment.charge, &path("charge"))?,
            ));
        }
        let payment_intent = optional_id(&self.payment_intent, "data.object.payment_intent")?;
        Ok((payment_intent, optional_id(&self.charge, "data.object.charge")?))
    }
}
