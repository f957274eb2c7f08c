//! The seam: what both engines can do. The commit protocol and all access patterns are written against it once.

mod op;

use dues_events::{Item, Value};
use futures::future::join_all;
use std::future::Future;

use crate::table::Table;

pub use op::{Op, TRANSACTION, Transacted};

/// A store of items in tables.
pub trait Engine: Clone + Send + Sync + 'static {
    /// Reads an item, consistently.
    fn get(&self, table: &'static Table, key: Key) -> impl Future<Output = Result<Option<Item>, StoreError>> + Send;

    /// Reads a page of a partition, of the table or of an index.
    fn query(&self, query: Query) -> impl Future<Output = Result<Page, StoreError>> + Send;

    /// Runs many queries, in any order, and gives their pages in the order of the queries.
    fn query_many(&self, queries: Vec<Query>) -> impl Future<Output = Vec<Result<Page, StoreError>>> + Send {
        join_all(queries.into_iter().map(|query| self.query(query)))
    }

    /// Reads many items, and gives them in the order of their keys.
    fn get_many(&self, keys: Vec<(&'static Table, Key)>) -> impl Future<Output = Vec<Result<Option<Item>, StoreError>>> + Send {
        join_all(keys.into_iter().map(|(table, key)| self.get(table, key)))
    }

    /// Reads a page of a whole table, in no particular order except that items of one partition come together.
    fn scan(&self, table: &'static Table, start: Option<Cursor>, limit: u32) -> impl Future<Output = Result<Page, StoreError>> + Send;

    /// Reads a page of the keys of a whole table, in the order of [`Self::scan`].
    fn keys(&self, table: &'static Table, start: Option<Cursor>, limit: u32) -> impl Future<Output = Result<Keys, StoreError>> + Send {
        async move {
            let page = self.scan(table, start, limit).await?;
            Ok(Keys { keys: page.items.iter().map(|item| Key::of(table, item)).collect::<Result<_, _>>()?, next: page.next })
        }
    }

    /// Writes an item if the condition holds for the item that is there.
    fn put(&self, table: &'static Table, item: Item, condition: Condition) -> impl Future<Output = Result<Written, StoreError>> + Send;

    /// Removes an item if the condition holds for it.
    fn delete(&self, table: &'static Table, key: Key, condition: Condition) -> impl Future<Output = Result<Written, StoreError>> + Send;

    /// Changes some attributes of an item if the condition holds for it, and leaves the others as they are. An item that is not there is made.
    ///
    /// The attributes that the edits name are different ones, and none is a key of the table: [`StoreError::Invalid`] otherwise.
    fn update(
        &self,
        table: &'static Table,
        key: Key,
        edits: Vec<Edit>,
        condition: Condition,
    ) -> impl Future<Output = Result<Updated, StoreError>> + Send;

    /// Does all of these operations if the conditions of all hold, and none of them otherwise. What [`Op::check`] refuses is
    /// [`StoreError::Invalid`], and so is an edit that cannot be made.
    fn transact(&self, ops: Vec<Op>) -> impl Future<Output = Result<Transacted, StoreError>> + Send;

    /// Writes up to [`BATCH`] items without conditions; gives back those that have to be sent again.
    fn put_batch(&self, items: Vec<(&'static Table, Item)>)
    -> impl Future<Output = Result<Vec<(&'static Table, Item)>, StoreError>> + Send;
}

/// How many items one batch may have.
pub const BATCH: usize = 25;

/// Which item.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The partition.
    pub partition: String,
    /// The place in it, for tables that have a sort key.
    pub sort: Option<String>,
}

impl Key {
    /// The key of an item of that table.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when a key attribute is missing or not a string.
    pub fn of(table: &Table, item: &Item) -> Result<Self, StoreError> {
        let text = |name: &str| {
            let text = item.text(name).filter(|text| !text.is_empty());
            text.map(str::to_owned).ok_or_else(|| StoreError::Invalid(format!("{}: key attribute {name} is missing", table.name)))
        };
        Ok(Self { partition: text(table.partition)?, sort: table.sort.map(text).transpose()? })
    }
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It is durable.
    Done,
    /// The condition did not hold; this is what was there instead.
    Refused(Option<Box<Item>>),
}

/// A change of one attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// It gets that value.
    Set(&'static str, Value),
    /// The number grows by that much; a missing one counts as 0, anything else is [`StoreError::Invalid`].
    Add(&'static str, i64),
    /// It goes; a missing one stays missing.
    Remove(&'static str),
}

impl Edit {
    /// The attribute that it changes.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Set(name, _) | Self::Add(name, _) | Self::Remove(name) => name,
        }
    }

    /// Whether these edits may be made together to an item of that table.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when one names a key of the table, or two name the same attribute.
    pub fn check(table: &Table, edits: &[Self]) -> Result<(), StoreError> {
        for (n, name) in edits.iter().map(Self::name).enumerate() {
            if name == table.partition || Some(name) == table.sort {
                return Err(StoreError::Invalid(format!("{}: an update cannot change the key attribute {name}", table.name)));
            }
            if edits[..n].iter().any(|before| before.name() == name) {
                return Err(StoreError::Invalid(format!("{}: an update changes {name} twice", table.name)));
            }
        }
        Ok(())
    }
}

/// What became of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Updated {
    /// It is durable; this is the item after it.
    Done(Box<Item>),
    /// The condition did not hold; this is what was there instead.
    Refused(Option<Box<Item>>),
}

/// A condition on the item that is there before a write, or a filter on items that a query reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Always holds.
    Always,
    /// There is no such item.
    NoItem,
    /// The attribute is missing.
    Missing(&'static str),
    /// The attribute has that value.
    Equals(&'static str, Value),
    /// The attribute is less than that value, as DynamoDB orders values of that type.
    Less(&'static str, Value),
    /// The attribute is that value or greater.
    AtLeast(&'static str, Value),
    /// All hold.
    All(Vec<Condition>),
    /// One holds.
    Any(Vec<Condition>),
}

/// Which page to read.
#[derive(Debug, Clone)]
pub struct Query {
    /// Of which table.
    pub table: &'static Table,
    /// Of which index of it.
    pub index: Option<&'static str>,
    /// Which partition.
    pub partition: String,
    /// Which sort keys, of the table or of the index.
    pub sorted: Sorted,
    /// In the order of the sort key, or against it.
    pub forward: bool,
    /// Seeing every write that was acknowledged; an index cannot.
    pub consistent: bool,
    /// How many items to look at, at the most.
    pub limit: Option<u32>,
    /// Where the page before ended.
    pub start: Option<Cursor>,
    /// Which of the items looked at to return.
    pub filter: Condition,
}

impl Query {
    /// The whole partition, consistently, in order.
    #[must_use]
    pub fn partition(table: &'static Table, partition: impl Into<String>) -> Self {
        let partition = partition.into();
        Self {
            table,
            index: None,
            partition,
            sorted: Sorted::All,
            forward: true,
            consistent: true,
            limit: None,
            start: None,
            filter: Condition::Always,
        }
    }

    /// The items of a partition whose sort key starts like that, consistently, in order.
    #[must_use]
    pub fn prefix(table: &'static Table, partition: impl Into<String>, prefix: impl Into<String>) -> Self {
        Self { sorted: Sorted::Prefix(prefix.into()), ..Self::partition(table, partition) }
    }

    /// A partition of an index.
    #[must_use]
    pub fn index(table: &'static Table, index: &'static str, partition: impl Into<String>) -> Self {
        Self { index: Some(index), consistent: false, ..Self::partition(table, partition) }
    }
}

/// Which sort keys of a partition a query asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sorted {
    /// All of them.
    All,
    /// Those that start like that; only of keys that are texts.
    Prefix(String),
    /// From one to another, both included, as DynamoDB orders values of that type.
    Between(Value, Value),
}

impl Sorted {
    /// That one.
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

/// The place where a page ended. Only the engine that made it can read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub Item);

/// Why the store did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Too many requests.
    #[error("throttled: {0}")]
    Throttled(String),
    /// Another transaction was at the same items: nothing was done.
    #[error("in conflict: {0}")]
    Conflict(String),
    /// No answer, or one that does not tell whether it was done.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// Another writer was always faster.
    #[error("gave up after losing {0} races for the row")]
    Contended(u32),
    /// The request itself is wrong.
    #[error("invalid: {0}")]
    Invalid(String),
    /// A stored row cannot be understood.
    #[error("{0}")]
    Unreadable(#[from] dues_events::record::ReadError),
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

    /// Whether others were in the way, so that nothing was done and the same request can succeed after a pause.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Throttled(_) | Self::Conflict(_) => true,
            Self::Unavailable(_) | Self::Contended(_) | Self::Invalid(_) | Self::Unreadable(_) => false,
        }
    }

    /// The same error, saying what was being done.
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
