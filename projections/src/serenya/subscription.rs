//! The subscription that a profile embeds: the initial free one, one reported by an application, Stripe's,
//! or dues by ACH.

use chrono::TimeDelta;
use dues_events::entitlements::stripe;
use dues_events::entitlements::stripe::SubscriptionStatus;
use dues_events::{EventId, Time, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::{Fact, rows};
use crate::model::{Latest, Recorded};

/// The tier without payment.
pub(super) const FREE: &str = "free";
/// The tier of subscriptions by Stripe or ACH.
const PREMIUM: &str = "premium";
/// Days until the free subscription's end date; the tier stays free after it.
const FREE_DAYS: i64 = 365;
/// How many Stripe subscriptions are kept: the ones created last.
const STRIPE: usize = 8;
/// Default days of grace after the end date.
const GRACE: u32 = 7;

/// A subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    /// Id of the subscription.
    pub subscription_id: String,
    /// The tier: `free`, `premium`.
    pub subscription_type: String,
    /// Such as `active`.
    pub subscription_status: String,
    /// The payment provider: `internal`, `apple`, `google`, `stripe`, `ach`.
    pub provider: String,
    /// The provider's id of the subscription.
    #[serde(default)]
    pub external_subscription_id: Option<String>,
    /// When it began.
    pub start_date: Time,
    /// When it ends, if known.
    #[serde(default)]
    pub end_date: Option<Time>,
    /// Whether it renews after the end date.
    #[serde(default = "yes")]
    pub auto_renew: bool,
    /// Length of the trial, in days.
    #[serde(default)]
    pub trial_period_days: u32,
    /// Days after the end date during which the tier still applies.
    #[serde(default = "grace")]
    pub grace_period_days: u32,
}

fn yes() -> bool {
    true
}

fn grace() -> u32 {
    GRACE
}

impl Subscription {
    /// Whether its status grants access.
    #[must_use]
    pub fn is_in_force(&self) -> bool {
        ["active", "trialing", "past_due", "grace_period"].contains(&self.subscription_status.as_str())
    }

    /// The tier at a time: `free` after the end date and the grace period.
    #[must_use]
    pub fn tier_at(&self, at: Time) -> &str {
        let grace = TimeDelta::days(i64::from(self.grace_period_days));
        // An end beyond the range of dates never comes.
        let over = self.end_date.and_then(|end| end.checked_add_signed(grace)).is_some_and(|last| at >= last);
        if self.is_in_force() && !over { &self.subscription_type } else { FREE }
    }

    /// The value that the profile embeds, without usage.
    pub(super) fn value(&self) -> Value {
        Value::M(rows::map([
            ("subscription_id", Value::text(self.subscription_id.as_str())),
            ("subscription_type", Value::text(self.subscription_type.as_str())),
            ("subscription_status", Value::text(self.subscription_status.as_str())),
            ("provider", Value::text(self.provider.as_str())),
            ("external_subscription_id", rows::optional(self.external_subscription_id.as_deref())),
            ("start_date", rows::time(Some(self.start_date))),
            ("end_date", rows::time(self.end_date)),
            ("auto_renew", Value::Bool(self.auto_renew)),
            ("trial_period_days", Value::number(u64::from(self.trial_period_days))),
            ("grace_period_days", Value::number(u64::from(self.grace_period_days))),
        ]))
    }
}

/// Dues by ACH, from one billing record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dues {
    /// The due date.
    pub due: Time,
    /// Id of the billing record.
    pub record: String,
    /// The version of the billing record.
    pub version: u64,
    /// Time of that version.
    pub at: Time,
    /// Whether the dues are paid and not reversed.
    pub paid: bool,
    /// When the membership began.
    pub since: Time,
    /// The next due date.
    pub until: Time,
    /// Whether the membership renews.
    pub renews: bool,
}

impl Dues {
    /// Order: the later record, then its later version.
    pub(super) fn place(&self) -> (Time, &str, u64) {
        (self.due, &self.record, self.version)
    }

    /// Keeps the later of the two.
    pub(super) fn join(place: &mut Option<Self>, other: &Self) {
        if place.as_ref().is_none_or(|known| known.place() < other.place()) {
            *place = Some(other.clone());
        }
    }
}

/// All subscriptions of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Subscriptions {
    /// Reported by the application.
    #[serde(rename = "told", default, skip_serializing_if = "Option::is_none")]
    application: Option<Latest<Subscription>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    stripe: BTreeMap<String, Latest<stripe::Subscription>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dues: Option<Dues>,
}

impl Subscriptions {
    pub(super) fn application(&mut self, recorded: &Recorded<Fact>, subscription: &Subscription) {
        Latest::update(&mut self.application, recorded, subscription.clone());
    }

    pub(super) fn stripe(&mut self, recorded: &Recorded<Fact>, subscription: &stripe::Subscription) {
        let key = format!("{:012} {}", subscription.created_at.timestamp(), subscription.id);
        let mut place = self.stripe.remove(&key);
        Latest::update_ranked(&mut place, recorded, subscription.clone(), stripe::Subscription::rank);
        self.stripe.extend(place.map(|place| (key, place)));
        while self.stripe.len() > STRIPE {
            self.stripe.pop_first();
        }
    }

    pub(super) fn dues(&mut self, dues: &Dues) {
        Dues::join(&mut self.dues, dues);
    }

    /// The subscription in force with the latest fact; otherwise the free one, which never ends.
    pub(super) fn current(&self, user: &str, created: Time) -> Subscription {
        let application =
            self.application.iter().map(|latest| (latest.at, latest.by.clone(), latest.value.clone()));
        let stripe =
            self.stripe.values().map(|latest| (latest.at, latest.by.clone(), of_stripe(&latest.value)));
        let dues = self.dues.iter().map(|dues| (dues.at, EventId::from(dues.record.as_str()), of_dues(dues)));
        let all =
            application.chain(stripe).chain(dues).filter(|(_, _, subscription)| subscription.is_in_force());
        let latest = all.max_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        latest.map_or_else(|| free(user, created), |(_, _, subscription)| subscription)
    }
}

fn free(user: &str, created: Time) -> Subscription {
    Subscription {
        subscription_id: format!("sub_free_{user}"),
        subscription_type: FREE.to_owned(),
        subscription_status: "active".to_owned(),
        provider: "internal".to_owned(),
        external_subscription_id: None,
        start_date: created,
        end_date: Some(created + TimeDelta::days(FREE_DAYS)),
        auto_renew: true,
        trial_period_days: 0,
        grace_period_days: GRACE,
    }
}

fn of_stripe(subscription: &stripe::Subscription) -> Subscription {
    let status = if subscription.ended { SubscriptionStatus::Canceled } else { subscription.status };
    Subscription {
        subscription_id: subscription.id.to_string(),
        subscription_type: PREMIUM.to_owned(),
        subscription_status: status.as_str().to_owned(),
        provider: "stripe".to_owned(),
        external_subscription_id: Some(subscription.id.to_string()),
        start_date: subscription.created_at,
        end_date: subscription.period.map(|period| period.end),
        auto_renew: !subscription.cancel_at_period_end,
        trial_period_days: 0,
        grace_period_days: GRACE,
    }
}

fn of_dues(dues: &Dues) -> Subscription {
    let status = if dues.paid { "active" } else { "unpaid" };
    Subscription {
        subscription_id: dues.record.clone(),
        subscription_type: PREMIUM.to_owned(),
        subscription_status: status.to_owned(),
        provider: "ach".to_owned(),
        external_subscription_id: None,
        start_date: dues.since,
        end_date: Some(dues.until),
        auto_renew: dues.renews,
        trial_period_days: 0,
        grace_period_days: GRACE,
    }
}
