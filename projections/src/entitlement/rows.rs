//! The rows of `gg_core` that a user's Stripe events come to.

use dues_events::Item;
use dues_events::UserId;
use dues_events::entitled::{PassRow, SubscriptionRow};
use dues_events::record::Provider;
use dues_events::stripe::Purchase;
use dues_events::{GoTime, PlanTier};
use std::collections::BTreeMap;

use super::{Entitlement, Held, Pass, tier_of_pass};

/// Each row, by its sort key. Their times are Stripe's, so that the same events always come to the same rows.
#[must_use]
pub fn rows(user: &UserId, entitlement: &Entitlement) -> BTreeMap<String, Item> {
    let provider = entitlement.provider.unwrap_or(Provider::Local);
    let subscriptions =
        entitlement.subscriptions.values().map(|held| subscription(user, held, provider)).map(|row| (row.sort(), row.to_item()));
    let passes = entitlement.passes.iter().filter_map(|(kind, pass)| pass_row(user, *kind, pass)).map(|row| (row.sort(), row.to_item()));
    subscriptions.chain(passes).collect()
}

fn subscription(user: &UserId, held: &Held, provider: Provider) -> SubscriptionRow {
    let Held { latest, tier, updated } = held;
    SubscriptionRow {
        user: user.clone(),
        id: latest.id.clone(),
        tier: *tier,
        status: latest.status,
        customer: latest.customer.clone(),
        period_start: latest.period.map(|period| GoTime::trimmed(period.start)),
        period_end: latest.period.map(|period| GoTime::trimmed(period.end)),
        cancel_at_period_end: latest.cancel_at_period_end,
        provider: latest.provider.unwrap_or(provider),
        created_at: Some(GoTime::trimmed(latest.created_at)),
        updated_at: Some(GoTime::trimmed(*updated)),
    }
}

fn pass_row(user: &UserId, kind: Purchase, pass: &Pass) -> Option<PassRow> {
    let tier: PlanTier = tier_of_pass(kind)?;
    let at = GoTime::trimmed(pass.purchased);
    Some(PassRow {
        user: user.clone(),
        kind,
        payment: pass.payment.clone(),
        purchased_at: at.clone(),
        tier,
        created_at: Some(at.clone()),
        updated_at: Some(at),
    })
}
