//! `kinesis-feeder` over the change log: publishes changes on durable local streams.

use dues_processors::OutcomeCounts;
use dues_processors::billing::feeder::KinesisFeeder;
use dues_store::Store;
use dues_store::embedded::Embedded;

use crate::local::followers::{FEEDER, run_follower};
use crate::local::streams::LocalStreams;
use crate::output::Error;

/// Changes per batch; each stream takes a batch in one write.
const BATCH_CHANGES: usize = 2000;

/// Publishes every change since the checkpoint, whichever process made it.
pub(crate) async fn feed(store: &Store<Embedded>) -> Result<(), Error> {
    feed_while(store, BATCH_CHANGES, |_| true).await
}

/// Publishes in batches until the end of the log, or until `should_continue` returns false after a batch.
pub(crate) async fn feed_while(
    store: &Store<Embedded>,
    batch: usize,
    should_continue: impl FnMut(&OutcomeCounts) -> bool,
) -> Result<(), Error> {
    run_follower(&feeder(store), FEEDER, batch, should_continue).await
}

/// The feeder over the local streams.
pub(crate) fn feeder(store: &Store<Embedded>) -> KinesisFeeder<Embedded, LocalStreams, LocalStreams> {
    let streams = LocalStreams::new(store.engine.clone());
    KinesisFeeder::new(store.clone(), streams.clone(), streams)
}
