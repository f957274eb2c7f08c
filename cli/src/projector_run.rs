//! Runs the projector over the change log, as Lambda would over a table's stream: in batches, in order, the checkpoint passing only what is done.

use dues_processors::changes::{Change, STREAM};
use dues_processors::groups::{Limiter, LocalDirectory};
use dues_processors::projector::Projector;
use dues_processors::{Counts, Fate};
use dues_store::embedded::Embedded;
use dues_store::{Store, StoreError};
use std::time::Duration;

use crate::output::Error;
use crate::settings;

/// Whose checkpoint it is.
pub(crate) const CONSUMER: &str = "projector";
/// How many changes a batch has at the most.
const BATCH: usize = 500;
/// How often a batch that fails is tried again before the command gives up. Nothing is lost then: the log holds it, and the next command goes on.
const TRIES: u32 = 6;

/// Does what follows from every change that was made since the last time, also by others. Gives what became of them.
pub(crate) async fn catch_up(store: &Store<Embedded>) -> Result<Counts, Error> {
    let mut counts = Counts::default();
    catch_up_while(store, BATCH, |batch| {
        counts.add(batch);
        true
    })
    .await?;
    Ok(counts)
}

/// The same in batches of so many, telling after each what became of it, and only for as long as it is told to go on.
pub(crate) async fn catch_up_while(store: &Store<Embedded>, batch: usize, mut goes_on: impl FnMut(&Counts) -> bool) -> Result<(), Error> {
    let engine = &store.engine;
    let projector = projector(store)?;
    let mut tries = 0;
    let mut at = engine.checkpoint(CONSUMER, STREAM)?;
    loop {
        let mut counts = Counts::default();
        let (places, changes) = read(store, at, batch)?;
        if changes.is_empty() {
            return Ok(());
        }
        let report = projector.project(&changes).await;
        let failed = report.first_failure();
        let done = failed.unwrap_or(changes.len());
        // What comes again is counted then.
        report.fates[..done].iter().for_each(|fate| counts.count(fate));
        if let Some(last) = done.checked_sub(1).and_then(|n| places.get(n)) {
            engine.set_checkpoint(CONSUMER, STREAM, *last).await?;
            at = *last;
            tries = 0;
        }
        if let Some(Fate::Failed(reason)) = failed.map(|n| &report.fates[n]) {
            tries += 1;
            if tries >= TRIES {
                return Err(StoreError::Unavailable(reason.clone()).into());
            }
            store.clock.sleep(Duration::from_millis(50 << tries)).await;
        }
        if !goes_on(&counts) {
            return Ok(());
        }
    }
}

/// The projector of this program.
pub(crate) fn projector(store: &Store<Embedded>) -> Result<Projector<Embedded, LocalDirectory<Embedded>>, Error> {
    Ok(Projector {
        // The groups are in the same file.
        limiter: Limiter::unlimited(store.clock.clone()),
        parallel: BATCH,
        tiers: settings::tiers()?,
        read_models: settings::read_models()?,
        ..Projector::new(store.clone(), Some(LocalDirectory::new(store.engine.clone())))
    })
}

/// The next changes, and their places in the log.
fn read(store: &Store<Embedded>, after: u64, batch: usize) -> Result<(Vec<u64>, Vec<Change>), Error> {
    let now = store.clock.now();
    let changes = store.engine.changes(after, batch)?.into_iter().map(|change| {
        let (sequence, table, old, new) = (change.seq.to_string(), change.table, change.old, change.new);
        // Nothing here removes a row because its time is over.
        (change.seq, Change { sequence, table, old, new, arrived: now, by_ttl: false })
    });
    Ok(changes.unzip())
}
