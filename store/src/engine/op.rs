//! Transactions: several writes, all or none.

use dues_events::Item;
use std::collections::HashSet;

use super::{Condition, Edit, Key, StoreError};
use crate::table::Table;

/// Maximum number of operations in a transaction.
pub const TRANSACTION: usize = 100;

/// One operation of a transaction, with a condition on the item as it is before the transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Writes an item.
    Put(&'static Table, Item, Condition),
    /// Changes at least one attribute of an item; creates the item if it does not exist.
    Update(&'static Table, Key, Vec<Edit>, Condition),
    /// Deletes an item; a missing one counts as deleted.
    Delete(&'static Table, Key, Condition),
    /// Writes nothing; only requires the condition to hold.
    Check(&'static Table, Key, Condition),
}

/// Outcome of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Transacted {
    /// All operations are durable.
    Done,
    /// A condition did not hold; nothing was written.
    Refused {
        /// Index of the first operation with a condition that did not hold, from 0.
        place: usize,
        /// The item that was there, if any.
        there: Option<Box<Item>>,
    },
}

impl Op {
    /// The table of the operation.
    #[must_use]
    pub fn table(&self) -> &'static Table {
        match self {
            Self::Put(table, ..)
            | Self::Update(table, ..)
            | Self::Delete(table, ..)
            | Self::Check(table, ..) => table,
        }
    }

    /// The key of the item.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when a part of the key is missing or empty.
    pub fn key(&self) -> Result<Key, StoreError> {
        match self {
            Self::Put(table, item, _) => Key::of(table, item),
            Self::Update(table, key, ..) | Self::Delete(table, key, _) | Self::Check(table, key, _) => {
                whole(table, key)
            }
        }
    }

    /// Checks that these operations can form a transaction; every engine calls this first.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when there are none or more than [`TRANSACTION`], an item is named twice, a
    /// key is incomplete, or an update is empty or one that [`Edit::check`] refuses.
    pub fn check(ops: &[Self]) -> Result<(), StoreError> {
        if !(1..=TRANSACTION).contains(&ops.len()) {
            return Err(StoreError::Invalid(format!(
                "a transaction has 1 to {TRANSACTION} operations, not {}",
                ops.len()
            )));
        }
        let mut seen = HashSet::with_capacity(ops.len());
        for op in ops {
            let (table, key) = (op.table(), op.key()?);
            if let Self::Update(_, _, edits, _) = op {
                Edit::check(table, edits)?;
                if edits.is_empty() {
                    return Err(StoreError::Invalid(format!(
                        "{}: an update in a transaction changes nothing",
                        table.name
                    )));
                }
            }
            if !seen.insert((table.name, key)) {
                return Err(StoreError::Invalid(format!(
                    "{}: a transaction names an item twice",
                    table.name
                )));
            }
        }
        Ok(())
    }
}

/// The key, if it has every part that the table requires.
fn whole(table: &Table, key: &Key) -> Result<Key, StoreError> {
    let missing =
        |name: &str| StoreError::Invalid(format!("{}: key attribute {name} is missing", table.name));
    let sort = key.sort.as_ref().filter(|sort| !sort.is_empty());
    if key.partition.is_empty() {
        return Err(missing(table.partition));
    }
    let sort = table.sort.map(|name| sort.cloned().ok_or_else(|| missing(name))).transpose()?;
    Ok(Key { partition: key.partition.clone(), sort })
}
