//! Images follow their reports: when a report's row changes, the report's state is recorded on the image,
//! and the image's `flag_status` is derived again.
//!
//! The state is read from the report's head, each part with the fact that set it: repeated, late and
//! concurrent deliveries end in the same result.

use dues_events::Item;
use dues_projections::figureforge::image::ImageFact;
use dues_projections::figureforge::moderation::Reported;
use dues_projections::figureforge::report::ReportSummary;
use dues_projections::figureforge::validation::Id;
use dues_projections::figureforge::{Fact, Figureforge, image_aggregate, report_aggregate};
use dues_projections::model::Recorded;
use dues_store::{Engine, StoreError};

use crate::entitlements::groups::Directory;
use crate::outcome::FactOutcome;
use crate::projector::Projector;
use crate::read_models::journal_commit::{load_state, record_facts};
use crate::runtime::changes::Change;
use crate::runtime::lanes::Outcome;

/// The new row of a report if its status or deletion has changed.
pub(crate) fn concerned(change: &Change) -> Option<&Item> {
    let new = change.new.as_ref().filter(|row| ids(row).is_some())?;
    let same = |name: &str| change.old.as_ref().is_some_and(|old| old.get(name) == new.get(name));
    (!same("status") || !same("deleted_at")).then_some(new)
}

/// The ids of the image and the report.
fn ids(row: &Item) -> Option<(&str, &str)> {
    Some((row.text("pk")?.strip_prefix("IMG#")?, row.text("sk")?.strip_prefix("REPORT#")?))
}

impl<E: Engine, D: Directory> Projector<E, D> {
    /// Records the current state of a report on its image.
    pub(crate) async fn report(&self, row: &Item) -> Result<Outcome, StoreError> {
        let Some((image, report)) = ids(row) else { return Ok(Outcome::Skipped) };
        let known = load_state::<Figureforge, E>(&self.store, &report_aggregate(image, report)).await?;
        // A row from another writer has no facts, and so no summary to record.
        let Some(summary) = known.report.summary() else { return Ok(Outcome::Skipped) };
        let fact = report_fact(report, summary, self.read_models.figureforge().auto_block_reports)?;
        let booked = record_facts::<Figureforge, E>(&self.store, &image_aggregate(image), &[fact]).await?;
        Ok(match booked.first() {
            Some(FactOutcome::Applied) => Outcome::Applied,
            // The same summary was recorded under another threshold: the first one holds.
            Some(FactOutcome::ConflictingContent | FactOutcome::Duplicate) | None => Outcome::Duplicate,
        })
    }
}

/// The fact's id is derived from its content, so that it is recorded once.
fn report_fact(report: &str, summary: ReportSummary, block_at: u32) -> Result<Recorded<Fact>, StoreError> {
    let report_id = Id::try_from(report.to_owned())
        .map_err(|problem| StoreError::Invalid(format!("report {report}: {problem}")))?;
    let gone = summary.gone.as_ref();
    let by = gone.map_or(String::new(), |gone| format!("/{}", gone.by));
    let at = gone.map_or(summary.status.at, |gone| gone.at.max(summary.status.at));
    let id = format!("report/{report}/{}{by}", summary.status.by);
    Ok(Recorded {
        id: id.into(),
        at,
        fact: Fact::Image(ImageFact::Reported(Reported { report_id, summary, block_at })),
    })
}
