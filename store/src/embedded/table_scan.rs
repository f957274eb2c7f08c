//! Scans of whole tables, concurrent with the writer: to count, to follow appended rows, and to find rows by
//! content.
//!
//! Scans block for as long as they take, so call them off the request path. SQLite's WAL keeps the snapshot
//! that a reader sees: writers are not blocked.

use dues_events::Item;
use rusqlite::{OptionalExtension as _, params};
use std::ops::ControlFlow;

use super::{Embedded, Fault, codec, row, schema};
use crate::engine::{Condition, StoreError};
use crate::table::Table;

/// Rows of a table in the order in which they were first written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScanPage {
    /// The rows that passed the filter.
    pub items: Vec<Item>,
    /// The position of the last row read; `None` when no row was read.
    pub last: Option<u64>,
}

impl Embedded {
    /// The sequence number of the newest change, 0 if there never was one. Trimming does not alter it.
    pub fn last_change(&self) -> Result<u64, StoreError> {
        self.read(|db| Ok(last_change(db)?))
    }

    /// Calls `each` with every item of a table, from one snapshot, until it breaks. Returns the sequence
    /// number of the newest change in that snapshot: applying the changes after it to the result counts
    /// everything exactly once.
    pub fn snapshot(
        &self,
        table: &'static Table,
        mut each: impl FnMut(Item) -> ControlFlow<()>,
    ) -> Result<u64, StoreError> {
        self.read(|db| {
            let snapshot = db.unchecked_transaction()?;
            let place = last_change(&snapshot)?;
            let sql = format!("SELECT pk, sk, item FROM {} ORDER BY id", schema::quoted(table.name));
            let mut statement = snapshot.prepare_cached(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let text = |n| row.get_ref(n).and_then(|value| value.as_str().map_err(Into::into));
                let bytes = row.get_ref(2)?.as_blob().map_err(|_| codec::Damaged)?;
                if each(row::item(table, text(0)?, text(1)?, bytes).map_err(Fault::Own)?).is_break() {
                    break;
                }
            }
            Ok(place)
        })
    }

    /// Reads up to `look_at` rows of a table that were first written after a position, oldest first.
    pub fn written_after(
        &self,
        table: &'static Table,
        after: u64,
        look_at: u32,
        filter: &Condition,
    ) -> Result<ScanPage, StoreError> {
        self.look(table, "id > ? ORDER BY id", after, look_at, filter)
    }

    /// Reads up to `look_at` rows of a table that were first written before a position, newest first.
    pub fn written_before(
        &self,
        table: &'static Table,
        before: u64,
        look_at: u32,
        filter: &Condition,
    ) -> Result<ScanPage, StoreError> {
        self.look(table, "id < ? ORDER BY id DESC", before, look_at, filter)
    }

    /// The partition keys of a table with that prefix, in order.
    pub fn partitions(
        &self,
        table: &'static Table,
        prefix: &str,
        most: u32,
    ) -> Result<Vec<String>, StoreError> {
        self.read(|db| {
            let sql = format!(
                "SELECT DISTINCT pk FROM {} WHERE pk >= ? AND pk < ? ORDER BY pk LIMIT ?",
                schema::quoted(table.name)
            );
            let mut statement = db.prepare_cached(&sql)?;
            // The upper bound: no other key with the prefix sorts after the prefix plus the last character.
            let rows = statement
                .query_map(params![prefix, format!("{prefix}{}", char::MAX), most], |row| row.get(0))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The items in an index with a UUID partition key that starts with `start`; none if it is not the start
    /// of a UUID.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when the index does not exist.
    pub fn by_uuid_start(
        &self,
        table: &'static Table,
        index: &str,
        start: &str,
        most: u32,
    ) -> Result<Vec<Item>, StoreError> {
        let (n, _) = table
            .index(index)
            .ok_or_else(|| StoreError::Invalid(format!("{}: no index {index}", table.name)))?;
        let Some((least, greatest)) = uuids(start) else { return Ok(Vec::new()) };
        self.read(|db| {
            let sql = format!(
                "SELECT pk, sk, item FROM {} WHERE p{n} BETWEEN ? AND ? LIMIT ?",
                schema::quoted(table.name)
            );
            let mut statement = db.prepare_cached(&sql)?;
            let mut rows = statement.query(params![least, greatest, most])?;
            let mut items = Vec::new();
            while let Some(row) = rows.next()? {
                let (pk, sk, bytes): (String, String, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
                items.push(row::item(table, &pk, &sk, &bytes).map_err(Fault::Own)?);
            }
            Ok(items)
        })
    }

    /// The number of items in each partition of a table. For tables with few partitions.
    pub fn partition_sizes(&self, table: &'static Table) -> Result<Vec<(String, u64)>, StoreError> {
        self.read(|db| {
            let sql =
                format!("SELECT pk, count(*) FROM {} GROUP BY pk ORDER BY pk", schema::quoted(table.name));
            let mut statement = db.prepare_cached(&sql)?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Counts the records of a stream after one position and up to another. Also returns when the first of
    /// them arrived, in milliseconds of the Unix epoch.
    pub fn records_between(
        &self,
        stream: &str,
        after: u64,
        through: u64,
    ) -> Result<(u64, Option<i64>), StoreError> {
        let place = |seq: u64| i64::try_from(seq).unwrap_or(i64::MAX);
        self.read(|db| {
            let count = "SELECT count(*) FROM stream_records WHERE stream = ? AND seq > ? AND seq <= ?";
            let count = db
                .prepare_cached(count)?
                .query_row(params![stream, place(after), place(through)], |row| row.get(0))?;
            let first = "SELECT at FROM stream_records WHERE stream = ? AND seq > ? AND seq <= ? ORDER BY \
                seq LIMIT 1";
            let first = db
                .prepare_cached(first)?
                .query_row(params![stream, place(after), place(through)], |row| row.get(0));
            Ok((count, first.optional()?))
        })
    }

    fn look(
        &self,
        table: &'static Table,
        which: &str,
        place: u64,
        look_at: u32,
        filter: &Condition,
    ) -> Result<ScanPage, StoreError> {
        let place = i64::try_from(place).unwrap_or(i64::MAX);
        self.read(|db| {
            let sql =
                format!("SELECT id, pk, sk, item FROM {} WHERE {which} LIMIT ?", schema::quoted(table.name));
            let mut statement = db.prepare_cached(&sql)?;
            let mut rows = statement.query(params![place, look_at])?;
            let mut written = ScanPage::default();
            while let Some(row) = rows.next()? {
                let text = |n| row.get_ref(n).and_then(|value| value.as_str().map_err(Into::into));
                let bytes = row.get_ref(3)?.as_blob().map_err(|_| codec::Damaged)?;
                let (pk, sk) = (text(1)?, text(2)?);
                if row::holds(filter, table, pk, sk, Some(bytes))? {
                    written.items.push(row::item(table, pk, sk, bytes).map_err(Fault::Own)?);
                }
                written.last = Some(row.get(0)?);
            }
            Ok(written)
        })
    }
}

fn last_change(db: &rusqlite::Connection) -> rusqlite::Result<u64> {
    // SQLite's own counter, which trimming does not change.
    let sql = "SELECT seq FROM sqlite_sequence WHERE name = 'changes'";
    Ok(db.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// The lowest and the highest UUID with that prefix.
fn uuids(start: &str) -> Option<([u8; 16], [u8; 16])> {
    // Hyphens are allowed only where a UUID has them.
    let fits = |(n, letter): (usize, char)| {
        if matches!(n, 8 | 13 | 18 | 23) { letter == '-' } else { letter.is_ascii_hexdigit() }
    };
    if start.is_empty() || start.len() > 36 || !start.chars().enumerate().all(fits) {
        return None;
    }
    let digits: Vec<u8> = start
        .chars()
        .filter_map(|letter| letter.to_digit(16))
        .filter_map(|digit| u8::try_from(digit).ok())
        .collect();
    let filled = |with: u8| {
        let mut bytes = [0; 16];
        for (n, byte) in bytes.iter_mut().enumerate() {
            let digit = |n: usize| digits.get(n).copied().unwrap_or(with);
            *byte = digit(2 * n) << 4 | digit(2 * n + 1);
        }
        bytes
    };
    Some((filled(0), filled(15)))
}

#[cfg(test)]
mod tests {
    use super::uuids;

    #[test]
    fn the_start_of_a_uuid_is_a_range_of_them() {
        let hex = |bytes: [u8; 16]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let (least, greatest) = uuids("1b4e28ba-2").unwrap();
        assert_eq!(
            (hex(least), hex(greatest)),
            ("1b4e28ba200000000000000000000000".into(), "1b4e28ba2fffffffffffffffffffffff".into())
        );
        let whole = "1b4e28ba-2fa1-51d2-883f-0016d3cca427";
        assert_eq!(uuids(whole).map(|(least, greatest)| least == greatest), Some(true));
        for no in ["", "-", "1b4e28ba2", "xyz", "1b4e28ba-2fa1-51d2-883f-0016d3cca4270"] {
            assert_eq!(uuids(no), None, "{no}");
        }
    }
}
