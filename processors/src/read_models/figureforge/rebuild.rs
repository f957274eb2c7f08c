//! The table made again from history: every aggregate's row from its facts, and the tags' rows from the images'.

use dues_projections::figureforge::{Figureforge, tags};
use dues_store::table::figureforge::FIGUREFORGE;
use dues_store::{Engine, Store, StoreError};

use crate::read_models::booking;

/// Makes all rows again, from one store's history, in another, empty store. Gives how many.
///
/// # Errors
/// What either store could not do, or a fact that cannot be read.
pub async fn rebuild<E: Engine, F: Engine>(from: &Store<E>, into: &Store<F>) -> Result<u64, StoreError> {
    let tagged = |row: &_| tags::rows(row).into_values().map(|tag| (&FIGUREFORGE, tag)).collect();
    booking::rebuild::<Figureforge, E, F>(from, into, tagged).await
}
