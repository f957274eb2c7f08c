//! Change stream of billing records: settlements and reversals become entitlements.

use dues_events::{Item, Record};
use dues_store::{Engine, StoreError};

use crate::entitlements::groups::Directory;
use crate::entitlements::{DuesOutcome, apply_dues};
use crate::projector::Projector;
use crate::runtime::changes::Change;
use crate::runtime::lanes::Outcome;

/// Park code: the paid tier is not in the map.
const UNKNOWN_TIER: &str = "unknown_tier";

impl<E: Engine, D: Directory> Projector<E, D> {
    /// Applies a change of a billing record to its user's tier and credits. A deleted record was moved to
    /// another date and is handled there.
    pub(crate) async fn dues(&self, change: &Change) -> Result<Outcome, StoreError> {
        let read = |item: &Option<Item>| item.clone().map(Record::from_item).transpose();
        let Some(new) = read(&change.new)? else { return Ok(Outcome::Skipped) };
        let old = read(&change.old)?;
        let read_models = self.read_models.billing(&self.store, &new).await?;
        Ok(match apply_dues(&self.store, &self.tiers, old.as_ref(), &new).await? {
            DuesOutcome::Applied => Outcome::Applied,
            DuesOutcome::Duplicate => Outcome::Duplicate,
            DuesOutcome::NoChange => read_models,
            DuesOutcome::UnknownTier(reason) => {
                self.park_change(change, UNKNOWN_TIER, reason, &new.user_id).await
            }
        })
    }
}
