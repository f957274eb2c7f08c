//! Backlog gauges: a server reports them, and sheds load by them.

use rusqlite::{OptionalExtension as _, params};
use tokio::sync::mpsc::Sender;

use super::{Embedded, Job, WAITING, schema};
use crate::billing::money::MoneyStatus;
use crate::engine::StoreError;
use crate::entitlements::attention;
use crate::parked::PARTS;
use crate::table::{ENTITLEMENTS, PARKED, UNAPPLIED_MONEY};

/// What a consumer of a stream has yet to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Number of records, counted up to a limit.
    pub records: u64,
    /// When the first of them arrived, in milliseconds of the Unix epoch.
    pub since_millis: Option<i64>,
}

impl Embedded {
    /// Capacity of each of the writer's queues.
    pub const MOST_WAITING: usize = WAITING;

    /// Number of writes that wait for the writer.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let waiting = |jobs: &Sender<Job>| jobs.max_capacity() - jobs.capacity();
        self.shared.jobs.as_ref().map_or(0, |queues| waiting(&queues.usual) + waiting(&queues.urgent))
    }

    /// What a consumer of a stream has yet to read; counting stops at `most`.
    pub fn backlog(&self, consumer: &str, stream: &str, most: u64) -> Result<Backlog, StoreError> {
        let after = self.checkpoint(consumer, stream)?;
        self.read(|db| {
            let first = "SELECT at FROM stream_records WHERE stream = ? AND seq > ? ORDER BY seq LIMIT 1";
            let since_millis =
                db.prepare_cached(first)?.query_row(params![stream, after], |row| row.get(0)).optional()?;
            let count =
                "SELECT count(*) FROM (SELECT 1 FROM stream_records WHERE stream = ? AND seq > ? LIMIT ?)";
            let records =
                db.prepare_cached(count)?.query_row(params![stream, after, most], |row| row.get(0))?;
            Ok(Backlog { records, since_millis })
        })
    }

    /// The number of parked records of each stream.
    pub fn parked_by_stream(&self) -> Result<Vec<(String, u64)>, StoreError> {
        let sql = format!("SELECT pk, count(*) FROM {} GROUP BY pk ORDER BY pk", schema::quoted(PARKED.name));
        let mut sizes: Vec<(String, u64)> = self.read(|db| {
            let mut statement = db.prepare_cached(&sql)?;
            let sizes = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(sizes.collect::<rusqlite::Result<_>>()?)
        })?;
        sizes.retain(|(stream, _)| !stream.starts_with(PARTS));
        Ok(sizes)
    }

    /// How many amounts of unapplied money await a decision.
    pub fn open_unapplied_money(&self) -> Result<u64, StoreError> {
        // The table's only index is by status.
        let sql = format!("SELECT count(*) FROM {} WHERE p0 = ?", schema::quoted(UNAPPLIED_MONEY.name));
        self.read(|db| {
            let open = params![MoneyStatus::Open.as_str()];
            Ok(db.prepare_cached(&sql)?.query_row(open, |row| row.get(0))?)
        })
    }

    /// How many subscriptions at Stripe need attention.
    pub fn open_attention(&self) -> Result<u64, StoreError> {
        let sql = format!("SELECT count(*) FROM {} WHERE pk = ?", schema::quoted(ENTITLEMENTS.name));
        self.read(|db| {
            Ok(db.prepare_cached(&sql)?.query_row(params![attention::PARTITION], |row| row.get(0))?)
        })
    }
}
