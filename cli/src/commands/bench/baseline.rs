//! The baseline: prepared statements that write the rows the engine wrote, in transactions of a thousand
//! events, to a second file with the same schema and settings.

use rusqlite::types::Value;
use rusqlite::{Connection, params};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::output::Error;

/// Events per transaction.
const BATCH_EVENTS: u64 = 1000;

pub(super) struct Baseline {
    engine: Connection,
    raw: Connection,
    /// Last sequence number read from the engine's change log.
    last_seq: u64,
    /// Highest history row id before the events.
    history_before: i64,
}

/// What the engine wrote for one event.
struct Written {
    history: Vec<Value>,
    status: Value,
    item: Vec<u8>,
    change: Change,
}

struct Change {
    table: i64,
    pk: String,
    sk: String,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Baseline {
    /// Copies the filled store, rows and schema.
    pub(super) fn new(engine: &Path, raw: &Path) -> Result<Self, Error> {
        Self::open(engine, raw).map_err(sqlite_error)
    }

    fn open(engine: &Path, raw: &Path) -> rusqlite::Result<Self> {
        let engine_db = Connection::open(engine)?;
        let raw = Connection::open(raw)?;
        raw.execute_batch(dues_store::embedded::WRITER_SETTINGS)?;
        raw.execute_batch("PRAGMA synchronous = OFF")?;
        let mut schema = engine_db
            .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'")?;
        for sql in schema.query_map([], |row| row.get::<_, String>(0))? {
            raw.execute_batch(&sql?)?;
        }
        drop(schema);
        raw.execute("ATTACH ? AS engine", [engine.to_string_lossy()])?;
        for table in ["billing-activity", "billing-activity-history"] {
            raw.execute_batch(&format!(
                "INSERT INTO main.\"{table}\" SELECT * FROM engine.\"{table}\" ORDER BY id"
            ))?;
        }
        raw.execute_batch("DETACH engine; PRAGMA synchronous = FULL; PRAGMA wal_checkpoint(TRUNCATE);")?;
        let history_before = engine_db.query_row(
            "SELECT ifnull(max(id), 0) FROM \"billing-activity-history\"",
            [],
            |row| row.get(0),
        )?;
        let last_seq =
            engine_db.query_row("SELECT ifnull(max(seq), 0) FROM changes", [], |row| row.get(0))?;
        Ok(Self { engine: engine_db, raw, last_seq, history_before })
    }

    /// Writes what the engine wrote for the next `events` events. Only the writing is timed.
    pub(super) fn write(&mut self, events: u64) -> Result<Duration, Error> {
        let mut spent = Duration::ZERO;
        let mut left = events;
        while left > 0 {
            let rows = self.next_rows(left.min(BATCH_EVENTS)).map_err(sqlite_error)?;
            if rows.is_empty() {
                return Err(Error::Message("the engine wrote fewer rows than events".into()));
            }
            left -= rows.len() as u64;
            let start = Instant::now();
            write_batch(&self.raw, &rows).map_err(sqlite_error)?;
            spent += start.elapsed();
        }
        Ok(spent)
    }

    fn next_rows(&mut self, limit: u64) -> rusqlite::Result<Vec<Written>> {
        let mut changes = self.engine.prepare_cached(
            "SELECT seq, tbl, pk, sk, old, new FROM changes WHERE seq > ? ORDER BY seq LIMIT ?",
        )?;
        let mut history = self.engine.prepare_cached(
            "SELECT pk, sk, p0, s0, item FROM \"billing-activity-history\" WHERE pk = ? AND id > ?",
        )?;
        let mut primary = self
            .engine
            .prepare_cached("SELECT p1, item FROM \"billing-activity\" WHERE pk = ? AND sk = ?")?;
        let mut rows = changes.query(params![self.last_seq, limit])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            self.last_seq = row.get(0)?;
            let change = Change {
                table: row.get(1)?,
                pk: row.get(2)?,
                sk: row.get(3)?,
                old: row.get(4)?,
                new: row.get(5)?,
            };
            let history = history.query_row(params![change.pk, self.history_before], |row| {
                (0..5).map(|n| row.get(n)).collect()
            })?;
            let (status, item) =
                primary.query_row(params![change.pk, change.sk], |row| Ok((row.get(0)?, row.get(1)?)))?;
            all.push(Written { history, status, item, change });
        }
        Ok(all)
    }
}

fn write_batch(raw: &Connection, rows: &[Written]) -> rusqlite::Result<()> {
    raw.execute_batch("BEGIN IMMEDIATE")?;
    {
        let mut history = raw.prepare_cached(
            "INSERT INTO \"billing-activity-history\" (pk, sk, p0, s0, item) VALUES (?, ?, ?, ?, ?)",
        )?;
        let mut primary =
            raw.prepare_cached("UPDATE \"billing-activity\" SET p1 = ?, item = ? WHERE pk = ? AND sk = ?")?;
        let mut log =
            raw.prepare_cached("INSERT INTO changes (tbl, pk, sk, old, new) VALUES (?, ?, ?, ?, ?)")?;
        for row in rows {
            history.execute(rusqlite::params_from_iter(&row.history))?;
            primary.execute(params![row.status, row.item, row.change.pk, row.change.sk])?;
            log.execute(params![
                row.change.table,
                row.change.pk,
                row.change.sk,
                row.change.old,
                row.change.new
            ])?;
        }
    }
    raw.execute_batch("COMMIT")
}

fn sqlite_error(error: rusqlite::Error) -> Error {
    Error::Message(format!("plain SQLite: {error}"))
}
