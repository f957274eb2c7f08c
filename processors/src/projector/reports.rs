//! Images follow their reports: when the row of a report changes, the image is told how that report stands, and its `flag_status` is worked out anew.
//!
//! How it stands is read from the report's head, each part with the fact that said so: an image that is told twice, late, or by two at once ends the same.

use dues_events::Item;
use dues_projections::figureforge::image::ImageFact;
use dues_projections::figureforge::moderation::Reported;
use dues_projections::figureforge::report::Standing;
use dues_projections::figureforge::words::Id;
use dues_projections::figureforge::{Fact, Figureforge, image_aggregate, report_aggregate};
use dues_projections::model::Told;
use dues_store::{Engine, StoreError};

use super::Projector;
use crate::batch::Fate;
use crate::changes::Change;
use crate::groups::Directory;
use crate::read_models::booking::{Booked, state, tell};

/// The row of a report that stands otherwise than before.
pub(super) fn concerned(change: &Change) -> Option<&Item> {
    let new = change.new.as_ref().filter(|row| ids(row).is_some())?;
    let same = |name: &str| change.old.as_ref().is_some_and(|old| old.get(name) == new.get(name));
    (!same("status") || !same("deleted_at")).then_some(new)
}

/// The ids of the image and of the report.
fn ids(row: &Item) -> Option<(&str, &str)> {
    Some((row.text("pk")?.strip_prefix("IMG#")?, row.text("sk")?.strip_prefix("REPORT#")?))
}

impl<E: Engine, D: Directory> Projector<E, D> {
    /// Tells an image how one of its reports stands now.
    pub(super) async fn report(&self, row: &Item) -> Result<Fate, StoreError> {
        let Some((image, report)) = ids(row) else { return Ok(Fate::Skipped) };
        let known = state::<Figureforge, E>(&self.store, &report_aggregate(image, report)).await?;
        // A row that somebody else has written has no history, and tells the image nothing.
        let Some(standing) = known.report.standing() else { return Ok(Fate::Skipped) };
        let told = told(report, standing, self.read_models.figureforge().auto_block_reports)?;
        let booked = tell::<Figureforge, E>(&self.store, &image_aggregate(image), &[told]).await?;
        Ok(match booked.first() {
            Some(Booked::Applied) => Fate::Applied,
            // The same standing, told under another threshold: the first one holds.
            Some(Booked::Different | Booked::Duplicate) | None => Fate::Duplicate,
        })
    }
}

/// The fact has the id of what it says, so that whoever says it says it once.
fn told(report: &str, standing: Standing, block_at: u32) -> Result<Told<Fact>, StoreError> {
    let report_id = Id::try_from(report.to_owned()).map_err(|problem| StoreError::Invalid(format!("report {report}: {problem}")))?;
    let gone = standing.gone.as_ref();
    let by = gone.map_or(String::new(), |gone| format!("/{}", gone.by));
    let at = gone.map_or(standing.status.at, |gone| gone.at.max(standing.status.at));
    let id = format!("report/{report}/{}{by}", standing.status.by);
    Ok(Told { id: id.into(), at, fact: Fact::Image(ImageFact::Reported(Reported { report_id, standing, block_at })) })
}
