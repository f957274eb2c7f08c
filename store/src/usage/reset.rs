//! The daily reset: which usage is due on a day, and up to which day it is done.

use chrono::NaiveDate;
use dues_events::attributes::{PK, SK};
use dues_events::billing::record::ReadError;
use dues_events::usage::RESET_DATE;
use dues_events::{Item, Value};

use crate::billing::Store;
use crate::engine::{Condition, Cursor, Engine, Key, Page, Query, StoreError, Written};
use crate::table::JOURNAL;
use crate::table::usage::{BY_RESET_DATE, USER_USAGE};

/// Partition of the progress row.
const NOTE: &str = "usage-reset";
/// Sort key of the progress row.
const DONE: &str = "DONE";
/// Attribute with the last completed day.
const DAY: &str = "day";

impl<E: Engine> Store<E> {
    /// A page of the usage that is due for reset on a day.
    pub async fn usage_to_reset(
        &self,
        day: NaiveDate,
        start: Option<Cursor>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let query = Query::index(&USER_USAGE, BY_RESET_DATE.name, day.to_string());
        self.engine.query(Query { start, limit: Some(limit), ..query }).await
    }

    /// Deletes a usage row; `false` if it was deleted before.
    pub async fn forget_usage(&self, row: &Item, day: NaiveDate) -> Result<bool, StoreError> {
        let due = Condition::Equals(RESET_DATE, Value::text(day.to_string()));
        Ok(self.engine.delete(&USER_USAGE, Key::of(&USER_USAGE, row)?, due).await? == Written::Done)
    }

    /// The last day that was reset completely.
    pub async fn usage_reset_through(&self) -> Result<Option<NaiveDate>, StoreError> {
        let Some(note) = self.engine.get(&JOURNAL, note_key()).await? else { return Ok(None) };
        let day = note.text(DAY).and_then(|day| day.parse().ok());
        let unreadable = || ReadError {
            attribute: DAY.to_owned(),
            key: format!("{NOTE}/{DONE}"),
            problem: "is missing or not a day".to_owned(),
        };
        Ok(Some(day.ok_or_else(unreadable)?))
    }

    /// Records the last day that was reset completely; never moves it backwards.
    pub async fn note_usage_reset(&self, day: NaiveDate) -> Result<(), StoreError> {
        let mut item = Item::new();
        item.set_text(PK, NOTE);
        item.set_text(SK, DONE);
        item.set_text(DAY, day.to_string());
        let later =
            Condition::Any(vec![Condition::NoItem, Condition::Less(DAY, Value::text(day.to_string()))]);
        self.engine.put(&JOURNAL, item, later).await.map(drop)
    }
}

fn note_key() -> Key {
    Key { partition: NOTE.to_owned(), sort: Some(DONE.to_owned()) }
}
