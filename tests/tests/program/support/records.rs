//! Records as the streams carry them.

use serde_json::{Value, json};

/// Plus for 14.99 a month, first due on that day.
pub(crate) fn plus(due: &str) -> Value {
    json!({"tier": "Plus", "version": "v2", "term": "MONTHLY", "amount": "14.99",
        "billing_date": format!("{due}T00:00:00Z"),
           "billing_week": null, "pause_duration_months": 0, "provider": "cognito"})
}

/// A tier and its price, for upgrades and downgrades.
pub(crate) fn tier(tier: &str, amount: &str) -> Value {
    json!({"tier": tier, "version": "v3", "amount": amount})
}

/// A membership change at noon of that day.
pub(crate) fn change(event: &str, kind: &str, user: &str, day: &str, membership: Value) -> Value {
    json!({"event_id": event, "type": kind, "occurred_at": format!("{day}T12:00:00Z"), "user_id": user,
        "membership": membership})
}

/// A membership change without fields beyond its type.
pub(crate) fn plain(event: &str, kind: &str, user: &str, day: &str) -> Value {
    json!({"event_id": event, "type": kind, "occurred_at": format!("{day}T12:00:00Z"), "user_id": user})
}

/// The activation that most tests begin with: on 5 January 2026, due first on 1 February.
pub(crate) fn activate(event: &str, user: &str) -> Value {
    change(event, "ACTIVATE", user, "2026-01-05", plus("2026-02-01"))
}

/// A debit of one billing record.
#[derive(Clone)]
pub(crate) struct Debit {
    pub(crate) user: String,
    pub(crate) subscription: String,
    pub(crate) confirmation: String,
}

impl Debit {
    pub(crate) fn new(user: &str, subscription: &str, confirmation: &str) -> Self {
        Self { user: user.into(), subscription: subscription.into(), confirmation: confirmation.into() }
    }

    /// Another attempt for the same record.
    pub(crate) fn again(&self, confirmation: &str) -> Self {
        Self { confirmation: confirmation.into(), ..self.clone() }
    }

    pub(crate) fn submitted(&self, event: &str, day: &str) -> Value {
        self.report(event, "SUBSCRIPTION_SUBMITTED", "PENDING", day)
    }

    pub(crate) fn completed(&self, event: &str, day: &str) -> Value {
        self.report(event, "SUBSCRIPTION_COMPLETED", "COMPLETED", day)
    }

    pub(crate) fn returned(&self, event: &str, day: &str, code: &str, message: &str) -> Value {
        let mut record = self.report(event, "SUBSCRIPTION_RETURNED", "FAILED", day);
        record["payment"]["return_code"] = json!(code);
        record["payment"]["message"] = json!(message);
        record
    }

    pub(crate) fn refunded(&self, event: &str, day: &str) -> Value {
        self.report(event, "SUBSCRIPTION_REFUNDED", "REFUNDED", day)
    }

    pub(crate) fn charged_back(&self, event: &str, day: &str) -> Value {
        let mut record = self.report(event, "SUBSCRIPTION_CHARGED_BACK", "CHARGED_BACK", day);
        record["payment"]["message"] = json!("disputed by the member");
        record
    }

    fn report(&self, event: &str, kind: &str, status: &str, day: &str) -> Value {
        json!({"event_id": event, "type": kind, "occurred_at": format!("{day}T15:30:00Z"), "payment": {
            "payment_id": format!("p-{}", self.confirmation), "subscription_id": self.subscription,
            "user_id": self.user, "status": status,
            "amount": "14.99", "currency": "USD", "processor": "JPM", "confirmation_id": self.confirmation,
            "payment_type": "ACH",
            "account_mask": "6789", "return_code": null, "message": null}})
    }
}
