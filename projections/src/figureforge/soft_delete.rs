//! The lifecycle that all entities share: save, soft delete, restore.

use serde::{Deserialize, Serialize};

use super::validation::EpochSecond;
use crate::model::{Latest, Recorded};

/// A fact about an entity as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle<T> {
    /// The entity was saved with this content.
    Saved(T),
    /// The entity was soft-deleted: the row stays, with the time of deletion.
    Deleted,
    /// The entity was restored.
    Restored,
}

/// An entity with soft delete. Saving does not restore it: that takes a [`Lifecycle::Restored`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SoftDelete<T> {
    /// The latest content.
    saved: Option<Latest<T>>,
    /// Creation time: the earliest second reported.
    since: Option<i64>,
    /// Whether it is deleted.
    gone: Option<Latest<bool>>,
}

impl<T> Default for SoftDelete<T> {
    fn default() -> Self {
        Self { saved: None, since: None, gone: None }
    }
}

impl<T> SoftDelete<T> {
    /// Saves the content. Creation time is `made`, or else the fact's time.
    pub(super) fn save<F>(&mut self, recorded: &Recorded<F>, made: Option<EpochSecond>, value: T) {
        let made = made.map_or_else(|| recorded.at.timestamp(), i64::from);
        self.since = Some(self.since.map_or(made, |since| since.min(made)));
        Latest::update(&mut self.saved, recorded, value);
    }

    /// Deletes or restores it.
    pub(super) fn set_gone<F>(&mut self, recorded: &Recorded<F>, gone: bool) {
        Latest::update(&mut self.gone, recorded, gone);
    }

    /// The content and the creation time; `None` before the first save.
    pub(super) fn value(&self) -> Option<(&T, i64)> {
        Some((&self.saved.as_ref()?.value, self.since?))
    }

    /// When it was deleted; `None` if it is not.
    pub(super) fn deleted_at(&self) -> Option<i64> {
        self.gone.as_ref().filter(|gone| gone.value).map(|gone| gone.at.timestamp())
    }

    /// The latest deletion or restoration.
    pub(super) fn gone(&self) -> Option<&Latest<bool>> {
        self.gone.as_ref()
    }
}
