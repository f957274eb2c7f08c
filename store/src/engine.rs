//! The engine trait that DynamoDB and SQLite implement. The commit protocol and all access patterns are
//! written against it once.

mod op;

use dues_events::{Item, Value};
use futures::future::join_all;
use std::future::Future;

use crate::table::Table;

pub use op::{Op, TRANSACTION, Transacted};

/// A store of items in tables.
pub trait Engine: Clone + Send + Sync + 'static {
    /// Reads an item with strong consistency.
    fn get(
        &self,
        table: &'static Table,
        key: Key,
    ) -> impl Future<Output = Result<Option<Item>, StoreError>> + Send;

    /// Reads a page of a partition of a table or index.
    fn query(&self, query: Query) -> impl Future<Output = Result<Page, StoreError>> + Send;

    /// Runs many queries, in any order, and returns their pages in the order of the queries.
    fn query_many(&self, queries: Vec<Query>) -> impl Future<Output = Vec<Result<Page, StoreError>>> + Send {
        join_all(queries.into_iter().map(|query| self.query(query)))
    }

    /// Reads many items and returns them in the order of their keys.
    fn get_many(
        &self,
        keys: Vec<(&'static Table, Key)>,
    ) -> impl Future<Output = Vec<Result<Option<Item>, StoreError>>> + Send {
        join_all(keys.into_iter().map(|(table, key)| self.get(table, key)))
    }

    /// Reads a page of a whole table. The order is undefined, except that items of one partition are
    /// adjacent.
    fn scan(
        &self,
        table: &'static Table,
        start: Option<Cursor>,
        limit: u32,
    ) -> impl Future<Output = Result<Page, StoreError>> + Send;

    /// Reads a page of the keys of a whole table, in the order of [`Self::scan`].
    fn keys(
        &self,
        table: &'static Table,
        start: Option<Cursor>,
        limit: u32,
    ) -> impl Future<Output = Result<Keys, StoreError>> + Send {
        async move {
            let page = self.scan(table, start, limit).await?;
            Ok(Keys {
                keys: page.items.iter().map(|item| Key::of(table, item)).collect::<Result<_, _>>()?,
                next: page.next,
            })
        }
    }

    /// Writes an item if the condition holds for the current item.
    fn put(
        &self,
        table: &'static Table,
        item: Item,
        condition: Condition,
    ) -> impl Future<Output = Result<Written, StoreError>> + Send;

    /// Deletes an item if the condition holds for it.
    fn delete(
        &self,
        table: &'static Table,
        key: Key,
        condition: Condition,
    ) -> impl Future<Output = Result<Written, StoreError>> + Send;

    /// Changes some attributes of an item if the condition holds for it; the others stay as they are.
    /// Creates the item if it does not exist.
    ///
    /// Each edit names a different attribute, and none names a key of the table: [`StoreError::Invalid`]
    /// otherwise.
    fn update(
        &self,
        table: &'static Table,
        key: Key,
        edits: Vec<Edit>,
        condition: Condition,
    ) -> impl Future<Output = Result<Updated, StoreError>> + Send;

    /// Performs all operations if all their conditions hold, and none otherwise. Returns
    /// [`StoreError::Invalid`] for what [`Op::check`] refuses and for an edit that cannot be applied.
    fn transact(&self, ops: Vec<Op>) -> impl Future<Output = Result<Transacted, StoreError>> + Send;

    /// Writes up to [`BATCH`] items without conditions; returns the unprocessed ones, which the caller sends
    /// again.
    fn put_batch(
        &self,
        items: Vec<(&'static Table, Item)>,
    ) -> impl Future<Output = Result<Vec<(&'static Table, Item)>, StoreError>> + Send;
}

/// Maximum number of items in a batch.
pub const BATCH: usize = 25;

/// The primary key of an item.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The partition key.
    pub partition: String,
    /// The sort key, for tables that have one.
    pub sort: Option<String>,
}

impl Key {
    /// Extracts the key of an item of that table.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when a key attribute is missing or not a string.
    pub fn of(table: &Table, item: &Item) -> Result<Self, StoreError> {
        let text = |name: &str| {
            let text = item.text(name).filter(|text| !text.is_empty());
            text.map(str::to_owned).ok_or_else(|| {
                StoreError::Invalid(format!("{}: key attribute {name} is missing", table.name))
            })
        };
        Ok(Self { partition: text(table.partition)?, sort: table.sort.map(text).transpose()? })
    }
}

/// Outcome of a conditional write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// The write is durable.
    Done,
    /// The condition did not hold; contains the current item, if any.
    Refused(Option<Box<Item>>),
}

/// A change of one attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Sets the attribute to that value.
    Set(&'static str, Value),
    /// Adds to a number; a missing one counts as 0, anything else is [`StoreError::Invalid`].
    Add(&'static str, i64),
    /// Removes the attribute; a missing one stays missing.
    Remove(&'static str),
}

impl Edit {
    /// The attribute that the edit changes.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Set(name, _) | Self::Add(name, _) | Self::Remove(name) => name,
        }
    }

    /// Checks that these edits can be applied together to an item of that table.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when one names a key of the table, or two name the same attribute.
    pub fn check(table: &Table, edits: &[Self]) -> Result<(), StoreError> {
        for (n, name) in edits.iter().map(Self::name).enumerate() {
            if name == table.partition || Some(name) == table.sort {
                return Err(StoreError::Invalid(format!(
                    "{}: an update cannot change the key attribute {name}",
                    table.name
                )));
            }
            if edits[..n].iter().any(|before| before.name() == name) {
                return Err(StoreError::Invalid(format!("{}: an update changes {name} twice", table.name)));
            }
        }
        Ok(())
    }
}

/// Outcome of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Updated {
    /// The update is durable; contains the item after it.
    Done(Box<Item>),
    /// The condition did not hold; contains the current item, if any.
    Refused(Option<Box<Item>>),
}

/// A condition on the current item of a write, or a filter on the items that a query reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Always holds.
    Always,
    /// The item does not exist.
    NoItem,
    /// The attribute is missing.
    Missing(&'static str),
    /// The attribute has that value.
    Equals(&'static str, Value),
    /// The attribute is less than that value, as DynamoDB orders values of that type.
    Less(&'static str, Value),
    /// The attribute is that value or greater.
    AtLeast(&'static str, Value),
    /// All of them hold.
    All(Vec<Condition>),
    /// At least one of them holds.
    Any(Vec<Condition>),
}

/// A request for one page.
#[derive(Debug, Clone)]
pub struct Query {
    /// The table.
    pub table: &'static Table,
    /// The index, or `None` for the table itself.
    pub index: Option<&'static str>,
    /// The partition key.
    pub partition: String,
    /// The range of sort keys, of the table or of the index.
    pub sorted: Sorted,
    /// The order of the items, by sort key.
    pub order: Order,
    /// Which writes the page reflects; an index is always [`Consistency::Eventual`].
    pub consistency: Consistency,
    /// Maximum number of items to read, before filtering.
    pub limit: Option<u32>,
    /// Where the previous page ended.
    pub start: Option<Cursor>,
    /// Which of the items read to return.
    pub filter: Condition,
}

impl Query {
    /// The whole partition, strongly consistent, ascending.
    #[must_use]
    pub fn partition(table: &'static Table, partition: impl Into<String>) -> Self {
        let partition = partition.into();
        Self {
            table,
            index: None,
            partition,
            sorted: Sorted::All,
            order: Order::Ascending,
            consistency: Consistency::Strong,
            limit: None,
            start: None,
            filter: Condition::Always,
        }
    }

    /// The items of a partition with that prefix in their sort key, strongly consistent, ascending.
    #[must_use]
    pub fn prefix(table: &'static Table, partition: impl Into<String>, prefix: impl Into<String>) -> Self {
        Self { sorted: Sorted::Prefix(prefix.into()), ..Self::partition(table, partition) }
    }

    /// A partition of an index, eventually consistent, ascending.
    #[must_use]
    pub fn index(table: &'static Table, index: &'static str, partition: impl Into<String>) -> Self {
        Self { index: Some(index), consistency: Consistency::Eventual, ..Self::partition(table, partition) }
    }
}

/// The order of a query's items, by sort key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Smallest first.
    Ascending,
    /// Greatest first.
    Descending,
}

/// Which writes a read reflects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consistency {
    /// May miss the latest writes.
    Eventual,
    /// Every write that was acknowledged before the read.
    Strong,
}

/// The range of sort keys of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sorted {
    /// All sort keys.
    All,
    /// Sort keys with that prefix; only for keys that are strings.
    Prefix(String),
    /// From one value to another, both included, as DynamoDB orders values of that type.
    Between(Value, Value),
}

impl Sorted {
    /// Exactly that sort key.
    #[must_use]
    pub fn at(value: Value) -> Self {
        Self::Between(value.clone(), value)
    }
}

/// A page of items.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The items.
    pub items: Vec<Item>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<Cursor>,
}

/// A page of keys.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    /// The keys.
    pub keys: Vec<Key>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<Cursor>,
}

/// The position where a page ended. Only the engine that created it can read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub Item);

/// Why a store operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Too many requests.
    #[error("throttled: {0}")]
    Throttled(String),
    /// Another transaction held the same items: nothing was written.
    #[error("in conflict: {0}")]
    Conflict(String),
    /// No answer, or one that leaves open whether the write happened.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// Every attempt lost its race to another writer.
    #[error("gave up after losing {0} races for the row")]
    Contended(u32),
    /// The request itself is wrong.
    #[error("invalid: {0}")]
    Invalid(String),
    /// A stored row cannot be decoded.
    #[error("{0}")]
    Unreadable(#[from] dues_events::billing::record::ReadError),
}

impl StoreError {
    /// Whether the same request can succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Throttled(_) | Self::Conflict(_) | Self::Unavailable(_) | Self::Contended(_) => true,
            Self::Invalid(_) | Self::Unreadable(_) => false,
        }
    }

    /// Whether the request failed because of contention: nothing was written, and the same request can
    /// succeed after a pause.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Throttled(_) | Self::Conflict(_) => true,
            Self::Unavailable(_) | Self::Contended(_) | Self::Invalid(_) | Self::Unreadable(_) => false,
        }
    }

    /// The same error, prefixed with the operation that failed.
    #[must_use]
    pub fn during(self, doing: &str) -> Self {
        match self {
            Self::Throttled(cause) => Self::Throttled(format!("{doing}: {cause}")),
            Self::Conflict(cause) => Self::Conflict(format!("{doing}: {cause}")),
            Self::Unavailable(cause) => Self::Unavailable(format!("{doing}: {cause}")),
            Self::Invalid(cause) => Self::Invalid(format!("{doing}: {cause}")),
            Self::Contended(_) | Self::Unreadable(_) => self,
        }
    }
}
