//! `flag_status` of an image: derived from its reports, the generator's own filter and the staff's decision.
//!
//! The strictest status wins. A staff decision on the image (`image.flagged`) settles everything before it.
//!
//! | what | `flag_status` |
//! |---|---|
//! | a report is open | `human_pending` |
//! | the open reports reach the deployment's threshold | `auto_blocked` |
//! | a report was upheld | `removed` |
//! | all were dismissed, or deleted | `clean` |
//!
//! Every fact rewrites the image's head, so it cannot list thousands of reports. It follows
//! [`MAX_COUNTED_REPORTS`] of them, those with the smallest ids: a choice that does not depend on the order
//! of arrival. An image with more reports is pending until a human decides.

use dues_events::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::report::{ReportStatus, ReportSummary, judge};
use super::validation::Id;
use crate::model::{Latest, Recorded};

/// How many reports of one image are followed individually.
pub const MAX_COUNTED_REPORTS: usize = 100;

/// The moderation status of an image, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlagStatus {
    /// No objection.
    Clean,
    /// Needs a human review; visible until then.
    HumanPending,
    /// Blocked without a human.
    AutoBlocked,
    /// Taken down.
    Removed,
}

impl FlagStatus {
    /// All statuses.
    pub const ALL: [Self; 4] = [Self::Clean, Self::HumanPending, Self::AutoBlocked, Self::Removed];

    /// The value of the row's `flag_status`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::HumanPending => "human_pending",
            Self::AutoBlocked => "auto_blocked",
            Self::Removed => "removed",
        }
    }
}

/// The status of a report, recorded on its image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reported {
    /// Id of the report.
    pub report_id: Id,
    /// Status of the report.
    #[serde(rename = "standing")]
    pub summary: ReportSummary,
    /// How many open reports block an image, as configured at that time; 0 if none do. Recorded with the
    /// report, so that a rebuild reproduces the decision.
    pub block_at: u32,
}

/// State of an image's moderation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Moderation {
    /// Status given with `image.saved`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    said: Option<Latest<FlagStatus>>,
    /// Status set by the staff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decided: Option<Latest<FlagStatus>>,
    /// Reports, up to [`MAX_COUNTED_REPORTS`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    reports: BTreeMap<Id, ReportSummary>,
    /// Whether there are more reports.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    crowd: bool,
    /// When a report was last upheld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    upheld: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    block_at: Option<Latest<u32>>,
}

impl Moderation {
    pub(super) fn say<F>(&mut self, recorded: &Recorded<F>, status: FlagStatus) {
        Latest::update_ranked(&mut self.said, recorded, status, |status| *status);
    }

    pub(super) fn decide<F>(&mut self, recorded: &Recorded<F>, status: FlagStatus) {
        Latest::update_ranked(&mut self.decided, recorded, status, |status| *status);
    }

    pub(super) fn report<F>(&mut self, recorded: &Recorded<F>, reported: &Reported) {
        let Reported { report_id, summary, block_at } = reported;
        Latest::update_ranked(&mut self.block_at, recorded, *block_at, |at| *at);
        if summary.status.value == ReportStatus::Upheld {
            self.upheld = self.upheld.max(Some(summary.status.at));
        }
        match self.reports.get_mut(report_id) {
            Some(known) => join(known, summary),
            None => drop(self.reports.insert(report_id.clone(), summary.clone())),
        }
        if self.reports.len() > MAX_COUNTED_REPORTS {
            self.reports.pop_last();
            self.crowd = true;
        }
    }

    /// The resulting status.
    pub(super) fn status(&self) -> FlagStatus {
        let since = |at: Time| self.decided.as_ref().is_none_or(|decided| at > decided.at);
        let said = self.said.as_ref().filter(|said| since(said.at)).map(|said| said.value);
        let decided = self.decided.as_ref().map(|decided| decided.value);
        let is_open = |summary: &&ReportSummary| {
            let gone = summary.gone.as_ref().is_some_and(|gone| gone.value);
            !gone && summary.status.value.is_open() && since(summary.status.at)
        };
        let open = self.reports.values().filter(is_open).count();
        let block_at = self.block_at.as_ref().map_or(0, |block_at| block_at.value as usize);
        let reports = if self.upheld.is_some_and(since) {
            FlagStatus::Removed
        } else if block_at > 0 && open >= block_at {
            FlagStatus::AutoBlocked
        } else if open > 0 || self.crowd && self.decided.is_none() {
            FlagStatus::HumanPending
        } else {
            FlagStatus::Clean
        };
        [said, decided].into_iter().flatten().fold(reports, FlagStatus::max)
    }
}

/// Merges two summaries of one report.
fn join(known: &mut ReportSummary, summary: &ReportSummary) {
    let Latest { at, by, value } = &summary.status;
    let mut status = Some(known.status.clone());
    judge(&mut status, &Recorded { id: by.clone(), at: *at, fact: () }, *value);
    if let Some(status) = status {
        known.status = status;
    }
    if let Some(Latest { at, by, value }) = &summary.gone {
        Latest::update(&mut known.gone, &Recorded { id: by.clone(), at: *at, fact: () }, *value);
    }
}
