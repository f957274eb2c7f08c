//! The stream `site-payments`: outcomes of debits.

use serde::Deserialize;

use crate::billing::event::{AttemptName, Event, EventKind, Report, ReportKind};
use crate::billing::idempotency::IdempotencyToken;
use crate::billing::record::{Failure, Process, Receipt};
use crate::collections::ach::ReturnCode;
use crate::ids::{EventId, SubscriptionId, TransactionId, UserId};
use crate::item::{Item, Value};
use crate::money::{Currency, Money};
use crate::wire::{Field, WireError, object, parse_if_known, quoted, required_id, required_time};

/// A settlement or another outcome of a debit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The user.
    pub user_id: UserId,
    /// The billing record.
    pub subscription_id: SubscriptionId,
    /// The event for that record.
    pub event: Event,
}

#[derive(Deserialize)]
struct Wire {
    event_id: Option<String>,
    r#type: Option<String>,
    occurred_at: Option<String>,
    #[serde(default, deserialize_with = "object")]
    payment: Option<WirePayment>,
}

#[derive(Deserialize)]
struct WirePayment {
    payment_id: Option<String>,
    subscription_id: Option<String>,
    user_id: Option<String>,
    status: Option<String>,
    amount: Option<String>,
    currency: Option<String>,
    processor: Option<String>,
    confirmation_id: Option<String>,
    payment_type: Option<String>,
    account_mask: Option<String>,
    return_code: Option<String>,
    message: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Submitted,
    Completed,
    Returned,
    Refunded,
    ChargedBack,
}

impl Kind {
    const ALL: [Self; 5] =
        [Self::Submitted, Self::Completed, Self::Returned, Self::Refunded, Self::ChargedBack];

    fn source(self) -> &'static str {
        match self {
            Self::Submitted => "site-payments SUBSCRIPTION_SUBMITTED",
            Self::Completed => "site-payments SUBSCRIPTION_COMPLETED",
            Self::Returned => "site-payments SUBSCRIPTION_RETURNED",
            Self::Refunded => "site-payments SUBSCRIPTION_REFUNDED",
            Self::ChargedBack => "site-payments SUBSCRIPTION_CHARGED_BACK",
        }
    }

    fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.source().strip_prefix("site-payments ") == Some(text))
    }

    /// The matching `payment.status`.
    fn status(self) -> &'static str {
        match self {
            Self::Submitted => "PENDING",
            Self::Completed => "COMPLETED",
            Self::Returned => "FAILED",
            Self::Refunded => "REFUNDED",
            Self::ChargedBack => "CHARGED_BACK",
        }
    }
}

/// Decodes a record of the stream; `None` for types that are not read here.
///
/// # Errors
/// [`WireError`] names the field.
pub fn decode(bytes: &[u8]) -> Result<Option<Settlement>, WireError> {
    let Some(wire) = parse_if_known::<Wire>(bytes, |kind| Kind::read(kind).is_some())? else {
        return Ok(None);
    };
    let Some(kind) = Kind::read(wire.r#type.required("type")?) else { return Ok(None) };
    let id = EventId::from(required_id(&wire.event_id, "event_id")?);
    let at = required_time(&wire.occurred_at, "occurred_at")?;
    let payment = wire.payment.ok_or_else(|| WireError::missing("payment"))?;
    let subscription_id = required_id(&payment.subscription_id, "payment.subscription_id")?;
    let record = SubscriptionId::from(subscription_id);
    let user_id = required_id(&payment.user_id, "payment.user_id")?;
    read_status(kind, &payment)?;
    let amount: Money = payment.amount.required_as("payment.amount")?;
    let code = read_code(&payment)?;
    let transaction_id = match payment.confirmation_id.optional() {
        Some(_) => {
            Some(TransactionId::from(required_id(&payment.confirmation_id, "payment.confirmation_id")?))
        }
        None => None,
    };

    let content = [
        kind.source(),
        &at.to_rfc3339(),
        payment.payment_id.as_deref().unwrap_or(""),
        subscription_id,
        user_id,
        &amount.to_string(),
        payment.currency.as_deref().unwrap_or(""),
        payment.processor.as_deref().unwrap_or(""),
        payment.confirmation_id.as_deref().unwrap_or(""),
        payment.payment_type.as_deref().unwrap_or(""),
        payment.account_mask.as_deref().unwrap_or(""),
        payment.return_code.as_deref().unwrap_or(""),
        payment.message.as_deref().unwrap_or(""),
    ];
    let attempt = AttemptName::reported(&record, transaction_id, payment.payment_id.optional());
    let report = Report { attempt, kind: report_kind(kind, amount, code, &payment)? };
    let event = Event {
        token: IdempotencyToken::new(&id, &content),
        id,
        at,
        source: kind.source().into(),
        kind: EventKind::Reported(report),
        // Another service submitted the debit and does not name the process.
        process: (kind == Kind::Submitted).then_some(Process::NotIdentified),
        data: data(&payment, amount),
        begins: None,
    };
    Ok(Some(Settlement { user_id: user_id.into(), subscription_id: record, event }))
}

fn read_status(kind: Kind, payment: &WirePayment) -> Result<(), WireError> {
    let field = "payment.status";
    let known = |text: &str| Kind::ALL.into_iter().find(|k| k.status() == text);
    let named =
        payment.status.one_of(field, "PENDING, COMPLETED, FAILED, REFUNDED or CHARGED_BACK", known)?;
    if named != kind {
        let problem = format!("is {}, but the type means {}", named.status(), kind.status());
        return Err(WireError::new(field, problem));
    }
    Ok(())
}

fn read_code(payment: &WirePayment) -> Result<Option<ReturnCode>, WireError> {
    match payment.return_code.optional() {
        None => Ok(None),
        Some(text) => match ReturnCode::read(text) {
            Some(code) => Ok(Some(code)),
            None => Err(WireError::new(
                "payment.return_code",
                format!("{} is not a code such as R01", quoted(text)),
            )),
        },
    }
}

/// What the payment reports. Without a currency it is in US dollars, as all dues are.
fn report_kind(
    kind: Kind,
    amount: Money,
    code: Option<ReturnCode>,
    payment: &WirePayment,
) -> Result<ReportKind, WireError> {
    let message = payment.message.optional();
    let currency = match payment.currency.optional() {
        None => Currency::USD,
        Some(_) => payment.currency.one_of("payment.currency", "a code such as USD", Currency::read)?,
    };
    Ok(match kind {
        Kind::Submitted => ReportKind::Sent,
        Kind::Completed => ReportKind::Settled {
            amount,
            currency,
            receipt: Receipt {
                account_mask: last_four(payment.account_mask.optional().unwrap_or_default()),
                payment_type: payment.payment_type.optional().unwrap_or_default().to_owned(),
            },
        },
        Kind::Returned => ReportKind::Returned(Failure::new(code, message)),
        Kind::Refunded => ReportKind::Refunded { amount, currency },
        Kind::ChargedBack => ReportKind::ChargedBack(Failure::new(code, message.or(Some("charged back")))),
    })
}

/// Keeps at most the last four digits, whatever a producer sends.
fn last_four(mask: &str) -> String {
    let skip = mask.chars().count().saturating_sub(4);
    mask.chars().skip(skip).collect()
}

fn data(payment: &WirePayment, amount: Money) -> Item {
    let mut data = Item::new();
    data.set("data_amount", Value::text(amount.to_string()));
    for (name, value) in [("data_payment_id", &payment.payment_id), ("data_processor", &payment.processor)] {
        if let Some(value) = value.optional() {
            data.set(name, Value::text(value));
        }
    }
    data
}
