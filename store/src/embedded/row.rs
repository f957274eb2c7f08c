//! A row to be written: encoded by the caller, so that the single writer thread has less to do.

use dues_events::{Item, Value};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rust_decimal::Decimal;
use uuid::Uuid;

use super::codec;
use crate::engine::{Condition, Edit, Key, StoreError};
use crate::table::{Index, Table};

/// An encoded item with its keys.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) table: &'static Table,
    pub(crate) pk: String,
    pub(crate) sk: String,
    /// Partition and sort key of each index.
    pub(crate) index_keys: Vec<IndexKey>,
    pub(crate) bytes: Vec<u8>,
}

/// A value of an index's key column. A UUID partition key takes 16 bytes instead of 36; sort keys keep their
/// order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IndexKey {
    None,
    Uuid([u8; 16]),
    Text(String),
    Number(i64),
}

impl IndexKey {
    pub(crate) fn of(text: &str) -> Self {
        match Uuid::try_parse(text) {
            // Only the canonical spelling is packed: two spellings of a UUID are two keys.
            Ok(id) if id.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text => {
                Self::Uuid(id.into_bytes())
            }
            Ok(_) | Err(_) => Self::Text(text.to_owned()),
        }
    }

    /// A sort key: text or integer, as the index declares; `None` for any other type.
    pub(crate) fn sort(index: &Index, value: Option<&Value>) -> Self {
        match value {
            Some(Value::S(text)) if !index.numeric => Self::Text(text.clone()),
            Some(Value::N(number)) if index.numeric => number.parse().map_or(Self::None, Self::Number),
            Some(_) | None => Self::None,
        }
    }

    /// Partition and sort key of an index, from an item's attribute values.
    fn pair(index: &Index, partition: Option<&Value>, sort: Option<&Value>) -> [Self; 2] {
        [partition.and_then(Value::as_text).map_or(Self::None, Self::of), Self::sort(index, sort)]
    }
}

impl rusqlite::ToSql for IndexKey {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::None => ValueRef::Null,
            Self::Uuid(bytes) => ValueRef::Blob(bytes),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Number(number) => ValueRef::Integer(*number),
        }))
    }
}

impl Row {
    pub(crate) fn new(table: &'static Table, item: &Item) -> Result<Self, StoreError> {
        let key = Key::of(table, item)?;
        let bytes = codec::encode(item, [Some(table.partition), table.sort]);
        let keys = |index: &Index| {
            IndexKey::pair(index, item.get(index.partition), index.sort.and_then(|sort| item.get(sort)))
        };
        let index_keys = table.indexes.iter().flat_map(keys).collect();
        Ok(Self { table, pk: key.partition, sk: key.sort.unwrap_or_default(), index_keys, bytes })
    }

    /// A bit mask of the indexes that change when this row replaces one with these bytes.
    pub(crate) fn changed_indexes(&self, old: &[u8]) -> Result<usize, codec::Damaged> {
        let mut mask = 0;
        for (n, (index, new)) in self.table.indexes.iter().zip(self.index_keys.chunks(2)).enumerate() {
            let find = |name: &str| match name {
                // The table's own keys are not in the bytes, and are equal in both rows.
                _ if name == self.table.partition => Ok(Some(Value::text(self.pk.as_str()))),
                _ if Some(name) == self.table.sort => Ok(Some(Value::text(self.sk.as_str()))),
                _ => codec::find(old, name),
            };
            let sort = index.sort.map(find).transpose()?.flatten();
            if IndexKey::pair(index, find(index.partition)?.as_ref(), sort.as_ref()) != *new {
                mask |= 1 << n;
            }
        }
        Ok(mask)
    }
}

/// Applies the edits to an item.
pub(crate) fn edit(item: &mut Item, edits: Vec<Edit>) -> Result<(), StoreError> {
    for edit in edits {
        match edit {
            Edit::Set(name, value) => item.set(name, value),
            Edit::Add(name, number) => {
                let sum = sum(item.get(name), number)
                    .ok_or_else(|| StoreError::Invalid(format!("{number} cannot be added to {name}")))?;
                item.set(name, sum);
            }
            Edit::Remove(name) => drop(item.remove(name)),
        }
    }
    Ok(())
}

/// The sum as DynamoDB writes it, without trailing zeros.
fn sum(there: Option<&Value>, number: i64) -> Option<Value> {
    let there = match there {
        None => Decimal::ZERO,
        Some(Value::N(there)) => there.parse().ok()?,
        Some(_) => return None,
    };
    Some(Value::N(there.checked_add(number.into())?.normalize().to_string()))
}

/// Decodes an item and adds the keys from their columns.
pub(crate) fn item(table: &Table, pk: &str, sk: &str, bytes: &[u8]) -> Result<Item, StoreError> {
    let mut item =
        codec::decode(bytes).map_err(|e| StoreError::Invalid(format!("{} {pk}/{sk}: {e}", table.name)))?;
    item.set_text(table.partition, pk);
    if let Some(sort) = table.sort {
        item.set_text(sort, sk);
    }
    Ok(item)
}

/// Whether a condition or filter holds for the current row. Decodes only the attributes that it names; the
/// keys are in columns.
pub(crate) fn holds(
    condition: &Condition,
    table: &Table,
    pk: &str,
    sk: &str,
    row: Option<&[u8]>,
) -> Result<bool, codec::Damaged> {
    let Some(bytes) = row else { return check(condition, None) };
    check(
        condition,
        Some(&|name| match name {
            _ if name == table.partition => Ok(Some(Value::text(pk))),
            _ if Some(name) == table.sort => Ok(Some(Value::text(sk))),
            _ => codec::find(bytes, name),
        }),
    )
}

/// Looks up an attribute of the current row.
type Find<'a> = &'a dyn Fn(&str) -> Result<Option<Value>, codec::Damaged>;

fn check(condition: &Condition, row: Option<Find<'_>>) -> Result<bool, codec::Damaged> {
    let find = |name: &str| row.map_or(Ok(None), |find| find(name));
    let compare = |name: &str, wanted: &Value| Ok(find(name)?.and_then(|there| order(&there, wanted)));
    Ok(match condition {
        Condition::Always => true,
        Condition::NoItem => row.is_none(),
        Condition::Missing(name) => find(name)?.is_none(),
        Condition::Equals(name, wanted @ (Value::S(_) | Value::N(_))) => {
            compare(name, wanted)?.is_some_and(std::cmp::Ordering::is_eq)
        }
        Condition::Equals(name, wanted) => find(name)?.as_ref() == Some(wanted),
        Condition::Less(name, wanted) => compare(name, wanted)?.is_some_and(std::cmp::Ordering::is_lt),
        Condition::AtLeast(name, wanted) => compare(name, wanted)?.is_some_and(std::cmp::Ordering::is_ge),
        Condition::All(all) => {
            for one in all {
                if !check(one, row)? {
                    return Ok(false);
                }
            }
            true
        }
        Condition::Any(any) => {
            for one in any {
                if check(one, row)? {
                    return Ok(true);
                }
            }
            false
        }
    })
}

/// DynamoDB's order: strings by bytes, numbers by value; values of different types do not compare.
fn order(there: &Value, wanted: &Value) -> Option<std::cmp::Ordering> {
    match (there, wanted) {
        (Value::S(a), Value::S(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Value::N(a), Value::N(b)) if a == b => Some(std::cmp::Ordering::Equal),
        (Value::N(a), Value::N(b)) => Some(a.parse::<Decimal>().ok()?.cmp(&b.parse().ok()?)),
        (Value::B(a), Value::B(b)) => Some(a.cmp(b)),
        (_, _) => None,
    }
}
