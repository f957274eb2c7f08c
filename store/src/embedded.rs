//! The embedded engine: SQLite in one file, write-ahead log, synchronous FULL.
//!
//! One writer thread groups all waiting writes into one transaction; reads run concurrently on their own
//! connections. Every write to a table with a stream also appends the change, old and new image, in the same
//! transaction. Local streams and checkpoints are in the same file.

mod codec;
mod gauges;
mod query;
mod row;
mod schema;
mod streams;
mod table_scan;
mod transact;
mod writer;

use rusqlite::{Connection, OpenFlags, params_from_iter};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc;

use crate::engine::{
    Condition, Cursor, Edit, Engine, Key, Keys, Op, Page, Query, StoreError, Transacted, Updated, Written,
};
use crate::table::Table;
use dues_events::Item;
use query::{get, read_page, run_query, scan_sql};
use row::Row;
use transact::Step;
use writer::{Fault, Job, Writer, job, nudge, store_error};

pub use gauges::Backlog;
pub use streams::{Change, StreamRecord};
pub use table_scan::ScanPage;

/// Capacity of each of the writer's queues; when it is full, callers wait.
const WAITING: usize = 16 * 1024;
/// How often, and at what interval, opening a busy file is retried.
const OPEN_TRIES: u32 = 100;
const OPEN_PAUSE: Duration = Duration::from_millis(20);

/// Writes are durable when acknowledged. The WAL is checkpointed every 128 MB, so that pages which change
/// often are copied once.
pub const WRITER_SETTINGS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = \
    -32768; PRAGMA wal_autocheckpoint = 32768;";

/// The embedded engine. Clones share the file.
#[derive(Clone)]
pub struct Embedded {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    /// Taken when the engine closes.
    jobs: Option<JobQueues>,
    writer: Option<JoinHandle<()>>,
    readers: Mutex<Vec<Connection>>,
    /// The database file, for [`Embedded::flush`]. It stays open until the process ends: under POSIX,
    /// closing any descriptor of a file releases all locks that the process has on it, SQLite's among them.
    file: OnceLock<ManuallyDrop<std::fs::File>>,
}

/// The writer's queues.
struct JobQueues {
    usual: mpsc::Sender<Job>,
    /// For stream appends: their producers wait for the acknowledgement.
    urgent: mpsc::Sender<Job>,
}

/// Dropping the last clone waits for the writer, which checkpoints the WAL: the next open has none to
/// replay.
impl Drop for Shared {
    fn drop(&mut self) {
        self.readers.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
        drop(self.jobs.take());
        if let Some(writer) = self.writer.take() {
            // A writer that panicked dropped its jobs, so their callers got an error.
            let _ = writer.join();
        }
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

impl Embedded {
    /// The WAL length, in pages, at which the writer checkpoints: as in [`WRITER_SETTINGS`].
    pub const LONGEST_LOG: u64 = 32_768;

    /// Opens the file, and creates it if it does not exist.
    ///
    /// # Errors
    /// When the file cannot be opened, or belongs to another program or format.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let doing = |e: StoreError| e.during(&format!("open {}", path.display()));
        // When two programs create a new file at once, SQLite returns busy to one of them immediately,
        // whatever its busy timeout.
        let mut opened = open_writer(path);
        for _ in 0..OPEN_TRIES {
            if !matches!(opened, Err(StoreError::Throttled(_))) {
                break;
            }
            std::thread::sleep(OPEN_PAUSE);
            opened = open_writer(path);
        }
        let db = opened.map_err(doing)?;
        let (usual, queue) = mpsc::channel(WAITING);
        let (urgent, ahead) = mpsc::channel(WAITING);
        let writer = Writer::new(db);
        let thread =
            std::thread::Builder::new().name("dues-writer".into()).spawn(move || writer.run(queue, ahead));
        let thread = thread.map_err(|e| doing(StoreError::Unavailable(e.to_string())))?;
        let shared = Shared {
            path: path.to_owned(),
            jobs: Some(JobQueues { usual, urgent }),
            writer: Some(thread),
            readers: Mutex::new(Vec::new()),
            file: OnceLock::new(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Sends a job to the writer, and waits until it is durable.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Writer) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (job, answer) = job(work);
        self.queues()?.usual.send(job).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Like [`Self::write`], with priority over the jobs that wait.
    async fn write_ahead<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Writer) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (job, answer) = job(work);
        let queues = self.queues()?;
        queues.urgent.send(job).await.map_err(|_| gone())?;
        // If the queue is full, the writer is awake and needs no nudge.
        let _ = queues.usual.try_send(nudge());
        answer.await.map_err(|_| gone())?
    }

    fn queues(&self) -> Result<&JobQueues, StoreError> {
        self.shared.jobs.as_ref().ok_or_else(gone)
    }

    /// Checkpoints the WAL concurrently with the writer. The writer checkpoints by itself once the WAL is
    /// long, and callers wait for that too; after this it has little left to copy. Takes as long as the disk
    /// does. Returns the number of pages in the WAL.
    pub fn checkpoint_wal(&self) -> Result<u64, StoreError> {
        // The pragma returns: whether another connection blocked the checkpoint, the pages in the WAL, and
        // the pages copied; -1 when unknown.
        let pages = self
            .read(|db| Ok(db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i64>(1))?))?;
        self.flush()?;
        Ok(pages.max(0).unsigned_abs())
    }

    /// Syncs the checkpointed pages to disk. SQLite leaves that to the connection that copies the last page
    /// of the WAL, which is the writer.
    fn flush(&self) -> Result<(), StoreError> {
        let file = match self.shared.file.get() {
            Some(file) => file,
            None => {
                // Not even a descriptor that loses the race in `get_or_init` may be closed.
                let file = std::fs::File::open(&self.shared.path).map(ManuallyDrop::new);
                let file = file.map_err(|error| StoreError::Unavailable(error.to_string()))?;
                self.shared.file.get_or_init(|| file)
            }
        };
        file.sync_data().map_err(|error| StoreError::Unavailable(error.to_string()))
    }

    /// Reads on a pooled connection, concurrently with the writer. Point reads take microseconds, so they
    /// run on the caller's thread.
    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, StoreError> {
        let pooled = self.shared.readers.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop();
        let db = match pooled {
            Some(db) => db,
            None => open_reader(&self.shared.path).map_err(|e| store_error(&e))?,
        };
        let result = work(&db).map_err(Fault::into_store_error);
        self.shared.readers.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(db);
        result
    }
}

impl Embedded {
    /// Runs many reads in one transaction: they see one snapshot, and share the cost of opening it, its
    /// lock, and the upper pages of the trees.
    fn snapshot_of<T>(&self, work: impl FnOnce(&Connection) -> T) -> Result<T, StoreError> {
        self.read(|db| {
            let snapshot = db.unchecked_transaction()?;
            let found = work(&snapshot);
            snapshot.finish()?;
            Ok(found)
        })
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable("the transaction was rolled back or the writer has stopped".into())
}

fn open_writer(path: &Path) -> Result<Connection, StoreError> {
    let sql = |e: rusqlite::Error| store_error(&e);
    let db = Connection::open(path).map_err(sql)?;
    db.busy_timeout(Duration::from_secs(30)).map_err(sql)?;
    db.execute_batch(WRITER_SETTINGS).map_err(sql)?;
    let pragma =
        |name: &str| db.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0)).map_err(sql);
    let is_empty = || {
        db.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get::<_, bool>(0)).map_err(sql)
    };
    // Only a new file is locked: readers must not wait for writers.
    if is_empty()? {
        db.execute_batch("BEGIN IMMEDIATE").map_err(sql)?;
        if is_empty()? {
            let marks = format!(
                "PRAGMA application_id = {}; PRAGMA user_version = {};",
                schema::APPLICATION,
                schema::FORMAT
            );
            db.execute_batch(&(schema::create() + &marks)).map_err(sql)?;
        }
        db.execute_batch("COMMIT").map_err(sql)?;
    }
    if pragma("application_id")? != schema::APPLICATION {
        return Err(StoreError::Invalid("it is a database of another program".into()));
    }
    if pragma("user_version")? != schema::FORMAT {
        return Err(StoreError::Invalid(format!(
            "its format is {}, this program reads {}",
            pragma("user_version")?,
            schema::FORMAT
        )));
    }
    // A file of an earlier version has fewer tables, or fewer indexes: add the new ones, empty.
    let tables = db
        .query_row("SELECT count(*) FROM sqlite_schema WHERE type = 'table'", [], |row| {
            row.get::<_, usize>(0)
        })
        .map_err(sql)?;
    if tables < schema::tables() || !schema::add_columns(&db).map_err(sql)?.is_empty() {
        db.execute_batch("BEGIN IMMEDIATE").map_err(sql)?;
        // Another program may have added them while this one waited.
        let columns = schema::add_columns(&db).map_err(sql)?;
        db.execute_batch(&format!("{columns}{} COMMIT", schema::create())).map_err(sql)?;
    }
    Ok(db)
}

fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    db.busy_timeout(Duration::from_secs(30))?;
    db.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -4096;")?;
    db.set_prepared_statement_cache_capacity(64);
    Ok(db)
}

impl Engine for Embedded {
    async fn get(&self, table: &'static Table, key: Key) -> Result<Option<Item>, StoreError> {
        self.read(|db| get(db, table, &key))
    }

    async fn get_many(&self, keys: Vec<(&'static Table, Key)>) -> Vec<Result<Option<Item>, StoreError>> {
        let items = self.snapshot_of(|db| {
            keys.iter().map(|(table, key)| get(db, table, key).map_err(Fault::into_store_error)).collect()
        });
        items.unwrap_or_else(|error| keys.iter().map(|_| Err(error.clone())).collect())
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        self.read(|db| run_query(db, &query))
    }

    async fn query_many(&self, queries: Vec<Query>) -> Vec<Result<Page, StoreError>> {
        let pages = self.snapshot_of(|db| {
            queries.iter().map(|query| run_query(db, query).map_err(Fault::into_store_error)).collect()
        });
        pages.unwrap_or_else(|error| queries.iter().map(|_| Err(error.clone())).collect())
    }

    async fn scan(
        &self,
        table: &'static Table,
        start: Option<Cursor>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let (sql, values) = scan_sql(table, "id, pk, sk, item", start, limit);
        self.read(|db| read_page(db, table, &sql, &values, limit, None, &Condition::Always))
    }

    async fn keys(
        &self,
        table: &'static Table,
        start: Option<Cursor>,
        limit: u32,
    ) -> Result<Keys, StoreError> {
        // Reads only the index of the keys.
        let (sql, values) = scan_sql(table, "pk, sk", start, limit);
        self.read(|db| {
            let mut statement = db.prepare_cached(&sql)?;
            let key = |row: &rusqlite::Row<'_>| {
                let sort: String = row.get(1)?;
                Ok(Key { partition: row.get(0)?, sort: table.sort.map(|_| sort) })
            };
            let mut keys =
                statement.query_map(params_from_iter(&values), key)?.collect::<rusqlite::Result<Vec<_>>>()?;
            let more = keys.len() > limit as usize;
            keys.truncate(limit as usize);
            let place = |key: &Key| {
                let mut place = Item::new();
                place.set_text(table.partition, key.partition.as_str());
                if let (Some(name), Some(sort)) = (table.sort, &key.sort) {
                    place.set_text(name, sort.as_str());
                }
                Cursor(place)
            };
            Ok(Keys { next: keys.last().filter(|_| more).map(place), keys })
        })
    }

    async fn put(
        &self,
        table: &'static Table,
        item: Item,
        condition: Condition,
    ) -> Result<Written, StoreError> {
        let row = Row::new(table, &item)?;
        drop(item);
        self.write(move |writer| writer.put(&row, &condition)).await
    }

    async fn delete(
        &self,
        table: &'static Table,
        key: Key,
        condition: Condition,
    ) -> Result<Written, StoreError> {
        self.write(move |writer| writer.delete(table, &key, &condition)).await
    }

    async fn update(
        &self,
        table: &'static Table,
        key: Key,
        edits: Vec<Edit>,
        condition: Condition,
    ) -> Result<Updated, StoreError> {
        Edit::check(table, &edits)?;
        self.write(move |writer| writer.update(table, &key, edits, &condition)).await
    }

    async fn transact(&self, ops: Vec<Op>) -> Result<Transacted, StoreError> {
        Op::check(&ops)?;
        let steps = ops.into_iter().map(Step::new).collect::<Result<Vec<_>, _>>()?;
        self.write(move |writer| writer.transact(steps)).await
    }

    async fn put_batch(
        &self,
        items: Vec<(&'static Table, Item)>,
    ) -> Result<Vec<(&'static Table, Item)>, StoreError> {
        let rows = items.iter().map(|(table, item)| Row::new(table, item)).collect::<Result<Vec<_>, _>>()?;
        self.write(move |writer| {
            rows.iter().try_for_each(|row| writer.put(row, &Condition::Always).map(drop))
        })
        .await?;
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_say_when_the_log_is_copied_back() {
        assert!(
            WRITER_SETTINGS.ends_with(&format!("PRAGMA wal_autocheckpoint = {};", Embedded::LONGEST_LOG))
        );
    }
}
