//! Runs a handler over a durable local stream, as Lambda's event source mapping would: in batches, in order, the checkpoint passing only what is done.

use chrono::TimeDelta;
use dues_processors::redrive::process_stream;
use dues_processors::{Context, Fate, Incoming};
use dues_store::embedded::{Embedded, StreamRecord};
use dues_store::{Store, StoreError};
use std::time::Duration;

use crate::output::Error;

/// How many records a batch has at the most.
const BATCH: usize = 2000;
/// How often a batch that fails is tried again before the command gives up. Nothing is lost then: the stream holds it.
const TRIES: u32 = 6;

/// A handler's way through a stream.
pub(crate) struct StreamRun {
    context: Context<Embedded>,
    stream: String,
    at: u64,
    tries: u32,
    batch: usize,
}

impl StreamRun {
    /// From where the stream's handler stopped last.
    pub(crate) fn new(context: Context<Embedded>, stream: &str) -> Result<Self, Error> {
        let at = context.store.engine.checkpoint(stream, stream)?;
        Ok(Self { context, stream: stream.to_owned(), at, tries: 0, batch: BATCH })
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

    /// Processes one batch, telling of each record and its fate; `false` when there is nothing to process.
    pub(crate) async fn step(
        &mut self,
        name: impl Fn(&StreamRecord) -> String,
        mut told: impl FnMut(&StreamRecord, Fate),
    ) -> Result<bool, Error> {
        let engine = self.context.store.engine.clone();
        let records = engine.records(&self.stream, self.at, self.batch)?;
        if records.is_empty() {
            return Ok(false);
        }
        let batch: Vec<Incoming> = records
            .iter()
            .map(|record| Incoming {
                sequence: name(record),
                arrived: dues_events::Time::from_timestamp_millis(record.at_millis).unwrap_or_default(),
                data: record.data.clone(),
            })
            .collect();
        let report = process_stream(&self.context, &self.stream, &batch).await;
        let report = report.ok_or_else(|| Error::Said(format!("no handler reads stream {}", self.stream)))?;
        let failed = report.first_failure();
        let done = failed.unwrap_or(records.len());
        let reason = failed.map(|n| report.fates[n].clone());
        for (record, fate) in records.iter().zip(report.fates) {
            told(record, fate);
        }
        if let Some(last) = done.checked_sub(1).and_then(|n| records.get(n)) {
            engine.set_checkpoint(&self.stream, &self.stream, last.seq).await?;
            self.at = last.seq;
            self.tries = 0;
        }
        if let Some(Fate::Failed(reason)) = reason {
            self.tries += 1;
            if self.tries >= TRIES {
                return Err(StoreError::Unavailable(reason).into());
            }
            self.context.store.clock.sleep(Duration::from_millis(50 << self.tries)).await;
        }
        Ok(true)
    }
}
