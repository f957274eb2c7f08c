//! Report: `IMG#<image_id>`, `REPORT#<report_id>`; in `reportsByStatus` unless deleted.
//!
//! Each report is its own aggregate, so that an image may have thousands of them. Changes of their rows
//! determine the image's status: see [`super::moderation`]. An upheld report stays upheld, whatever facts
//! follow; only a decision on the image itself brings the image back.

use dues_events::Item;
use serde::{Deserialize, Serialize};

use super::row::Row;
use super::soft_delete::SoftDelete;
use super::validation::{EpochSecond, Name};
use crate::model::{Latest, Recorded};

/// A complaint about an image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The reporter's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reporter_id: Option<Name>,
    /// The reason given.
    pub reason: String,
    /// When it was filed; defaults to the event's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<EpochSecond>,
}

/// A fact about a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportFact {
    /// The report was filed.
    Filed(Report),
    /// The staff set its status.
    Judged(ReportStatus),
    /// Soft-deleted (`true`) or restored.
    Gone(bool),
}

/// Status of a report, in order of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportStatus {
    /// Not reviewed yet.
    Filed,
    /// Under review.
    Reviewed,
    /// Closed: the image is acceptable.
    Dismissed,
    /// Closed: the complaint is justified. Final.
    Upheld,
}

impl ReportStatus {
    /// All statuses.
    pub const ALL: [Self; 4] = [Self::Filed, Self::Reviewed, Self::Dismissed, Self::Upheld];

    /// The value of the row's `status`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Filed => "filed",
            Self::Reviewed => "reviewed",
            Self::Dismissed => "dismissed",
            Self::Upheld => "upheld",
        }
    }

    /// Whether the report still needs a decision.
    #[must_use]
    pub fn is_open(self) -> bool {
        match self {
            Self::Filed | Self::Reviewed => true,
            Self::Dismissed | Self::Upheld => false,
        }
    }
}

/// Updates the status if the fact is later. `Upheld` always wins, and no other status replaces it.
pub(super) fn judge<F>(
    place: &mut Option<Latest<ReportStatus>>,
    recorded: &Recorded<F>,
    status: ReportStatus,
) {
    let known = place.as_ref().map(|known| known.value);
    match (known == Some(ReportStatus::Upheld), status == ReportStatus::Upheld) {
        (true, false) => {}
        (false, true) => *place = Some(Latest { at: recorded.at, by: recorded.id.clone(), value: status }),
        (true, true) | (false, false) => Latest::update_ranked(place, recorded, status, |status| *status),
    }
}

/// State of a report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportState {
    report: SoftDelete<Report>,
    status: Option<Latest<ReportStatus>>,
}

/// A report's state as recorded on its image; each part names the fact it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportSummary {
    /// Status of the report.
    pub status: Latest<ReportStatus>,
    /// Whether the report is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<Latest<bool>>,
}

impl ReportState {
    pub(super) fn merge<F>(&mut self, recorded: &Recorded<F>, fact: &ReportFact) {
        match fact {
            ReportFact::Filed(report) => {
                self.report.save(recorded, report.created_at, report.clone());
                judge(&mut self.status, recorded, ReportStatus::Filed);
            }
            ReportFact::Judged(status) => judge(&mut self.status, recorded, *status),
            ReportFact::Gone(gone) => self.report.set_gone(recorded, *gone),
        }
    }

    /// The summary for the image; `None` before the report is filed.
    #[must_use]
    pub fn summary(&self) -> Option<ReportSummary> {
        self.report.value()?;
        Some(ReportSummary { status: self.status.clone()?, gone: self.report.gone().cloned() })
    }

    /// `ids` is `<image_id>/<report_id>`; neither id contains a slash.
    pub(super) fn row(&self, ids: &str) -> Option<Item> {
        let (image, id) = ids.split_once('/')?;
        let (report, created_at) = self.report.value()?;
        let (status, deleted_at) = (self.status.as_ref()?.value.as_str(), self.report.deleted_at());
        let row = Row::new(format!("IMG#{image}"), format!("REPORT#{id}"), created_at, deleted_at)
            .text("image_id", image)
            .text("report_id", id)
            .maybe("reporter_id", report.reporter_id.as_ref().map(Name::as_str))
            .text("reason", &report.reason)
            .text("status", status)
            .indexed(deleted_at.is_none(), "report_status_pk", format!("REPORTSTATUS#{status}"));
        Some(row.item())
    }
}
