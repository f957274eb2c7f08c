//! Runs followers over the change log as Lambda does over a table's stream: in batches, in order, with a
//! checkpoint per follower that passes only completed changes.

use dues_processors::billing::feeder::NAME;
use dues_processors::runtime::changes::{Change, Follower, STREAM};
use dues_processors::{Outcome, OutcomeCounts};
use dues_store::embedded::Embedded;
use dues_store::{Store, StoreError};
use std::time::Duration;

use crate::local::feeder::feed;
use crate::local::projector::project;
use crate::local::streams::LocalStreams;
use crate::output::Error;

/// Checkpoint name of the projector.
pub(crate) const PROJECTOR: &str = "projector";
/// Checkpoint name of the feeder.
pub(crate) const FEEDER: &str = NAME;
/// All followers: the log retains what any of them has not processed.
pub(crate) const FOLLOWERS: [&str; 2] = [PROJECTOR, FEEDER];
/// Processed changes that the log still retains, for readers without a checkpoint such as the console.
const RETAINED_CHANGES: u64 = 20_000;
/// Attempts per batch before the command fails. Nothing is lost: the log retains the batch for the next
/// command.
const MAX_ATTEMPTS: u32 = 6;

/// Projects and publishes every change since the checkpoints, whichever process made it.
pub(crate) async fn catch_up(store: &Store<Embedded>) -> Result<(), Error> {
    let projected = project(store).await;
    // Publish even if projecting fails.
    let fed = feed(store).await;
    let trimmed = LocalStreams::new(store.engine.clone()).trim().await;
    projected.and(fed).and(trimmed)
}

/// Runs a follower to the end of the log, or until `should_continue` returns false after a batch.
pub(crate) async fn run_follower<F: Follower<Engine = Embedded>>(
    follower: &F,
    name: &'static str,
    batch: usize,
    mut should_continue: impl FnMut(&OutcomeCounts) -> bool,
) -> Result<(), Error> {
    let Store { engine, clock, .. } = follower.store();
    let mut attempts = 0;
    let mut at = engine.checkpoint(name, STREAM)?;
    loop {
        let (sequences, changes) = read_changes(follower.store(), at, batch)?;
        if changes.is_empty() {
            return Ok(());
        }
        let report = follower.follow(&changes).await;
        let failed = report.first_failure();
        let done = failed.unwrap_or(changes.len());
        let mut counts = OutcomeCounts::default();
        // Changes that are retried are counted by the retry.
        report.outcomes[..done].iter().for_each(|fate| counts.count(fate));
        if let Some(last) = done.checked_sub(1).and_then(|n| sequences.get(n)) {
            advance_checkpoint(engine, name, *last).await?;
            at = *last;
            attempts = 0;
        }
        if let Some(Outcome::Failed(reason)) = failed.map(|n| &report.outcomes[n]) {
            attempts += 1;
            if attempts >= MAX_ATTEMPTS {
                return Err(StoreError::Unavailable(reason.clone()).into());
            }
            clock.sleep(Duration::from_millis(50 << attempts)).await;
        }
        if !should_continue(&counts) {
            return Ok(());
        }
    }
}

/// Stores a follower's checkpoint and trims the log behind all followers, in one write to disk.
async fn advance_checkpoint(engine: &Embedded, name: &str, seq: u64) -> Result<(), Error> {
    let mut processed = seq;
    for other in FOLLOWERS.into_iter().filter(|other| *other != name) {
        processed = processed.min(engine.checkpoint(other, STREAM)?);
    }
    let (stored, trimmed) = tokio::join!(
        engine.set_checkpoint(name, STREAM, seq),
        engine.trim_changes(processed.saturating_sub(RETAINED_CHANGES))
    );
    stored?;
    trimmed?;
    Ok(())
}

/// The next changes and their sequence numbers.
fn read_changes(store: &Store<Embedded>, after: u64, limit: usize) -> Result<(Vec<u64>, Vec<Change>), Error> {
    let now = store.clock.now();
    let changes = store.engine.changes(after, limit)?.into_iter().map(|change| {
        let (sequence, table, old, new) = (change.seq.to_string(), change.table, change.old, change.new);
        // The embedded store has no TTL deletes.
        (change.seq, Change { sequence, table, old, new, arrived: now, by_ttl: false })
    });
    Ok(changes.unzip())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dues_events::{Item, Value};
    use dues_store::table::GG_CORE;
    use dues_store::{Condition, Engine as _, SystemClock};
    use futures::future::join_all;

    #[tokio::test]
    async fn the_log_is_trimmed_behind_all_followers() {
        const MORE: u64 = 500;
        let folder = tempfile::tempdir().unwrap();
        let store =
            Store::new(Embedded::open(&folder.path().join("dues.db")).unwrap(), SystemClock::shared());
        let row = |n: u64| {
            let mut item = Item::new();
            item.set_text("PK", format!("NOTE#{n}"));
            item.set_text("SK", "NOTE");
            item.set("n", Value::number(n));
            store.engine.put(&GG_CORE, item, Condition::NoItem)
        };
        join_all((0..RETAINED_CHANGES + MORE).map(row)).await;
        project(&store).await.unwrap();
        assert_eq!(store.engine.changes(0, 1).unwrap()[0].seq, 1, "the feeder has not processed them");
        catch_up(&store).await.unwrap();
        let first = store.engine.changes(0, 1).unwrap()[0].seq;
        assert!((1 + MORE..=RETAINED_CHANGES).contains(&first), "{first}");
    }
}
