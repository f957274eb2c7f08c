//! The rows of `gg_core` that follow from a user's Stripe events.

use dues_events::Item;
use dues_events::UserId;
use dues_events::billing::record::Provider;
use dues_events::entitlements::rows::{PassRow, SubscriptionRow};
use dues_events::entitlements::stripe::Purchase;
use dues_events::{GoTime, PlanTier};
use std::collections::BTreeMap;

use super::{Entitlement, FounderPass, HeldSubscription, tier_of_pass};

/// The rows by sort key. Their times are Stripe's, so that the same events always give the same rows.
#[must_use]
pub fn rows(user: &UserId, entitlement: &Entitlement) -> BTreeMap<String, Item> {
    let provider = entitlement.provider.unwrap_or(Provider::Local);
    let subscriptions = entitlement
        .subscriptions
        .values()
        .map(|held| subscription(user, held, provider))
        .map(|row| (row.sort(), row.to_item()));
    let passes = entitlement
        .passes
        .iter()
        .filter_map(|(kind, pass)| pass_row(user, *kind, pass))
        .map(|row| (row.sort(), row.to_item()));
    subscriptions.chain(passes).collect()
}

fn subscription(user: &UserId, held: &HeldSubscription, provider: Provider) -> SubscriptionRow {
    let HeldSubscription { latest, tier, updated } = held;
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

fn pass_row(user: &UserId, kind: Purchase, pass: &FounderPass) -> Option<PassRow> {
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
