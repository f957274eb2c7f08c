//! The groups effect: changes made to a user's groups, recorded in `gg_core` so that they are not repeated
//! and can be explained.

use crate::attributes::*;
use crate::entitlements::profile::user_of;
use crate::entitlements::tier::PlanTier;
use crate::ids::UserId;
use crate::item::{Item, Value};
use crate::row::{ReadError, Reader, keyed, set_texts};
use crate::time::GoTime;

/// The sort key of a user's groups effect.
pub const GROUPS_EFFECT_SORT: &str = "EFFECT#GROUPS";
/// The `type` of a groups effect.
pub const GROUPS_EFFECT_TYPE: &str = "GroupsEffect";

/// The last change to a user's groups, and the runs in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupsEffect {
    /// The user.
    pub user: UserId,
    /// The tier that the groups were last set to; `None` until a run has completed.
    pub tier: Option<PlanTier>,
    /// The group of that tier; `free` has none.
    pub group: Option<String>,
    /// Groups added by that run.
    pub added: Vec<String>,
    /// Groups removed by that run.
    pub removed: Vec<String>,
    /// Number of API calls of that run.
    pub calls: u64,
    /// When that run completed.
    pub applied_at: Option<GoTime>,
    /// Deliveries that started a run and have not recorded its result. While there are any, the groups are
    /// unknown.
    pub under_way: Vec<String>,
    /// The code under which it is parked.
    pub parked: Option<String>,
    /// Number of writes of this row: the condition of its compare-and-set.
    pub version: u64,
}

impl GroupsEffect {
    /// An effect that has never run.
    #[must_use]
    pub fn new(user: UserId) -> Self {
        Self {
            user,
            tier: None,
            group: None,
            added: Vec::new(),
            removed: Vec::new(),
            calls: 0,
            applied_at: None,
            under_way: Vec::new(),
            parked: None,
            version: 0,
        }
    }

    /// Whether the groups are known to match that tier.
    #[must_use]
    pub fn is_applied_for(&self, tier: PlanTier) -> bool {
        self.tier == Some(tier) && self.under_way.is_empty() && self.parked.is_none()
    }

    /// Encodes the row.
    #[must_use]
    pub fn to_item(&self) -> Item {
        let mut item = keyed(&self.user, GROUPS_EFFECT_SORT, GROUPS_EFFECT_TYPE);
        item.set(CALLS, Value::number(self.calls));
        item.set(VERSION, Value::number(self.version));
        for (name, list) in [(ADDED, &self.added), (REMOVED, &self.removed), (UNDER_WAY, &self.under_way)] {
            if !list.is_empty() {
                item.set(name, Value::L(list.iter().map(Value::text).collect()));
            }
        }
        let texts = [
            (TIER, self.tier.map(|tier| tier.as_str().to_owned())),
            (GROUP, self.group.clone()),
            (APPLIED_AT, self.applied_at.as_ref().map(GoTime::text)),
            (PARKED, self.parked.clone()),
        ];
        set_texts(&mut item, texts);
        item
    }

    /// Decodes a row.
    ///
    /// # Errors
    /// [`ReadError`] names the attribute and the row.
    pub fn from_item(item: Item) -> Result<Self, ReadError> {
        let mut row = Reader::new(item, [PK, SK]);
        Ok(Self {
            user: row.required(PK, "a user's partition", user_of)?,
            tier: row.parsed(TIER, "a tier", PlanTier::read)?,
            group: row.some_text(GROUP)?,
            added: row.texts(ADDED)?,
            removed: row.texts(REMOVED)?,
            calls: row.count(CALLS)?,
            applied_at: row.time(APPLIED_AT)?,
            under_way: row.texts(UNDER_WAY)?,
            parked: row.some_text(PARKED)?,
            version: row.count(VERSION)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> GroupsEffect {
        GroupsEffect {
            tier: Some(PlanTier::Sage),
            group: Some("dues-sage".into()),
            added: vec!["dues-sage".into()],
            removed: vec!["dues-initiate".into(), "dues-journeyman".into()],
            calls: 4,
            applied_at: GoTime::read("2026-03-01T00:00:00Z").unwrap(),
            under_way: vec!["100".into()],
            parked: Some("no_such_group".into()),
            version: 7,
            ..GroupsEffect::new("u-1".into())
        }
    }

    #[test]
    fn a_row_reads_as_it_was_written() {
        for effect in [whole(), GroupsEffect::new("u-1".into())] {
            assert_eq!(GroupsEffect::from_item(effect.to_item()), Ok(effect));
        }
        assert_eq!(
            whole().to_item().to_json().to_string(),
            r#"{"PK":"USER#u-1","SK":"EFFECT#GROUPS","added":["dues-sage"],"appliedAt":"2026-03-01T00:00:00Z","calls":4,"group":"dues-sage","parked":"no_such_group","removed":["dues-initiate","dues-journeyman"],"tier":"SAGE","type":"GroupsEffect","underWay":["100"],"version":7}"#
        );
    }

    #[test]
    fn only_a_completed_sync_counts_for_a_tier() {
        let ended = GroupsEffect { under_way: Vec::new(), parked: None, ..whole() };
        assert!(ended.is_applied_for(PlanTier::Sage) && !ended.is_applied_for(PlanTier::Free));
        assert!(
            !GroupsEffect { parked: None, ..whole() }.is_applied_for(PlanTier::Sage),
            "a sync is under way"
        );
        assert!(
            !GroupsEffect { under_way: Vec::new(), ..whole() }.is_applied_for(PlanTier::Sage),
            "it is parked"
        );
        assert!(!GroupsEffect::new("u-1".into()).is_applied_for(PlanTier::Free), "nothing is synced yet");
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let mut item = whole().to_item();
        item.set_text(TIER, "sage");
        let error = GroupsEffect::from_item(item).unwrap_err();
        assert_eq!(error.to_string(), r#"tier of row USER#u-1/EFFECT#GROUPS: "sage" is not a tier"#);
    }
}
