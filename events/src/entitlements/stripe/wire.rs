//! Decoding of Stripe events, from a webhook's body or from the `detail` of EventBridge.
//!
//! Only the needed fields are read, from wherever the API version puts them. Before 2025-03-31 an invoice
//! named its subscription and payment directly, and a subscription had one period. Since then an invoice
//! has a `parent` and `payments`, and each item of a subscription has its own period. An id can be a text
//! or, expanded, an object with that id.

mod billing;
pub(crate) mod envelope;
mod fields;
mod payments;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use self::billing::{WireInvoice, WireSubscription};
use self::fields::required_seconds;
use self::payments::{Closing, WireCharge, WireCheckout, WireDispute, WirePaymentIntent, WireRefund};
use crate::entitlements::stripe::{CheckoutState, DisputeState, Fact, StripeEvent};
use crate::ids::EventId;
use crate::wire::{Field, MAX_ID_BYTES, MAX_RECORD_BYTES, WireError, WireType, object, parse, required_id};

pub use self::envelope::{Envelope, envelope};

#[derive(Clone, Copy)]
enum Kind {
    Subscription {
        ended: bool,
    },
    Invoice {
        paid: bool,
    },
    /// `None`: use the session's own `payment_status`.
    Checkout(Option<CheckoutState>),
    PaymentIntent {
        succeeded: bool,
    },
    Refund,
    ChargeRefunded,
    Dispute(Closing),
}

const KINDS: [(&str, Kind); 20] = [
    ("customer.subscription.created", Kind::Subscription { ended: false }),
    ("customer.subscription.updated", Kind::Subscription { ended: false }),
    ("customer.subscription.deleted", Kind::Subscription { ended: true }),
    ("customer.subscription.paused", Kind::Subscription { ended: false }),
    ("customer.subscription.resumed", Kind::Subscription { ended: false }),
    ("invoice.paid", Kind::Invoice { paid: true }),
    ("invoice.payment_succeeded", Kind::Invoice { paid: true }),
    ("invoice.payment_failed", Kind::Invoice { paid: false }),
    ("checkout.session.completed", Kind::Checkout(None)),
    ("checkout.session.async_payment_succeeded", Kind::Checkout(Some(CheckoutState::Paid))),
    ("checkout.session.async_payment_failed", Kind::Checkout(Some(CheckoutState::Failed))),
    ("payment_intent.succeeded", Kind::PaymentIntent { succeeded: true }),
    ("payment_intent.payment_failed", Kind::PaymentIntent { succeeded: false }),
    ("refund.created", Kind::Refund),
    ("refund.updated", Kind::Refund),
    ("refund.failed", Kind::Refund),
    ("charge.refunded", Kind::ChargeRefunded),
    ("charge.dispute.created", Kind::Dispute(Closing::State(DisputeState::Open))),
    ("charge.dispute.closed", Kind::Dispute(Closing::ByStatus)),
    ("charge.dispute.funds_reinstated", Kind::Dispute(Closing::State(DisputeState::Reinstated))),
];

/// The event types that are read; all others are skipped.
pub fn types() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(name, _)| *name)
}

/// Decodes an event; `None` for types that are not read here, whatever their shape.
///
/// # Errors
/// [`WireError`] names the field.
pub fn decode(bytes: &[u8]) -> Result<Option<StripeEvent>, WireError> {
    let wire: WireType = parse(bytes)?;
    let wanted = wire.r#type.required("type")?;
    let Some((source, kind)) = KINDS.iter().find(|(name, _)| *name == wanted) else { return Ok(None) };
    let event = match *kind {
        Kind::Subscription { ended } => read(bytes, source, |object: &WireSubscription| object.fact(ended)),
        Kind::Invoice { paid } => read(bytes, source, |object: &WireInvoice| object.fact(paid)),
        Kind::Checkout(state) => read(bytes, source, |object: &WireCheckout| object.fact(state)),
        Kind::PaymentIntent { succeeded } => {
            read(bytes, source, |object: &WirePaymentIntent| object.fact(succeeded))
        }
        Kind::Refund => read(bytes, source, WireRefund::fact),
        Kind::ChargeRefunded => read(bytes, source, WireCharge::fact),
        Kind::Dispute(closing) => read(bytes, source, |object: &WireDispute| object.fact(closing)),
    };
    event.map(Some)
}

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct WireEvent<T> {
    id: Option<String>,
    created: Option<i64>,
    livemode: Option<bool>,
    api_version: Option<String>,
    #[serde(default, deserialize_with = "object")]
    data: Option<WireData<T>>,
}

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct WireData<T> {
    #[serde(default, deserialize_with = "object")]
    object: Option<T>,
}

fn read<T: DeserializeOwned>(
    bytes: &[u8],
    source: &'static str,
    fact: impl FnOnce(&T) -> Result<Fact, WireError>,
) -> Result<StripeEvent, WireError> {
    let wire: WireEvent<T> = parse(bytes)?;
    let id = EventId::from(required_id(&wire.id, "id")?);
    let created = required_seconds(wire.created, "created")?;
    let livemode = wire.livemode.ok_or_else(|| WireError::missing("livemode"))?;
    let data = wire.data.ok_or_else(|| WireError::missing("data"))?;
    let fact = fact(&data.object.ok_or_else(|| WireError::missing("data.object"))?)?;
    let api_version = wire.api_version.optional().map(Box::from);
    Ok(StripeEvent::new(id, created, livemode, api_version, source, fact))
}

/// The id and the user of an event that could not be decoded, if present.
#[must_use]
pub fn peek_ids(bytes: &[u8]) -> (Option<String>, Option<String>) {
    let Envelope { id, user, customer: _ } = envelope(bytes);
    (id, user)
}
