//! Profiles of `serenya` that DynamoDB's TTL has deleted with their session.

use dues_events::{Item, UserId};
use dues_projections::serenya::profile::ttl_of;
use dues_store::{Engine, StoreError};

use crate::entitlements::groups::Directory;
use crate::projector::Projector;
use crate::read_models::ReadModel;
use crate::runtime::lanes::Outcome;
use crate::serenya;

impl<E: Engine, D: Directory> Projector<E, D> {
    /// Records the end of the session, which restores the profile without it.
    pub(crate) async fn session_over(&self, user: &UserId, old: &Item) -> Result<Outcome, StoreError> {
        match ttl_of(old).filter(|_| self.read_models.has(ReadModel::Serenya)) {
            Some(ttl) => serenya::session_over(&self.store, user, ttl).await,
            None => Ok(Outcome::Skipped),
        }
    }
}
