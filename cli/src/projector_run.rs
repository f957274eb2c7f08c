//! The projector over the change log: what follows from changes of the tables.

use dues_processors::groups::{Limiter, LocalDirectory};
use dues_processors::projector::Projector;
use dues_projections::dues::TierMap;
use dues_store::Store;
use dues_store::embedded::Embedded;

use crate::follow::{PROJECTOR, follow};
use crate::output::Error;

/// Where the map of tiers is: `Plus=JOURNEYMAN,Pro=SAGE`.
const TIERS: &str = "DUES_TIERS";
/// How many changes a batch has at the most.
const BATCH: usize = 500;

/// Does what follows from every change that was made since the last time, also by others.
pub(crate) async fn project(store: &Store<Embedded>) -> Result<(), Error> {
    let projector = Projector {
        // The groups are in the same file.
        limiter: Limiter::unlimited(store.clock.clone()),
        parallel: BATCH,
        tiers: tiers()?,
        ..Projector::new(store.clone(), Some(LocalDirectory::new(store.engine.clone())))
    };
    follow(&projector, PROJECTOR, BATCH).await
}

/// Which tier a name on a receipt stands for: the usual names, unless `DUES_TIERS` says otherwise.
fn tiers() -> Result<TierMap, Error> {
    match std::env::var(TIERS) {
        Ok(text) => TierMap::parse(&text).map_err(|why| Error::Said(format!("{TIERS}: {why}"))),
        Err(_) => Ok(TierMap::default()),
    }
}
