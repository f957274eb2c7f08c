//! The log of actions, append-only: written from the change stream of the counts, asked by user, by type and by time.
//!
//! **Spans of time.** The seed asks TimestampIndex for `timestamp BETWEEN …`, but the timestamp is that index's partition key, of which DynamoDB takes
//! one value and no range. So a span is asked where the timestamp is a sort key: of one user by the table's own key, of everybody by ActionTypeIndex,
//! for each type of action that was ever seen, put together by time. TimestampIndex answers for one instant.

use dues_events::attr::{PK, SK};
use dues_events::usage::Logged;
use dues_events::{GoTime, Item, Time, UserId, Value};
use std::collections::BTreeSet;

use crate::billing::Store;
use crate::engine::{Condition, Engine, Query, Sorted, StoreError, Written};
use crate::table::JOURNAL;
use crate::table::usage::{ACTIONS_LOG, BY_ACTION_TYPE, BY_TIMESTAMP};

/// Where the types of actions are listed.
const TYPES: &str = "usage-action-types";
/// How many actions of one user may happen at one instant.
const INSTANTS: u32 = 10_000;

/// A span of time, both ends included; an end that is missing is as far away as can be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// From here.
    pub from: Option<Time>,
    /// To here.
    pub to: Option<Time>,
}

impl Span {
    fn sorted(self) -> Sorted {
        let text = |time| Value::text(GoTime::nine_digits(time).text());
        match (self.from, self.to) {
            (None, None) => Sorted::All,
            // Every text of a time comes before "a".
            (from, to) => Sorted::Between(from.map_or_else(|| Value::text("0"), text), to.map_or_else(|| Value::text("a"), text)),
        }
    }
}

impl<E: Engine> Store<E> {
    /// Writes an action into the log, at its instant or, if another action of the user is there, at the first free nanosecond after it. Told again it is
    /// found where it was written: `false`.
    ///
    /// # Errors
    /// What the engine could not do.
    pub async fn log_action(&self, logged: &Logged) -> Result<bool, StoreError> {
        let mut row = logged.clone();
        for _ in 0..INSTANTS {
            let there = match self.engine.put(&ACTIONS_LOG, row.to_item(), Condition::NoItem).await? {
                Written::Done => return Ok(true),
                Written::Refused(there) => there.map(|there| Logged::from_item(*there)).transpose()?,
            };
            if there.is_some_and(|there| there.count.action.id == row.count.action.id) {
                return Ok(false);
            }
            row.timestamp += chrono::TimeDelta::nanoseconds(1);
        }
        Err(StoreError::Contended(INSTANTS))
    }

    /// Notes that there is such a type of action.
    ///
    /// # Errors
    /// What the engine could not do.
    pub async fn note_action_type(&self, kind: &str) -> Result<(), StoreError> {
        let mut item = Item::new();
        item.set_text(PK, TYPES);
        item.set_text(SK, kind);
        self.engine.put(&JOURNAL, item, Condition::NoItem).await.map(drop)
    }

    /// Every type of action that was ever seen.
    ///
    /// # Errors
    /// What the engine could not do.
    pub async fn action_types(&self) -> Result<BTreeSet<String>, StoreError> {
        let items = self.all(Query::partition(&JOURNAL, TYPES)).await?;
        Ok(items.iter().filter_map(|item| item.text(SK)).map(str::to_owned).collect())
    }

    /// A user's actions within a span, the newest first, so many at the most.
    ///
    /// # Errors
    /// What the engine could not do, or a row that cannot be read.
    pub async fn actions_of(&self, user: &UserId, span: Span, most: usize) -> Result<Vec<Logged>, StoreError> {
        self.newest(Query::partition(&ACTIONS_LOG, user.as_str()), span, most).await
    }

    /// Everybody's actions of one type within a span, the newest first, so many at the most.
    ///
    /// # Errors
    /// What the engine could not do, or a row that cannot be read.
    pub async fn actions_of_type(&self, kind: &str, span: Span, most: usize) -> Result<Vec<Logged>, StoreError> {
        self.newest(Query::index(&ACTIONS_LOG, BY_ACTION_TYPE.name, kind), span, most).await
    }

    /// Everybody's actions within a span, the newest first, so many at the most.
    ///
    /// # Errors
    /// What the engine could not do, or a row that cannot be read.
    pub async fn actions_between(&self, span: Span, most: usize) -> Result<Vec<Logged>, StoreError> {
        let mut all = Vec::new();
        for kind in self.action_types().await? {
            all.extend(self.actions_of_type(&kind, span, most).await?);
            all.sort_by(|a, b| (b.timestamp, &b.user).cmp(&(a.timestamp, &a.user)));
            all.truncate(most);
        }
        Ok(all)
    }

    /// Everybody's actions at one instant.
    ///
    /// # Errors
    /// What the engine could not do, or a row that cannot be read.
    pub async fn actions_at(&self, instant: Time) -> Result<Vec<Logged>, StoreError> {
        let items = self.all(Query::index(&ACTIONS_LOG, BY_TIMESTAMP.name, GoTime::nine_digits(instant).text())).await?;
        read(items)
    }

    async fn newest(&self, query: Query, span: Span, most: usize) -> Result<Vec<Logged>, StoreError> {
        if span.from.zip(span.to).is_some_and(|(from, to)| from > to) {
            return Ok(Vec::new());
        }
        read(self.first(Query { forward: false, sorted: span.sorted(), ..query }, most).await?)
    }
}

fn read(items: Vec<Item>) -> Result<Vec<Logged>, StoreError> {
    Ok(items.into_iter().map(Logged::from_item).collect::<Result<_, _>>()?)
}
