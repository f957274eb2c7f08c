//! Usage of features (seed 002): the access patterns of its three tables. Counting is in [`count`], the log of actions in [`log`], the daily reset in
//! [`reset`].

pub mod count;
pub mod log;
pub mod reset;

use chrono::NaiveDate;
use dues_events::usage::{RESET_DATE, USAGE_COUNT, Used, feature_date_key};
use dues_events::{Item, UserId, Value};

use crate::billing::Store;
use crate::engine::{Condition, Engine, Key, Query, Sorted, StoreError};
use crate::table::usage::{BY_FEATURE_AND_DATE, BY_SUBSCRIPTION_ID, USER_SUBSCRIPTIONS, USER_USAGE};

impl<E: Engine> Store<E> {
    /// One of a user's subscriptions to plans.
    ///
    /// # Errors
    /// What the engine could not do.
    pub async fn plan_subscription(&self, user: &UserId, id: &str) -> Result<Option<Item>, StoreError> {
        self.engine.get(&USER_SUBSCRIPTIONS, Key { partition: user.to_string(), sort: Some(id.to_owned()) }).await
    }

    /// All of a user's subscriptions to plans.
    ///
    /// # Errors
    /// What the engine could not do.
    pub async fn plan_subscriptions(&self, user: &UserId) -> Result<Vec<Item>, StoreError> {
        self.all(Query::partition(&USER_SUBSCRIPTIONS, user.as_str())).await
    }

    /// The subscription with that id, whoever has it.
    ///
    /// # Errors
    /// What the engine could not do.
    pub async fn plan_subscription_by_id(&self, id: &str) -> Result<Option<Item>, StoreError> {
        Ok(self.all(Query::index(&USER_SUBSCRIPTIONS, BY_SUBSCRIPTION_ID.name, id)).await?.pop())
    }

    /// How often a user has used a feature on a day; `None` for not at all.
    ///
    /// # Errors
    /// What the engine could not do, or a row that cannot be read.
    pub async fn usage(&self, user: &UserId, feature: &str, day: NaiveDate) -> Result<Option<Used>, StoreError> {
        let item = self.engine.get(&USER_USAGE, usage_key(user, feature, day)).await?;
        Ok(item.map(Used::from_item).transpose()?)
    }

    /// All that a user has used and that was not forgotten yet.
    ///
    /// # Errors
    /// What the engine could not do, or a row that cannot be read.
    pub async fn usage_of(&self, user: &UserId) -> Result<Vec<Used>, StoreError> {
        read(self.all(Query::partition(&USER_USAGE, user.as_str())).await?)
    }

    /// Who has used a feature at least so often, by the day on which that is forgotten, which is the day after; so many at the most.
    ///
    /// # Errors
    /// What the engine could not do, or a row that cannot be read.
    pub async fn usage_of_feature(&self, feature: &str, reset: NaiveDate, at_least: u64, most: usize) -> Result<Vec<Used>, StoreError> {
        let filter = if at_least > 1 { Condition::AtLeast(USAGE_COUNT, Value::number(at_least)) } else { Condition::Always };
        let sorted = Sorted::at(Value::text(reset.to_string()));
        let query = Query { sorted, filter, ..Query::index(&USER_USAGE, BY_FEATURE_AND_DATE.name, feature) };
        read(self.first(query, most).await?)
    }

    /// The first items of a query, so many at the most.
    async fn first(&self, mut query: Query, most: usize) -> Result<Vec<Item>, StoreError> {
        let mut items = Vec::new();
        while items.len() < most {
            // A limit counts what is looked at: with a filter that may be much more than what is found.
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

    /// The earliest day on which some usage of a feature is to be forgotten.
    ///
    /// # Errors
    /// What the engine could not do, or a row that cannot be read.
    pub async fn earliest_reset(&self, feature: &str) -> Result<Option<NaiveDate>, StoreError> {
        let query = Query { limit: Some(1), ..Query::index(&USER_USAGE, BY_FEATURE_AND_DATE.name, feature) };
        let items = self.engine.query(query).await?.items;
        Ok(items.first().and_then(|item| item.text(RESET_DATE)).and_then(|day| day.parse().ok()))
    }
}

fn usage_key(user: &UserId, feature: &str, day: NaiveDate) -> Key {
    Key { partition: user.to_string(), sort: Some(feature_date_key(feature, day)) }
}

fn read(items: Vec<Item>) -> Result<Vec<Used>, StoreError> {
    Ok(items.into_iter().map(Used::from_item).collect::<Result<_, _>>()?)
}
