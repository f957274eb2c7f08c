//! `flag_status` of an image: what its reports, the generator's own filter and the staff come to.
//!
//! The strictest word counts. A word of the staff on the image (`image.flagged`) settles everything before it.
//!
//! | what | `flag_status` |
//! |---|---|
//! | a report is open | `human_pending` |
//! | as many are open as the deployment says | `auto_blocked` |
//! | a report was upheld | `removed` |
//! | all were dismissed, or deleted | `clean` |
//!
//! The head of an image is written again with every fact, so it cannot list thousands of reports. It follows [`COUNTED`] of them, those with the
//! smallest ids: that choice depends on no order. An image with more waits for a human until one has decided.

use dues_events::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::report::{ReportStatus, Standing, judge};
use super::words::Id;
use crate::model::{Latest, Told};

/// How many reports of one image are followed one by one.
pub const COUNTED: usize = 100;

/// Whether an image may be seen, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlagStatus {
    /// Nothing speaks against it.
    Clean,
    /// Somebody has to look at it; it can be seen until then.
    HumanPending,
    /// Blocked, without a human.
    AutoBlocked,
    /// Taken down.
    Removed,
}

impl FlagStatus {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Clean, Self::HumanPending, Self::AutoBlocked, Self::Removed];

    /// Its word.
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

/// How a report stands, told to its image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reported {
    /// Which report.
    pub report_id: Id,
    /// How it stands.
    pub standing: Standing,
    /// How many open reports block an image, as the deployment had it; 0 if none do. Told with the report, so that what is made again from the facts is
    /// what was decided then.
    pub block_at: u32,
}

/// What is known of what speaks against an image.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Moderation {
    /// What whoever saved the image said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    said: Option<Latest<FlagStatus>>,
    /// What the staff decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decided: Option<Latest<FlagStatus>>,
    /// Reports, up to [`COUNTED`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    reports: BTreeMap<Id, Standing>,
    /// There are more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    crowd: bool,
    /// When a report was last upheld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    upheld: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    block_at: Option<Latest<u32>>,
}

impl Moderation {
    pub(super) fn say<F>(&mut self, told: &Told<F>, status: FlagStatus) {
        Latest::put_ranked(&mut self.said, told, status, |status| *status);
    }

    pub(super) fn decide<F>(&mut self, told: &Told<F>, status: FlagStatus) {
        Latest::put_ranked(&mut self.decided, told, status, |status| *status);
    }

    pub(super) fn report<F>(&mut self, told: &Told<F>, reported: &Reported) {
        let Reported { report_id, standing, block_at } = reported;
        Latest::put_ranked(&mut self.block_at, told, *block_at, |at| *at);
        if standing.status.value == ReportStatus::Upheld {
            self.upheld = self.upheld.max(Some(standing.status.at));
        }
        match self.reports.get_mut(report_id) {
            Some(known) => join(known, standing),
            None => drop(self.reports.insert(report_id.clone(), standing.clone())),
        }
        if self.reports.len() > COUNTED {
            self.reports.pop_last();
            self.crowd = true;
        }
    }

    /// What it all comes to.
    pub(super) fn status(&self) -> FlagStatus {
        let since = |at: Time| self.decided.as_ref().is_none_or(|decided| at > decided.at);
        let said = self.said.as_ref().filter(|said| since(said.at)).map(|said| said.value);
        let decided = self.decided.as_ref().map(|decided| decided.value);
        let is_open = |standing: &&Standing| {
            let gone = standing.gone.as_ref().is_some_and(|gone| gone.value);
            !gone && standing.status.value.is_open() && since(standing.status.at)
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

/// Puts together what was told of one report at two times.
fn join(known: &mut Standing, standing: &Standing) {
    let Latest { at, by, value } = &standing.status;
    let mut status = Some(known.status.clone());
    judge(&mut status, &Told { id: by.clone(), at: *at, fact: () }, *value);
    if let Some(status) = status {
        known.status = status;
    }
    if let Some(Latest { at, by, value }) = &standing.gone {
        Latest::put(&mut known.gone, &Told { id: by.clone(), at: *at, fact: () }, *value);
    }
}
