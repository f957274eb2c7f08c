//! When a member's tier changed, and the groups with it: the fold of live traffic, at each timeline entry
//! that can change the tier.

use dues_events::billing::record::{History, Provider};
use dues_events::entitlements::stripe::StripeEvent;
use dues_events::{PlanTier, Time};
use dues_projections::entitlements::dues::{TierMap, entitlement_changes};
use dues_projections::entitlements::effective_tier::EffectiveTier;
use dues_projections::entitlements::stripe::fold;
use dues_projections::timeline::{Timeline, TimelineEntry};

use crate::entitlements::groups::GroupNames;

/// A change of tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierChange {
    /// The time of the timeline entry that caused it.
    pub at: Time,
    /// The tier before.
    pub from: PlanTier,
    /// The tier after.
    pub to: PlanTier,
    /// The group of the new tier, for members who sign in through Cognito.
    pub group: Option<String>,
}

impl TierChange {
    /// The change as a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let group = self.group.as_ref().map_or(String::new(), |group| format!(", and the group is {group}"));
        format!("The tier went from {} to {}{group}.", self.from, self.to)
    }
}

/// The tier changes that a timeline entry caused. Of several entries at one time, the first that can change
/// the tier gets them.
pub(super) fn of_entry<'a>(
    changes: &'a [TierChange],
    story: &Timeline,
    entry: &TimelineEntry,
) -> impl Iterator<Item = &'a TierChange> {
    let first = story.entries.iter().find(|other| other.at == entry.at && can_change_tier(other));
    let (is_it, at) = (first == Some(entry), entry.at);
    changes.iter().filter(move |change| is_it && change.at == at)
}

/// Whether an entry can change the tier: a record that keeps its status cannot.
fn can_change_tier(entry: &TimelineEntry) -> bool {
    entry.moved.is_some() || entry.record.is_none()
}

/// A user's effective tier at a time, from billing history (grouped by record, each in order) and Stripe
/// events.
pub(super) fn effective_tier(
    history: &[History],
    facts: &[StripeEvent],
    tiers: &TierMap,
    at: Time,
) -> EffectiveTier {
    let facts: Vec<_> = facts.iter().filter(|event| event.created <= at).cloned().collect();
    let entitlement = fold(&facts, at);
    let mut effective = EffectiveTier {
        subscribed: entitlement.tier,
        passes: entitlement.pass_tier(),
        provider: entitlement.provider,
        next_grant: None,
        paid_periods: Vec::new(),
    };
    for change in entitlement_changes(history, tiers, Some(at)) {
        effective.record(change.paid_period);
    }
    effective
}

/// The tier changes of a timeline, in order.
pub(super) fn tier_changes(
    story: &Timeline,
    history: &[History],
    facts: &[StripeEvent],
    tiers: &TierMap,
) -> Vec<TierChange> {
    let groups = GroupNames::default();
    let mut changes = Vec::new();
    let mut from = PlanTier::Free;
    let mut moments: Vec<Time> =
        story.entries.iter().filter(|entry| can_change_tier(entry)).map(|entry| entry.at).collect();
    moments.dedup();
    for at in moments {
        let shown = effective_tier(history, facts, tiers, at).view();
        if shown.tier != from {
            let group = (shown.provider == Some(Provider::Cognito))
                .then(|| groups.of_tier(shown.tier.as_str()))
                .flatten();
            changes.push(TierChange { at, from, to: shown.tier, group: group.map(str::to_owned) });
            from = shown.tier;
        }
    }
    changes
}
