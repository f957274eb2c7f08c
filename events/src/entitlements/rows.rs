//! Rows of `gg_core` that entitle a user: subscriptions and founder passes.

use crate::attributes::*;
use crate::billing::record::Provider;
use crate::entitlements::profile::user_of;
use crate::entitlements::stripe::{Purchase, SubscriptionStatus};
use crate::entitlements::tier::PlanTier;
use crate::ids::{CustomerId, PaymentIntentId, StripeSubscriptionId, UserId};
use crate::item::{Item, Value};
use crate::row::{ReadError, Reader, keyed, set_times};
use crate::time::GoTime;

/// Prefix of a subscription's sort key.
pub const SUBSCRIPTION_PREFIX: &str = "SUBSCRIPTION#";
/// The `type` of a subscription.
pub const SUBSCRIPTION_TYPE: &str = "Subscription";
/// Prefix of a founder pass's sort key.
pub const PASS_PREFIX: &str = "FOUNDER#";
/// The `type` of a founder pass.
pub const PASS_KIND: &str = "FounderPass";

/// A subscription at Stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionRow {
    /// The user.
    pub user: UserId,
    /// Its Stripe id.
    pub id: StripeSubscriptionId,
    /// The tier of its plan.
    pub tier: PlanTier,
    /// Its Stripe status.
    pub status: SubscriptionStatus,
    /// The paying customer.
    pub customer: Option<CustomerId>,
    /// Start of the current period.
    pub period_start: Option<GoTime>,
    /// End of the current period.
    pub period_end: Option<GoTime>,
    /// Whether it ends with the current period instead of renewing.
    pub cancel_at_period_end: bool,
    /// Where the user signs in.
    pub provider: Provider,
    /// Creation time.
    pub created_at: Option<GoTime>,
    /// Time of the last change.
    pub updated_at: Option<GoTime>,
}

impl SubscriptionRow {
    /// Its sort key.
    #[must_use]
    pub fn sort(&self) -> String {
        format!("{SUBSCRIPTION_PREFIX}{}", self.id)
    }

    /// Encodes the row.
    #[must_use]
    pub fn to_item(&self) -> Item {
        let mut item = keyed(&self.user, self.sort(), SUBSCRIPTION_TYPE);
        item.set_text(SUBSCRIPTION, self.id.as_str());
        item.set_text(PLAN_TIER, self.tier.as_str());
        item.set_text(SUBSCRIPTION_STATUS, self.status.as_str());
        if let Some(customer) = &self.customer {
            item.set_text(STRIPE_CUSTOMER_ID, customer.as_str());
        }
        item.set(CANCEL_AT_PERIOD_END, Value::Bool(self.cancel_at_period_end));
        item.set_text(PROVIDER, self.provider.as_str());
        set_times(
            &mut item,
            [
                (CURRENT_PERIOD_START, &self.period_start),
                (CURRENT_PERIOD_END, &self.period_end),
                (CREATED_AT, &self.created_at),
                (UPDATED_AT, &self.updated_at),
            ],
        );
        item
    }

    /// Decodes a row.
    ///
    /// # Errors
    /// [`ReadError`] names the attribute and the row.
    pub fn from_item(item: Item) -> Result<Self, ReadError> {
        let mut row = Reader::new(item, [PK, SK]);
        Ok(Self {
            user: row.required(PK, "a user's partition", user_of)?,
            id: row.text(SUBSCRIPTION)?.into(),
            tier: row.required(PLAN_TIER, "a tier", PlanTier::read)?,
            status: row.required(
                SUBSCRIPTION_STATUS,
                "a status of a subscription",
                SubscriptionStatus::read,
            )?,
            customer: row.some_text(STRIPE_CUSTOMER_ID)?.map(CustomerId::from),
            period_start: row.time(CURRENT_PERIOD_START)?,
            period_end: row.time(CURRENT_PERIOD_END)?,
            cancel_at_period_end: row.flag(CANCEL_AT_PERIOD_END)?,
            provider: row.parsed(PROVIDER, "a provider", Provider::read)?.unwrap_or(Provider::Local),
            created_at: row.time(CREATED_AT)?,
            updated_at: row.time(UPDATED_AT)?,
        })
    }
}

/// A founder pass: a tier for life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassRow {
    /// The user.
    pub user: UserId,
    /// Its type: [`Purchase::FoundingMember`] or [`Purchase::GuildBuilder`].
    pub kind: Purchase,
    /// The payment for it.
    pub payment: PaymentIntentId,
    /// Time of purchase.
    pub purchased_at: GoTime,
    /// The tier it grants.
    pub tier: PlanTier,
    /// Creation time of the row.
    pub created_at: Option<GoTime>,
    /// Time of the last change.
    pub updated_at: Option<GoTime>,
}

impl PassRow {
    /// Its sort key.
    #[must_use]
    pub fn sort(&self) -> String {
        format!("{PASS_PREFIX}{}", self.kind)
    }

    /// Encodes the row.
    #[must_use]
    pub fn to_item(&self) -> Item {
        let mut item = keyed(&self.user, self.sort(), PASS_KIND);
        item.set_text(PASS_TYPE, self.kind.as_str());
        item.set_text(STRIPE_PAYMENT_INTENT_ID, self.payment.as_str());
        item.set_text(PURCHASED_AT, self.purchased_at.text());
        item.set(LIFETIME_ACCESS, Value::Bool(true));
        item.set_text(GRANTED_TIER, self.tier.as_str());
        set_times(&mut item, [(CREATED_AT, &self.created_at), (UPDATED_AT, &self.updated_at)]);
        item
    }

    /// Decodes a row.
    ///
    /// # Errors
    /// [`ReadError`] names the attribute and the row.
    pub fn from_item(item: Item) -> Result<Self, ReadError> {
        let mut row = Reader::new(item, [PK, SK]);
        Ok(Self {
            user: row.required(PK, "a user's partition", user_of)?,
            kind: row.required(PASS_TYPE, "a founder pass", Purchase::read)?,
            payment: row.text(STRIPE_PAYMENT_INTENT_ID)?.into(),
            purchased_at: row.time(PURCHASED_AT)?.ok_or_else(|| row.error(PURCHASED_AT, "is missing"))?,
            tier: row.required(GRANTED_TIER, "a tier", PlanTier::read)?,
            created_at: row.time(CREATED_AT)?,
            updated_at: row.time(UPDATED_AT)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The example rows of gg_core, verbatim.
    #[test]
    fn the_rows_are_those_of_the_seed() {
        let time = |text: &str| GoTime::read(text).unwrap();
        let subscription = SubscriptionRow {
            user: "abc123".into(),
            id: "sub_1ABCxyz".into(),
            tier: PlanTier::Journeyman,
            status: SubscriptionStatus::Active,
            customer: Some("cus_1ABCxyz".into()),
            period_start: time("2025-01-01T00:00:00Z"),
            period_end: time("2025-02-01T00:00:00Z"),
            cancel_at_period_end: false,
            provider: Provider::Cognito,
            created_at: time("2025-01-01T00:00:00Z"),
            updated_at: time("2025-01-15T10:30:00Z"),
        };
        let expected = json!({
          "PK": "USER#abc123", "SK": "SUBSCRIPTION#sub_1ABCxyz", "type": "Subscription",
          "subscriptionId": "sub_1ABCxyz",
          "planTier": "JOURNEYMAN", "status": "active", "stripeCustomerId": "cus_1ABCxyz",
          "currentPeriodStart": "2025-01-01T00:00:00Z",
          "currentPeriodEnd": "2025-02-01T00:00:00Z", "cancelAtPeriodEnd": false, "provider": "cognito",
          "createdAt": "2025-01-01T00:00:00Z",
          "updatedAt": "2025-01-15T10:30:00Z"
        });
        assert_eq!(subscription.to_item().to_json(), expected);
        assert_eq!(SubscriptionRow::from_item(subscription.to_item()).unwrap(), subscription);
        let pass = PassRow {
            user: "abc123".into(),
            kind: Purchase::FoundingMember,
            payment: "pi_1ABCxyz".into(),
            purchased_at: time("2025-01-01T00:00:00Z").unwrap(),
            tier: PlanTier::Sage,
            created_at: time("2025-01-01T00:00:00Z"),
            updated_at: time("2025-01-01T00:00:00Z"),
        };
        let expected = json!({
          "PK": "USER#abc123", "SK": "FOUNDER#FOUNDING_MEMBER", "type": "FounderPass",
          "passType": "FOUNDING_MEMBER",
          "stripePaymentIntentId": "pi_1ABCxyz", "purchasedAt": "2025-01-01T00:00:00Z",
          "lifetimeAccess": true, "grantedTier": "SAGE",
          "createdAt": "2025-01-01T00:00:00Z", "updatedAt": "2025-01-01T00:00:00Z"
        });
        assert_eq!(pass.to_item().to_json(), expected);
        assert_eq!(PassRow::from_item(pass.to_item()).unwrap(), pass);
        let mut bad = subscription.to_item();
        bad.set_text(PLAN_TIER, "GOLD");
        let error = SubscriptionRow::from_item(bad).unwrap_err().to_string();
        assert_eq!(error, "planTier of row USER#abc123/SUBSCRIPTION#sub_1ABCxyz: \"GOLD\" is not a tier");
    }
}
