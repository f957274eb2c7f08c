//! Where a member's tier became another, and the groups with it: the same fold that live traffic books, at each moment of the story that could have
//! turned it.

use dues_events::record::{History, Provider};
use dues_events::stripe::StripeEvent;
use dues_events::{PlanTier, Time};
use dues_projections::dues::{TierMap, meanings};
use dues_projections::entitlement::fold;
use dues_projections::standing::Standing;
use dues_projections::story::{Beat, Story};

use crate::groups::GroupNames;

/// A change of tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// When: that of the beat of the story that brought it.
    pub at: Time,
    /// The tier before.
    pub from: PlanTier,
    /// The tier after.
    pub to: PlanTier,
    /// The group that stands for the tier, for members who sign in at Cognito.
    pub group: Option<String>,
}

impl Turn {
    /// In a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let group = self.group.as_ref().map_or(String::new(), |group| format!(", and the group is {group}"));
        format!("The tier went from {} to {}{group}.", self.from, self.to)
    }
}

/// The changes of tier that came with a beat of the story. Of several beats at one moment the first that could have brought them has them.
pub(super) fn of_beat<'a>(turns: &'a [Turn], story: &Story, beat: &Beat) -> impl Iterator<Item = &'a Turn> {
    let first = story.beats.iter().find(|other| other.at == beat.at && could_turn(other));
    let (is_it, at) = (first == Some(beat), beat.at);
    turns.iter().filter(move |turn| is_it && turn.at == at)
}

/// A record that stays in its status turns nothing.
fn could_turn(beat: &Beat) -> bool {
    beat.moved.is_some() || beat.record.is_none()
}

/// Where a user stood at a time, by the history of the billing records (by record, each in order) and Stripe's events.
pub(super) fn standing(history: &[History], facts: &[StripeEvent], tiers: &TierMap, at: Time) -> Standing {
    let facts: Vec<_> = facts.iter().filter(|event| event.created <= at).cloned().collect();
    let entitlement = fold(&facts, at);
    let mut standing = Standing {
        subscribed: entitlement.tier,
        passes: entitlement.pass_tier(),
        provider: entitlement.provider,
        next_grant: None,
        notes: Vec::new(),
    };
    for meaning in meanings(history, tiers, Some(at)) {
        standing.remember(meaning.note);
    }
    standing
}

/// The changes of tier in a story, in order.
pub(super) fn turns(story: &Story, history: &[History], facts: &[StripeEvent], tiers: &TierMap) -> Vec<Turn> {
    let groups = GroupNames::default();
    let mut turns = Vec::new();
    let mut from = PlanTier::Free;
    let mut moments: Vec<Time> = story.beats.iter().filter(|beat| could_turn(beat)).map(|beat| beat.at).collect();
    moments.dedup();
    for at in moments {
        let shown = standing(history, facts, tiers, at).shown();
        if shown.tier != from {
            let group = (shown.provider == Some(Provider::Cognito)).then(|| groups.of_tier(shown.tier.as_str())).flatten();
            turns.push(Turn { at, from, to: shown.tier, group: group.map(str::to_owned) });
            from = shown.tier;
        }
    }
    turns
}
