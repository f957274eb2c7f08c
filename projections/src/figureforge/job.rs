//! GenerationJob: `USER#<user_id>`, `JOB#<job_id>`; in `jobsByStatus` unless deleted.
//!
//! ```text
//! queued ──► running ──► succeeded | failed | cancelled
//! ```
//!
//! Whatever the order in which it is told: an end is final, and of several the first one counts; before that the latest word counts, and of one
//! instant the one that is farther on.

use dues_events::{Item, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::kept::Kept;
use super::row::Row;
use super::words::{Id, Name, Second};
use crate::model::{Latest, Told};

/// What a job is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Whose it is.
    pub user_id: Name,
    /// What to generate.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub prompt_json: Json,
    /// Who generates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// With what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_model_id: Option<String>,
    /// When it was asked for, if it was not just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Second>,
}

/// What is told of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobFact {
    /// It was asked for.
    Queued(Job),
    /// Somebody has begun.
    Started,
    /// It is over.
    Ended(End),
    /// It is deleted, or not any more.
    Gone(bool),
}

/// How a job ended. Of two ends of one instant the upper one counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// There is an image.
    Succeeded {
        /// Which.
        image_id: Id,
        /// What it has cost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_cents: Option<u32>,
    },
    /// There is none.
    Failed {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// Nobody wants it any more.
    Cancelled {},
}

/// A job that is not over, in the order of its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    Queued,
    Running,
}

/// The states of a job, as `jobsByStatus` knows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStatus {
    /// Asked for.
    Queued,
    /// Begun.
    Running,
    /// Over, with an image.
    Succeeded,
    /// Over, without one.
    Failed,
    /// Called off.
    Cancelled,
}

impl JobStatus {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Queued, Self::Running, Self::Succeeded, Self::Failed, Self::Cancelled];

    /// Its word.
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

/// What a job's facts come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobState {
    job: Kept<Job>,
    phase: Option<Latest<Phase>>,
    started: Option<Time>,
    end: Option<Latest<End>>,
}

impl JobState {
    pub(super) fn merge<F>(&mut self, told: &Told<F>, fact: &JobFact) {
        let rank = |phase: &Phase| *phase;
        match fact {
            JobFact::Queued(job) => {
                self.job.save(told, job.created_at, job.clone());
                Latest::put_ranked(&mut self.phase, told, Phase::Queued, rank);
            }
            JobFact::Started => {
                self.started = Some(self.started.map_or(told.at, |started| started.min(told.at)));
                Latest::put_ranked(&mut self.phase, told, Phase::Running, rank);
            }
            JobFact::Ended(end) => {
                let first = self.end.as_ref().is_none_or(|known| (told.at, end, &told.id) < (known.at, &known.value, &known.by));
                if first {
                    self.end = Some(Latest { at: told.at, by: told.id.clone(), value: end.clone() });
                }
            }
            JobFact::Gone(gone) => self.job.set_gone(told, *gone),
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
