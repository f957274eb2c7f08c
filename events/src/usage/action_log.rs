//! The action log.

use super::{
    CountedAction, DailyUsage, EXPIRES_AT, FEATURE_DATE_KEY, LAST_ACTION, TIMESTAMP, USAGE_COUNT, time,
};
use crate::attributes::USER_ID;
use crate::ids::UserId;
use crate::item::{Item, Value};
use crate::row::{ReadError, Reader};
use crate::time::{GoTime, Time};

/// A row of the action log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedAction {
    /// The user.
    pub user: UserId,
    /// Sort key: the time of the action, or a few nanoseconds later if another action of the user has the
    /// same time.
    pub timestamp: Time,
    /// The action and its count.
    pub count: CountedAction,
    /// When DynamoDB may remove the row, in seconds of the Unix epoch; `None` for never.
    pub expires_at: Option<i64>,
}

impl LoggedAction {
    /// The log row for a change of a daily-usage row; `None` when the change counts no action.
    ///
    /// # Errors
    /// [`ReadError`] names the attribute that cannot be decoded.
    pub fn of(old: Option<&Item>, new: &Item) -> Result<Option<Self>, ReadError> {
        if old.and_then(|old| old.get(LAST_ACTION)) == new.get(LAST_ACTION) {
            return Ok(None);
        }
        let before = match old {
            None => 0,
            Some(old) => Reader::new(old.clone(), [USER_ID, FEATURE_DATE_KEY]).count(USAGE_COUNT)?,
        };
        let used = DailyUsage::from_item(new.clone())?;
        let count = CountedAction {
            feature: used.feature,
            before,
            after: used.count,
            limit: used.limit,
            action: used.last,
        };
        Ok(Some(Self { user: used.user, timestamp: count.action.at, count, expires_at: None }))
    }

    /// Encodes the row.
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

    /// Decodes a row.
    ///
    /// # Errors
    /// [`ReadError`] names the attribute.
    pub fn from_item(item: Item) -> Result<Self, ReadError> {
        let mut row = Reader::new(item, [USER_ID, TIMESTAMP]);
        Ok(Self {
            user: row.text(USER_ID)?.into(),
            timestamp: time(&mut row, TIMESTAMP)?,
            expires_at: row.number(EXPIRES_AT)?,
            count: CountedAction::read(&mut row)?,
        })
    }
}
