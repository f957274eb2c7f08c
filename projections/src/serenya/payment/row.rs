//! The row of a payment: `USER#{user}`/`PAYMENT#{date}#{id}`.

use dues_events::entitlements::stripe::Amount;
use dues_events::{Item, Value};

use super::reversals::Back;
use super::{Payment, PaymentReport, Status};
use crate::serenya::rows;

/// The sort key prefix of a payment.
pub(super) const PREFIX: &str = "PAYMENT#";

impl Payment {
    /// The row; `None` before the first report of the payment itself, or if another id holds the row.
    pub(in crate::serenya) fn row(&self) -> Option<Item> {
        let parts = &self.parts;
        let (begun, status) = (parts.begun?, parts.words.values().map(|word| word.status).max()?);
        if self.belongs_to.is_some() {
            return None;
        }
        let touched = parts.touched.unwrap_or(begun);
        let sort = format!("{PREFIX}{}#{}", begun.format("%Y-%m-%d"), self.id);
        Some(rows::row(
            rows::user_partition(&self.user),
            sort,
            "payment",
            Value::M(self.data(status)),
            begun,
            touched,
        ))
    }

    fn data(&self, status: Status) -> Item {
        let parts = &self.parts;
        let said = |of: fn(&PaymentReport) -> Option<&str>| parts.words.values().rev().find_map(of);
        // Only reports with the final status count: a failed attempt may have had another amount.
        let amount = parts
            .words
            .values()
            .rev()
            .filter(|word| word.status == status)
            .find_map(|word| word.amount.as_ref());
        let processed = parts
            .words
            .values()
            .filter(|word| word.status == status && status > Status::Pending)
            .map(|word| word.at)
            .min();
        let transaction = said(|word| word.transaction.as_deref()).or(parts.intent.as_deref());
        let mut data = rows::map([
            ("payment_id", Value::text(self.id.as_str())),
            ("user_id", Value::text(self.user.as_str())),
            ("subscription_id", rows::optional(said(|word| word.subscription.as_deref()))),
            ("amount", rows::amount(amount)),
            ("currency", rows::optional(amount.map(currency).as_deref())),
            ("payment_status", Value::text(status.as_str())),
            ("payment_method", rows::optional(said(|word| word.method.as_deref()))),
            ("provider_transaction_id", rows::optional(transaction)),
            ("provider_receipt_data", rows::optional(said(|word| word.receipt_sha256.as_deref()))),
            ("provider_sandbox", Value::Bool(parts.words.values().any(|word| word.sandbox))),
            ("initiated_at", rows::time(parts.begun)),
            ("processed_at", rows::time(processed)),
            ("platform", rows::optional(said(|word| word.platform.as_deref()))),
            ("app_version", rows::optional(said(|word| word.app_version.as_deref()))),
        ]);
        if let Some(Amount::Other { minor_units, .. }) = amount {
            data.set("amount_minor_units", Value::number(*minor_units));
        }
        let back = parts.back(amount);
        let of = |read: fn(&Back) -> Value| back.as_ref().map_or(Value::Null, read);
        data.set("refund_status", of(|back| Value::text(back.status)));
        data.set("refund_amount", of(|back| rows::amount(back.amount.as_ref())));
        data.set("refunded_at", of(|back| rows::time(back.at)));
        data.set("refund_reason", of(|back| rows::optional(back.reason.as_deref())));
        if let Some(Amount::Other { minor_units, .. }) = back.and_then(|back| back.amount) {
            data.set("refund_amount_minor_units", Value::number(minor_units));
        }
        data
    }
}

fn currency(amount: &Amount) -> String {
    match amount {
        Amount::Usd(_) => "USD".to_owned(),
        Amount::Other { currency, .. } => currency.to_uppercase(),
    }
}
