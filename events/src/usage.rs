//! Feature usage: counted actions, daily usage per feature, and the action log.

mod action_log;
mod details;
#[cfg(test)]
mod tests;

use chrono::{Days, NaiveDate};

use crate::attributes::{SUBSCRIPTION_ID, USER_ID};
use crate::ids::{EventId, UserId};
use crate::item::{Item, Value};
use crate::row::{ReadError, Reader};
use crate::time::{GoTime, Time};

pub use action_log::LoggedAction;
pub use details::{DetailsError, details, storable_value};

/// Usage: sort key, `{feature}_{YYYY-MM-DD}`.
pub const FEATURE_DATE_KEY: &str = "feature_date_key";
/// Usage: name of the feature.
pub const FEATURE_NAME: &str = "feature_name";
/// Usage: number of uses that day.
pub const USAGE_COUNT: &str = "usage_count";
/// Usage: the day on which the count resets.
pub const RESET_DATE: &str = "reset_date";
/// Usage: the daily limit; missing when there is none.
pub const LIMIT_VALUE: &str = "limit_value";
/// Creation time of the row.
pub const CREATED_AT: &str = "created_at";
/// Time of the row's last change.
pub const UPDATED_AT: &str = "updated_at";
/// Usage: the last counted action. The change stream carries it to the action log.
pub const LAST_ACTION: &str = "last_action";
/// Log: sort key, the time of the action with nine digits, so that texts sort by time.
pub const TIMESTAMP: &str = "timestamp";
/// Log: type of the action.
pub const ACTION_TYPE: &str = "action_type";
/// Log: expiry time, in seconds of the Unix epoch. DynamoDB removes rows by it (TTL).
pub const EXPIRES_AT: &str = "expires_at";
/// Subscriptions and actions: the plan.
pub const PLAN_ID: &str = "plan_id";
/// Subscriptions: status of the subscription.
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

/// The day on which a day's usage resets: the next one.
#[must_use]
pub fn reset_date(day: NaiveDate) -> NaiveDate {
    day.checked_add_days(Days::new(1)).unwrap_or(day)
}

/// When usage counted at `time` resets: the next midnight, UTC.
#[must_use]
pub fn reset_at(time: Time) -> Time {
    reset_date(time.date_naive()).and_time(chrono::NaiveTime::MIN).and_utc()
}

/// One action of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// The caller's idempotency key.
    pub id: EventId,
    /// Type of the action, such as `simulation_run`.
    pub kind: String,
    /// Free-form details from the application.
    pub details: Item,
    /// When the action occurred.
    pub at: Time,
    /// The user's plan at that time.
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

/// An action and the usage count that it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedAction {
    /// The feature that was used.
    pub feature: String,
    /// The day's count before this action.
    pub before: u64,
    /// The day's count including this action.
    pub after: u64,
    /// The daily limit; `None` without a limit.
    pub limit: Option<u64>,
    /// The action.
    pub action: Action,
}

impl CountedAction {
    /// Encodes the attributes, without any table's keys.
    #[must_use]
    pub fn attributes(&self) -> Item {
        let mut item = self.action.attributes();
        item.set_text(FEATURE, self.feature.as_str());
        item.set(USAGE_BEFORE, Value::number(self.before));
        item.set(USAGE_AFTER, Value::number(self.after));
        set_limit(&mut item, self.limit);
        item
    }

    /// Decodes the attributes from a row with these key attributes.
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

    /// The UTC day that the action counts towards.
    #[must_use]
    pub fn day(&self) -> NaiveDate {
        self.action.at.date_naive()
    }
}

/// A user's usage of one feature on one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DailyUsage {
    /// The user.
    pub user: UserId,
    /// The feature.
    pub feature: String,
    /// The day, UTC.
    pub day: NaiveDate,
    /// Number of uses.
    pub count: u64,
    /// The daily limit at the last use; `None` without a limit.
    pub limit: Option<u64>,
    /// Time of the day's first action.
    pub created_at: Time,
    /// Time of the day's last action.
    pub updated_at: Time,
    /// The day's last action.
    pub last: Action,
}

impl DailyUsage {
    /// The day's usage after an action; `created_at` is the time of the day's first action.
    #[must_use]
    pub fn after(user: &UserId, count: &CountedAction, created_at: Time) -> Self {
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

    /// Encodes the row.
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

    /// The `last_action` attribute.
    #[must_use]
    pub fn last_action(&self) -> Value {
        Value::M(self.last.attributes())
    }

    /// Decodes a row.
    ///
    /// # Errors
    /// [`ReadError`] names the attribute.
    pub fn from_item(item: Item) -> Result<Self, ReadError> {
        let mut row = Reader::new(item, [USER_ID, FEATURE_DATE_KEY]);
        let feature = row.text(FEATURE_NAME)?;
        let key = row.text(FEATURE_DATE_KEY)?;
        let day = key
            .strip_prefix(feature.as_str())
            .and_then(|rest| rest.strip_prefix('_'))
            .and_then(|day| day.parse().ok());
        let last = match row.item.remove(LAST_ACTION) {
            Some(Value::M(last)) => Action::read(&mut Reader::new(last, [ACTION_ID, ACTION_TYPE]))?,
            Some(_) | None => return Err(row.error(LAST_ACTION, "is missing or not a map")),
        };
        Ok(Self {
            user: row.text(USER_ID)?.into(),
            day: day
                .ok_or_else(|| row.error(FEATURE_DATE_KEY, format!("{key:?} is not {feature}_ and a day")))?,
            feature,
            count: row.count(USAGE_COUNT)?,
            limit: limit(&mut row)?,
            created_at: time(&mut row, CREATED_AT)?,
            updated_at: time(&mut row, UPDATED_AT)?,
            last,
        })
    }
}

/// Keys and plan of a row of the subscriptions table; `None` when a key or the plan is missing.
#[must_use]
pub fn subscription_plan(item: &Item) -> Option<(&str, &str, &str)> {
    Some((item.text(SUBSCRIPTION_ID)?, item.text(PLAN_ID)?, item.text(STATUS)?))
}

fn set_limit(item: &mut Item, limit: Option<u64>) {
    if let Some(limit) = limit {
        item.set(LIMIT_VALUE, Value::number(limit));
    }
}

fn limit(row: &mut Reader) -> Result<Option<u64>, ReadError> {
    let number = row.number(LIMIT_VALUE)?;
    number
        .map(|number| {
            u64::try_from(number).map_err(|_| row.error(LIMIT_VALUE, format!("{number} is negative")))
        })
        .transpose()
}

fn time(row: &mut Reader, name: &'static str) -> Result<Time, ReadError> {
    row.time(name)?.map(|time| time.at()).ok_or_else(|| row.error(name, "is missing"))
}
