//! Actions that were counted, from the change stream of the counts to the log.

use dues_events::usage::Logged;
use dues_store::{Engine, StoreError};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::Projector;
use crate::batch::Fate;
use crate::changes::Change;
use crate::groups::Directory;
use crate::read_models::ReadModel;

/// How many types are remembered; beyond that, each action lists its type again.
const REMEMBERED: usize = 1000;

/// The types of actions that are known to be listed, so that not each action lists its type again. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct SeenTypes(Arc<Mutex<BTreeSet<String>>>);

impl SeenTypes {
    fn has(&self, kind: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(kind)
    }

    fn add(&self, kind: &str) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() < REMEMBERED {
            seen.insert(kind.to_owned());
        }
    }
}

impl<E: Engine, D: Directory> Projector<E, D> {
    /// Writes the action that a change has counted into the log, with the count before and after it. A count that was forgotten says nothing.
    pub(super) async fn usage(&self, change: &Change) -> Result<Fate, StoreError> {
        let Some(new) = change.new.as_ref().filter(|_| self.read_models.has(ReadModel::Usage)) else { return Ok(Fate::Skipped) };
        let Some(logged) = Logged::of(change.old.as_ref(), new)? else { return Ok(Fate::Skipped) };
        let expires_at = self.read_models.usage().expires_at(logged.timestamp);
        let kind = &logged.count.action.kind;
        // First the type, or a crash in between would leave an action that no span of time finds.
        if !self.action_types.has(kind) {
            self.store.note_action_type(kind).await?;
            self.action_types.add(kind);
        }
        let new = self.store.log_action(&Logged { expires_at, ..logged.clone() }).await?;
        Ok(if new { Fate::Applied } else { Fate::Duplicate })
    }
}
