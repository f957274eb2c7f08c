//! SQS batches as Lambda delivers them, and the partial-batch response: `collections-worker` and
//! `batch-worker`.
//!
//! The types are our own: those of `aws_lambda_events` need a feature that links `serde_with`, for fields
//! that nothing here reads.

use aws_lambda_events::event::streams::{SqsBatchItemFailure, SqsEventResponse};
use chrono::DateTime;
use dues_events::UserId;
use dues_events::wire::peek_ids;
use dues_store::{CommitError, Engine, Store};
use serde::Deserialize;
use std::sync::{Mutex, PoisonError};

use crate::collections::gateway::Gateway;
use crate::collections::job::Task;
use crate::collections::worker::Tally;
use crate::collections::{Collector, batch_worker as list, worker};
use crate::runtime::json_fields::Fields;
use crate::runtime::lanes::{Batch, BatchReport, Delivery, Entry, Lane, LaneOutcomes, Outcome, lanes_by};
use crate::runtime::parking::{Poison, park};

/// The name under which tasks are parked.
pub const COLLECTIONS: &str = "collections";
/// How many users run at once.
const PARALLEL: usize = 128;

/// A batch.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SqsEvent {
    /// Its messages.
    #[serde(rename = "Records")]
    pub records: Vec<SqsMessage>,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SqsMessage {
    /// Its id in the response.
    pub message_id: String,
    /// Its content.
    #[serde(default)]
    pub body: String,
    /// Attributes that SQS adds.
    #[serde(default)]
    pub attributes: SqsAttributes,
}

/// Attributes that SQS adds to a message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SqsAttributes {
    /// When it was sent, in milliseconds since 1970.
    #[serde(default)]
    pub sent_timestamp: Option<String>,
}

/// Collects from the users of a batch of tasks: a lane per user, so that a user's tasks do not block each
/// other on the lock. A failed task does not stop its lane: collections are independent. The response names
/// the messages to redeliver; a task for a user locked by another worker is done.
pub async fn collections_worker<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    event: SqsEvent,
) -> SqsEventResponse {
    let messages = deliveries(&collector.store, event);
    let (mut batch, tally) = (Batch::new(messages.len()), Mutex::new(Tally::default()));
    let decode = |message: &_| read_task(message).map(Some);
    let park = |index: usize, poison| park_task(collector, &messages[index], poison);
    let tasks = batch.decode(messages.iter().enumerate(), decode, park).await;
    let lanes = lanes_by(tasks, |task| &task.user_id);
    batch.run(lanes, PARALLEL, |lane| run_lane(collector, &messages, &tally, lane)).await;
    let (report, tally) = (batch.report(), tally.into_inner().unwrap_or_else(PoisonError::into_inner));
    answer(COLLECTIONS, &messages, &report, &tally, report.counts().parked)
}

/// Collects the records of a batch of operators' lists, one list after another: two of them may name the
/// same user. The response names the lists to redeliver.
pub async fn batch_worker<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    event: SqsEvent,
) -> SqsEventResponse {
    let messages = deliveries(&collector.store, event);
    let (mut outcomes, mut tally, mut parked) = (Vec::with_capacity(messages.len()), Tally::default(), 0);
    for message in &messages {
        outcomes.push(match list::batch_worker(collector, message).await {
            // Either an empty list, or one that was parked because it cannot be decoded.
            Ok(done) if done.is_empty() => {
                parked += u64::from(list::BatchList::read(&message.data).is_err());
                Outcome::Applied
            }
            Ok(done) => {
                for (_, collection) in done {
                    match collection {
                        Some(collection) => tally.count(&Ok(collection)),
                        None => parked += 1,
                    }
                }
                Outcome::Applied
            }
            Err(why) => Outcome::Failed(why),
        });
    }
    answer(list::QUEUE, &messages, &BatchReport { outcomes }, &tally, parked)
}

async fn run_lane<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    messages: &[Delivery],
    tally: &Mutex<Tally>,
    lane: Lane<UserId, Task>,
) -> LaneOutcomes {
    let mut outcomes = LaneOutcomes::with_capacity(lane.entries.len());
    for Entry { index, item } in lane.entries {
        outcomes.settle(index, collect(collector, &messages[index], &item, tally).await);
    }
    outcomes
}

/// Collects for one task; a task that cannot be processed is parked.
pub(crate) async fn collect_task<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    message: &Delivery,
) -> Outcome {
    match read_task(message) {
        Ok(task) => collect(collector, message, &task, &Mutex::default()).await,
        Err(poison) => park_task(collector, message, poison).await,
    }
}

async fn collect<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    message: &Delivery,
    task: &Task,
    tally: &Mutex<Tally>,
) -> Outcome {
    let poison = match worker::collections_worker(collector, task).await {
        Ok(collection) => {
            tally.lock().unwrap_or_else(PoisonError::into_inner).count(&Ok(collection));
            return Outcome::Applied;
        }
        Err(CommitError::Store(error)) => Poison::of(&error),
        Err(CommitError::Rejected(rejection)) => Ok(Poison::from(&rejection)),
    };
    match poison {
        Ok(poison) => park_task(collector, message, poison).await,
        Err(failed) => failed,
    }
}

async fn park_task<E: Engine, G>(collector: &Collector<E, G>, message: &Delivery, poison: Poison) -> Outcome {
    park(&collector.store, COLLECTIONS, message, poison, peek_ids(&message.data)).await
}

fn read_task(message: &Delivery) -> Result<Task, Poison> {
    let fields = Fields::read(&message.data, "body")?;
    Ok(Task { user_id: fields.id("user_id")?.into(), process: fields.process("process")? })
}

fn deliveries<E: Engine>(store: &Store<E>, event: SqsEvent) -> Vec<Delivery> {
    let now = store.clock.now();
    let read = |message: SqsMessage| {
        let sent = message
            .attributes
            .sent_timestamp
            .and_then(|millis| millis.parse().ok())
            .and_then(DateTime::from_timestamp_millis);
        Delivery {
            sequence: message.message_id,
            arrived: sent.unwrap_or(now),
            data: message.body.into_bytes(),
        }
    };
    event.records.into_iter().map(read).collect()
}

/// Logs the batch; the response names the messages to redeliver.
fn answer(
    queue: &str,
    messages: &[Delivery],
    report: &BatchReport,
    tally: &Tally,
    parked: u64,
) -> SqsEventResponse {
    let mut response = SqsEventResponse::default();
    for (message, outcome) in messages.iter().zip(&report.outcomes) {
        if let Outcome::Failed(why) = outcome {
            tracing::warn!(queue, message = message.sequence, why, "message is redelivered");
            let mut failure = SqsBatchItemFailure::default();
            failure.item_identifier = Some(message.sequence.clone());
            response.batch_item_failures.push(failure);
        }
    }
    tracing::info!(
        queue,
        messages = messages.len(),
        visits = tally.users,
        locked = tally.locked,
        debits = tally.sent + tally.collected,
        sent = tally.sent,
        collected = tally.collected,
        refused = tally.refused,
        in_doubt = tally.in_doubt,
        free = tally.free,
        cancelled = tally.cancelled,
        stale = tally.stale,
        pause_expired = tally.pause_expired,
        pause_ending = tally.pause_ending,
        left = tally.skipped.values().sum::<u64>(),
        parked,
        failed = response.batch_item_failures.len(),
        "batch"
    );
    response
}
