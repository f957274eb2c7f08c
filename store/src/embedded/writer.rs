//! The writer thread. All jobs that wait when a transaction starts are committed in it together, so that
//! they share one fsync: callers await their own write, and throughput grows with their number.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, ToSql, params};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

use super::codec::Damaged;
use super::row::{IndexKey, Row, edit, holds, item};
use super::schema::Statements;
use crate::clock::{Clock as _, SystemClock};
use crate::engine::{Condition, Edit, Key, StoreError, Updated, Written};
use crate::table::{self, Table};

/// Maximum number of jobs in a transaction.
const GROUP: usize = 4096;
/// How long the queue must stay empty before a group is closed.
const LULL: Duration = Duration::from_micros(200);
/// Minimum duration of a transaction that urgent jobs wait for: long enough to be worth its fsync.
const SHORTEST: Duration = Duration::from_millis(2);

/// A job for the writer. It runs inside the transaction and returns a callback, which is called with the
/// outcome once the transaction is durable or has failed.
pub(crate) type Job = Box<dyn FnOnce(&Writer) -> (Result<(), rusqlite::Error>, Answer) + Send>;
type Answer = Box<dyn FnOnce(Result<(), StoreError>)>;

/// Why a job failed.
pub(crate) enum Fault {
    /// The job alone fails: nothing was written for it, and the others proceed.
    Own(StoreError),
    /// The database failed: the whole transaction fails.
    Database(rusqlite::Error),
}

impl Fault {
    /// The error as the engine trait returns it.
    pub(crate) fn into_store_error(self) -> StoreError {
        match self {
            Self::Own(error) => error,
            Self::Database(error) => store_error(&error),
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Damaged> for Fault {
    fn from(error: Damaged) -> Self {
        Self::Own(StoreError::Invalid(error.to_string()))
    }
}

/// A job, and the channel for its answer. A job that is dropped before it runs closes the channel.
pub(crate) fn job<T: Send + 'static>(
    work: impl FnOnce(&Writer) -> Result<T, Fault> + Send + 'static,
) -> (Job, oneshot::Receiver<Result<T, StoreError>>) {
    let (reply, answer) = oneshot::channel();
    let job: Job = Box::new(move |writer| {
        let (result, own) = match work(writer) {
            Ok(value) => (Ok(()), Ok(value)),
            Err(Fault::Own(error)) => (Ok(()), Err(error)),
            Err(Fault::Database(error)) => {
                let reported = store_error(&error);
                (Err(error), Err(reported))
            }
        };
        // The caller may be gone; the write is valid anyway.
        (result, Box::new(move |committed| drop(reply.send(committed.and(own)))))
    });
    (job, answer)
}

pub(crate) struct Writer {
    db: Connection,
    statements: Vec<Statements>,
}

impl Writer {
    pub(crate) fn new(db: Connection) -> Self {
        db.set_prepared_statement_cache_capacity(64);
        Self { db, statements: table::EMBEDDED.iter().map(|table| Statements::of(table)).collect() }
    }

    /// Runs until every sender is dropped. Urgent jobs go first and cut the running transaction short: a
    /// producer waits for their acknowledgement, while the other jobs come from our own handlers, which have
    /// many writes in flight.
    pub(crate) fn run(self, mut jobs: mpsc::Receiver<Job>, mut urgent: mpsc::Receiver<Job>) {
        let mut group = VecDeque::with_capacity(GROUP);
        loop {
            while let Ok(job) = urgent.try_recv() {
                group.push_front(job);
            }
            if group.is_empty() {
                let Some(first) = jobs.blocking_recv() else { break };
                group.push_back(first);
                // It may be the nudge that announces an urgent job.
                continue;
            }
            gather(&mut group, &mut jobs);
            self.commit(&mut group, || !urgent.is_empty());
        }
        // Leaves no WAL to replay; if this fails, the next open replays it.
        let _ = self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }

    /// Commits as many of these jobs as fit into one transaction. If it fails, none of its writes happened,
    /// and every caller gets the error.
    fn commit(&self, jobs: &mut VecDeque<Job>, is_awaited: impl Fn() -> bool) {
        let mut answers = Vec::new();
        let begun = SystemClock.uptime();
        let result = self.db.execute_batch("BEGIN IMMEDIATE").and_then(|()| {
            while let Some(job) = jobs.pop_front() {
                let (result, answer) = job(self);
                answers.push(answer);
                result?;
                if is_awaited() && SystemClock.uptime() - begun >= SHORTEST {
                    break;
                }
            }
            self.db.execute_batch("COMMIT")
        });
        let committed = result.map_err(|error| {
            let _ = self.db.execute_batch("ROLLBACK");
            // They would fail in the same way: dropping them closes their channels, which answers their
            // callers.
            jobs.clear();
            store_error(&error)
        });
        answers.into_iter().for_each(|answer| answer(committed.clone()));
    }

    pub(crate) fn put(&self, row: &Row, condition: &Condition) -> Result<Written, Fault> {
        // The most frequent write is a new history row: one statement if its key is free.
        if *condition == Condition::NoItem && self.create(row)? {
            return Ok(Written::Done);
        }
        let mut find = self.db.prepare_cached(&self.statements(row.table).find)?;
        let mut found = find.query(params![row.pk, row.sk])?;
        let Some(there) = found.next()? else {
            drop(found);
            if !holds(condition, row.table, &row.pk, &row.sk, None)? {
                return Ok(Written::Refused(None));
            }
            self.create(row)?;
            return Ok(Written::Done);
        };
        let id: i64 = there.get(0)?;
        let old = there.get_ref(1)?.as_blob().map_err(|_| Damaged)?;
        if !holds(condition, row.table, &row.pk, &row.sk, Some(old))? {
            return Ok(Written::Refused(Some(Box::new(
                item(row.table, &row.pk, &row.sk, old).map_err(Fault::Own)?,
            ))));
        }
        // Log first: the old image is borrowed from the statement that is still open.
        self.log(row.table, &row.pk, &row.sk, Some(old), Some(&row.bytes))?;
        let mask = row.changed_indexes(old)?;
        drop(found);
        self.replace(id, row, mask)?;
        Ok(Written::Done)
    }

    pub(crate) fn update(
        &self,
        table: &'static Table,
        key: &Key,
        edits: Vec<Edit>,
        condition: &Condition,
    ) -> Result<Updated, Fault> {
        let sk = key.sort.as_deref().unwrap_or_default();
        let there = self.find(table, &key.partition, sk)?;
        let old = there.as_ref().map(|(_, bytes)| bytes.as_slice());
        // If there is no row, this is an item with only its keys.
        let mut image =
            Box::new(item(table, &key.partition, sk, old.unwrap_or_default()).map_err(Fault::Own)?);
        if !holds(condition, table, &key.partition, sk, old)? {
            return Ok(Updated::Refused(old.map(|_| image)));
        }
        edit(&mut image, edits).map_err(Fault::Own)?;
        let row = Row::new(table, &image).map_err(Fault::Own)?;
        match &there {
            None => drop(self.create(&row)?),
            Some((id, old)) => {
                let mask = row.changed_indexes(old)?;
                self.log(table, &row.pk, &row.sk, Some(old), Some(&row.bytes))?;
                self.replace(*id, &row, mask)?;
            }
        }
        Ok(Updated::Done(image))
    }

    /// Runs a statement without parameters or rows.
    pub(super) fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.db.prepare_cached(sql)?.execute([]).map(drop)
    }

    /// Finds a row by its key: its id and its bytes.
    pub(super) fn find(
        &self,
        table: &'static Table,
        pk: &str,
        sk: &str,
    ) -> rusqlite::Result<Option<(i64, Vec<u8>)>> {
        let sql = &self.statements(table).find;
        self.db
            .prepare_cached(sql)?
            .query_row(params![pk, sk], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
    }

    /// Inserts a new row; `false` if its key is taken.
    fn create(&self, row: &Row) -> rusqlite::Result<bool> {
        let keys = row.index_keys.iter().map(|key: &IndexKey| key as &dyn ToSql);
        let values =
            [&row.pk as &dyn ToSql, &row.sk].into_iter().chain(keys).chain([&row.bytes as &dyn ToSql]);
        let sql = &self.statements(row.table).insert;
        let created = self.db.prepare_cached(sql)?.execute(rusqlite::params_from_iter(values))? == 1;
        if created {
            self.log(row.table, &row.pk, &row.sk, None, Some(&row.bytes))?;
        }
        Ok(created)
    }

    /// Overwrites the row with that id; the mask marks the indexes with changed keys.
    fn replace(&self, id: i64, row: &Row, mask: usize) -> rusqlite::Result<()> {
        let keys = row
            .index_keys
            .chunks(2)
            .enumerate()
            .filter(|(n, _)| mask & (1 << n) != 0)
            .flat_map(|(_, keys)| keys);
        let values = keys.map(|key| key as &dyn ToSql).chain([&row.bytes as &dyn ToSql, &id]);
        let sql = &self.statements(row.table).update[mask];
        self.db.prepare_cached(sql)?.execute(rusqlite::params_from_iter(values)).map(drop)
    }

    pub(crate) fn delete(
        &self,
        table: &'static Table,
        key: &Key,
        condition: &Condition,
    ) -> Result<Written, Fault> {
        let sk = key.sort.as_deref().unwrap_or_default();
        let there = self.find(table, &key.partition, sk)?;
        let old = there.as_ref().map(|(_, bytes)| bytes.as_slice());
        if !holds(condition, table, &key.partition, sk, old)? {
            return refused(table, key, old);
        }
        if let Some((id, old)) = &there {
            self.db.prepare_cached(&self.statements(table).delete)?.execute([id])?;
            self.log(table, &key.partition, sk, Some(old), None)?;
        }
        Ok(Written::Done)
    }

    /// Appends to the change log, in the same transaction as the change. As on DynamoDB, a write that
    /// changes nothing is not a change.
    fn log(
        &self,
        table: &'static Table,
        pk: &str,
        sk: &str,
        old: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> rusqlite::Result<()> {
        if table.stream && old != new {
            let number = table_number(table);
            self.db
                .prepare_cached("INSERT INTO changes (tbl, pk, sk, old, new) VALUES (?, ?, ?, ?, ?)")?
                .execute(params![
                    number,
                    pk,
                    sk,
                    old.map(ValueRef::Blob).map(Borrowed),
                    new.map(ValueRef::Blob).map(Borrowed)
                ])?;
        }
        Ok(())
    }

    pub(crate) fn append(&self, stream: &str, at: i64, records: &[(String, Vec<u8>)]) -> Result<u64, Fault> {
        let mut insert = self.db.prepare_cached(
            "INSERT INTO stream_records (stream, partition_key, at, data) VALUES (?, ?, ?, ?)",
        )?;
        for (key, data) in records {
            insert.execute(params![stream, key, at, data])?;
        }
        Ok(self.db.last_insert_rowid().unsigned_abs())
    }

    pub(crate) fn checkpoint(&self, consumer: &str, stream: &str, seq: u64) -> Result<(), Fault> {
        // Never moves backwards: if two consumers share a stream, the slower one repeats harmlessly.
        let sql = "INSERT INTO checkpoints (consumer, stream, seq) VALUES (?, ?, ?)
                   ON CONFLICT (consumer, stream) DO UPDATE SET seq = max(seq, excluded.seq)";
        self.db.prepare_cached(sql)?.execute(params![consumer, stream, seq])?;
        Ok(())
    }

    /// Deletes stream records up to `through` that arrived before `before`.
    pub(crate) fn trim_stream(&self, stream: &str, through: u64, before: i64) -> Result<u64, Fault> {
        let sql = "DELETE FROM stream_records WHERE stream = ? AND seq <= ? AND at < ?";
        Ok(self.db.prepare_cached(sql)?.execute(params![stream, through, before])? as u64)
    }

    /// Deletes changes up to `through`.
    pub(crate) fn trim_changes(&self, through: u64) -> Result<u64, Fault> {
        Ok(self.db.prepare_cached("DELETE FROM changes WHERE seq <= ?")?.execute([through])? as u64)
    }

    fn statements(&self, table: &'static Table) -> &Statements {
        &self.statements[table_number(table)]
    }
}

/// The answer when a condition does not hold for the row with these bytes.
pub(super) fn refused(table: &'static Table, key: &Key, there: Option<&[u8]>) -> Result<Written, Fault> {
    let image =
        there.map(|bytes| item(table, &key.partition, key.sort.as_deref().unwrap_or_default(), bytes));
    Ok(Written::Refused(image.transpose().map_err(Fault::Own)?.map(Box::new)))
}

/// A no-op job: wakes a writer that waits on the usual queue, so that it checks the urgent one.
pub(crate) fn nudge() -> Job {
    Box::new(|_| (Ok(()), Box::new(drop)))
}

/// Fills a group from the queue. While jobs keep arriving, more are on their way: waits until none arrives
/// within [`LULL`], a small part of the fsync that they then share. A caller that is alone does not wait.
fn gather(group: &mut VecDeque<Job>, jobs: &mut mpsc::Receiver<Job>) {
    loop {
        let before = group.len();
        while group.len() < GROUP
            && let Ok(job) = jobs.try_recv()
        {
            group.push_back(job);
        }
        if group.len() == before || group.len() == GROUP {
            return;
        }
        std::thread::sleep(LULL);
    }
}

/// The table's position in the list of tables, which identifies it in the change log.
pub(crate) fn table_number(table: &Table) -> usize {
    table.id.number()
}

struct Borrowed<'a>(ValueRef<'a>);

impl ToSql for Borrowed<'_> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(rusqlite::types::ToSqlOutput::Borrowed(self.0))
    }
}

pub(crate) fn store_error(error: &rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull, SystemIoFailure};
    match error.sqlite_error_code() {
        Some(DatabaseBusy | DatabaseLocked) => StoreError::Throttled(error.to_string()),
        Some(DiskFull | SystemIoFailure) => StoreError::Unavailable(error.to_string()),
        Some(_) | None => StoreError::Invalid(error.to_string()),
    }
}
