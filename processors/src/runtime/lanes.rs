//! Batches in lanes: records with one key run in order, lanes run in parallel. A failure stops its own lane,
//! poison is parked, a panic fails only its lane.
//!
//! A handler fills a `Batch` in three steps: decode the records, sort them into lanes by key, run the lanes.

use dues_events::Time;
use futures::FutureExt as _;
use futures::stream::{FuturesUnordered, StreamExt as _};
use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;

use crate::runtime::parking::Poison;

/// A record as a stream or queue delivers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Identifies the delivery, never the event.
    pub sequence: String,
    /// When it was put on the stream.
    pub arrived: Time,
    /// The record.
    pub data: Vec<u8>,
}

/// The outcome of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It changed something.
    Applied,
    /// It had been applied before.
    Duplicate,
    /// It changed nothing; history gives the reason.
    Ignored,
    /// No handler reads its type.
    Skipped,
    /// It is parked with the reason.
    Parked,
    /// It has to be redelivered.
    Failed(String),
}

impl Outcome {
    /// Whether the record is neither parked nor to be redelivered.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match self {
            Self::Applied | Self::Duplicate | Self::Ignored | Self::Skipped => true,
            Self::Parked | Self::Failed(_) => false,
        }
    }
}

/// Records by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutcomeCounts {
    /// See [`Outcome::Applied`].
    pub applied: u64,
    /// See [`Outcome::Duplicate`].
    pub duplicate: u64,
    /// See [`Outcome::Ignored`].
    pub ignored: u64,
    /// See [`Outcome::Skipped`].
    pub skipped: u64,
    /// See [`Outcome::Parked`].
    pub parked: u64,
    /// See [`Outcome::Failed`].
    pub failed: u64,
}

impl OutcomeCounts {
    /// Counts one record.
    pub fn count(&mut self, outcome: &Outcome) {
        *match outcome {
            Outcome::Applied => &mut self.applied,
            Outcome::Duplicate => &mut self.duplicate,
            Outcome::Ignored => &mut self.ignored,
            Outcome::Skipped => &mut self.skipped,
            Outcome::Parked => &mut self.parked,
            Outcome::Failed(_) => &mut self.failed,
        } += 1;
    }

    /// Adds the counts of another batch.
    pub fn add(&mut self, other: &Self) {
        self.applied += other.applied;
        self.duplicate += other.duplicate;
        self.ignored += other.ignored;
        self.skipped += other.skipped;
        self.parked += other.parked;
        self.failed += other.failed;
    }

    /// Each count with its name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 6] {
        let Self { applied, duplicate, ignored, skipped, parked, failed } = *self;
        [
            ("applied", applied),
            ("duplicate", duplicate),
            ("ignored", ignored),
            ("skipped", skipped),
            ("parked", parked),
            ("failed", failed),
        ]
    }
}

/// The outcome of every record of a batch, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchReport {
    /// One for each record.
    pub outcomes: Vec<Outcome>,
}

impl BatchReport {
    /// The index of the first record that has to be redelivered.
    #[must_use]
    pub fn first_failure(&self) -> Option<usize> {
        self.outcomes.iter().position(|outcome| matches!(outcome, Outcome::Failed(_)))
    }

    /// Records by outcome.
    #[must_use]
    pub fn counts(&self) -> OutcomeCounts {
        let mut counts = OutcomeCounts::default();
        self.outcomes.iter().for_each(|outcome| counts.count(outcome));
        counts
    }
}

/// Something decoded from a record, with the record's index in the batch.
pub(crate) struct Entry<T> {
    pub(crate) index: usize,
    pub(crate) item: T,
}

/// Entries with one key, in the order of the batch.
pub(crate) struct Lane<K, T> {
    pub(crate) key: K,
    pub(crate) entries: Vec<Entry<T>>,
}

/// Sorts entries into lanes, in the order in which the keys first appear.
pub(crate) fn lanes_by<K: Clone + Eq + Hash, T>(
    entries: Vec<Entry<T>>,
    key: impl Fn(&T) -> &K,
) -> Vec<Lane<K, T>> {
    let mut lanes: Vec<Lane<K, T>> = Vec::new();
    let mut lane_of: HashMap<K, usize> = HashMap::new();
    for entry in entries {
        let key = key(&entry.item);
        match lane_of.get(key) {
            Some(lane) => lanes[*lane].entries.push(entry),
            None => {
                lane_of.insert(key.clone(), lanes.len());
                lanes.push(Lane { key: key.clone(), entries: vec![entry] });
            }
        }
    }
    lanes
}

/// A batch in progress: the outcomes so far.
pub(crate) struct Batch {
    outcomes: Vec<Option<Outcome>>,
}

impl Batch {
    pub(crate) fn new(records: usize) -> Self {
        let mut outcomes = Vec::new();
        outcomes.resize_with(records, || None);
        Self { outcomes }
    }

    /// Sets the outcome of a record.
    pub(crate) fn settle(&mut self, index: usize, outcome: Outcome) {
        self.outcomes[index] = Some(outcome);
    }

    /// Decodes records. One that decodes to nothing is skipped, poison is parked.
    pub(crate) async fn decode<R, T, F: Future<Output = Outcome>>(
        &mut self,
        records: impl IntoIterator<Item = (usize, R)>,
        decode: impl Fn(R) -> Result<Option<T>, Poison>,
        park: impl Fn(usize, Poison) -> F,
    ) -> Vec<Entry<T>> {
        let (mut entries, mut parking) = (Vec::new(), FuturesUnordered::new());
        for (index, record) in records {
            match decode(record) {
                Ok(Some(item)) => entries.push(Entry { index, item }),
                Ok(None) => self.settle(index, Outcome::Skipped),
                Err(poison) => parking.push(park(index, poison).map(move |outcome| (index, outcome))),
            }
        }
        while let Some((index, outcome)) = parking.next().await {
            self.settle(index, outcome);
        }
        entries
    }

    /// Runs lanes, at most `parallel` at once. A panic fails the records of its lane.
    pub(crate) async fn run<L, F: Future<Output = LaneOutcomes>>(
        &mut self,
        lanes: impl IntoIterator<Item = L>,
        parallel: usize,
        run_lane: impl Fn(L) -> F,
    ) {
        let mut waiting = lanes.into_iter();
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < parallel.max(1)
                && let Some(lane) = waiting.next()
            {
                running.push(AssertUnwindSafe(run_lane(lane)).catch_unwind());
            }
            match running.next().await {
                None => return,
                Some(Ok(lane)) => {
                    lane.settled.into_iter().for_each(|(index, outcome)| self.settle(index, outcome))
                }
                Some(Err(_)) => {
                    tracing::error!("a handler panicked: the records of its lane are redelivered")
                }
            }
        }
    }

    /// The outcomes. A record without one was in a lane that panicked.
    pub(crate) fn report(self) -> BatchReport {
        let panicked = || Outcome::Failed("the handler panicked".to_owned());
        BatchReport {
            outcomes: self.outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(panicked)).collect(),
        }
    }
}

/// The outcomes of a lane.
#[derive(Default)]
pub(crate) struct LaneOutcomes {
    settled: Vec<(usize, Outcome)>,
    /// The failure that stopped the lane.
    failure: Option<String>,
}

impl LaneOutcomes {
    pub(crate) fn with_capacity(records: usize) -> Self {
        Self { settled: Vec::with_capacity(records), failure: None }
    }

    /// Sets the outcome of a record; the lane goes on.
    pub(crate) fn settle(&mut self, index: usize, outcome: Outcome) {
        self.settled.push((index, outcome));
    }

    /// Sets the outcome of a record. A failure stops the lane.
    pub(crate) fn settle_or_stop(&mut self, index: usize, outcome: Outcome) {
        if let Outcome::Failed(why) = &outcome {
            self.failure = Some(why.clone());
        }
        self.settle(index, outcome);
    }
    /// Whether the lane has stopped. The record then fails too, since it must not overtake the failed one.
    pub(crate) fn is_behind_failure(&mut self, index: usize) -> bool {
        let Some(why) = &self.failure else { return false };
        let outcome = behind(why);
        self.settle(index, outcome);
        true
    }
}

/// The outcome of a record behind one that failed.
pub(crate) fn behind(why: &str) -> Outcome {
    Outcome::Failed(format!("behind a record that failed: {why}"))
}
