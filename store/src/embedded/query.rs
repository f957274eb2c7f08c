//! Translates queries to SQL and reads their pages.

use dues_events::{Item, Value};
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, params_from_iter};

use super::row::IndexKey;
use super::writer::Fault;
use super::{codec, row, schema};
use crate::engine::{Condition, Cursor, Key, Order, Page, Query, Sorted, StoreError};
use crate::table::Table;

/// Page size of a query without a limit; stands in for DynamoDB's 1 MB.
const PAGE: u32 = 1000;
/// Cursor attributes of an index page: the row id and the sort key where it ended.
const ROW: &str = "row";
const SORT: &str = "sort";

/// Reads an item by its key.
pub(super) fn get(db: &Connection, table: &'static Table, key: &Key) -> Result<Option<Item>, Fault> {
    let sk = key.sort.as_deref().unwrap_or_default();
    let sql = format!("SELECT item FROM {} WHERE pk = ? AND sk = ?", schema::quoted(table.name));
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query([&key.partition, sk])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let bytes = row.get_ref(0)?.as_blob().map_err(|_| codec::Damaged)?;
    row::item(table, &key.partition, sk, bytes).map(Some).map_err(Fault::Own)
}

/// SQL that selects these columns of a page of a table. Reads one row more than requested, to see whether
/// there is a next page.
pub(super) fn scan_sql(
    table: &Table,
    columns: &str,
    start: Option<Cursor>,
    limit: u32,
) -> (String, Vec<Sql>) {
    let text = |place: &Item, name: &str| Sql::Text(place.text(name).unwrap_or_default().to_owned());
    let (after, values) = match start {
        Some(Cursor(start)) => (
            "WHERE (pk, sk) > (?, ?)",
            [table.partition, table.sort.unwrap_or_default()].map(|name| text(&start, name)).to_vec(),
        ),
        None => ("", Vec::new()),
    };
    let name = schema::quoted(table.name);
    (format!("SELECT {columns} FROM {name} {after} ORDER BY pk, sk LIMIT {}", u64::from(limit) + 1), values)
}

pub(super) fn run_query(db: &Connection, query: &Query) -> Result<Page, Fault> {
    let (sql, values, limit) = match query.index {
        None => partition_sql(query),
        Some(name) => index_sql(query, name).map_err(Fault::Own)?,
    };
    read_page(db, query.table, &sql, &values, limit, query.index, &query.filter)
}

fn partition_sql(query: &Query) -> (String, Vec<Sql>, u32) {
    let (than, order) = direction(query.order);
    let mut values = vec![Sql::Text(query.partition.clone())];
    let mut after = String::new();
    if let (Some(Cursor(start)), Some(sort)) = (&query.start, query.table.sort) {
        after = format!(" AND sk {than} ?");
        values.push(Sql::Text(start.text(sort).unwrap_or_default().to_owned()));
    }
    let text = |value: &Value| Sql::Text(value.as_text().unwrap_or_default().to_owned());
    range(&query.sorted, "sk", text, &mut after, &mut values);
    let limit = query.limit.unwrap_or(PAGE);
    let name = schema::quoted(query.table.name);
    // One row more than requested shows whether there is a next page.
    (
        format!(
            "SELECT id, pk, sk, item FROM {name} WHERE pk = ?{after} ORDER BY sk{order} LIMIT {}",
            u64::from(limit) + 1
        ),
        values,
        limit,
    )
}

/// The comparison with the cursor, and the suffix of ORDER BY.
fn direction(order: Order) -> (&'static str, &'static str) {
    match order {
        Order::Ascending => (">", ""),
        Order::Descending => ("<", " DESC"),
    }
}

/// Adds the range of sort keys to the SQL.
fn range(
    sorted: &Sorted,
    column: &str,
    key: impl Fn(&Value) -> Sql,
    sql: &mut String,
    values: &mut Vec<Sql>,
) {
    match sorted {
        Sorted::All => {}
        Sorted::Prefix(prefix) => {
            // The upper bound: no other key with the prefix sorts after the prefix plus the last character.
            sql.push_str(&format!(" AND {column} >= ? AND {column} < ?"));
            values.extend([prefix.clone(), format!("{prefix}{}", char::MAX)].map(Sql::Text));
        }
        Sorted::Between(least, most) => {
            sql.push_str(&format!(" AND {column} BETWEEN ? AND ?"));
            values.extend([key(least), key(most)]);
        }
    }
}

/// SQL of an index query: ordered by sort key, then in the order in which the items were first written.
fn index_sql(query: &Query, name: &str) -> Result<(String, Vec<Sql>, u32), StoreError> {
    let (n, index) = query
        .table
        .index(name)
        .ok_or_else(|| StoreError::Invalid(format!("{}: no index {name}", query.table.name)))?;
    let (than, order) = direction(query.order);
    let mut values = vec![sql_key(&IndexKey::of(&query.partition))];
    let mut after = String::new();
    if let Some(Cursor(start)) = &query.start {
        let row = start.get(ROW).and_then(Value::as_u64).unwrap_or_default();
        let row = Sql::Integer(i64::try_from(row).unwrap_or(i64::MAX));
        if index.sort.is_some() {
            after = format!(" AND (s{n}, id) {than} (?, ?)");
            values.push(sql_key(&IndexKey::sort(index, start.get(SORT))));
        } else {
            after = format!(" AND id {than} ?");
        }
        values.push(row);
    }
    let mut by = format!("id{order}");
    if index.sort.is_some() {
        by = format!("s{n}{order}, {by}");
        after.push_str(&format!(" AND s{n} IS NOT NULL"));
        range(
            &query.sorted,
            &format!("s{n}"),
            |value| sql_key(&IndexKey::sort(index, Some(value))),
            &mut after,
            &mut values,
        );
    }
    let limit = query.limit.unwrap_or(PAGE);
    let table = schema::quoted(query.table.name);
    Ok((
        format!(
            "SELECT id, pk, sk, item FROM {table} WHERE p{n} = ?{after} ORDER BY {by} LIMIT {}",
            u64::from(limit) + 1
        ),
        values,
        limit,
    ))
}

fn sql_key(key: &IndexKey) -> Sql {
    match key {
        IndexKey::None => Sql::Null,
        IndexKey::Uuid(bytes) => Sql::Blob(bytes.to_vec()),
        IndexKey::Text(text) => Sql::Text(text.clone()),
        IndexKey::Number(number) => Sql::Integer(*number),
    }
}

pub(super) fn read_page(
    db: &Connection,
    table: &'static Table,
    sql: &str,
    values: &[Sql],
    limit: u32,
    index: Option<&str>,
    filter: &Condition,
) -> Result<Page, Fault> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut page = Page::default();
    let mut last = None;
    let mut seen = 0;
    while let Some(row) = rows.next()? {
        if seen == limit {
            page.next = last;
            break;
        }
        seen += 1;
        let text = |n| row.get_ref(n).and_then(|value| value.as_str().map_err(Into::into));
        let bytes = row.get_ref(3)?.as_blob().map_err(|_| codec::Damaged)?;
        let (pk, sk) = (text(1)?, text(2)?);
        let passes = row::holds(filter, table, pk, sk, Some(bytes))?;
        if !passes && seen < limit {
            continue;
        }
        let item = row::item(table, pk, sk, bytes).map_err(Fault::Own)?;
        if seen == limit {
            last = Some(cursor(table, index, row.get(0)?, &item));
        }
        if passes {
            page.items.push(item);
        }
    }
    Ok(page)
}

fn cursor(table: &Table, index: Option<&str>, id: i64, item: &Item) -> Cursor {
    let mut place = Item::new();
    match index.and_then(|name| table.index(name)) {
        None => {
            for name in [Some(table.partition), table.sort].into_iter().flatten() {
                place.set_text(name, item.text(name).unwrap_or_default());
            }
        }
        Some((_, index)) => {
            place.set(ROW, Value::number(id.unsigned_abs()));
            if let Some(value) = index.sort.and_then(|sort| item.get(sort)) {
                place.set(SORT, value.clone());
            }
        }
    }
    Cursor(place)
}
