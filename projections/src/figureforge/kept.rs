//! What every entity has in common: somebody saves it, somebody deletes it softly, somebody brings it back.

use serde::{Deserialize, Serialize};

use super::words::Second;
use crate::model::{Latest, Told};

/// What is said of an entity as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said<T> {
    /// This is what it is like.
    Saved(T),
    /// It is deleted, softly: the row stays and says when.
    Deleted,
    /// It is not deleted any more.
    Restored,
}

/// An entity. To save it does not bring it back: that takes a [`Said::Restored`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept<T> {
    /// What it is like.
    saved: Option<Latest<T>>,
    /// Since when there has been one: the earliest second that anybody told.
    since: Option<i64>,
    /// Whether it is deleted.
    gone: Option<Latest<bool>>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { saved: None, since: None, gone: None }
    }
}

impl<T> Kept<T> {
    /// Saves it; it was made at that second, or else when this was told.
    pub(super) fn save<F>(&mut self, told: &Told<F>, made: Option<Second>, value: T) {
        let made = made.map_or_else(|| told.at.timestamp(), i64::from);
        self.since = Some(self.since.map_or(made, |since| since.min(made)));
        Latest::put(&mut self.saved, told, value);
    }

    /// Deletes it, or brings it back.
    pub(super) fn set_gone<F>(&mut self, told: &Told<F>, gone: bool) {
        Latest::put(&mut self.gone, told, gone);
    }

    /// What it is like, and when it was made; `None` while nobody has saved it.
    pub(super) fn value(&self) -> Option<(&T, i64)> {
        Some((&self.saved.as_ref()?.value, self.since?))
    }

    /// Since when it is deleted.
    pub(super) fn deleted_at(&self) -> Option<i64> {
        self.gone.as_ref().filter(|gone| gone.value).map(|gone| gone.at.timestamp())
    }

    /// Who said last whether it is deleted.
    pub(super) fn gone(&self) -> Option<&Latest<bool>> {
        self.gone.as_ref()
    }
}
