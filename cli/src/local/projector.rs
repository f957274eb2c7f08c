//! The projector over the change log: derives follow-up writes from table changes.

use dues_processors::OutcomeCounts;
use dues_processors::entitlements::groups::{LocalDirectory, RateLimiter};
use dues_processors::projector::Projector;
use dues_store::Store;
use dues_store::embedded::Embedded;

use crate::local::followers::{PROJECTOR, run_follower};
use crate::local::settings;
use crate::output::Error;

/// Changes per batch.
const BATCH_CHANGES: usize = 500;

/// Projects every change since the checkpoint, whichever process made it.
pub(crate) async fn project(store: &Store<Embedded>) -> Result<(), Error> {
    project_while(store, BATCH_CHANGES, |_| true).await
}

/// Projects in batches until the end of the log, or until `should_continue` returns false after a batch.
pub(crate) async fn project_while(
    store: &Store<Embedded>,
    batch: usize,
    should_continue: impl FnMut(&OutcomeCounts) -> bool,
) -> Result<(), Error> {
    run_follower(&projector(store)?, PROJECTOR, batch, should_continue).await
}

/// The projector over the embedded store.
pub(crate) fn projector(
    store: &Store<Embedded>,
) -> Result<Projector<Embedded, LocalDirectory<Embedded>>, Error> {
    Ok(Projector {
        // Groups are local rows: no rate limit.
        limiter: RateLimiter::unlimited(store.clock.clone()),
        parallel: BATCH_CHANGES,
        tiers: settings::tiers()?,
        read_models: settings::read_models()?,
        ..Projector::new(store.clone(), Some(LocalDirectory::new(store.engine.clone())))
    })
}
