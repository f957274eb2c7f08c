//! The log of actions.

use super::{Count, EXPIRES_AT, FEATURE_DATE_KEY, LAST_ACTION, TIMESTAMP, USAGE_COUNT, Used, time};
use crate::attr::USER_ID;
use crate::ids::UserId;
use crate::item::{Item, Value};
use crate::row::{ReadError, Reader};
use crate::time::{GoTime, Time};

/// A row of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// Whose.
    pub user: UserId,
    /// Its place: when it happened, or a few nanoseconds later if another action of the user happened at that very instant.
    pub timestamp: Time,
    /// What was counted.
    pub count: Count,
    /// When DynamoDB may remove it, in seconds of the Unix epoch; `None` for never.
    pub expires_at: Option<i64>,
}

impl Logged {
    /// What a change of a day's usage says; `None` when it counts nothing.
    ///
    /// # Errors
    /// [`ReadError`] names the attribute of the row that cannot be read.
    pub fn of(old: Option<&Item>, new: &Item) -> Result<Option<Self>, ReadError> {
        if old.and_then(|old| old.get(LAST_ACTION)) == new.get(LAST_ACTION) {
            return Ok(None);
        }
        let before = match old {
            None => 0,
            Some(old) => Reader::new(old.clone(), [USER_ID, FEATURE_DATE_KEY]).count(USAGE_COUNT)?,
        };
        let used = Used::from_item(new.clone())?;
        let count = Count { feature: used.feature, before, after: used.count, limit: used.limit, action: used.last };
        Ok(Some(Self { user: used.user, timestamp: count.action.at, count, expires_at: None }))
    }

    /// The row.
    #[must_use]
    pub fn to_item(&self) -> Item {
        let mut item = self.count.attributes();
        item.set_text(USER_ID, self.user.as_str());
        item.set_text(TIMESTAMP, GoTime::nine_digits(self.timestamp).text());
        if let Some(expires_at) = self.expires_at {
            item.set(EXPIRES_AT, Value::signed(expires_at));
        }
        item
    }

    /// Reads a row.
    ///
    /// # Errors
    /// [`ReadError`] names the attribute.
    pub fn from_item(item: Item) -> Result<Self, ReadError> {
        let mut row = Reader::new(item, [USER_ID, TIMESTAMP]);
        Ok(Self {
            user: row.text(USER_ID)?.into(),
            timestamp: time(&mut row, TIMESTAMP)?,
            expires_at: row.number(EXPIRES_AT)?,
            count: Count::read(&mut row)?,
        })
    }
}
