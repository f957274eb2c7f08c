//! Checkouts, payments, refunds and disputes.

use serde::Deserialize;

use super::fields::{Metadata, MetadataSources, Reference, optional_id, optional_user, required_amount};
use crate::entitlements::stripe::{
    ChargeRefunded, Checkout, CheckoutMode, CheckoutState, Dispute, DisputeState, Fact, PaymentIntent,
    Refund, RefundStatus,
};
use crate::ids::InvoiceId;
use crate::wire::{Field, WireError, object, required_id};

#[derive(Deserialize)]
pub(super) struct WireCheckout {
    id: Option<String>,
    mode: Option<String>,
    payment_status: Option<String>,
    payment_intent: Option<Reference>,
    subscription: Option<Reference>,
    customer: Option<Reference>,
    client_reference_id: Option<String>,
    currency: Option<String>,
    amount_total: Option<i64>,
    #[serde(default, deserialize_with = "object")]
    metadata: Option<Metadata>,
}

impl WireCheckout {
    /// Uses the session's own `payment_status` when the event type implies no state.
    pub(super) fn fact(&self, state: Option<CheckoutState>) -> Result<Fact, WireError> {
        let metadata = MetadataSources::default().and(&self.metadata, "data.object.metadata");
        let mode =
            self.mode.one_of("data.object.mode", "payment, subscription or setup", CheckoutMode::read)?;
        Ok(Fact::Checkout(Checkout {
            session: required_id(&self.id, "data.object.id")?.into(),
            mode,
            state: match state {
                Some(state) => state,
                None => self.completed()?,
            },
            payment_intent: optional_id(&self.payment_intent, "data.object.payment_intent")?,
            subscription: optional_id(&self.subscription, "data.object.subscription")?,
            customer: optional_id(&self.customer, "data.object.customer")?,
            user: match metadata.user()? {
                Some(user) => Some(user),
                None => optional_user(&self.client_reference_id, "data.object.client_reference_id")?,
            },
            provider: metadata.provider()?,
            purchase: metadata.purchase()?,
            amount_total: match (mode, self.amount_total) {
                (CheckoutMode::Setup, None) => None,
                (CheckoutMode::Setup | CheckoutMode::Payment | CheckoutMode::Subscription, total) => {
                    Some(required_amount(total, "data.object.amount_total", &self.currency)?)
                }
            },
        }))
    }

    fn completed(&self) -> Result<CheckoutState, WireError> {
        let status = self.payment_status.required("data.object.payment_status")?;
        Ok(if status == "paid" { CheckoutState::Paid } else { CheckoutState::Pending })
    }
}

#[derive(Deserialize)]
pub(super) struct WirePaymentIntent {
    id: Option<String>,
    customer: Option<Reference>,
    currency: Option<String>,
    amount: Option<i64>,
    amount_received: Option<i64>,
    #[serde(default, deserialize_with = "object")]
    metadata: Option<Metadata>,
    /// Before 2025-03-31.
    invoice: Option<Reference>,
    /// Since 2025-03-31.
    #[serde(default, deserialize_with = "object")]
    payment_details: Option<WirePaymentDetails>,
}

#[derive(Deserialize)]
struct WirePaymentDetails {
    order_reference: Option<String>,
}

impl WirePaymentIntent {
    pub(super) fn fact(&self, succeeded: bool) -> Result<Fact, WireError> {
        let metadata = MetadataSources::default().and(&self.metadata, "data.object.metadata");
        let asked = required_amount(self.amount, "data.object.amount", &self.currency)?;
        Ok(Fact::PaymentIntent(PaymentIntent {
            id: required_id(&self.id, "data.object.id")?.into(),
            succeeded,
            customer: optional_id(&self.customer, "data.object.customer")?,
            user: metadata.user()?,
            provider: metadata.provider()?,
            purchase: metadata.purchase()?,
            invoice: self.invoice()?,
            amount: match self.amount_received {
                Some(_) if succeeded => {
                    required_amount(self.amount_received, "data.object.amount_received", &self.currency)?
                }
                Some(_) | None => asked,
            },
        }))
    }

    /// The invoice id. An order reference can have any format; only an invoice's id counts.
    fn invoice(&self) -> Result<Option<InvoiceId>, WireError> {
        let named: Option<InvoiceId> = optional_id(&self.invoice, "data.object.invoice")?;
        let order = self.payment_details.as_ref().and_then(|details| details.order_reference.optional());
        Ok(named.or_else(|| {
            order
                .filter(|order| order.starts_with("in_") && order.len() <= super::MAX_ID_BYTES)
                .map(InvoiceId::from)
        }))
    }
}

#[derive(Deserialize)]
pub(super) struct WireRefund {
    id: Option<String>,
    payment_intent: Option<Reference>,
    charge: Option<Reference>,
    currency: Option<String>,
    amount: Option<i64>,
    status: Option<String>,
}

impl WireRefund {
    pub(super) fn fact(&self) -> Result<Fact, WireError> {
        Ok(Fact::Refund(Refund {
            id: required_id(&self.id, "data.object.id")?.into(),
            payment_intent: optional_id(&self.payment_intent, "data.object.payment_intent")?,
            charge: optional_id(&self.charge, "data.object.charge")?,
            amount: required_amount(self.amount, "data.object.amount", &self.currency)?,
            status: self.status.one_of("data.object.status", "a status of a refund", RefundStatus::read)?,
        }))
    }
}

#[derive(Deserialize)]
pub(super) struct WireCharge {
    id: Option<String>,
    payment_intent: Option<Reference>,
    customer: Option<Reference>,
    currency: Option<String>,
    amount_refunded: Option<i64>,
    refunded: Option<bool>,
}

impl WireCharge {
    pub(super) fn fact(&self) -> Result<Fact, WireError> {
        Ok(Fact::ChargeRefunded(ChargeRefunded {
            charge: required_id(&self.id, "data.object.id")?.into(),
            payment_intent: optional_id(&self.payment_intent, "data.object.payment_intent")?,
            customer: optional_id(&self.customer, "data.object.customer")?,
            amount_refunded: required_amount(
                self.amount_refunded,
                "data.object.amount_refunded",
                &self.currency,
            )?,
            refunded: self.refunded.ok_or_else(|| WireError::missing("data.object.refunded"))?,
        }))
    }
}

/// How the state of a dispute is determined.
#[derive(Clone, Copy)]
pub(super) enum Closing {
    /// By the event's type.
    State(DisputeState),
    /// By the dispute's own status: it has ended.
    ByStatus,
}

#[derive(Deserialize)]
pub(super) struct WireDispute {
    id: Option<String>,
    charge: Option<Reference>,
    payment_intent: Option<Reference>,
    currency: Option<String>,
    amount: Option<i64>,
    status: Option<String>,
}

impl WireDispute {
    pub(super) fn fact(&self, closing: Closing) -> Result<Fact, WireError> {
        Ok(Fact::Dispute(Dispute {
            id: required_id(&self.id, "data.object.id")?.into(),
            charge: optional_id(&self.charge, "data.object.charge")?,
            payment_intent: optional_id(&self.payment_intent, "data.object.payment_intent")?,
            amount: required_amount(self.amount, "data.object.amount", &self.currency)?,
            state: match closing {
                Closing::State(state) => state,
                Closing::ByStatus => {
                    self.status.one_of("data.object.status", "how a dispute ends", decided)?
                }
            },
        }))
    }
}

/// The result of an ended dispute. A closed inquiry and a prevented dispute took no money; a refund that
/// ended them is an event of its own.
fn decided(status: &str) -> Option<DisputeState> {
    match status {
        "won" | "warning_closed" | "prevented" => Some(DisputeState::Won),
        "lost" => Some(DisputeState::Lost),
        _ => None,
    }
}
