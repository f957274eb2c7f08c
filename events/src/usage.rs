//! Usage of features (seed 002): an action that was counted, how often a feature was used on a day, and the log of actions, attribute by attribute.

mod details;
mod logged;

use chrono::{Days, NaiveDate};

use crate::attr::{SUBSCRIPTION_ID, USER_ID};
use crate::ids::{EventId, UserId};
use crate::item::{Item, Value};
use crate::row::{ReadError, Reader};
use crate::time::{GoTime, Time};

pub use details::{DetailsError, details, kept};
pub use logged::Logged;

/// Usage: sort key, `{feature}_{YYYY-MM-DD}`.
pub const FEATURE_DATE_KEY: &str = "feature_date_key";
/// Usage: the feature.
pub const FEATURE_NAME: &str = "feature_name";
/// Usage: how often.
pub const USAGE_COUNT: &str = "usage_count";
/// Usage: the day on which it is forgotten.
pub const RESET_DATE: &str = "reset_date";
/// Usage: how often is allowed; missing when there is no limit.
pub const LIMIT_VALUE: &str = "limit_value";
/// When the row was made.
pub const CREATED_AT: &str = "created_at";
/// When the row last changed.
pub const UPDATED_AT: &str = "updated_at";
/// Usage: the action that was counted last. The change stream tells it to the log.
pub const LAST_ACTION: &str = "last_action";
/// Log: sort key, when it happened, with nine digits so that texts sort as times do.
pub const TIMESTAMP: &str = "timestamp";
/// Log: what was done.
pub const ACTION_TYPE: &str = "action_type";
/// Log: when it expires, in seconds of the Unix epoch. DynamoDB removes rows by it.
pub const EXPIRES_AT: &str = "expires_at";
/// Subscriptions and actions: the plan.
pub const PLAN_ID: &str = "plan_id";
/// Subscriptions: how it stands.
pub const STATUS: &str = "status";

const ACTION_ID: &str = "action_id";
const ACTION_DETAILS: &str = "action_details";
const OCCURRED_AT: &str = "occurred_at";
const FEATURE: &str = "feature";
const USAGE_BEFORE: &str = "usage_before";
const USAGE_AFTER: &str = "usage_after";

/// The sort key of a day's usage of a feature.
#[must_use]
pub fn feature_date_key(feature: &str, day: NaiveDate) -> String {
    format!("{feature}_{day}")
}

/// The day on which a day's usage is forgotten: the next one.
#[must_use]
pub fn reset_date(day: NaiveDate) -> NaiveDate {
    day.checked_add_days(Days::new(1)).unwrap_or(day)
}

/// The moment at which what was used at that time is forgotten: the next midnight, UTC.
#[must_use]
pub fn reset_at(time: Time) -> Time {
    reset_date(time.date_naive()).and_time(chrono::NaiveTime::MIN).and_utc()
}

/// Something that a user did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// Its identity: the caller's key.
    pub id: EventId,
    /// What was done, such as `simulation_run`.
    pub kind: String,
    /// Whatever the application wants to remember of it.
    pub details: Item,
    /// When.
    pub at: Time,
    /// The plan that the user was on.
    pub plan: String,
}

impl Action {
    fn attributes(&self) -> Item {
        let mut item = Item::new();
        item.set_text(ACTION_ID, self.id.as_str());
        item.set_text(ACTION_TYPE, self.kind.as_str());
        item.set(ACTION_DETAILS, Value::M(self.details.clone()));
        item.set_text(OCCURRED_AT, GoTime::nine_digits(self.at).text());
        item.set_text(PLAN_ID, self.plan.as_str());
        item
    }

    fn read(row: &mut Reader) -> Result<Self, ReadError> {
        let details = match row.item.remove(ACTION_DETAILS) {
            None | Some(Value::Null) => Item::new(),
            Some(Value::M(details)) => details,
            Some(other) => return Err(row.error(ACTION_DETAILS, format!("is {}, not a map", other.kind()))),
        };
        Ok(Self {
            id: row.text(ACTION_ID)?.into(),
            kind: row.text(ACTION_TYPE)?,
            details,
            at: time(row, OCCURRED_AT)?,
            plan: row.text(PLAN_ID)?,
        })
    }
}

/// An action, and the count that it moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// The feature that was used.
    pub feature: String,
    /// How often it had been used that day.
    pub before: u64,
    /// How often with this one.
    pub after: u64,
    /// How often is allowed; `None` without a limit.
    pub limit: Option<u64>,
    /// What was done.
    pub action: Action,
}

impl Count {
    /// Its attributes, without the keys of any table.
    #[must_use]
    pub fn attributes(&self) -> Item {
        let mut item = self.action.attributes();
        item.set_text(FEATURE, self.feature.as_str());
        item.set(USAGE_BEFORE, Value::number(self.before));
        item.set(USAGE_AFTER, Value::number(self.after));
        set_limit(&mut item, self.limit);
        item
    }

    /// Reads its attributes from a row whose keys have these names.
    ///
    /// # Errors
    /// [`ReadError`] names the attribute.
    pub fn from_item(item: Item, keys: [&str; 2]) -> Result<Self, ReadError> {
        Self::read(&mut Reader::new(item, keys))
    }

    fn read(row: &mut Reader) -> Result<Self, ReadError> {
        Ok(Self {
            feature: row.text(FEATURE)?,
            before: row.count(USAGE_BEFORE)?,
            after: row.count(USAGE_AFTER)?,
            limit: limit(row)?,
            action: Action::read(row)?,
        })
    }

    /// The day on which it counts.
    #[must_use]
    pub fn day(&self) -> NaiveDate {
        self.action.at.date_naive()
    }
}

/// A user's usage of a feature on a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Used {
    /// Whose.
    pub user: UserId,
    /// The feature.
    pub feature: String,
    /// The day, UTC.
    pub day: NaiveDate,
    /// How often.
    pub count: u64,
    /// How often was allowed when it was last used; `None` without a limit.
    pub limit: Option<u64>,
    /// The first time.
    pub created_at: Time,
    /// The last time.
    pub updated_at: Time,
    /// What was done then.
    pub last: Action,
}

impl Used {
    /// How it stands after an action, which is the first of its day if that is when it was `created_at`.
    #[must_use]
    pub fn after(user: &UserId, count: &Count, created_at: Time) -> Self {
        Self {
            user: user.clone(),
            feature: count.feature.clone(),
            day: count.day(),
            count: count.after,
            limit: count.limit,
            created_at,
            updated_at: count.action.at,
            last: count.action.clone(),
        }
    }

    /// The row.
    #[must_use]
    pub fn to_item(&self) -> Item {
        let mut item = Item::new();
        item.set_text(USER_ID, self.user.as_str());
        item.set_text(FEATURE_DATE_KEY, feature_date_key(&self.feature, self.day));
        item.set_text(FEATURE_NAME, self.feature.as_str());
        item.set(USAGE_COUNT, Value::number(self.count));
        item.set_text(RESET_DATE, reset_date(self.day).to_string());
        set_limit(&mut item, self.limit);
        item.set_text(CREATED_AT, GoTime::nine_digits(self.created_at).text());
        item.set_text(UPDATED_AT, GoTime::nine_digits(self.updated_at).text());
        item.set(LAST_ACTION, self.last_action());
        item
    }

    /// What the row says of the last action.
    #[must_use]
    pub fn last_action(&self) -> Value {
        Value::M(self.last.attributes())
    }

    /// Reads a row.
    ///
    /// # Errors
    /// [`ReadError`] names the attribute.
    pub fn from_item(item: Item) -> Result<Self, ReadError> {
        let mut row = Reader::new(item, [USER_ID, FEATURE_DATE_KEY]);
        let feature = row.text(FEATURE_NAME)?;
        let key = row.text(FEATURE_DATE_KEY)?;
        let day = key.strip_prefix(feature.as_str()).and_then(|rest| rest.strip_prefix('_')).and_then(|day| day.parse().ok());
        let last = match row.item.remove(LAST_ACTION) {
            Some(Value::M(last)) => Action::read(&mut Reader::new(last, [ACTION_ID, ACTION_TYPE]))?,
            Some(_) | None => return Err(row.error(LAST_ACTION, "is missing or not a map")),
        };
        Ok(Self {
            user: row.text(USER_ID)?.into(),
            day: day.ok_or_else(|| row.error(FEATURE_DATE_KEY, format!("{key:?} is not {feature}_ and a day")))?,
            feature,
            count: row.count(USAGE_COUNT)?,
            limit: limit(&mut row)?,
            created_at: time(&mut row, CREATED_AT)?,
            updated_at: time(&mut row, UPDATED_AT)?,
            last,
        })
    }
}

/// What a row of the subscriptions table says of the plan; `None` when a key or the plan is missing.
#[must_use]
pub fn subscribed(item: &Item) -> Option<(&str, &str, &str)> {
    Some((item.text(SUBSCRIPTION_ID)?, item.text(PLAN_ID)?, item.text(STATUS)?))
}

fn set_limit(item: &mut Item, limit: Option<u64>) {
    if let Some(limit) = limit {
        item.set(LIMIT_VALUE, Value::number(limit));
    }
}

fn limit(row: &mut Reader) -> Result<Option<u64>, ReadError> {
    let number = row.number(LIMIT_VALUE)?;
    number.map(|number| u64::try_from(number).map_err(|_| row.error(LIMIT_VALUE, format!("{number} is negative")))).transpose()
}

fn time(row: &mut Reader, name: &'static str) -> Result<Time, ReadError> {
    row.time(name)?.map(|time| time.at()).ok_or_else(|| row.error(name, "is missing"))
}

#[cfg(test)]
mod tests;
