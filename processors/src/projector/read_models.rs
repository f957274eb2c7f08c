//! What the read models are told: Stripe's events once it is known whose they are, and what becomes of billing records.

use dues_events::{Item, UserId};
use dues_store::entitlements::told_event;
use dues_store::{Engine, StoreError};

use super::Projector;
use crate::batch::Fate;
use crate::groups::Directory;

impl<E: Engine, D: Directory> Projector<E, D> {
    /// Tells the read models what Stripe has told of a user. None listens yet.
    pub(super) async fn stripe(&self, user: &UserId, told: &Item) -> Result<Fate, StoreError> {
        let event = told_event(told)?;
        tracing::debug!(%user, event = %event.id, "no read model listens");
        Ok(Fate::Skipped)
    }
}
