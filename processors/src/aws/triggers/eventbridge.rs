//! EventBridge events as Lambda delivers them, one for each invocation: `webhook-worker`,
//! `webhook-balance-worker`, `collections-job`, `notifier-scheduler`, `sweep`, `entitlement-clock`,
//! `usage-reset`. On an error, Lambda redelivers the event.
//!
//! The types are our own: those of `aws_lambda_events` need a feature that links `serde_with`, and fail on
//! fields that nothing here reads.

use dues_events::collections::eligibility::Rules;
use dues_events::wire::WireError;
use dues_projections::entitlements::dues::TierMap;
use dues_store::lock::Locks;
use dues_store::{CommitError, Engine, Store, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::billing::sweeper::{self, SweepSummary};
use crate::collections::gateway::Gateway;
use crate::collections::job::{self, JobError};
use crate::collections::notifier;
use crate::collections::notifier::NotifierSummary;
use crate::collections::signals::{self, SignalOutcome};
use crate::collections::worker::Tally;
use crate::collections::{Collector, UserCollection};
use crate::entitlements::clock::{self, ClockReport};
use crate::messaging::bus::Bus;
use crate::messaging::queue::Queue;
use crate::runtime::json_fields::Fields;
use crate::runtime::lanes::Delivery;
use crate::usage::Settings;
use crate::usage::reset;
use crate::usage::reset::Reset;

/// An event. All fields are optional here: the handler validates the detail, and can park it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct EventBridgeEvent {
    /// Identifies the delivery, never the fact.
    #[serde(default)]
    pub id: String,
    /// When it was put on the bus.
    #[serde(default)]
    pub time: Option<String>,
    /// The service that published it.
    #[serde(default)]
    pub source: String,
    /// The type of the event.
    #[serde(default, rename = "detail-type")]
    pub detail_type: String,
    /// The content of the event.
    #[serde(default)]
    pub detail: Value,
}

/// The signal has to be redelivered; with the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the signal has to be delivered again: {0}")]
pub struct SignalFailed(pub String);

/// The result of a signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SignalSummary {
    /// `visited`, `locked`, `too_small` or `parked`.
    pub acted: &'static str,
    /// Debits sent, not settled yet.
    pub sent: u64,
    /// Debits collected at once.
    pub collected: u64,
    /// Debits refused by the gateway.
    pub refused: u64,
    /// Debits without a known answer from the gateway.
    pub in_doubt: u64,
}

/// `webhook-worker`: handles an `income-detected` event.
///
/// # Errors
/// [`SignalFailed`]: the event has to be redelivered.
pub async fn webhook_worker<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    event: EventBridgeEvent,
) -> Result<SignalSummary, SignalFailed> {
    let record = incoming(collector, event);
    summarise("webhook-worker", &record.sequence, signals::webhook_worker(collector, &record).await)
}

/// `webhook-balance-worker`: handles an `account-balance` event.
///
/// # Errors
/// [`SignalFailed`]: the event has to be redelivered.
pub async fn webhook_balance_worker<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    event: EventBridgeEvent,
) -> Result<SignalSummary, SignalFailed> {
    let record = incoming(collector, event);
    summarise(
        "webhook-balance-worker",
        &record.sequence,
        signals::webhook_balance_worker(collector, &record).await,
    )
}

fn incoming<E: Engine, G>(collector: &Collector<E, G>, event: EventBridgeEvent) -> Delivery {
    let put = event.time.as_deref().and_then(|time| dues_events::time::parse(time).ok());
    Delivery {
        sequence: event.id,
        arrived: put.unwrap_or_else(|| collector.store.clock.now()),
        data: event.detail.to_string().into_bytes(),
    }
}

fn summarise(
    worker: &str,
    event: &str,
    acted: Result<SignalOutcome, String>,
) -> Result<SignalSummary, SignalFailed> {
    let (acted, user, tally) = match acted {
        Ok(SignalOutcome::Collected(user, visit)) => {
            let name = if visit == UserCollection::Locked { "locked" } else { "visited" };
            let mut tally = Tally::default();
            tally.count(&Ok(visit));
            (name, user.to_string(), tally)
        }
        Ok(SignalOutcome::BelowThreshold) => ("too_small", String::new(), Tally::default()),
        Ok(SignalOutcome::Parked) => ("parked", String::new(), Tally::default()),
        Err(why) => {
            tracing::info!(worker, event, acted = "failed", failed = 1_u64, "signal");
            return Err(SignalFailed(why));
        }
    };
    let Tally { sent, collected, refused, in_doubt, .. } = tally;
    let left = tally.skipped.values().sum::<u64>();
    let (debits, parked) = (sent + collected, u64::from(acted == "parked"));
    tracing::info!(
        worker, event, acted, user, debits, sent, collected, refused, in_doubt, left, parked, "signal"
    );
    Ok(SignalSummary { acted, sent, collected, refused, in_doubt })
}

/// Input from the schedule of `collections-job`: `{"process":"INITIAL"}`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct JobInput(pub Value);

/// Why `collections-job` failed.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// The schedule's input is invalid.
    #[error("the schedule's input: {0}")]
    Input(#[from] WireError),
    /// The job stopped.
    #[error(transparent)]
    Job(#[from] JobError),
}

/// Counts of a job run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobSummary {
    /// The process that ran.
    pub process: &'static str,
    /// Records read.
    pub read: u64,
    /// Users put on the queue.
    pub queued: u64,
    /// Rows that could not be decoded; the log names them.
    pub unreadable: u64,
    /// Why the run was skipped altogether.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<String>,
}

/// `collections-job`: runs the job that the schedule names.
///
/// # Errors
/// The input names no known process, or the job stopped on an error of the store or the queue.
pub async fn collections_job<E: Engine, Q: Queue>(
    store: &Store<E>,
    rules: &Rules,
    queue: &Q,
    input: JobInput,
) -> Result<JobSummary, ScheduleError> {
    let no_object = || WireError { field: "input".to_owned(), problem: "is not a JSON object".to_owned() };
    let process = Fields::of(input.0).ok_or_else(no_object)?.process("process")?;
    let progress =
        job::collections_job(store, rules, queue, process, job::Staleness::Guarded, |_| {}).await?;
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

/// Input from the schedules of `notifier-scheduler`, `sweep`, `entitlement-clock` and `usage-reset`; its
/// content is ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Tick {}

/// `notifier-scheduler`: publishes notices for records that fall due soon.
pub async fn notifier_scheduler<E: Engine, B: Bus>(
    store: &Store<E>,
    locks: &Locks<E>,
    rules: &Rules,
    bus: &B,
    _: Tick,
) -> Result<NotifierSummary, StoreError> {
    let notified = notifier::notifier_scheduler(store, locks, rules, bus, |_| {}).await?;
    let NotifierSummary { due_soon, published: told, known, failed, locked } = &notified;
    tracing::info!(due_soon, told, known, failed, locked, "notifier");
    Ok(notified)
}

/// `sweep`: completes interrupted commits.
pub async fn sweep<E: Engine>(store: &Store<E>, _: Tick) -> Result<SweepSummary, CommitError> {
    let swept = sweeper::sweep(store).await?;
    let SweepSummary { users, rolled_forward, created, followups, removed } = swept;
    tracing::info!(users, rolled_forward, created, followups, removed, "sweep");
    Ok(swept)
}

/// `entitlement-clock`: books the timers that are due. Members that could not be booked fail the run, after
/// all others are booked.
pub async fn entitlement_clock<E: Engine>(
    store: &Store<E>,
    tiers: &TierMap,
    _: Tick,
) -> Result<ClockReport, String> {
    let report = clock::entitlement_clock(store, tiers).await.map_err(|error| error.to_string())?;
    let ClockReport { due, booked, tiers, months, attention, rebuilt, failed, failure } = &report;
    tracing::info!(due, booked, tiers, months, attention, rebuilt, failed, failure, "entitlement clock");
    report.check()?;
    Ok(report)
}

/// `usage-reset`: deletes the daily usage of days that are over.
pub async fn usage_reset<E: Engine>(
    store: &Store<E>,
    settings: &Settings,
    _: Tick,
) -> Result<Reset, StoreError> {
    let reset = reset::usage_reset(store, settings, |_| {}).await?;
    let Reset { days, rows, gone, through } = &reset;
    tracing::info!(days, rows, gone, %through, "usage reset");
    Ok(reset)
}
