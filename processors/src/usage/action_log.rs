//! Counted actions, from the change stream of the counts to the log.

use dues_events::usage::LoggedAction;
use dues_store::{Engine, StoreError};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::entitlements::groups::Directory;
use crate::projector::Projector;
use crate::read_models::ReadModel;
use crate::runtime::changes::Change;
use crate::runtime::lanes::Outcome;

/// How many types are cached; beyond that, each action lists its type again.
const REMEMBERED: usize = 1000;

/// Cache of the action types that are listed already, so that not every action lists its type again. Clones
/// share it.
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
    /// Logs the action that a change has counted, with the count before and after it. The deletion of a
    /// count logs nothing.
    pub(crate) async fn usage(&self, change: &Change) -> Result<Outcome, StoreError> {
        let Some(new) = change.new.as_ref().filter(|_| self.read_models.has(ReadModel::Usage)) else {
            return Ok(Outcome::Skipped);
        };
        let Some(logged) = LoggedAction::of(change.old.as_ref(), new)? else { return Ok(Outcome::Skipped) };
        let expires_at = self.read_models.usage().expires_at(logged.timestamp);
        let kind = &logged.count.action.kind;
        // The type first: otherwise a crash could leave an action that no query by time finds.
        if !self.action_types.has(kind) {
            self.store.note_action_type(kind).await?;
            self.action_types.add(kind);
        }
        let new = self.store.log_action(&LoggedAction { expires_at, ..logged.clone() }).await?;
        Ok(if new { Outcome::Applied } else { Outcome::Duplicate })
    }
}
