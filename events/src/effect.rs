//! What was done outside of the tables because of them, as rows of `gg_core`: so that it is not done again, and can be told.

use crate::attr::*;
use crate::ids::UserId;
use crate::item::{Item, Value};
use crate::profile::user_of;
use crate::row::{ReadError, Reader, keyed, set_texts};
use crate::tier::PlanTier;
use crate::time::GoTime;

/// The sort key of what was done to a user's groups.
pub const GROUPS_EFFECT_SORT: &str = "EFFECT#GROUPS";
/// The `type` of such a row.
pub const GROUPS_EFFECT_TYPE: &str = "GroupsEffect";

/// What was done to a user's groups, and who is at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupsEffect {
    /// Whose.
    pub user: UserId,
    /// The tier that the groups were made equal to; `None` while that has never come to an end.
    pub tier: Option<PlanTier>,
    /// The group that stands for that tier; `free` has none.
    pub group: Option<String>,
    /// Groups that the user was put into then.
    pub added: Vec<String>,
    /// Groups that the user was taken out of then.
    pub removed: Vec<String>,
    /// How many calls that took.
    pub calls: u64,
    /// When that was.
    pub applied_at: Option<GoTime>,
    /// The deliveries that have begun it and have not told how it ended. While there are some nobody can say what the groups are.
    pub under_way: Vec<String>,
    /// The code under which it is parked.
    pub parked: Option<String>,
    /// Counts the writes of this row: whoever writes it has seen the latest.
    pub version: u64,
}

impl GroupsEffect {
    /// Nothing was done yet.
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

    /// Whether the groups are known to be those of that tier.
    #[must_use]
    pub fn stands_for(&self, tier: PlanTier) -> bool {
        self.tier == Some(tier) && self.under_way.is_empty() && self.parked.is_none()
    }

    /// The row.
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

    /// Reads a row.
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
    fn only_what_came_to_its_end_stands_for_a_tier() {
        let ended = GroupsEffect { under_way: Vec::new(), parked: None, ..whole() };
        assert!(ended.stands_for(PlanTier::Sage) && !ended.stands_for(PlanTier::Free));
        assert!(!GroupsEffect { parked: None, ..whole() }.stands_for(PlanTier::Sage), "somebody is at it");
        assert!(!GroupsEffect { under_way: Vec::new(), ..whole() }.stands_for(PlanTier::Sage), "it is parked");
        assert!(!GroupsEffect::new("u-1".into()).stands_for(PlanTier::Free), "nobody has looked yet");
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let mut item = whole().to_item();
        item.set_text(TIER, "sage");
        let error = GroupsEffect::from_item(item).unwrap_err();
        assert_eq!(error.to_string(), r#"tier of row USER#u-1/EFFECT#GROUPS: "sage" is not a tier"#);
    }
}
