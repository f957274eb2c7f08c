//! Report: `IMG#<image_id>`, `REPORT#<report_id>`; in `reportsByStatus` unless deleted.
//!
//! Each report is an aggregate of its own, so that an image may have thousands of them. What they come to for the image follows from their rows'
//! changes: see [`super::moderation`]. A report that was upheld stays so, whatever is told of it: the image comes back by a word on the image.

use dues_events::Item;
use serde::{Deserialize, Serialize};

use super::kept::Kept;
use super::row::Row;
use super::words::{Name, Second};
use crate::model::{Latest, Told};

/// What somebody does not like about an image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Who says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reporter_id: Option<Name>,
    /// Why.
    pub reason: String,
    /// When, if it was not just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Second>,
}

/// What is told of a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportFact {
    /// Somebody has made it.
    Filed(Report),
    /// Somebody has come to that result.
    Judged(ReportStatus),
    /// It is deleted, or not any more.
    Gone(bool),
}

/// How a report stands, in the order of its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportStatus {
    /// Nobody has looked.
    Filed,
    /// Somebody is looking.
    Reviewed,
    /// There is nothing wrong with the image.
    Dismissed,
    /// There is. Final.
    Upheld,
}

impl ReportStatus {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Filed, Self::Reviewed, Self::Dismissed, Self::Upheld];

    /// Its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Filed => "filed",
            Self::Reviewed => "reviewed",
            Self::Dismissed => "dismissed",
            Self::Upheld => "upheld",
        }
    }

    /// Whether somebody still has to look.
    #[must_use]
    pub fn is_open(self) -> bool {
        match self {
            Self::Filed | Self::Reviewed => true,
            Self::Dismissed | Self::Upheld => false,
        }
    }
}

/// Takes over how a report stands, if that is later than what is known.
pub(super) fn judge<F>(place: &mut Option<Latest<ReportStatus>>, told: &Told<F>, status: ReportStatus) {
    let known = place.as_ref().map(|known| known.value);
    match (known == Some(ReportStatus::Upheld), status == ReportStatus::Upheld) {
        (true, false) => {}
        (false, true) => *place = Some(Latest { at: told.at, by: told.id.clone(), value: status }),
        (true, true) | (false, false) => Latest::put_ranked(place, told, status, |status| *status),
    }
}

/// What a report's facts come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportState {
    report: Kept<Report>,
    status: Option<Latest<ReportStatus>>,
}

/// How a report stands, as the image is told of it: each part with the fact that said so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// How it stands.
    pub status: Latest<ReportStatus>,
    /// Whether it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<Latest<bool>>,
}

impl ReportState {
    pub(super) fn merge<F>(&mut self, told: &Told<F>, fact: &ReportFact) {
        match fact {
            ReportFact::Filed(report) => {
                self.report.save(told, report.created_at, report.clone());
                judge(&mut self.status, told, ReportStatus::Filed);
            }
            ReportFact::Judged(status) => judge(&mut self.status, told, *status),
            ReportFact::Gone(gone) => self.report.set_gone(told, *gone),
        }
    }

    /// What the image has to know; nothing while nobody has filed it.
    #[must_use]
    pub fn standing(&self) -> Option<Standing> {
        self.report.value()?;
        Some(Standing { status: self.status.clone()?, gone: self.report.gone().cloned() })
    }

    /// The name of the aggregate has both ids, neither of which has a slash.
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
