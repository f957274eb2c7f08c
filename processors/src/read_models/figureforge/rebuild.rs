//! The table made again from history: every aggregate's row from its facts, and the tags' rows from the images'.

use dues_events::Item;
use dues_projections::figureforge::{Figureforge, tags};
use dues_projections::model::Model as _;
use dues_store::engine::BATCH;
use dues_store::table::Table;
use dues_store::{Engine, Store, StoreError};

use crate::read_models::booking::rebuilt;

/// How often what a batch has left is sent again.
const TRIES: u32 = 20;

/// Makes all rows again, from one store's history, in another, empty store. Gives how many.
///
/// # Errors
/// What either store could not do, or a fact that cannot be read.
pub async fn rebuild<E: Engine, F: Engine>(from: &Store<E>, into: &Store<F>) -> Result<u64, StoreError> {
    let (mut start, mut count) = (None, 0);
    loop {
        let (aggregates, next) = from.journal_page(start).await?;
        for aggregate in aggregates.iter().filter(|aggregate| aggregate.model == Figureforge::NAME) {
            let mut rows = rebuilt::<Figureforge, E>(from, &aggregate.name).await?;
            let tagged: Vec<(&'static Table, Item)> =
                rows.iter().flat_map(|(table, row)| tags::rows(row).into_values().map(move |tag| (*table, tag))).collect();
            rows.extend(tagged);
            count += rows.len() as u64;
            for batch in rows.chunks(BATCH) {
                write(into, batch.to_vec()).await?;
            }
        }
        match next {
            Some(next) => start = Some(next),
            None => return Ok(count),
        }
    }
}

async fn write<F: Engine>(into: &Store<F>, mut rows: Vec<(&'static Table, Item)>) -> Result<(), StoreError> {
    for _ in 0..TRIES {
        rows = into.engine.put_batch(rows).await?;
        if rows.is_empty() {
            return Ok(());
        }
        into.clock.sleep(std::time::Duration::from_millis(50)).await;
    }
    Err(StoreError::Throttled(format!("{} rows were not taken", rows.len())))
}
