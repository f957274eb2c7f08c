//! Subscription: `USER#<user_id>`, `SUB#<stripe_sub_id>`, as Stripe last told it.
//!
//! It is deleted, softly, when Stripe has deleted it, and stays in `byStripeSub`: what Stripe tells late still has to find whose it was. The plan is
//! the one that the subscription's metadata names: `PLAN#<planTier>`.

use dues_events::stripe::Subscription;
use dues_events::{Item, UserId};
use serde::{Deserialize, Serialize};

use super::plan;
use super::row::Row;
use crate::model::{Latest, Told};

/// A subscription, and whose it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// Whose.
    pub user: UserId,
    /// How it stands.
    pub subscription: Subscription,
}

/// How it stands, by the latest event. Stripe dates its events to whole seconds: of one second the one that is farther in its life counts.
pub(super) fn merge<F>(state: &mut Option<Latest<Held>>, told: &Told<F>, held: &Held) {
    Latest::put_ranked(state, told, held.clone(), |held| held.subscription.rank());
}

pub(super) fn row(state: &Option<Latest<Held>>) -> Option<Item> {
    let Latest { at, value: Held { user, subscription }, .. } = state.as_ref()?;
    let id = &subscription.id;
    let deleted_at = subscription.ended.then(|| at.timestamp());
    let plan = subscription.tier.as_deref();
    let row = Row::new(format!("USER#{user}"), format!("SUB#{id}"), subscription.created_at.timestamp(), deleted_at)
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
