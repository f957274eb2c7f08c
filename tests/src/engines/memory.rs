//! An in-memory engine: fast enough for thousands of random cases, and written independently of the other
//! two.

use dues_events::{Item, Value};
use dues_store::table::{Index, Table, TableId};
use dues_store::{
    Condition, Cursor, Edit, Engine, Key, Op, Order, Page, Query, Sorted, StoreError, Transacted, Updated,
    Written,
};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

type Rows = BTreeMap<(String, String), Item>;

/// Tables in memory. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Memory(Arc<Mutex<BTreeMap<TableId, Rows>>>);

impl Memory {
    fn with<T>(&self, table: &'static Table, work: impl FnOnce(&mut Rows) -> T) -> T {
        work(self.0.lock().unwrap().entry(table.id).or_default())
    }
}

fn place(key: &Key) -> (String, String) {
    (key.partition.clone(), key.sort.clone().unwrap_or_default())
}

fn holds(condition: &Condition, item: Option<&Item>) -> bool {
    let order = |name: &str, wanted: &Value| match (item.and_then(|item| item.get(name)), wanted) {
        (Some(Value::S(a)), Value::S(b)) => Some(a.cmp(b)),
        (Some(Value::N(a)), Value::N(b)) => a.parse::<f64>().ok()?.partial_cmp(&b.parse().ok()?),
        (Some(a), b) if a == b => Some(Ordering::Equal),
        (Some(_) | None, _) => None,
    };
    match condition {
        Condition::Always => true,
        Condition::NoItem => item.is_none(),
        Condition::Missing(name) => item.and_then(|item| item.get(name)).is_none(),
        Condition::Equals(name, value) => order(name, value) == Some(Ordering::Equal),
        Condition::Less(name, value) => order(name, value) == Some(Ordering::Less),
        Condition::AtLeast(name, value) => {
            matches!(order(name, value), Some(Ordering::Equal | Ordering::Greater))
        }
        Condition::All(all) => all.iter().all(|one| holds(one, item)),
        Condition::Any(any) => any.iter().any(|one| holds(one, item)),
    }
}

impl Engine for Memory {
    async fn get(&self, table: &'static Table, key: Key) -> Result<Option<Item>, StoreError> {
        Ok(self.with(table, |rows| rows.get(&place(&key)).cloned()))
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        let missing = |name: &str| StoreError::Invalid(format!("{}: no index {name}", query.table.name));
        let index = query
            .index
            .map(|name| query.table.index(name).ok_or_else(|| missing(name)))
            .transpose()?
            .map(|(_, index)| index);
        let partition = index.map_or(query.table.partition, |index| index.partition);
        let sort = index.map_or(query.table.sort, |index| index.sort);
        let mut items: Vec<Item> = self.with(query.table, |rows| {
            rows.values().filter(|item| item.text(partition) == Some(&query.partition)).cloned().collect()
        });
        if let Some(sort) = sort {
            items.retain(|item| match &query.sorted {
                Sorted::All => item.get(sort).is_some(),
                Sorted::Prefix(prefix) => {
                    item.text(sort).is_some_and(|text| text.starts_with(prefix.as_str()))
                }
                Sorted::Between(least, most) => {
                    holds(&Condition::AtLeast(sort, least.clone()), Some(item))
                        && !holds(&Condition::AtLeast(sort, most.clone()), Some(item))
                            | holds(&Condition::Equals(sort, most.clone()), Some(item))
                }
            });
        }
        // By the index's sort key, then by the table's keys.
        let rank = |item: &Item| {
            let sort = index.and_then(|index| item.get(index.sort?));
            let (number, text) = match sort {
                Some(Value::N(number)) => (number.parse().unwrap_or(0), String::new()),
                Some(value) => (0, value.as_text().unwrap_or_default().to_owned()),
                None => (0_i64, String::new()),
            };
            (number, text, keys(query.table, item))
        };
        items.sort_by_key(rank);
        if query.order == Order::Descending {
            items.reverse();
        }
        if let Some(start) = query.start.as_ref().map(|Cursor(place)| rank(place)) {
            // The item may have left the partition: continue after its position.
            items.retain(|item| match query.order {
                Order::Ascending => rank(item) > start,
                Order::Descending => rank(item) < start,
            });
        }
        let limit = query.limit.unwrap_or(1000) as usize;
        let next = (items.len() > limit).then(|| cursor(query.table, index, &items[limit - 1]));
        items.truncate(limit);
        items.retain(|item| holds(&query.filter, Some(item)));
        Ok(Page { items, next })
    }

    async fn scan(
        &self,
        table: &'static Table,
        start: Option<Cursor>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let mut items: Vec<Item> = self.with(table, |rows| rows.values().cloned().collect());
        if let Some(start) = start.as_ref().map(|Cursor(place)| keys(table, place)) {
            items.retain(|item| keys(table, item) > start);
        }
        let next = (items.len() > limit as usize).then(|| cursor(table, None, &items[limit as usize - 1]));
        items.truncate(limit as usize);
        Ok(Page { items, next })
    }

    async fn put(
        &self,
        table: &'static Table,
        item: Item,
        condition: Condition,
    ) -> Result<Written, StoreError> {
        let key = place(&Key::of(table, &item)?);
        Ok(self.with(table, |rows| {
            let there = rows.get(&key);
            if !holds(&condition, there) {
                return Written::Refused(there.cloned().map(Box::new));
            }
            rows.insert(key, item);
            Written::Done
        }))
    }

    async fn delete(
        &self,
        table: &'static Table,
        key: Key,
        condition: Condition,
    ) -> Result<Written, StoreError> {
        Ok(self.with(table, |rows| {
            let there = rows.get(&place(&key));
            if !holds(&condition, there) {
                return Written::Refused(there.cloned().map(Box::new));
            }
            rows.remove(&place(&key));
            Written::Done
        }))
    }

    async fn update(
        &self,
        table: &'static Table,
        key: Key,
        edits: Vec<Edit>,
        condition: Condition,
    ) -> Result<Updated, StoreError> {
        Edit::check(table, &edits)?;
        self.with(table, |rows| {
            let there = rows.get(&place(&key));
            if !holds(&condition, there) {
                return Ok(Updated::Refused(there.cloned().map(Box::new)));
            }
            let item = edited(table, &key, there, edits)?;
            rows.insert(place(&key), item.clone());
            Ok(Updated::Done(Box::new(item)))
        })
    }

    async fn transact(&self, ops: Vec<Op>) -> Result<Transacted, StoreError> {
        Op::check(&ops)?;
        let mut tables = self.0.lock().unwrap();
        let mut changes = Vec::new();
        for (at, op) in ops.into_iter().enumerate() {
            let (table, key) = (op.table(), op.key()?);
            let there = tables.entry(table.id).or_default().get(&place(&key));
            let (Op::Put(.., condition)
            | Op::Update(.., condition)
            | Op::Delete(.., condition)
            | Op::Check(.., condition)) = &op;
            if !holds(condition, there) {
                return Ok(Transacted::Refused { place: at, there: there.cloned().map(Box::new) });
            }
            match op {
                Op::Put(_, item, _) => changes.push((table, key, Some(item))),
                Op::Update(_, _, edits, _) => {
                    changes.push((table, key.clone(), Some(edited(table, &key, there, edits)?)))
                }
                Op::Delete(..) => changes.push((table, key, None)),
                Op::Check(..) => {}
            }
        }
        for (table, key, new) in changes {
            let rows = tables.entry(table.id).or_default();
            match new {
                Some(item) => drop(rows.insert(place(&key), item)),
                None => drop(rows.remove(&place(&key))),
            }
        }
        Ok(Transacted::Done)
    }

    async fn put_batch(
        &self,
        items: Vec<(&'static Table, Item)>,
    ) -> Result<Vec<(&'static Table, Item)>, StoreError> {
        for (table, item) in items {
            self.put(table, item, Condition::Always).await?;
        }
        Ok(Vec::new())
    }
}

/// The item after the edits.
fn edited(
    table: &'static Table,
    key: &Key,
    there: Option<&Item>,
    edits: Vec<Edit>,
) -> Result<Item, StoreError> {
    let mut item = there.cloned().unwrap_or_else(|| keys_only(table, key));
    for edit in edits {
        match edit {
            Edit::Set(name, value) => item.set(name, value),
            Edit::Add(name, number) => {
                let wrong = || StoreError::Invalid(format!("{name} is no whole number"));
                let before = match item.get(name) {
                    Some(Value::N(text)) => text.parse::<i64>().map_err(|_| wrong())?,
                    Some(_) => return Err(wrong()),
                    None => 0,
                };
                item.set(name, Value::N((before + number).to_string()));
            }
            Edit::Remove(name) => drop(item.remove(name)),
        }
    }
    Key::of(table, &item)?;
    Ok(item)
}

fn keys_only(table: &'static Table, key: &Key) -> Item {
    let names = [Some(table.partition), table.sort].into_iter().flatten();
    names
        .zip([Some(&key.partition), key.sort.as_ref()].into_iter().flatten())
        .map(|(name, text)| (name.into(), Value::text(text)))
        .collect()
}

fn keys(table: &Table, item: &Item) -> [String; 2] {
    [Some(table.partition), table.sort]
        .map(|name| name.and_then(|name| item.text(name)).unwrap_or_default().to_owned())
}

fn cursor(table: &Table, index: Option<&Index>, item: &Item) -> Cursor {
    let names = [Some(table.partition), table.sort, index.and_then(|index| index.sort)].into_iter().flatten();
    Cursor(names.filter_map(|name| Some((name.into(), item.get(name)?.clone()))).collect())
}
