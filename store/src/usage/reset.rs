//! The daily reset: what is to be forgotten on a day, and how far that has come.

use chrono::NaiveDate;
use dues_events::attr::{PK, SK};
use dues_events::record::ReadError;
use dues_events::usage::RESET_DATE;
use dues_events::{Item, Value};

use crate::billing::Store;
use crate::engine::{Condition, Cursor, Engine, Key, Page, Query, StoreError, Written};
use crate::table::JOURNAL;
use crate::table::usage::{BY_RESET_DATE, USER_USAGE};

/// Where the last day is noted.
const NOTE: &str = "usage-reset";
/// The sort key of the note.
const DONE: &str = "DONE";
/// Its attribute.
const DAY: &str = "day";

impl<E: Engine> Store<E> {
    /// A page of the usage that is to be forgotten on a day.
    ///
    /// # Errors
    /// What the engine could not do.
    pub async fn usage_to_reset(&self, day: NaiveDate, start: Option<Cursor>, limit: u32) -> Result<Page, StoreError> {
        let query = Query::index(&USER_USAGE, BY_RESET_DATE.name, day.to_string());
        self.engine.query(Query { start, limit: Some(limit), ..query }).await
    }

    /// Forgets a row; `false` when it was forgotten before.
    ///
    /// # Errors
    /// What the engine could not do, or a row without a key.
    pub async fn forget_usage(&self, row: &Item, day: NaiveDate) -> Result<bool, StoreError> {
        let due = Condition::Equals(RESET_DATE, Value::text(day.to_string()));
        Ok(self.engine.delete(&USER_USAGE, Key::of(&USER_USAGE, row)?, due).await? == Written::Done)
    }

    /// The last day whose usage was forgotten to the end.
    ///
    /// # Errors
    /// What the engine could not do, or a note that cannot be read.
    pub async fn usage_reset_through(&self) -> Result<Option<NaiveDate>, StoreError> {
        let Some(note) = self.engine.get(&JOURNAL, note_key()).await? else { return Ok(None) };
        let day = note.text(DAY).and_then(|day| day.parse().ok());
        let unreadable =
            || ReadError { attribute: DAY.to_owned(), key: format!("{NOTE}/{DONE}"), problem: "is missing or not a day".to_owned() };
        Ok(Some(day.ok_or_else(unreadable)?))
    }

    /// Notes the last day whose usage was forgotten; an earlier one than is noted changes nothing.
    ///
    /// # Errors
    /// What the engine could not do.
    pub async fn note_usage_reset(&self, day: NaiveDate) -> Result<(), StoreError> {
        let mut item = Item::new();
        item.set_text(PK, NOTE);
        item.set_text(SK, DONE);
        item.set_text(DAY, day.to_string());
        let later = Condition::Any(vec![Condition::NoItem, Condition::Less(DAY, Value::text(day.to_string()))]);
        self.engine.put(&JOURNAL, item, later).await.map(drop)
    }
}

fn note_key() -> Key {
    Key { partition: NOTE.to_owned(), sort: Some(DONE.to_owned()) }
}
