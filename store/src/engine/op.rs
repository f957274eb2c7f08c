//! Transactions: several writes, all or none.

use dues_events::Item;
use std::collections::HashSet;

use super::{Condition, Edit, Key, StoreError};
use crate::table::Table;

/// How many operations one transaction may have.
pub const TRANSACTION: usize = 100;

/// One operation of a transaction. Each has a condition on the item that is there before the transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Writes an item.
    Put(&'static Table, Item, Condition),
    /// Changes some attributes of an item, at least one; an item that is not there is made.
    Update(&'static Table, Key, Vec<Edit>, Condition),
    /// Removes an item; one that is not there is removed already.
    Delete(&'static Table, Key, Condition),
    /// Changes nothing: the condition has to hold.
    Check(&'static Table, Key, Condition),
}

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Transacted {
    /// All of it is durable.
    Done,
    /// A condition did not hold, and nothing was done.
    Refused {
        /// The first operation whose condition did not hold, counted from 0.
        place: usize,
        /// What was there instead.
        there: Option<Box<Item>>,
    },
}

impl Op {
    /// Of which table.
    #[must_use]
    pub fn table(&self) -> &'static Table {
        match self {
            Self::Put(table, ..) | Self::Update(table, ..) | Self::Delete(table, ..) | Self::Check(table, ..) => table,
        }
    }

    /// Which item.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when a part of the key is missing or empty.
    pub fn key(&self) -> Result<Key, StoreError> {
        match self {
            Self::Put(table, item, _) => Key::of(table, item),
            Self::Update(table, key, ..) | Self::Delete(table, key, _) | Self::Check(table, key, _) => whole(table, key),
        }
    }

    /// Whether these operations can be a transaction; every engine asks this first.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when there are none or more than [`TRANSACTION`], one item is named twice, a key is not whole, or an update is one
    /// that [`Edit::check`] refuses or that changes nothing.
    pub fn check(ops: &[Self]) -> Result<(), StoreError> {
        if !(1..=TRANSACTION).contains(&ops.len()) {
            return Err(StoreError::Invalid(format!("a transaction has 1 to {TRANSACTION} operations, not {}", ops.len())));
        }
        let mut seen = HashSet::with_capacity(ops.len());
        for op in ops {
            let (table, key) = (op.table(), op.key()?);
            if let Self::Update(_, _, edits, _) = op {
                Edit::check(table, edits)?;
                if edits.is_empty() {
                    return Err(StoreError::Invalid(format!("{}: an update in a transaction changes nothing", table.name)));
                }
            }
            if !seen.insert((table.name, key)) {
                return Err(StoreError::Invalid(format!("{}: a transaction names an item twice", table.name)));
            }
        }
        Ok(())
    }
}

/// The key, if it has every part that the table's keys have.
fn whole(table: &Table, key: &Key) -> Result<Key, StoreError> {
    let missing = |name: &str| StoreError::Invalid(format!("{}: key attribute {name} is missing", table.name));
    let sort = key.sort.as_ref().filter(|sort| !sort.is_empty());
    if key.partition.is_empty() {
        return Err(missing(table.partition));
    }
    let sort = table.sort.map(|name| sort.cloned().ok_or_else(|| missing(name))).transpose()?;
    Ok(Key { partition: key.partition.clone(), sort })
}
