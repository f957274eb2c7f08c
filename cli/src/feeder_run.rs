//! `kinesis-feeder` over the change log: others are told of changes, on durable local streams.

use dues_processors::Counts;
use dues_processors::kinesis_feeder::KinesisFeeder;
use dues_store::Store;
use dues_store::embedded::Embedded;

use crate::follow::{FEEDER, follow};
use crate::outgoing::LocalStreams;
use crate::output::Error;

/// How many changes a batch has at the most. Each stream takes all that they tell in one write.
const BATCH: usize = 2000;

/// Tells of every change that was made since the last time, also by others.
pub(crate) async fn feed(store: &Store<Embedded>) -> Result<(), Error> {
    feed_while(store, BATCH, |_| true).await
}

/// The same in batches of so many, telling after each what became of it, and only for as long as it is told to go on.
pub(crate) async fn feed_while(store: &Store<Embedded>, batch: usize, goes_on: impl FnMut(&Counts) -> bool) -> Result<(), Error> {
    follow(&feeder(store), FEEDER, batch, goes_on).await
}

/// The feeder of this program.
pub(crate) fn feeder(store: &Store<Embedded>) -> KinesisFeeder<Embedded, LocalStreams, LocalStreams> {
    let streams = LocalStreams::new(store.engine.clone());
    KinesisFeeder::new(store.clone(), streams.clone(), streams)
}
