//! Durable local streams, their checkpoints, and the change log of the tables.

use dues_events::{Item, Time};
use rusqlite::{OptionalExtension as _, params};

use super::{Embedded, Fault, codec, row};
use crate::engine::StoreError;
use crate::table::{self, Table};

/// A record of a local stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRecord {
    /// Its sequence number; identifies the delivery, never the fact.
    pub seq: u64,
    /// Records with the same key stay in order: the user.
    pub partition_key: String,
    /// When it arrived, in milliseconds of the Unix epoch.
    pub at_millis: i64,
    /// The record's bytes.
    pub data: Vec<u8>,
}

/// A change of an item, with both images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its sequence number in the change log.
    pub seq: u64,
    /// The table.
    pub table: &'static Table,
    /// The old image; `None` for a new item.
    pub old: Option<Item>,
    /// The new image; `None` for a deleted item.
    pub new: Option<Item>,
}

impl Embedded {
    /// Appends records to a stream, with priority over other writes; they are durable when this returns.
    /// Returns the sequence number of the last.
    pub async fn append(
        &self,
        stream: &str,
        at: Time,
        records: Vec<(String, Vec<u8>)>,
    ) -> Result<u64, StoreError> {
        let stream = stream.to_owned();
        self.write_ahead(move |writer| writer.append(&stream, at.timestamp_millis(), &records)).await
    }

    /// The records after a sequence number.
    pub fn records(&self, stream: &str, after: u64, limit: usize) -> Result<Vec<StreamRecord>, StoreError> {
        self.read(|db| {
            let mut statement = db.prepare_cached(
                "SELECT seq, partition_key, at, data FROM stream_records WHERE stream = ? AND seq > ? ORDER \
                    BY seq LIMIT ?",
            )?;
            let rows = statement.query_map(params![stream, after, limit], |row| {
                Ok(StreamRecord {
                    seq: row.get(0)?,
                    partition_key: row.get(1)?,
                    at_millis: row.get(2)?,
                    data: row.get(3)?,
                })
            })?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The newest records, oldest first.
    pub fn newest_records(&self, stream: &str, count: usize) -> Result<Vec<StreamRecord>, StoreError> {
        let before = self.read(|db| {
            let sql = "SELECT min(seq) FROM (SELECT seq FROM stream_records WHERE stream = ? ORDER BY seq \
                DESC LIMIT ?)";
            Ok(db
                .prepare_cached(sql)?
                .query_row(params![stream, count], |row| row.get::<_, Option<u64>>(0))?)
        })?;
        before.map_or(Ok(Vec::new()), |first| self.records(stream, first.saturating_sub(1), count))
    }

    /// The sequence number of a stream's last record, 0 if it has none.
    pub fn last_record(&self, stream: &str) -> Result<u64, StoreError> {
        self.read(|db| {
            let sql = "SELECT max(seq) FROM stream_records WHERE stream = ?";
            Ok(db.prepare_cached(sql)?.query_row([stream], |row| row.get::<_, Option<u64>>(0))?.unwrap_or(0))
        })
    }

    /// The checkpoint of a consumer in a stream, 0 if it has not started.
    pub fn checkpoint(&self, consumer: &str, stream: &str) -> Result<u64, StoreError> {
        self.read(|db| {
            let sql = "SELECT seq FROM checkpoints WHERE consumer = ? AND stream = ?";
            Ok(db
                .prepare_cached(sql)?
                .query_row([consumer, stream], |row| row.get(0))
                .optional()?
                .unwrap_or(0))
        })
    }

    /// Advances a consumer's checkpoint; never moves it backwards.
    pub async fn set_checkpoint(&self, consumer: &str, stream: &str, seq: u64) -> Result<(), StoreError> {
        let (consumer, stream) = (consumer.to_owned(), stream.to_owned());
        self.write(move |writer| writer.checkpoint(&consumer, &stream, seq)).await
    }

    /// Deletes records up to a sequence number that arrived before a time. Returns how many.
    pub async fn trim_stream(&self, stream: &str, through: u64, before: Time) -> Result<u64, StoreError> {
        let stream = stream.to_owned();
        self.write(move |writer| writer.trim_stream(&stream, through, before.timestamp_millis())).await
    }

    /// The changes after a sequence number, of all tables that have a stream.
    pub fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.read(|db| {
            let mut statement = db.prepare_cached(
                "SELECT seq, tbl, pk, sk, old, new FROM changes WHERE seq > ? ORDER BY seq LIMIT ?",
            )?;
            let mut rows = statement.query(params![after, limit])?;
            let mut changes = Vec::new();
            while let Some(row) = rows.next()? {
                let table = *table::EMBEDDED.get(row.get::<_, usize>(1)?).ok_or(codec::Damaged)?;
                let (pk, sk): (String, String) = (row.get(2)?, row.get(3)?);
                let image = |bytes: Option<Vec<u8>>| {
                    bytes.map(|bytes| row::item(table, &pk, &sk, &bytes)).transpose().map_err(Fault::Own)
                };
                changes.push(Change {
                    seq: row.get(0)?,
                    table,
                    old: image(row.get(4)?)?,
                    new: image(row.get(5)?)?,
                });
            }
            Ok(changes)
        })
    }

    /// Copies a snapshot of the whole database into a new file; writers do not wait.
    ///
    /// # Errors
    /// When the copy fails, or the file exists already.
    pub fn backup(&self, to: &std::path::Path) -> Result<(), StoreError> {
        let file =
            to.to_str().ok_or_else(|| StoreError::Invalid(format!("{} is not UTF-8", to.display())))?;
        self.read(|db| {
            // VACUUM INTO does not write to this database, but `query_only` forbids it all the same.
            db.execute_batch("PRAGMA query_only = OFF")?;
            let copied = db.execute("VACUUM INTO ?", [file]);
            db.execute_batch("PRAGMA query_only = ON")?;
            copied.map(drop).map_err(Fault::from)
        })
    }

    /// Deletes changes up to a sequence number. Returns how many.
    pub async fn trim_changes(&self, through: u64) -> Result<u64, StoreError> {
        self.write(move |writer| writer.trim_changes(through)).await
    }
}
