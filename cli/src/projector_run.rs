//! The projector over the change log: what follows from changes of the tables.

use dues_processors::groups::{Limiter, LocalDirectory};
use dues_processors::projector::Projector;
use dues_store::Store;
use dues_store::embedded::Embedded;

use crate::follow::{PROJECTOR, follow};
use crate::output::Error;
use crate::settings;

/// How many changes a batch has at the most.
const BATCH: usize = 500;

/// Does what follows from every change that was made since the last time, also by others.
pub(crate) async fn project(store: &Store<Embedded>) -> Result<(), Error> {
    follow(&projector(store)?, PROJECTOR, BATCH).await
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
