//! Usage of features: the access patterns of the three usage tables. Counting is in [`count`], the log of
//! actions in [`log`], the daily reset in [`reset`].

pub mod count;
pub mod log;
pub mod reset;

use chrono::NaiveDate;
use dues_events::usage::{DailyUsage, RESET_DATE, USAGE_COUNT, feature_date_key};
use dues_events::{Item, UserId, Value};

use crate::billing::Store;
use crate::engine::{Condition, Engine, Key, Query, Sorted, StoreError};
use crate::table::usage::{BY_FEATURE_AND_DATE, BY_SUBSCRIPTION_ID, USER_SUBSCRIPTIONS, USER_USAGE};

impl<E: Engine> Store<E> {
    /// One of a user's plan subscriptions.
    pub async fn plan_subscription(&self, user: &UserId, id: &str) -> Result<Option<Item>, StoreError> {
        self.engine
            .get(&USER_SUBSCRIPTIONS, Key { partition: user.to_string(), sort: Some(id.to_owned()) })
            .await
    }

    /// All of a user's plan subscriptions.
    pub async fn plan_subscriptions(&self, user: &UserId) -> Result<Vec<Item>, StoreError> {
        self.all(Query::partition(&USER_SUBSCRIPTIONS, user.as_str())).await
    }

    /// The plan subscription with that id, of any user.
    pub async fn plan_subscription_by_id(&self, id: &str) -> Result<Option<Item>, StoreError> {
        Ok(self.all(Query::index(&USER_SUBSCRIPTIONS, BY_SUBSCRIPTION_ID.name, id)).await?.pop())
    }

    /// How often a user has used a feature on a day; `None` if not at all.
    pub async fn usage(
        &self,
        user: &UserId,
        feature: &str,
        day: NaiveDate,
    ) -> Result<Option<DailyUsage>, StoreError> {
        let item = self.engine.get(&USER_USAGE, usage_key(user, feature, day)).await?;
        Ok(item.map(DailyUsage::from_item).transpose()?)
    }

    /// All usage of a user that was not reset yet.
    pub async fn usage_of(&self, user: &UserId) -> Result<Vec<DailyUsage>, StoreError> {
        read(self.all(Query::partition(&USER_USAGE, user.as_str())).await?)
    }

    /// Users who have used a feature at least `at_least` times, by the day of the reset, which is the day
    /// after the usage; at most `most`.
    pub async fn usage_of_feature(
        &self,
        feature: &str,
        reset: NaiveDate,
        at_least: u64,
        most: usize,
    ) -> Result<Vec<DailyUsage>, StoreError> {
        let filter = if at_least > 1 {
            Condition::AtLeast(USAGE_COUNT, Value::number(at_least))
        } else {
            Condition::Always
        };
        let sorted = Sorted::at(Value::text(reset.to_string()));
        let query = Query { sorted, filter, ..Query::index(&USER_USAGE, BY_FEATURE_AND_DATE.name, feature) };
        read(self.first(query, most).await?)
    }

    /// The first items of a query, at most `most`.
    async fn first(&self, mut query: Query, most: usize) -> Result<Vec<Item>, StoreError> {
        let mut items = Vec::new();
        while items.len() < most {
            // A limit counts items before filtering: with a filter, those may be far more than the items
            // returned.
            if query.filter == Condition::Always {
                query.limit = u32::try_from(most - items.len()).ok();
            }
            let page = self.engine.query(query.clone()).await?;
            items.extend(page.items);
            match page.next {
                Some(next) => query.start = Some(next),
                None => break,
            }
        }
        items.truncate(most);
        Ok(items)
    }

    /// The earliest day on which usage of a feature is due for reset.
    pub async fn earliest_reset(&self, feature: &str) -> Result<Option<NaiveDate>, StoreError> {
        let query = Query { limit: Some(1), ..Query::index(&USER_USAGE, BY_FEATURE_AND_DATE.name, feature) };
        let items = self.engine.query(query).await?.items;
        Ok(items.first().and_then(|item| item.text(RESET_DATE)).and_then(|day| day.parse().ok()))
    }
}

fn usage_key(user: &UserId, feature: &str, day: NaiveDate) -> Key {
    Key { partition: user.to_string(), sort: Some(feature_date_key(feature, day)) }
}

fn read(items: Vec<Item>) -> Result<Vec<DailyUsage>, StoreError> {
    Ok(items.into_iter().map(DailyUsage::from_item).collect::<Result<_, _>>()?)
}
