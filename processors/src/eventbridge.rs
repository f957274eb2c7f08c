//! EventBridge events as Lambda delivers them, one for each invocation: `webhook-worker`, `webhook-balance-worker`, `collections-job`,
//! `notifier-scheduler`, `usage-reset`. An error makes Lambda deliver the event again.
//!
//! The shapes are written by hand: `aws_lambda_events` has them behind a feature that links `serde_with`, and fails on what nothing here reads.

use dues_events::collect::Rules;
use dues_events::wire::WireError;
use dues_store::lock::Locks;
use dues_store::{Engine, Store, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::batch::Incoming;
use crate::bus::Bus;
use crate::collections::job::{self, JobError};
use crate::collections::signals::{self, Acted};
use crate::collections::worker::Tally;
use crate::collections::{Collector, Visit};
use crate::fields::Fields;
use crate::gateway::Gateway;
use crate::notifier::{self, Notified};
use crate::queue::Queue;
use crate::read_models::usage::Settings;
use crate::usage_reset::{self, Reset};

/// An event. What is missing is found by whoever reads the detail, who can park it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct EventBridgeEvent {
    /// Names the delivery, never the fact.
    #[serde(default)]
    pub id: String,
    /// When it was put on the bus.
    #[serde(default)]
    pub time: Option<String>,
    /// Who put it there.
    #[serde(default)]
    pub source: String,
    /// The kind of thing that happened.
    #[serde(default, rename = "detail-type")]
    pub detail_type: String,
    /// What happened.
    #[serde(default)]
    pub detail: Value,
}

/// A signal has to be delivered again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the signal has to be delivered again: {0}")]
pub struct SignalFailed(pub String);

/// What a signal came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SignalSummary {
    /// `visited`, `locked`, `too_small` or `parked`.
    pub acted: &'static str,
    /// Debits under way.
    pub sent: u64,
    /// Collected at once.
    pub collected: u64,
    /// Refused by the gateway.
    pub refused: u64,
    /// Debits whose answer is not known yet.
    pub in_doubt: u64,
}

/// `webhook-worker`: handles an `income-detected` event.
///
/// # Errors
/// It has to be delivered again.
pub async fn webhook_worker<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    event: EventBridgeEvent,
) -> Result<SignalSummary, SignalFailed> {
    let record = incoming(collector, event);
    told("webhook-worker", &record.sequence, signals::webhook_worker(collector, &record).await)
}

/// `webhook-balance-worker`: handles an `account-balance` event.
///
/// # Errors
/// It has to be delivered again.
pub async fn webhook_balance_worker<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    event: EventBridgeEvent,
) -> Result<SignalSummary, SignalFailed> {
    let record = incoming(collector, event);
    told("webhook-balance-worker", &record.sequence, signals::webhook_balance_worker(collector, &record).await)
}

fn incoming<E: Engine, G>(collector: &Collector<E, G>, event: EventBridgeEvent) -> Incoming {
    let put = event.time.as_deref().and_then(|time| dues_events::time::parse(time).ok());
    Incoming {
        sequence: event.id,
        arrived: put.unwrap_or_else(|| collector.store.clock.now()),
        data: event.detail.to_string().into_bytes(),
    }
}

fn told(worker: &str, event: &str, acted: Result<Acted, String>) -> Result<SignalSummary, SignalFailed> {
    let (acted, user, tally) = match acted {
        Ok(Acted::Visited(user, visit)) => {
            let name = if visit == Visit::Locked { "locked" } else { "visited" };
            let mut tally = Tally::default();
            tally.count(&Ok(visit));
            (name, user.to_string(), tally)
        }
        Ok(Acted::TooSmall) => ("too_small", String::new(), Tally::default()),
        Ok(Acted::Parked) => ("parked", String::new(), Tally::default()),
        Err(why) => {
            tracing::info!(worker, event, acted = "failed", failed = 1_u64, "signal");
            return Err(SignalFailed(why));
        }
    };
    let Tally { sent, collected, refused, in_doubt, .. } = tally;
    let left = tally.left.values().sum::<u64>();
    let (debits, parked) = (sent + collected, u64::from(acted == "parked"));
    tracing::info!(worker, event, acted, user, debits, sent, collected, refused, in_doubt, left, parked, "signal");
    Ok(SignalSummary { acted, sent, collected, refused, in_doubt })
}

/// What the schedule of `collections-job` says: `{"process":"INITIAL"}`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct JobInput(pub Value);

/// Why `collections-job` did not get through.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// The schedule says something else than it should.
    #[error("the schedule's input: {0}")]
    Input(#[from] WireError),
    /// The job stopped.
    #[error(transparent)]
    Job(#[from] JobError),
}

/// What the job came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobSummary {
    /// Which run it was.
    pub process: &'static str,
    /// Records read.
    pub read: u64,
    /// Users put on the queue.
    pub queued: u64,
    /// Rows that could not be read; the log names them.
    pub unreadable: u64,
    /// Why there was nothing to do at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<String>,
}

/// `collections-job`: runs the job that the schedule names.
///
/// # Errors
/// A process that there is not; what the store or the queue could not do.
pub async fn collections_job<E: Engine, Q: Queue>(
    store: &Store<E>,
    rules: &Rules,
    queue: &Q,
    input: JobInput,
) -> Result<JobSummary, ScheduleError> {
    let no_object = || WireError { field: "input".to_owned(), problem: "is not a JSON object".to_owned() };
    let process = Fields::of(input.0).ok_or_else(no_object)?.process("process")?;
    let progress = job::collections_job(store, rules, queue, process, |_| {}).await?;
    let summary = JobSummary {
        process: process.name(),
        read: progress.read,
        queued: progress.queued,
        unreadable: progress.unreadable.len() as u64,
        closed: progress.closed.map(|reason| reason.to_string()),
    };
    let JobSummary { process, read, queued, unreadable, closed } = &summary;
    tracing::info!(process, read, queued, unreadable, closed = closed.is_some(), "collections job");
    Ok(summary)
}

/// What the schedules of `notifier-scheduler` and `usage-reset` say: nothing that matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Tick {}

/// `notifier-scheduler`: tells of what falls due soon.
///
/// # Errors
/// What the store could not do.
pub async fn notifier_scheduler<E: Engine, B: Bus>(
    store: &Store<E>,
    locks: &Locks<E>,
    rules: &Rules,
    bus: &B,
    _: Tick,
) -> Result<Notified, StoreError> {
    let notified = notifier::notifier_scheduler(store, locks, rules, bus, |_| {}).await?;
    let Notified { due_soon, told, known, failed, locked } = &notified;
    tracing::info!(due_soon, told, known, failed, locked, "notifier");
    Ok(notified)
}

/// `usage-reset`: forgets what was used on days that are over.
///
/// # Errors
/// What the store could not do.
pub async fn usage_reset<E: Engine>(store: &Store<E>, settings: &Settings, _: Tick) -> Result<Reset, StoreError> {
    let reset = usage_reset::usage_reset(store, settings, |_| {}).await?;
    let Reset { days, rows, gone, through } = &reset;
    tracing::info!(days, rows, gone, %through, "usage reset");
    Ok(reset)
}
