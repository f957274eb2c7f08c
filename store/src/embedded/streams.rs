//! Durable local streams, their checkpoints, and the change log of the tables.

use dues_events::{Item, Time};
use rusqlite::{OptionalExtension as _, params};

use super::{Embedded, Fault, codec, row};
use crate::engine::StoreError;
use crate::table::{self, Table};

/// A record of a local stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRecord {
    /// Its place; identifies the delivery, never the fact.
    pub seq: u64,
    /// What keeps records in order among themselves: the user.
    pub partition_key: String,
    /// When it arrived, in milliseconds of the Unix epoch.
    pub at_millis: i64,
    /// The record.
    pub data: Vec<u8>,
}

/// A change of an item, with both images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its place in the log.
    pub seq: u64,
    /// In which table.
    pub table: &'static Table,
    /// Before; `None` for a new item.
    pub old: Option<Item>,
    /// After; `None` for one that was removed.
    pub new: Option<Item>,
}

impl Embedded {
    /// Appends records to a stream; they are durable when this returns. Gives the sequence number of the last.
    ///
    /// # Errors
    /// When they could not be written.
    pub async fn append(&self, stream: &str, at: Time, records: Vec<(String, Vec<u8>)>) -> Result<u64, StoreError> {
        let stream = stream.to_owned();
        self.write(move |writer| writer.append(&stream, at.timestamp_millis(), &records)).await
    }

    /// The records after a place.
    ///
    /// # Errors
    /// When they could not be read.
    pub fn records(&self, stream: &str, after: u64, limit: usize) -> Result<Vec<StreamRecord>, StoreError> {
        self.read(|db| {
            let mut statement = db.prepare_cached(
                "SELECT seq, partition_key, at, data FROM stream_records WHERE stream = ? AND seq > ? ORDER BY seq LIMIT ?",
            )?;
            let rows = statement.query_map(params![stream, after, limit], |row| {
                Ok(StreamRecord { seq: row.get(0)?, partition_key: row.get(1)?, at_millis: row.get(2)?, data: row.get(3)? })
            })?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The newest records, oldest first.
    ///
    /// # Errors
    /// When they could not be read.
    pub fn newest_records(&self, stream: &str, count: usize) -> Result<Vec<StreamRecord>, StoreError> {
        let before = self.read(|db| {
            let sql = "SELECT min(seq) FROM (SELECT seq FROM stream_records WHERE stream = ? ORDER BY seq DESC LIMIT ?)";
            Ok(db.prepare_cached(sql)?.query_row(params![stream, count], |row| row.get::<_, Option<u64>>(0))?)
        })?;
        before.map_or(Ok(Vec::new()), |first| self.records(stream, first.saturating_sub(1), count))
    }

    /// The place of a stream's last record, 0 when it has none.
    ///
    /// # Errors
    /// When it could not be read.
    pub fn last_record(&self, stream: &str) -> Result<u64, StoreError> {
        self.read(|db| {
            let sql = "SELECT max(seq) FROM stream_records WHERE stream = ?";
            Ok(db.prepare_cached(sql)?.query_row([stream], |row| row.get::<_, Option<u64>>(0))?.unwrap_or(0))
        })
    }

    /// How far a consumer has come in a stream, 0 when it has not begun.
    ///
    /// # Errors
    /// When it could not be read.
    pub fn checkpoint(&self, consumer: &str, stream: &str) -> Result<u64, StoreError> {
        self.read(|db| {
            let sql = "SELECT seq FROM checkpoints WHERE consumer = ? AND stream = ?";
            Ok(db.prepare_cached(sql)?.query_row([consumer, stream], |row| row.get(0)).optional()?.unwrap_or(0))
        })
    }

    /// Notes how far a consumer has come; never backwards.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn set_checkpoint(&self, consumer: &str, stream: &str, seq: u64) -> Result<(), StoreError> {
        let (consumer, stream) = (consumer.to_owned(), stream.to_owned());
        self.write(move |writer| writer.checkpoint(&consumer, &stream, seq)).await
    }

    /// Forgets records up to a place that arrived before a time. Gives their number.
    ///
    /// # Errors
    /// When they could not be removed.
    pub async fn trim_stream(&self, stream: &str, through: u64, before: Time) -> Result<u64, StoreError> {
        let stream = stream.to_owned();
        self.write(move |writer| writer.trim_stream(&stream, through, before.timestamp_millis())).await
    }

    /// The changes after a place, of all tables that have a stream.
    ///
    /// # Errors
    /// When they could not be read.
    pub fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.read(|db| {
            let mut statement = db.prepare_cached("SELECT seq, tbl, pk, sk, old, new FROM changes WHERE seq > ? ORDER BY seq LIMIT ?")?;
            let mut rows = statement.query(params![after, limit])?;
            let mut changes = Vec::new();
            while let Some(row) = rows.next()? {
                let table = *table::EMBEDDED.get(row.get::<_, usize>(1)?).ok_or(codec::Damaged)?;
                let (pk, sk): (String, String) = (row.get(2)?, row.get(3)?);
                let image = |bytes: Option<Vec<u8>>| bytes.map(|bytes| row::item(table, &pk, &sk, &bytes)).transpose().map_err(Fault::Own);
                changes.push(Change { seq: row.get(0)?, table, old: image(row.get(4)?)?, new: image(row.get(5)?)? });
            }
            Ok(changes)
        })
    }

    /// The place of the last change, 0 when there is none.
    ///
    /// # Errors
    /// When it could not be read.
    pub fn last_change(&self) -> Result<u64, StoreError> {
        self.read(|db| Ok(db.query_row("SELECT max(seq) FROM changes", [], |row| row.get::<_, Option<u64>>(0))?.unwrap_or(0)))
    }

    /// Copies everything, as it is at one moment, into a new file; whoever writes meanwhile does not wait.
    ///
    /// # Errors
    /// When it could not be copied, or the file is there already.
    pub fn backup(&self, to: &std::path::Path) -> Result<(), StoreError> {
        let file = to.to_str().ok_or_else(|| StoreError::Invalid(format!("{} is not UTF-8", to.display())))?;
        self.read(|db| {
            // It writes nothing here, but SQLite does not know that.
            db.execute_batch("PRAGMA query_only = OFF")?;
            let copied = db.execute("VACUUM INTO ?", [file]);
            db.execute_batch("PRAGMA query_only = ON")?;
            copied.map(drop).map_err(Fault::from)
        })
    }

    /// Forgets changes up to a place. Gives their number.
    ///
    /// # Errors
    /// When they could not be removed.
    pub async fn trim_changes(&self, through: u64) -> Result<u64, StoreError> {
        self.write(move |writer| writer.trim_changes(through)).await
    }
}
