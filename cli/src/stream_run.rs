//! Runs a handler over a durable local stream, as Lambda's event source mapping would: in batches, the records of one key in order, the checkpoint passing
//! only what is done.
//!
//! Records are spread over lanes by their keys, and each lane works on one batch at a time, as a task of its own: so a handler has all cores, and the next
//! batch is decided while one waits for the disk. A record that fails however often it is tried is parked, and the others go on.

use chrono::TimeDelta;
use dues_events::wire::peek;
use dues_events::wire::stripe::glimpse;
use dues_processors::batch::park_record;
use dues_processors::redrive::process_stream;
use dues_processors::{Context, Fate, Incoming, Report, webhook};
use dues_store::embedded::{Embedded, StreamRecord};
use dues_store::{Store, StoreError};
use futures::future::BoxFuture;
use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;
use tokio::task::JoinSet;

use crate::output::Error;

/// How many records a batch has at the most.
const BATCH: usize = 2000;
/// How many lanes there are.
const LANES: usize = 3;
/// How often a record that fails is tried before it is parked. When that fails too it is the store that fails, and the run gives up: nothing is lost
/// then, the stream holds it.
const TRIES: u32 = 6;
/// What parked records are said to be that failed so often.
const CODE: &str = "failed";

/// A handler's way through a stream.
pub(crate) struct StreamRun {
    context: Context<Embedded>,
    stream: String,
    batch: usize,
    /// The place of the last record that was read, and the place that the checkpoint names.
    read: u64,
    noted: u64,
    /// The places of the records that were read and are not done.
    open: BTreeSet<u64>,
    lanes: [Lane; LANES],
    working: JoinSet<Worked>,
    handler: Handler,
}

/// Runs a batch of a stream, by the stream's name.
type Handler = fn(Context<Embedded>, String, Vec<Incoming>) -> BoxFuture<'static, Option<Report>>;

/// What one key's records, and those of some other keys, go through, in order.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<StreamRecord>,
    busy: bool,
    /// The first record that failed the last time, and how often it has now.
    failing: Option<(u64, u32)>,
}

impl Lane {
    fn tries(&self) -> u32 {
        self.failing.map_or(0, |(_, tries)| tries)
    }

    /// Notes which record was the first that failed this time, if one did.
    fn note(&mut self, first: Option<u64>) {
        self.failing = first.map(|seq| match self.failing {
            Some((known, tries)) if known == seq => (seq, tries + 1),
            Some(_) | None => (seq, 1),
        });
    }
}

/// A batch that has come to its end: of which lane, its records, and what became of them.
type Worked = (usize, Vec<StreamRecord>, Option<Report>);

impl StreamRun {
    /// From where the stream's handler stopped last.
    pub(crate) fn new(context: Context<Embedded>, stream: &str) -> Result<Self, Error> {
        let at = context.store.engine.checkpoint(stream, stream)?;
        Ok(Self {
            context,
            stream: stream.to_owned(),
            batch: BATCH,
            read: at,
            noted: at,
            open: BTreeSet::new(),
            lanes: Default::default(),
            working: JoinSet::new(),
            handler: |context, stream, batch| Box::pin(async move { process_stream(&context, &stream, &batch).await }),
        })
    }

    /// With so many records in a batch at the most.
    pub(crate) fn in_batches_of(self, batch: usize) -> Self {
        Self { batch, ..self }
    }

    /// Forgets what was read and done more than a day ago: kept so long, as Kinesis would.
    pub(crate) async fn tidy(&self) -> Result<(), Error> {
        let Store { engine, clock, .. } = &self.context.store;
        engine.trim_stream(&self.stream, engine.checkpoint(&self.stream, &self.stream)?, clock.now() - TimeDelta::days(1)).await?;
        Ok(())
    }

    /// The place up to which everything is done, as the checkpoint says.
    pub(crate) fn noted(&self) -> u64 {
        self.noted
    }

    /// Goes on until a batch is done, telling of each of its records and its fate; `false` when there is nothing left to process.
    pub(crate) async fn step(
        &mut self,
        name: impl Fn(&StreamRecord) -> String,
        told: impl FnMut(&StreamRecord, Fate),
    ) -> Result<bool, Error> {
        self.read_on()?;
        self.set_to_work(&name);
        self.end_of_a_batch(told, |run| {
            // The lane is not idle while the checkpoint is written.
            run.read_on()?;
            run.set_to_work(&name);
            Ok(())
        })
        .await
    }

    /// Lets the batches that are under way come to their end, and begins no others.
    pub(crate) async fn finish(&mut self, mut told: impl FnMut(&StreamRecord, Fate)) -> Result<(), Error> {
        while self.end_of_a_batch(&mut told, |_| Ok(())).await? {}
        Ok(())
    }

    /// Reads as many records as the lanes can take.
    fn read_on(&mut self) -> Result<(), Error> {
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

    /// Has every idle lane work on what waits in it.
    fn set_to_work(&mut self, name: impl Fn(&StreamRecord) -> String) {
        for (place, lane) in self.lanes.iter_mut().enumerate().filter(|(_, lane)| !lane.busy && !lane.waiting.is_empty()) {
            let records: Vec<StreamRecord> = lane.waiting.drain(..lane.waiting.len().min(self.batch)).collect();
            let batch: Vec<Incoming> = records.iter().map(|record| incoming(record, name(record))).collect();
            let (context, stream, handler) = (self.context.clone(), self.stream.clone(), self.handler);
            let pause = if lane.tries() == 0 { Duration::ZERO } else { Duration::from_millis(50 << lane.tries()) };
            lane.busy = true;
            self.working.spawn(async move {
                if !pause.is_zero() {
                    context.store.clock.sleep(pause).await;
                }
                (place, records, handler(context, stream, batch).await)
            });
        }
    }

    /// Waits for the end of a batch; `false` when none is under way.
    async fn end_of_a_batch(
        &mut self,
        mut told: impl FnMut(&StreamRecord, Fate),
        go_on: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let Some(worked) = self.working.join_next().await else { return Ok(false) };
        let (place, records, report) = worked.map_err(|error| Error::Said(format!("a batch of {} broke off: {error}", self.stream)))?;
        let report = report.ok_or_else(|| Error::Said(format!("no handler reads stream {}", self.stream)))?;
        let mut failed: VecDeque<(StreamRecord, String)> = VecDeque::new();
        for (record, fate) in records.into_iter().zip(report.fates) {
            told(&record, fate.clone());
            match fate {
                Fate::Failed(reason) => failed.push_back((record, reason)),
                Fate::Applied | Fate::Duplicate | Fate::Ignored | Fate::Skipped | Fate::Parked => {
                    self.open.remove(&record.seq);
                }
            }
        }
        let lane = &mut self.lanes[place];
        lane.busy = false;
        lane.note(failed.front().map(|(record, _)| record.seq));
        if lane.tries() >= TRIES
            && let Some((record, reason)) = failed.pop_front()
        {
            // Those behind it may only have failed because it did.
            lane.failing = None;
            let fate =
                park_record(&self.context.store, &self.stream, &incoming(&record, format!("seq {}", record.seq)), CODE, reason).await;
            if let Fate::Failed(reason) = fate {
                return Err(StoreError::Unavailable(reason).into());
            }
            self.open.remove(&record.seq);
            told(&record, fate);
        }
        failed.into_iter().rev().for_each(|(record, _)| self.lanes[place].waiting.push_front(record));
        go_on(self)?;
        self.note().await?;
        Ok(true)
    }

    /// Moves the checkpoint to the last place before which everything is done.
    async fn note(&mut self) -> Result<(), Error> {
        let done = self.open.first().map_or(self.read, |first| first - 1);
        if done > self.noted {
            self.context.store.engine.set_checkpoint(&self.stream, &self.stream, done).await?;
            self.noted = done;
        }
        Ok(())
    }
}

fn incoming(record: &StreamRecord, sequence: String) -> Incoming {
    let arrived = dues_events::Time::from_timestamp_millis(record.at_millis).unwrap_or_default();
    Incoming { sequence, arrived, data: record.data.clone() }
}

/// Whose record it is, where that can be read: what keeps records in order among themselves.
pub(crate) fn key_of(stream: &str, record: &[u8]) -> String {
    if stream == webhook::STREAM {
        return glimpse(record).key().unwrap_or_default().to_owned();
    }
    peek(record).1.unwrap_or_default()
}

fn lane_of(key: &str) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    // Less than the number of lanes.
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

    /// Everything that a handler was given, in that order.
    static GIVEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

    /// Fails on poison, and on what is behind it of the same key, every time; on a hiccup once.
    fn handler(_: Context<Embedded>, _: String, batch: Vec<Incoming>) -> BoxFuture<'static, Option<Report>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let mut broken = BTreeSet::new();
            let fates = batch.iter().map(|record| {
                let text = String::from_utf8(record.data.clone()).unwrap();
                let key = text.split(' ').next().unwrap().to_owned();
                let mut given = GIVEN.lock().unwrap();
                let first = !given.contains(&text);
                given.push(text.clone());
                if broken.contains(&key) || text.contains("poison") || (text.contains("hiccup") && first) {
                    broken.insert(key);
                    return Fate::Failed("it hurts".to_owned());
                }
                Fate::Applied
            });
            Some(Report { fates: fates.collect() })
        })
    }

    #[tokio::test]
    async fn a_record_that_always_fails_is_parked_and_holds_up_nobody_for_good() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(Embedded::open(&folder.path().join("dues.db")).unwrap(), SystemClock::shared());
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
        let mut run = StreamRun { handler, ..StreamRun::new(Context::new(store.clone()), STREAM).unwrap() }.in_batches_of(40);
        let mut fates: BTreeMap<u64, Vec<Fate>> = BTreeMap::new();
        let mut checkpoints = Vec::new();
        while run.step(|record| record.seq.to_string(), |record, fate| fates.entry(record.seq).or_default().push(fate)).await.unwrap() {
            let noted = store.engine.checkpoint(STREAM, STREAM).unwrap();
            // Nothing before the checkpoint is still to be done.
            let undone = fates.range(..=noted).find(|(_, fates)| matches!(fates.last(), Some(Fate::Failed(_))));
            assert!(undone.is_none(), "{noted}: {undone:?}");
            checkpoints.push(noted);
        }
        assert!(checkpoints.is_sorted());
        assert_eq!(store.engine.checkpoint(STREAM, STREAM).unwrap(), last);
        assert_eq!(fates.len(), records.len());
        let ends = |wanted: fn(&Fate) -> bool| fates.values().filter(|fates| wanted(fates.last().unwrap())).count();
        assert_eq!((ends(|fate| *fate == Fate::Applied), ends(|fate| *fate == Fate::Parked)), (records.len() - 1, 1));
        let parked = store.parked().await.unwrap();
        assert_eq!(
            parked.iter().map(|parked| (parked.code.as_str(), parked.reason.as_str())).collect::<Vec<_>>(),
            [("failed", "it hurts")]
        );
        // The last time that each record was given is in the order of its key's records, and poison was tried as often as was said.
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
        assert_eq!(given.iter().filter(|text| text.contains("poison")).count(), TRIES as usize);
    }
}
