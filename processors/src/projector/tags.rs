//! Tags follow the images of `figureforge`: a row for each tag under which an image is found, and no others.
//!
//! The image in the stream may be old by now, so the row is read from the table, and what is done counts only if the row is still like that: each
//! transaction checks it. So nobody ever writes what an older image would have, and whoever works on the last change of an image looks at every tag that
//! it had before or after: the end is right whatever the order, however often, and by however many at once changes are delivered. A crash is put right by
//! the redelivery.

use dues_events::Item;
use dues_projections::figureforge::tags::{DECISIVE, image_of, partition, rows, tags_of};
use dues_store::engine::TRANSACTION;
use dues_store::table::figureforge::FIGUREFORGE;
use dues_store::{Condition, Engine, Key, Op, Store, StoreError, Transacted};
use futures::future::try_join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Projector;
use crate::batch::Fate;
use crate::changes::Change;
use crate::groups::Directory;

/// How often an image is looked at again because it, or the tags, have changed meanwhile.
const TRIES: u32 = 50;
/// The longest pause after others were in the way.
const PAUSE: Duration = Duration::from_millis(50);

/// Whether the tags of an image may have to be others after that change.
pub(super) fn concerns(change: &Change) -> bool {
    let images = [&change.old, &change.new].map(|row| row.as_ref().filter(|row| image_of(row).is_some()));
    match images {
        [None, None] => false,
        [Some(old), Some(new)] => DECISIVE.into_iter().any(|name| old.get(name) != new.get(name)),
        [Some(_), None] | [None, Some(_)] => true,
    }
}

impl<E: Engine, D: Directory> Projector<E, D> {
    /// Makes the rows of an image's tags those that the image implies as it is now.
    pub(super) async fn tags(&self, change: &Change) -> Result<Fate, StoreError> {
        let images = [&change.old, &change.new].into_iter().flatten();
        let Some(id) = images.clone().find_map(image_of) else { return Ok(Fate::Skipped) };
        let told: BTreeSet<String> = images.flat_map(tags_of).collect();
        for _ in 0..TRIES {
            match follow(&self.store, id, &told).await {
                Ok(Some(true)) => return Ok(Fate::Applied),
                Ok(Some(false)) => return Ok(Fate::Duplicate),
                Ok(None) => {}
                Err(error) if error.is_busy() => self.store.clock.sleep(PAUSE * fastrand::u32(1..=10) / 10).await,
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::Contended(TRIES))
    }
}

/// Looks at an image and at its tags, and puts right what differs. Gives whether something did; `None` when the image is another by now.
async fn follow<E: Engine>(store: &Store<E>, id: &str, told: &BTreeSet<String>) -> Result<Option<bool>, StoreError> {
    let key = Key { partition: format!("IMG#{id}"), sort: Some("META".to_owned()) };
    let image = store.engine.get(&FIGUREFORGE, key.clone()).await?;
    let wanted = image.as_ref().map(rows).unwrap_or_default();
    let current = image.as_ref().map(tags_of).unwrap_or_default();
    let tags: Vec<&String> = told.union(&current).collect();
    let unchanged = Op::Check(&FIGUREFORGE, key, still(image.as_ref()));
    let mut changed = false;
    // The check takes a place in each transaction.
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

/// That the image is still as it was read, as far as its tags depend on it.
fn still(image: Option<&Item>) -> Condition {
    let Some(image) = image else { return Condition::NoItem };
    let same = |name: &'static str| match image.get(name) {
        Some(value) => Condition::Equals(name, value.clone()),
        None => Condition::Missing(name),
    };
    // An image that has none of these has no tags, and neither has one that is gone.
    Condition::All(DECISIVE.into_iter().map(same).collect())
}

/// What leads from the rows of some tags to those that are wanted. Reading them first costs less than writing them again with every delivery.
async fn differences<E: Engine>(
    store: &Store<E>,
    id: &str,
    tags: &[&String],
    wanted: &BTreeMap<String, Item>,
) -> Result<Vec<Op>, StoreError> {
    let key = |tag: &str| Key { partition: partition(tag), sort: Some(format!("IMG#{id}")) };
    let there = try_join_all(tags.iter().map(|tag| store.engine.get(&FIGUREFORGE, key(tag)))).await?;
    let ops = tags.iter().zip(there).filter_map(|(tag, there)| match (wanted.get(*tag), there) {
        (Some(row), there) if there.as_ref() != Some(row) => Some(Op::Put(&FIGUREFORGE, row.clone(), Condition::Always)),
        (None, Some(_)) => Some(Op::Delete(&FIGUREFORGE, key(tag), Condition::Always)),
        (Some(_) | None, _) => None,
    });
    Ok(ops.collect())
}
