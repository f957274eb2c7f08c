//! The log of actions, append-only: written from the change stream of the counts; queried by user, by type
//! and by time.
//!
//! **Time ranges.** The usage model queries TimestampIndex with `timestamp BETWEEN …`, but the timestamp is
//! that index's partition key, for which DynamoDB accepts one value and no range. So a range is queried
//! where the timestamp is a sort key: for one user by the table's own key; for all users by ActionTypeIndex,
//! once for each known type of action, merged by time. TimestampIndex serves single instants.

use dues_events::attributes::{PK, SK};
use dues_events::usage::LoggedAction;
use dues_events::{GoTime, Item, Time, UserId, Value};
use std::collections::BTreeSet;

use crate::billing::Store;
use crate::engine::{Condition, Engine, Order, Query, Sorted, StoreError, Written};
use crate::table::JOURNAL;
use crate::table::usage::{ACTIONS_LOG, BY_ACTION_TYPE, BY_TIMESTAMP};

/// Partition that lists the types of actions.
const TYPES: &str = "usage-action-types";
/// Maximum number of actions of one user at one instant.
const INSTANTS: u32 = 10_000;

/// A time range, both ends included; a missing end is unbounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeRange {
    /// The start.
    pub from: Option<Time>,
    /// The end.
    pub to: Option<Time>,
}

impl TimeRange {
    fn sorted(self) -> Sorted {
        let text = |time| Value::text(GoTime::nine_digits(time).text());
        match (self.from, self.to) {
            (None, None) => Sorted::All,
            // Every timestamp sorts before "a".
            (from, to) => Sorted::Between(
                from.map_or_else(|| Value::text("0"), text),
                to.map_or_else(|| Value::text("a"), text),
            ),
        }
    }
}

impl<E: Engine> Store<E> {
    /// Writes an action to the log, at its instant or, if another action of the user is there, at the first
    /// free nanosecond after it. Returns `false` if the action is in the log already.
    pub async fn log_action(&self, logged: &LoggedAction) -> Result<bool, StoreError> {
        let mut row = logged.clone();
        for _ in 0..INSTANTS {
            let there = match self.engine.put(&ACTIONS_LOG, row.to_item(), Condition::NoItem).await? {
                Written::Done => return Ok(true),
                Written::Refused(there) => there.map(|there| LoggedAction::from_item(*there)).transpose()?,
            };
            if there.is_some_and(|there| there.count.action.id == row.count.action.id) {
                return Ok(false);
            }
            row.timestamp += chrono::TimeDelta::nanoseconds(1);
        }
        Err(StoreError::Contended(INSTANTS))
    }

    /// Registers a type of action.
    pub async fn note_action_type(&self, kind: &str) -> Result<(), StoreError> {
        let mut item = Item::new();
        item.set_text(PK, TYPES);
        item.set_text(SK, kind);
        self.engine.put(&JOURNAL, item, Condition::NoItem).await.map(drop)
    }

    /// Every type of action seen so far.
    pub async fn action_types(&self) -> Result<BTreeSet<String>, StoreError> {
        let items = self.all(Query::partition(&JOURNAL, TYPES)).await?;
        Ok(items.iter().filter_map(|item| item.text(SK)).map(str::to_owned).collect())
    }

    /// A user's actions within a range, newest first, at most `most`.
    pub async fn actions_of(
        &self,
        user: &UserId,
        span: TimeRange,
        most: usize,
    ) -> Result<Vec<LoggedAction>, StoreError> {
        self.newest(Query::partition(&ACTIONS_LOG, user.as_str()), span, most).await
    }

    /// All users' actions of one type within a range, newest first, at most `most`.
    pub async fn actions_of_type(
        &self,
        kind: &str,
        span: TimeRange,
        most: usize,
    ) -> Result<Vec<LoggedAction>, StoreError> {
        self.newest(Query::index(&ACTIONS_LOG, BY_ACTION_TYPE.name, kind), span, most).await
    }

    /// All users' actions within a range, newest first, at most `most`.
    pub async fn actions_between(
        &self,
        span: TimeRange,
        most: usize,
    ) -> Result<Vec<LoggedAction>, StoreError> {
        let mut all = Vec::new();
        for kind in self.action_types().await? {
            all.extend(self.actions_of_type(&kind, span, most).await?);
            all.sort_by(|a, b| (b.timestamp, &b.user).cmp(&(a.timestamp, &a.user)));
            all.truncate(most);
        }
        Ok(all)
    }

    /// All users' actions at one instant.
    pub async fn actions_at(&self, instant: Time) -> Result<Vec<LoggedAction>, StoreError> {
        let items = self
            .all(Query::index(&ACTIONS_LOG, BY_TIMESTAMP.name, GoTime::nine_digits(instant).text()))
            .await?;
        read(items)
    }

    async fn newest(
        &self,
        query: Query,
        span: TimeRange,
        most: usize,
    ) -> Result<Vec<LoggedAction>, StoreError> {
        if span.from.zip(span.to).is_some_and(|(from, to)| from > to) {
            return Ok(Vec::new());
        }
        read(self.first(Query { order: Order::Descending, sorted: span.sorted(), ..query }, most).await?)
    }
}

fn read(items: Vec<Item>) -> Result<Vec<LoggedAction>, StoreError> {
    Ok(items.into_iter().map(LoggedAction::from_item).collect::<Result<_, _>>()?)
}
