//! `sweep`: completes the commits that a crash interrupted and no redelivery has completed, and brings the
//! listing of unapplied money up to date. See [`dues_store::billing::sweep`].

use dues_store::billing::sweep::SweepReport;
use dues_store::{CommitError, Engine, Store};
use serde::Serialize;

/// Counts of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SweepSummary {
    /// Users swept.
    pub users: u64,
    /// History rows that were ahead of their record and are now committed.
    pub rolled_forward: u64,
    /// Records that existed only in history and are now in the primary table.
    pub created: u64,
    /// Follow-ups and money rows that were outstanding.
    pub followups: u64,
    /// History rows of events that lost a race, now removed.
    pub removed: u64,
}

impl From<SweepReport> for SweepSummary {
    fn from(
        SweepReport { users, rolled_forward, created, followups, removed, faulty: _ }: SweepReport,
    ) -> Self {
        Self { users, rolled_forward, created, followups, removed }
    }
}

/// Sweeps every user that has history.
///
/// # Errors
/// Any [`CommitError`]. The job is idempotent: run it again.
pub async fn sweep<E: Engine>(store: &Store<E>) -> Result<SweepSummary, CommitError> {
    Ok(store.sweep(|_| {}).await?.into())
}
