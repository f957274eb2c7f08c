//! Runs followers over the change log, as Lambda would over a table's stream: in batches, in order, the checkpoint of each passing only what it has done.

use dues_processors::changes::{Change, Follower, STREAM};
use dues_processors::kinesis_feeder::NAME;
use dues_processors::{Counts, Fate};
use dues_store::embedded::Embedded;
use dues_store::{Store, StoreError};
use std::time::Duration;

use crate::feeder_run::feed;
use crate::outgoing::LocalStreams;
use crate::output::Error;
use crate::projector_run::project;

/// Whose checkpoint it is.
pub(crate) const PROJECTOR: &str = "projector";
/// And the feeder's.
pub(crate) const FEEDER: &str = NAME;
/// Everybody who follows the log: it holds what one of them has not seen.
pub(crate) const FOLLOWERS: [&str; 2] = [PROJECTOR, FEEDER];
/// How many changes are kept beyond that, for those who only look: the console counts along, also when a command works beside it.
const KEPT: u64 = 20_000;
/// How often a batch that fails is tried again before the command gives up. Nothing is lost then: the log holds it, and the next command goes on.
const TRIES: u32 = 6;

/// Does what follows from every change that was made since the last time, also by others, and tells others of it.
pub(crate) async fn catch_up(store: &Store<Embedded>) -> Result<(), Error> {
    let projected = project(store).await;
    // What the projector cannot do is no reason to keep changes from others.
    let fed = feed(store).await;
    let tidied = LocalStreams::new(store.engine.clone()).tidy().await;
    projected.and(fed).and(tidied)
}

/// Leads a follower to the end of the log, telling after each batch what became of it, and only for as long as it is told to go on.
pub(crate) async fn follow<F: Follower<Engine = Embedded>>(
    follower: &F,
    name: &'static str,
    batch: usize,
    mut goes_on: impl FnMut(&Counts) -> bool,
) -> Result<(), Error> {
    let Store { engine, clock, .. } = follower.store();
    let mut tries = 0;
    let mut at = engine.checkpoint(name, STREAM)?;
    loop {
        let (places, changes) = read(follower.store(), at, batch)?;
        if changes.is_empty() {
            return Ok(());
        }
        let report = follower.follow(&changes).await;
        let failed = report.first_failure();
        let done = failed.unwrap_or(changes.len());
        let mut counts = Counts::default();
        // What comes again is counted then.
        report.fates[..done].iter().for_each(|fate| counts.count(fate));
        if let Some(last) = done.checked_sub(1).and_then(|n| places.get(n)) {
            pass(engine, name, *last).await?;
            at = *last;
            tries = 0;
        }
        if let Some(Fate::Failed(reason)) = failed.map(|n| &report.fates[n]) {
            tries += 1;
            if tries >= TRIES {
                return Err(StoreError::Unavailable(reason.clone()).into());
            }
            clock.sleep(Duration::from_millis(50 << tries)).await;
        }
        if !goes_on(&counts) {
            return Ok(());
        }
    }
}

/// Notes how far a follower has come, and forgets what all of them have seen long ago. One write to the disk serves both.
async fn pass(engine: &Embedded, name: &str, place: u64) -> Result<(), Error> {
    let mut seen = place;
    for other in FOLLOWERS.into_iter().filter(|other| *other != name) {
        seen = seen.min(engine.checkpoint(other, STREAM)?);
    }
    let (noted, forgotten) = tokio::join!(engine.set_checkpoint(name, STREAM, place), engine.trim_changes(seen.saturating_sub(KEPT)));
    noted?;
    forgotten?;
    Ok(())
}

/// The next changes, and their places in the log.
fn read(store: &Store<Embedded>, after: u64, most: usize) -> Result<(Vec<u64>, Vec<Change>), Error> {
    let now = store.clock.now();
    let changes = store.engine.changes(after, most)?.into_iter().map(|change| {
        let (sequence, table, old, new) = (change.seq.to_string(), change.table, change.old, change.new);
        // Nothing here removes a row because its time is over.
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
    async fn what_all_have_seen_long_ago_is_forgotten() {
        const MORE: u64 = 500;
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(Embedded::open(&folder.path().join("dues.db")).unwrap(), SystemClock::shared());
        let row = |n: u64| {
            let mut item = Item::new();
            item.set_text("PK", format!("NOTE#{n}"));
            item.set_text("SK", "NOTE");
            item.set("n", Value::number(n));
            store.engine.put(&GG_CORE, item, Condition::NoItem)
        };
        join_all((0..KEPT + MORE).map(row)).await;
        project(&store).await.unwrap();
        assert_eq!(store.engine.changes(0, 1).unwrap()[0].seq, 1, "the feeder has not seen them");
        catch_up(&store).await.unwrap();
        let first = store.engine.changes(0, 1).unwrap()[0].seq;
        assert!((1 + MORE..=KEPT).contains(&first), "{first}");
    }
}
