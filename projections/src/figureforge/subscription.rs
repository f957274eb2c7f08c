//! Subscription: `USER#<user_id>`, `SUB#<stripe_sub_id>`, as Stripe last reported it.
//!
//! When Stripe deletes it, the row is soft-deleted and stays in `byStripeSub`: late Stripe events still have
//! to find its owner. The plan is the one in the subscription's metadata: `PLAN#<planTier>`.

use dues_events::entitlements::stripe::Subscription;
use dues_events::{Item, UserId};
use serde::{Deserialize, Serialize};

use super::plan;
use super::row::Row;
use crate::model::{Latest, Recorded};

/// A subscription and its owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserSubscription {
    /// The owner.
    pub user: UserId,
    /// The subscription as Stripe reports it.
    pub subscription: Subscription,
}

/// Keeps the latest event. Stripe's timestamps are whole seconds: within one second the more advanced status
/// wins.
pub(super) fn merge<F>(
    state: &mut Option<Latest<UserSubscription>>,
    recorded: &Recorded<F>,
    held: &UserSubscription,
) {
    Latest::update_ranked(state, recorded, held.clone(), |held| held.subscription.rank());
}

pub(super) fn row(state: &Option<Latest<UserSubscription>>) -> Option<Item> {
    let Latest { at, value: UserSubscription { user, subscription }, .. } = state.as_ref()?;
    let id = &subscription.id;
    let deleted_at = subscription.ended.then(|| at.timestamp());
    let plan = subscription.tier.as_deref();
    let row = Row::new(
        format!("USER#{user}"),
        format!("SUB#{id}"),
        subscription.created_at.timestamp(),
        deleted_at,
    )
    .text("user_id", user.as_str())
    .text("stripe_sub_id", id.as_str())
    .maybe("stripe_customer_id", subscription.customer.as_ref().map(|customer| customer.as_str()))
    .text("status", subscription.status.as_str())
    .maybe("plan_id", plan)
    .maybe("plan", plan.map(plan::partition).as_deref())
    .number("current_period_start", subscription.period.map(|period| period.start.timestamp()))
    .number("current_period_end", subscription.period.map(|period| period.end.timestamp()))
    .flag("cancel_at_period_end", subscription.cancel_at_period_end)
    .text("stripe_sub_pk", &format!("SUB#{id}"))
    .text("stripe_sub_sk", &format!("USER#{user}"));
    Some(row.item())
}
