//! Billing records that were paid, or whose payment went back.

use dues_events::{Item, Record};
use dues_store::{Engine, StoreError};

use super::Projector;
use crate::batch::Fate;
use crate::changes::Change;
use crate::entitlements::{DuesTold, dues};
use crate::groups::Directory;

/// Why a change is parked that pays for a tier which is not in the map.
const UNKNOWN_TIER: &str = "unknown_tier";

impl<E: Engine, D: Directory> Projector<E, D> {
    /// Books what a change of a billing record means for its user's tier and credits. A record that is gone means nothing: it was moved to another
    /// date, and is told of there.
    pub(super) async fn dues(&self, change: &Change) -> Result<Fate, StoreError> {
        let read = |item: &Option<Item>| item.clone().map(Record::from_item).transpose();
        let Some(new) = read(&change.new)? else { return Ok(Fate::Skipped) };
        let old = read(&change.old)?;
        let listened = self.read_models.billing(&self.store, &new).await?;
        Ok(match dues(&self.store, &self.tiers, old.as_ref(), &new).await? {
            DuesTold::Applied => Fate::Applied,
            DuesTold::Duplicate => Fate::Duplicate,
            DuesTold::Nothing => listened,
            DuesTold::UnknownTier(reason) => self.park_change(change, UNKNOWN_TIER, reason, &new.user_id).await,
        })
    }
}
