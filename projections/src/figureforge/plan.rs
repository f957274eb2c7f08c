//! Plan: `PLAN#<plan_id>`, `META`; in `plansByActive` unless deleted, keyed by whether it can be bought.

use dues_events::Item;
use serde::{Deserialize, Serialize};

use super::row::Row;
use super::soft_delete::SoftDelete;
use super::validation::EpochSecond;

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Display name.
    pub name: String,
    /// Price, in cents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_cents: Option<u32>,
    /// Billing interval, such as `month`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
    /// Stripe's id of the price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stripe_price_id: Option<String>,
    /// Whether it can be bought.
    pub active: bool,
    /// When it was created; defaults to the event's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<EpochSecond>,
}

/// The partition of a plan; subscriptions refer to it.
pub(super) fn partition(id: &str) -> String {
    format!("PLAN#{id}")
}

pub(super) fn row(id: &str, kept: &SoftDelete<Plan>) -> Option<Item> {
    let (plan, created_at) = kept.value()?;
    let row = Row::new(partition(id), "META".to_owned(), created_at, kept.deleted_at())
        .text("plan_id", id)
        .text("name", &plan.name)
        .number("price_cents", plan.price_cents.map(i64::from))
        .maybe("interval", plan.interval.as_deref())
        .maybe("stripe_price_id", plan.stripe_price_id.as_deref())
        .flag("active", plan.active)
        .indexed(kept.deleted_at().is_none(), "plan_active_pk", format!("PLANACTIVE#{}", plan.active));
    Some(row.item())
}
