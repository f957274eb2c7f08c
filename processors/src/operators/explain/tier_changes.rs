//! When a member's tier changed, and the groups with it: the access of live traffic, at each timeline entry
//! and at each moment in between that the access names.

use chrono::TimeDelta;
use dues_events::billing::record::{History, Provider};
use dues_events::entitlements::stripe::StripeEvent;
use dues_events::{PlanTier, Time};
use dues_projections::entitlements::access::{Access, Source, access};
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
    /// What came to its end, for a change without an event.
    pub cause: Option<String>,
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
    let of_time = || story.entries.iter().filter(|other| other.at == entry.at);
    let first = of_time().find(|other| may_change_the_tier(other)).or_else(|| of_time().next());
    let (is_it, at) = (first == Some(entry), entry.at);
    changes.iter().filter(move |change| is_it && change.at == at)
}

/// Whether an entry is likely to change the tier. A record that keeps its status seldom does: a cancellation
/// after the paid time, of a renewal that was awaited.
fn may_change_the_tier(entry: &TimelineEntry) -> bool {
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
    EffectiveTier::of_facts(&fold(&facts, at), &entitlement_changes(history, tiers, Some(at)))
}

/// The tier changes of a timeline up to a time, in order. A change without an event becomes an entry of the
/// timeline.
pub(super) fn tier_changes(
    story: &mut Timeline,
    history: &[History],
    facts: &[StripeEvent],
    tiers: &TierMap,
    until: Time,
) -> Vec<TierChange> {
    let groups = GroupNames::default();
    let mut changes = Vec::new();
    let mut shown = access(&EffectiveTier::new(), until);
    let mut moments: Vec<Time> = story.entries.iter().map(|entry| entry.at).collect();
    moments.dedup();
    let ends = moments.iter().skip(1).copied().map(Some).chain([None]);
    for (at, end) in moments.iter().copied().zip(ends) {
        let head = effective_tier(history, facts, tiers, at);
        let mut moment = Some(at);
        while let Some(now) = moment.filter(|now| *now <= until && end.is_none_or(|end| *now < end)) {
            let after = access(&head, now);
            moment = after.until.as_ref().map(|until| until.at());
            if after.tier != shown.tier {
                let group = (head.view(now).provider == Some(Provider::Cognito))
                    .then(|| groups.of_tier(after.tier.as_str()))
                    .flatten();
                changes.push(TierChange {
                    at: now,
                    from: shown.tier,
                    to: after.tier,
                    group: group.map(str::to_owned),
                    cause: (now > at).then(|| cause(&head, now, &shown)),
                });
            }
            shown = after;
        }
    }
    story.entries.extend(changes.iter().filter_map(ended));
    story.entries.sort_by_key(|entry| entry.at);
    changes
}

/// What was there until the moment before, and is over.
fn cause(head: &EffectiveTier, now: Time, shown: &Access) -> String {
    let before = access(head, now - TimeDelta::nanoseconds(1));
    let before = if before.tier == shown.tier { before } else { shown.clone() };
    match before.source {
        Source::Default | Source::Profile => "a period that is paid for has begun".to_owned(),
        Source::FounderPass | Source::Subscription | Source::Dues => {
            format!("this ended: {}", before.why)
        }
    }
}

/// The entry of a change that no event caused.
fn ended(change: &TierChange) -> Option<TimelineEntry> {
    let cause = change.cause.as_ref()?;
    Some(TimelineEntry {
        at: change.at,
        event: None,
        source: "entitlement clock".to_owned(),
        actor: None,
        record: None,
        moved: None,
        sentence: format!("Time passed, and {cause}."),
        followed: Vec::new(),
    })
}
