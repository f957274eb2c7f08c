//! Tags follow the images of `figureforge`: an image has one index row for each of its tags, and no others.
//!
//! The image in the stream may be outdated, so the image is read from the table, and each transaction
//! checks that it is unchanged. So no writer stores the tags of an older image. The handler of an image's
//! last change checks every tag that the image had before or after it: the result is correct whatever the
//! order, repetition and concurrency of deliveries. A redelivery completes what a crash interrupted.

use dues_events::Item;
use dues_projections::figureforge::tags::{INDEXED_ATTRIBUTES, image_of, partition, rows, tags_of};
use dues_store::engine::TRANSACTION;
use dues_store::table::figureforge::FIGUREFORGE;
use dues_store::{Condition, Engine, Key, Op, Store, StoreError, Transacted};
use futures::future::try_join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::entitlements::groups::Directory;
use crate::projector::Projector;
use crate::runtime::changes::Change;
use crate::runtime::lanes::Outcome;

/// Attempts while the image or its tags change concurrently.
const TRIES: u32 = 50;
/// Longest pause after contention.
const PAUSE: Duration = Duration::from_millis(50);

/// Whether a change may affect the tags of an image.
pub(crate) fn concerns(change: &Change) -> bool {
    let images = [&change.old, &change.new].map(|row| row.as_ref().filter(|row| image_of(row).is_some()));
    match images {
        [None, None] => false,
        [Some(old), Some(new)] => INDEXED_ATTRIBUTES.into_iter().any(|name| old.get(name) != new.get(name)),
        [Some(_), None] | [None, Some(_)] => true,
    }
}

impl<E: Engine, D: Directory> Projector<E, D> {
    /// Makes the index rows of an image's tags match the current image.
    pub(crate) async fn tags(&self, change: &Change) -> Result<Outcome, StoreError> {
        let images = [&change.old, &change.new].into_iter().flatten();
        let Some(id) = images.clone().find_map(image_of) else { return Ok(Outcome::Skipped) };
        let changed: BTreeSet<String> = images.flat_map(tags_of).collect();
        for _ in 0..TRIES {
            match follow(&self.store, id, &changed).await {
                Ok(Some(true)) => return Ok(Outcome::Applied),
                Ok(Some(false)) => return Ok(Outcome::Duplicate),
                Ok(None) => {}
                Err(error) if error.is_busy() => {
                    self.store.clock.sleep(PAUSE * fastrand::u32(1..=10) / 10).await
                }
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::Contended(TRIES))
    }
}

/// Compares an image with its tag rows and writes the differences. Returns whether there were any; `None`
/// when the image has changed meanwhile.
async fn follow<E: Engine>(
    store: &Store<E>,
    id: &str,
    changed: &BTreeSet<String>,
) -> Result<Option<bool>, StoreError> {
    let key = Key { partition: format!("IMG#{id}"), sort: Some("META".to_owned()) };
    let image = store.engine.get(&FIGUREFORGE, key.clone()).await?;
    let wanted = image.as_ref().map(rows).unwrap_or_default();
    let current = image.as_ref().map(tags_of).unwrap_or_default();
    let tags: Vec<&String> = changed.union(&current).collect();
    let unchanged = Op::Check(&FIGUREFORGE, key, still(image.as_ref()));
    let mut changed = false;
    // The check takes one operation of each transaction.
    for some in tags.chunks(TRANSACTION - 1) {
        let mut ops = differences(store, id, some, &wanted).await?;
        if ops.is_empty() {
            continue;
        }
        ops.insert(0, unchanged.clone());
        match store.engine.transact(ops).await? {
            Transacted::Done => changed = true,
            Transacted::Refused { .. } => return Ok(None),
        }
    }
    Ok(Some(changed))
}

/// The attributes that the tags depend on are unchanged.
fn still(image: Option<&Item>) -> Condition {
    let Some(image) = image else { return Condition::NoItem };
    let same = |name: &'static str| match image.get(name) {
        Some(value) => Condition::Equals(name, value.clone()),
        None => Condition::Missing(name),
    };
    // An image without these attributes has no tags, and neither has a deleted one.
    Condition::All(INDEXED_ATTRIBUTES.into_iter().map(same).collect())
}

/// The operations from the current rows of some tags to the wanted ones. Reading first costs less than
/// rewriting all rows on every delivery.
async fn differences<E: Engine>(
    store: &Store<E>,
    id: &str,
    tags: &[&String],
    wanted: &BTreeMap<String, Item>,
) -> Result<Vec<Op>, StoreError> {
    let key = |tag: &str| Key { partition: partition(tag), sort: Some(format!("IMG#{id}")) };
    let there = try_join_all(tags.iter().map(|tag| store.engine.get(&FIGUREFORGE, key(tag)))).await?;
    let ops = tags.iter().zip(there).filter_map(|(tag, there)| match (wanted.get(*tag), there) {
        (Some(row), there) if there.as_ref() != Some(row) => {
            Some(Op::Put(&FIGUREFORGE, row.clone(), Condition::Always))
        }
        (None, Some(_)) => Some(Op::Delete(&FIGUREFORGE, key(tag), Condition::Always)),
        (Some(_) | None, _) => None,
    });
    Ok(ops.collect())
}
