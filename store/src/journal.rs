//! The journal of the read models, in [`JOURNAL`]: each aggregate's facts, append-only, and its head with
//! version and state.
//!
//! One transaction adds a fact, increments the head's version and writes the rows that differ. The fact's
//! row is put only if it does not exist, which makes the fact apply once; applying the next fact never reads
//! the earlier ones. They are kept to rebuild the rows.

use dues_events::attributes::{FACT, PK, RECORDED_AT, SK, STATE, VERSION};
use dues_events::billing::record::ReadError;
use dues_events::{EventId, GoTime, Item, Time, Value};

use crate::billing::Store;
use crate::engine::{Condition, Engine, Key, Op, Query, StoreError};
use crate::table::JOURNAL;

/// The sort key of a head.
const HEAD: &str = "HEAD";
/// Prefix of the sort key of a fact.
const FACT_PREFIX: &str = "FACT#";

/// The head of an aggregate: its version and state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalHead {
    /// How many bookings were made; 0 for an unknown aggregate.
    pub version: u64,
    /// Its state, as JSON.
    pub state: String,
}

/// Identifies an aggregate of a model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Aggregate {
    /// The name of the model.
    pub model: String,
    /// The name of the aggregate within the model.
    pub name: String,
}

impl Aggregate {
    /// An aggregate of a model.
    pub fn new(model: &str, name: impl Into<String>) -> Self {
        Self { model: model.to_owned(), name: name.into() }
    }

    fn partition(&self) -> String {
        format!("{}#{}", self.model, self.name)
    }

    /// Parses the partition key of a journal row.
    #[must_use]
    pub fn read(partition: &str) -> Option<Self> {
        let (model, name) = partition.split_once('#')?;
        Some(Self::new(model, name))
    }

    /// Query for all facts of a partition, ordered by id.
    #[must_use]
    pub fn facts_of(partition: &str) -> Query {
        Query::prefix(&JOURNAL, partition, FACT_PREFIX)
    }

    fn key(&self, sort: String) -> Key {
        Key { partition: self.partition(), sort: Some(sort) }
    }

    fn item(&self, sort: &str) -> Item {
        let mut item = Item::new();
        item.set_text(PK, self.partition());
        item.set_text(SK, sort);
        item
    }

    /// Writes a head, if the current one is its predecessor.
    #[must_use]
    pub fn head_op(&self, head: &JournalHead) -> Op {
        let (item, condition) = self.head_row(head);
        Op::Put(&JOURNAL, item, condition)
    }

    /// The row of a head, and the condition that the current one is its predecessor.
    pub(crate) fn head_row(&self, head: &JournalHead) -> (Item, Condition) {
        let mut item = self.item(HEAD);
        item.set(VERSION, Value::number(head.version));
        item.set_text(STATE, head.state.as_str());
        let condition = match head.version {
            0 | 1 => Condition::NoItem,
            version => Condition::Equals(VERSION, Value::number(version - 1)),
        };
        (item, condition)
    }

    /// Adds a fact, if it does not exist.
    #[must_use]
    pub fn fact_op(&self, id: &EventId, json: &str, now: Time) -> Op {
        let mut item = self.item(&format!("{FACT_PREFIX}{id}"));
        item.set_text(FACT, json);
        item.set_text(RECORDED_AT, GoTime::trimmed(now).text());
        Op::Put(&JOURNAL, item, Condition::NoItem)
    }
}

impl<E: Engine> Store<E> {
    /// Reads the head of an aggregate.
    pub async fn journal_head(&self, aggregate: &Aggregate) -> Result<JournalHead, StoreError> {
        let Some(item) = self.engine.get(&JOURNAL, aggregate.key(HEAD.to_owned())).await? else {
            return Ok(JournalHead::default());
        };
        let version = item.get(VERSION).and_then(Value::as_u64).ok_or_else(|| unreadable(&item, VERSION))?;
        Ok(JournalHead {
            version,
            state: item.text(STATE).ok_or_else(|| unreadable(&item, STATE))?.to_owned(),
        })
    }

    /// Reads a fact of an aggregate, as JSON.
    pub async fn journal_fact(
        &self,
        aggregate: &Aggregate,
        id: &EventId,
    ) -> Result<Option<String>, StoreError> {
        let item = self.engine.get(&JOURNAL, aggregate.key(format!("{FACT_PREFIX}{id}"))).await?;
        item.map(|item| fact(&item).map(str::to_owned)).transpose()
    }
}

/// The fact in a journal row, as JSON.
///
/// # Errors
/// [`StoreError::Unreadable`] when the row has none.
pub fn fact(item: &Item) -> Result<&str, StoreError> {
    item.text(FACT).ok_or_else(|| unreadable(item, FACT))
}

fn unreadable(item: &Item, attribute: &'static str) -> StoreError {
    let key = format!("{}/{}", item.text(PK).unwrap_or("?"), item.text(SK).unwrap_or("?"));
    StoreError::Unreadable(ReadError {
        attribute: attribute.to_owned(),
        key,
        problem: "is missing or of another type".to_owned(),
    })
}
