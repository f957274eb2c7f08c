//! Payments reported by applications: store purchases and manual entries.

use dues_events::Time;
use dues_events::entitlements::stripe::{Amount, RefundStatus};
use dues_events::wire::WireError;
use dues_events::wire::app_events::AppEvent;
use serde::Deserialize;

use super::{dated, id, inside, user, wrong};
use crate::serenya::payment::{Parts, Payment, PaymentReport, Refund, Source, Status};
use crate::serenya::tiers::Price;
use crate::serenya::{Fact, aggregate_of, rows};

#[derive(Deserialize)]
struct PaymentWire {
    payment_id: String,
    subscription_id: Option<String>,
    amount: Price,
    currency: Option<String>,
    payment_status: Option<String>,
    payment_method: Option<String>,
    provider_transaction_id: Option<String>,
    provider_receipt_data: Option<String>,
    #[serde(default)]
    provider_sandbox: bool,
    initiated_at: Option<Time>,
    platform: Option<String>,
    app_version: Option<String>,
}

pub(super) fn payment(
    event: &AppEvent,
    (id, parts): (String, Parts),
) -> Result<Option<(String, Fact)>, WireError> {
    let user = user(event)?;
    let name = aggregate_of("payment", &user, &id);
    Ok(Some((name, Fact::Payment(Box::new(Payment { user, id, belongs_to: None, parts, dues: None })))))
}

pub(super) fn recorded(event: &AppEvent) -> Result<(String, Parts), WireError> {
    let wire: PaymentWire = inside(event, "payment")?;
    if let Some(other) = wire.currency.as_deref().filter(|currency| !currency.eq_ignore_ascii_case("usd")) {
        return Err(wrong("payment.currency", format!("{other:?} is not USD")));
    }
    let status = match wire.payment_status.as_deref() {
        None | Some("completed") => Status::Completed,
        Some("pending") => Status::Pending,
        Some("failed") => Status::Failed,
        Some(other) => {
            return Err(wrong(
                "payment.payment_status",
                format!("{other:?} is not one of pending, completed, failed"),
            ));
        }
    };
    let word = PaymentReport {
        status,
        at: event.at,
        amount: Some(Amount::Usd(wire.amount.0)),
        subscription: wire.subscription_id,
        method: wire.payment_method,
        transaction: wire.provider_transaction_id,
        receipt_sha256: wire.provider_receipt_data.as_deref().map(rows::sha256),
        sandbox: wire.provider_sandbox,
        platform: wire.platform,
        app_version: wire.app_version,
    };
    let begun = dated("payment.initiated_at", wire.initiated_at)?.unwrap_or(event.at);
    let words = [(Source::Application, word)].into_iter().collect();
    Ok((
        id("payment.payment_id", wire.payment_id)?,
        Parts { begun: Some(begun), touched: Some(event.at), words, ..Parts::default() },
    ))
}

pub(super) fn refunded(event: &AppEvent) -> Result<(String, Parts), WireError> {
    #[derive(Deserialize)]
    struct Wire {
        payment_id: String,
        refund_id: String,
        refund_amount: Option<Price>,
        refund_reason: Option<String>,
    }
    let wire: Wire = event.read()?;
    let amount = wire.refund_amount.map(|amount| Amount::Usd(amount.0));
    let refund = Refund { status: RefundStatus::Succeeded, at: event.at, amount, reason: wire.refund_reason };
    let refunds = [(id("refund_id", wire.refund_id)?, refund)].into_iter().collect();
    Ok((id("payment_id", wire.payment_id)?, Parts { touched: Some(event.at), refunds, ..Parts::default() }))
}
