//! GenerationJob: `USER#<user_id>`, `JOB#<job_id>`; in `jobsByStatus` unless deleted.
//!
//! ```text
//! queued ──► running ──► succeeded | failed | cancelled
//! ```
//!
//! In any order of arrival: an end is final, and the earliest end wins. Before that the latest phase wins;
//! at the same instant, the more advanced one.

use dues_events::{Item, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::row::Row;
use super::soft_delete::SoftDelete;
use super::validation::{EpochSecond, Id, Name};
use crate::model::{Latest, Recorded};

/// A requested job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The owner.
    pub user_id: Name,
    /// The prompt.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub prompt_json: Json,
    /// The provider that generates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The provider's model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_model_id: Option<String>,
    /// When it was requested; defaults to the event's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<EpochSecond>,
}

/// A fact about a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobFact {
    /// The job was requested.
    Queued(Job),
    /// A worker started it.
    Started,
    /// The job ended.
    Ended(End),
    /// Soft-deleted (`true`) or restored.
    Gone(bool),
}

/// How a job ended. Of two ends at the same instant the variant listed first wins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The job produced an image.
    Succeeded {
        /// Id of the image.
        image_id: Id,
        /// Cost of the generation, in cents.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_cents: Option<u32>,
    },
    /// The job produced no image.
    Failed {
        /// The error, if reported.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The job was cancelled.
    Cancelled {},
}

/// The phase of a job that has not ended, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    Queued,
    Running,
}

/// The status of a job, as indexed by `jobsByStatus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStatus {
    /// Requested.
    Queued,
    /// Started.
    Running,
    /// Ended with an image.
    Succeeded,
    /// Ended without an image.
    Failed,
    /// Cancelled.
    Cancelled,
}

impl JobStatus {
    /// All statuses.
    pub const ALL: [Self; 5] = [Self::Queued, Self::Running, Self::Succeeded, Self::Failed, Self::Cancelled];

    /// The value of the row's `status`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// State of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobState {
    job: SoftDelete<Job>,
    phase: Option<Latest<Phase>>,
    started: Option<Time>,
    end: Option<Latest<End>>,
}

impl JobState {
    pub(super) fn merge<F>(&mut self, recorded: &Recorded<F>, fact: &JobFact) {
        let rank = |phase: &Phase| *phase;
        match fact {
            JobFact::Queued(job) => {
                self.job.save(recorded, job.created_at, job.clone());
                Latest::update_ranked(&mut self.phase, recorded, Phase::Queued, rank);
            }
            JobFact::Started => {
                self.started = Some(self.started.map_or(recorded.at, |started| started.min(recorded.at)));
                Latest::update_ranked(&mut self.phase, recorded, Phase::Running, rank);
            }
            JobFact::Ended(end) => {
                let first = self.end.as_ref().is_none_or(|known| {
                    (recorded.at, end, &recorded.id) < (known.at, &known.value, &known.by)
                });
                if first {
                    self.end = Some(Latest { at: recorded.at, by: recorded.id.clone(), value: end.clone() });
                }
            }
            JobFact::Gone(gone) => self.job.set_gone(recorded, *gone),
        }
    }

    fn status(&self) -> JobStatus {
        match (self.end.as_ref().map(|end| &end.value), self.phase.as_ref().map(|phase| phase.value)) {
            (Some(End::Succeeded { .. }), _) => JobStatus::Succeeded,
            (Some(End::Failed { .. }), _) => JobStatus::Failed,
            (Some(End::Cancelled {}), _) => JobStatus::Cancelled,
            (None, Some(Phase::Running)) => JobStatus::Running,
            (None, Some(Phase::Queued) | None) => JobStatus::Queued,
        }
    }

    pub(super) fn row(&self, id: &str) -> Option<Item> {
        let (job, created_at) = self.job.value()?;
        let (user, status, deleted_at) = (&job.user_id, self.status().as_str(), self.job.deleted_at());
        let (image, cost, error) = match self.end.as_ref().map(|end| &end.value) {
            Some(End::Succeeded { image_id, cost_cents }) => (Some(image_id.as_str()), *cost_cents, None),
            Some(End::Failed { error }) => (None, None, error.as_deref()),
            Some(End::Cancelled {}) | None => (None, None, None),
        };
        let row = Row::new(format!("USER#{user}"), format!("JOB#{id}"), created_at, deleted_at)
            .text("job_id", id)
            .text("user_id", user.as_str())
            .text("status", status)
            .json("prompt_json", &job.prompt_json)
            .maybe("provider", job.provider.as_deref())
            .maybe("provider_model_id", job.provider_model_id.as_deref())
            .maybe("image_id", image)
            .number("cost_cents", cost.map(i64::from))
            .maybe("error", error)
            .number("started_at", self.started.map(|at| at.timestamp()))
            .number("ended_at", self.end.as_ref().map(|end| end.at.timestamp()))
            .indexed(deleted_at.is_none(), "job_status_pk", format!("JOBSTATUS#{status}"));
        Some(row.item())
    }
}
