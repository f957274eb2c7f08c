//! Billing records that were paid, or whose payment went back.

use dues_events::Item;
use dues_store::{Engine, StoreError};

use super::Projector;
use crate::batch::Fate;
use crate::groups::Directory;

impl<E: Engine, D: Directory> Projector<E, D> {
    /// What follows from a change of a billing record. Nothing does yet.
    pub(super) async fn dues(&self, _old: Option<&Item>, _new: Option<&Item>) -> Result<Fate, StoreError> {
        Ok(Fate::Skipped)
    }
}
