//! Profiles of `serenya` that DynamoDB's TTL has taken away with their session.

use dues_events::{Item, UserId};
use dues_projections::serenya::profile::ttl_of;
use dues_store::{Engine, StoreError};

use super::Projector;
use crate::batch::Fate;
use crate::groups::Directory;
use crate::read_models::{ReadModel, serenya};

impl<E: Engine, D: Directory> Projector<E, D> {
    /// Tells that the session is over, so that the profile comes back without it.
    pub(super) async fn session_over(&self, user: &UserId, old: &Item) -> Result<Fate, StoreError> {
        match ttl_of(old).filter(|_| self.read_models.has(ReadModel::Serenya)) {
            Some(ttl) => serenya::session_over(&self.store, user, ttl).await,
            None => Ok(Fate::Skipped),
        }
    }
}
