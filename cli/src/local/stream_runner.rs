//! Runs a handler over a durable local stream as a Lambda event source mapping does: in batches, in order
//! per key, with a checkpoint that passes only completed records.
//!
//! Records are hashed to lanes by key; each lane processes one batch at a time in a task of its own. That
//! uses all cores, and one batch is decided while another waits for the disk. A record that keeps failing is
//! parked, and the rest continue.

use chrono::TimeDelta;
use dues_events::entitlements::stripe::wire::envelope;
use dues_events::wire::peek_ids;
use dues_processors::collections::Collector;
use dues_processors::entitlements::stripe_webhook;
use dues_processors::runtime::parking::park_record;
use dues_processors::runtime::redrive::{process_collections, process_stream};
use dues_processors::{BatchReport, Context, Delivery, Outcome};
use dues_store::embedded::{Embedded, StreamRecord};
use dues_store::{Store, StoreError};
use futures::future::BoxFuture;
use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

use crate::local::gateway::AnyGateway;
use crate::output::Error;

/// Records per batch.
const BATCH_RECORDS: usize = 2000;
/// Concurrent lanes.
const LANES: usize = 3;
/// Attempts per record before it is parked. If parking fails too, the store is unavailable and the run
/// stops; the stream still holds the record.
const MAX_ATTEMPTS: u32 = 6;
/// Attempts per collection request: their pauses add up to more than the lease of a dead worker's lock.
const MAX_COLLECTION_ATTEMPTS: u32 = 11;
/// Code of records parked after too many failures.
const FAILED_CODE: &str = "failed";

/// Runs one stream's handler.
pub(crate) struct StreamRunner {
    context: Context<Embedded>,
    stream: String,
    batch: usize,
    /// Sequence number of the last record read.
    read: u64,
    /// The stored checkpoint.
    checkpoint: u64,
    /// Sequence numbers of records that were read and are not completed.
    open: BTreeSet<u64>,
    lanes: [Lane; LANES],
    batches: JoinSet<CompletedBatch>,
    handler: Handler,
    max_attempts: u32,
}

/// Runs a batch of the stream; `None` if it cannot run this stream.
type Handler = Arc<dyn Fn(Vec<Delivery>) -> BoxFuture<'static, Option<BatchReport>> + Send + Sync>;

/// Processes the records of some keys in order.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<StreamRecord>,
    busy: bool,
    /// The first record of the last batch that failed, and its number of attempts.
    failing: Option<(u64, u32)>,
}

impl Lane {
    fn attempts(&self) -> u32 {
        self.failing.map_or(0, |(_, attempts)| attempts)
    }

    /// Records the first failure of a batch, if any.
    fn set_failure(&mut self, first: Option<u64>) {
        self.failing = first.map(|seq| match self.failing {
            Some((known, attempts)) if known == seq => (seq, attempts + 1),
            Some(_) | None => (seq, 1),
        });
    }
}

/// Lane, records and report of a completed batch.
type CompletedBatch = (usize, Vec<StreamRecord>, Option<BatchReport>);

impl StreamRunner {
    /// Starts at the stream's checkpoint.
    pub(crate) fn new(context: Context<Embedded>, stream: &str) -> Result<Self, Error> {
        let at = context.store.engine.checkpoint(stream, stream)?;
        let (facts, name) = (context.clone(), stream.to_owned());
        Ok(Self {
            context,
            stream: stream.to_owned(),
            batch: BATCH_RECORDS,
            read: at,
            checkpoint: at,
            open: BTreeSet::new(),
            lanes: Default::default(),
            batches: JoinSet::new(),
            handler: Arc::new(move |batch| {
                let (context, stream) = (facts.clone(), name.clone());
                Box::pin(async move { process_stream(&context, &stream, &batch).await })
            }),
            max_attempts: MAX_ATTEMPTS,
        })
    }

    /// Runs a stream of collection requests. A request for a member that is locked is repeated until the lock
    /// of a dead worker has expired; with `no_wait` it is parked at once.
    pub(crate) fn with_collector(
        mut self,
        collector: Collector<Embedded, AnyGateway>,
        no_wait: bool,
    ) -> Self {
        let name = self.stream.clone();
        self.handler = Arc::new(move |batch| {
            let (collector, stream) = (collector.clone(), name.clone());
            Box::pin(async move { process_collections(&collector, &stream, &batch).await })
        });
        self.max_attempts = if no_wait { 1 } else { MAX_COLLECTION_ATTEMPTS };
        self
    }

    /// Limits the records per batch.
    pub(crate) fn with_batch_size(self, batch: usize) -> Self {
        Self { batch, ..self }
    }

    /// Deletes processed records older than a day, the default retention of Kinesis.
    pub(crate) async fn trim(&self) -> Result<(), Error> {
        let Store { engine, clock, .. } = &self.context.store;
        engine
            .trim_stream(
                &self.stream,
                engine.checkpoint(&self.stream, &self.stream)?,
                clock.now() - TimeDelta::days(1),
            )
            .await?;
        Ok(())
    }

    /// The sequence number up to which every record is completed.
    pub(crate) fn checkpoint(&self) -> u64 {
        self.checkpoint
    }

    /// Runs until one batch completes and reports the outcome of each of its records; `false` when nothing
    /// is left to process.
    pub(crate) async fn step(
        &mut self,
        name: impl Fn(&StreamRecord) -> String,
        on_outcome: impl FnMut(&StreamRecord, Outcome),
    ) -> Result<bool, Error> {
        self.read_ahead()?;
        self.dispatch(&name);
        self.complete_batch(on_outcome, |run| {
            // Keep the lane busy while the checkpoint is written.
            run.read_ahead()?;
            run.dispatch(&name);
            Ok(())
        })
        .await
    }

    /// Completes the batches in flight and starts no others.
    pub(crate) async fn finish(
        &mut self,
        mut on_outcome: impl FnMut(&StreamRecord, Outcome),
    ) -> Result<(), Error> {
        while self.complete_batch(&mut on_outcome, |_| Ok(())).await? {}
        Ok(())
    }

    /// Reads as many records as the lanes can hold.
    fn read_ahead(&mut self) -> Result<(), Error> {
        if self.open.len() >= self.batch * LANES {
            return Ok(());
        }
        for record in self.context.store.engine.records(&self.stream, self.read, self.batch)? {
            self.read = record.seq;
            self.open.insert(record.seq);
            self.lanes[lane_of(&record.partition_key)].waiting.push_back(record);
        }
        Ok(())
    }

    /// Starts a batch on every idle lane with waiting records.
    fn dispatch(&mut self, name: impl Fn(&StreamRecord) -> String) {
        for (index, lane) in
            self.lanes.iter_mut().enumerate().filter(|(_, lane)| !lane.busy && !lane.waiting.is_empty())
        {
            let records: Vec<StreamRecord> =
                lane.waiting.drain(..lane.waiting.len().min(self.batch)).collect();
            let batch: Vec<Delivery> = records.iter().map(|record| incoming(record, name(record))).collect();
            let (clock, handler) = (self.context.store.clock.clone(), self.handler.clone());
            let pause = if lane.attempts() == 0 {
                Duration::ZERO
            } else {
                Duration::from_millis(50 << lane.attempts())
            };
            lane.busy = true;
            self.batches.spawn(async move {
                if !pause.is_zero() {
                    clock.sleep(pause).await;
                }
                (index, records, handler(batch).await)
            });
        }
    }

    /// Waits for a batch to complete; `false` when none is in flight.
    async fn complete_batch(
        &mut self,
        mut on_outcome: impl FnMut(&StreamRecord, Outcome),
        start_next: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let Some(completed) = self.batches.join_next().await else { return Ok(false) };
        let (index, records, report) = completed
            .map_err(|error| Error::Message(format!("a batch of {} was aborted: {error}", self.stream)))?;
        let report =
            report.ok_or_else(|| Error::Message(format!("no handler reads stream {}", self.stream)))?;
        let mut failed: VecDeque<(StreamRecord, String)> = VecDeque::new();
        for (record, fate) in records.into_iter().zip(report.outcomes) {
            on_outcome(&record, fate.clone());
            match fate {
                Outcome::Failed(reason) => failed.push_back((record, reason)),
                Outcome::Applied
                | Outcome::Duplicate
                | Outcome::Ignored
                | Outcome::Skipped
                | Outcome::Parked => {
                    self.open.remove(&record.seq);
                }
            }
        }
        let lane = &mut self.lanes[index];
        lane.busy = false;
        lane.set_failure(failed.front().map(|(record, _)| record.seq));
        if lane.attempts() >= self.max_attempts
            && let Some((record, reason)) = failed.pop_front()
        {
            // Later records of the key may have failed only because of this one.
            lane.failing = None;
            let fate = park_record(
                &self.context.store,
                &self.stream,
                &incoming(&record, format!("seq {}", record.seq)),
                FAILED_CODE,
                reason,
            )
            .await;
            if let Outcome::Failed(reason) = fate {
                return Err(StoreError::Unavailable(reason).into());
            }
            self.open.remove(&record.seq);
            on_outcome(&record, fate);
        }
        failed.into_iter().rev().for_each(|(record, _)| self.lanes[index].waiting.push_front(record));
        start_next(self)?;
        self.store_checkpoint().await?;
        Ok(true)
    }

    /// Moves the checkpoint past every completed record.
    async fn store_checkpoint(&mut self) -> Result<(), Error> {
        let done = self.open.first().map_or(self.read, |first| first - 1);
        if done > self.checkpoint {
            self.context.store.engine.set_checkpoint(&self.stream, &self.stream, done).await?;
            self.checkpoint = done;
        }
        Ok(())
    }
}

fn incoming(record: &StreamRecord, sequence: String) -> Delivery {
    let arrived = dues_events::Time::from_timestamp_millis(record.at_millis).unwrap_or_default();
    Delivery { sequence, arrived, data: record.data.clone() }
}

/// The ordering key of a record: its user or Stripe customer; empty if unreadable.
pub(crate) fn key_of(stream: &str, record: &[u8]) -> String {
    if stream == stripe_webhook::STREAM {
        return envelope(record).key().unwrap_or_default().to_owned();
    }
    peek_ids(record).1.unwrap_or_default()
}

fn lane_of(key: &str) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    (hasher.finish() % LANES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use dues_store::SystemClock;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    const STREAM: &str = "memberships";

    #[test]
    fn the_key_of_a_record_is_its_user() {
        assert_eq!(key_of("memberships", br#"{"user_id":"u-1"}"#), "u-1");
        assert_eq!(key_of("site-payments", br#"{"payment":{"user_id":"u-2"}}"#), "u-2");
        assert_eq!(key_of("stripe", br#"{"id":"evt_1","data":{"object":{"customer":"cus_1"}}}"#), "cus_1");
        assert_eq!(key_of("memberships", b"nonsense"), "");
    }

    /// Every record the handler received, in order.
    static GIVEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

    /// Fails on `poison` and later records of its key every time, on `hiccup` once.
    fn handler(batch: Vec<Delivery>) -> BoxFuture<'static, Option<BatchReport>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let mut broken = BTreeSet::new();
            let outcomes = batch.iter().map(|record| {
                let text = String::from_utf8(record.data.clone()).unwrap();
                let key = text.split(' ').next().unwrap().to_owned();
                let mut given = GIVEN.lock().unwrap();
                let first = !given.contains(&text);
                given.push(text.clone());
                if broken.contains(&key) || text.contains("poison") || (text.contains("hiccup") && first) {
                    broken.insert(key);
                    return Outcome::Failed("it hurts".to_owned());
                }
                Outcome::Applied
            });
            Some(BatchReport { outcomes: outcomes.collect() })
        })
    }

    #[tokio::test]
    async fn a_record_that_always_fails_is_parked_and_the_rest_complete() {
        let folder = tempfile::tempdir().unwrap();
        let store =
            Store::new(Embedded::open(&folder.path().join("dues.db")).unwrap(), SystemClock::shared());
        let mut records: Vec<(String, String)> = Vec::new();
        for n in 0..300 {
            let key = format!("k-{}", n % 30);
            let what = match n {
                64 => "poison",
                130 | 131 => "hiccup",
                _ => "fine",
            };
            records.push((key.clone(), format!("{key} {n} {what}")));
        }
        let appended = records.iter().map(|(key, text)| (key.clone(), text.clone().into_bytes())).collect();
        let last = store.engine.append(STREAM, store.clock.now(), appended).await.unwrap();
        let mut run = StreamRunner {
            handler: Arc::new(handler),
            ..StreamRunner::new(Context::new(store.clone()), STREAM).unwrap()
        }
        .with_batch_size(40);
        let mut outcomes: BTreeMap<u64, Vec<Outcome>> = BTreeMap::new();
        let mut checkpoints = Vec::new();
        while run
            .step(
                |record| record.seq.to_string(),
                |record, fate| outcomes.entry(record.seq).or_default().push(fate),
            )
            .await
            .unwrap()
        {
            let checkpoint = store.engine.checkpoint(STREAM, STREAM).unwrap();
            // Everything up to the checkpoint is completed.
            let undone = outcomes
                .range(..=checkpoint)
                .find(|(_, outcomes)| matches!(outcomes.last(), Some(Outcome::Failed(_))));
            assert!(undone.is_none(), "{checkpoint}: {undone:?}");
            checkpoints.push(checkpoint);
        }
        assert!(checkpoints.is_sorted());
        assert_eq!(store.engine.checkpoint(STREAM, STREAM).unwrap(), last);
        assert_eq!(outcomes.len(), records.len());
        let ends = |wanted: fn(&Outcome) -> bool| {
            outcomes.values().filter(|outcomes| wanted(outcomes.last().unwrap())).count()
        };
        assert_eq!(
            (ends(|fate| *fate == Outcome::Applied), ends(|fate| *fate == Outcome::Parked)),
            (records.len() - 1, 1)
        );
        let parked = store.parked().await.unwrap();
        assert_eq!(
            parked.iter().map(|parked| (parked.code.as_str(), parked.reason.as_str())).collect::<Vec<_>>(),
            [("failed", "it hurts")]
        );
        // The last deliveries of a key's records are in order, and poison was attempted MAX_ATTEMPTS times.
        let given = GIVEN.lock().unwrap();
        for (key, _) in &records[..30] {
            let of_key = |text: &&String| text.split(' ').next() == Some(key);
            let mut done: Vec<&String> = Vec::new();
            for text in given.iter().rev().filter(of_key) {
                if !done.contains(&text) {
                    done.push(text);
                }
            }
            done.reverse();
            let wanted: Vec<&String> = records.iter().map(|(_, text)| text).filter(of_key).collect();
            assert_eq!(done, wanted, "{key}");
        }
        assert_eq!(given.iter().filter(|text| text.contains("poison")).count(), MAX_ATTEMPTS as usize);
    }
}
