//! A founder pass grants its tier's credits every month, for life.

use chrono::Months;
use dues_events::entitlements::credits::MovementKind;
use dues_events::entitlements::stripe::Purchase;
use dues_events::{GoTime, PlanTier, Time};
use std::collections::BTreeMap;

use super::{CreditGrant, FounderPass, tier_of_pass};

/// Upper bound of the loop: a hundred years, longer than a pass is held.
const MOST: u32 = 12 * 100;

/// Adds the credits of every month that has begun, counted from the day of purchase. Of several passes only
/// the highest grants credits, from its purchase on. Returns when the next grant is due.
pub(super) fn grants(
    passes: &BTreeMap<Purchase, FounderPass>,
    now: Time,
    grants: &mut BTreeMap<String, CreditGrant>,
) -> Option<Time> {
    let mut next: Option<Time> = None;
    for (kind, pass) in passes {
        let tier = tier_of_pass(*kind).unwrap_or_default();
        for month in (0..MOST).map_while(|n| pass.purchased.checked_add_months(Months::new(n))) {
            if is_outranked(passes, tier, month) {
                break;
            }
            if month > now {
                next = Some(next.map_or(month, |next| next.min(month)));
                break;
            }
            let credits = u64::from(tier.monthly_credits());
            let grant = CreditGrant {
                kind: MovementKind::Grant,
                granted: credits,
                stands: credits,
                at: month,
                source: pass.source.clone(),
                payment: Some(pass.payment.clone()),
                taken_back_by: None,
            };
            grants.insert(format!("grant:{}:{}", pass.payment, GoTime::trimmed(month).text()), grant);
        }
    }
    next
}

/// Whether a higher pass was bought by then.
fn is_outranked(passes: &BTreeMap<Purchase, FounderPass>, tier: PlanTier, at: Time) -> bool {
    passes.iter().any(|(kind, pass)| tier_of_pass(*kind).unwrap_or_default() > tier && pass.purchased <= at)
}
