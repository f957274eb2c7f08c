//! SQS batches as Lambda delivers them, and the partial-batch answer that it expects: `collections-worker` and `batch-worker`.
//!
//! The shapes are written by hand: `aws_lambda_events` has them behind a feature that links `serde_with`, for fields that nothing here reads.

use aws_lambda_events::event::streams::{SqsBatchItemFailure, SqsEventResponse};
use chrono::DateTime;
use dues_events::UserId;
use dues_events::wire::WireError;
use dues_store::{CommitError, Engine, Store};
use futures::stream::{StreamExt as _, iter};
use serde::Deserialize;
use std::collections::HashMap;

use crate::batch::{Fate, Incoming, park_record};
use crate::collections::job::Task;
use crate::collections::worker::Tally;
use crate::collections::{Collector, Visit, batch_worker as list, worker};
use crate::fields::Fields;
use crate::gateway::Gateway;

/// The name of the job's queue among the parked records.
pub const COLLECTIONS: &str = "collections";
/// How many users are visited at once.
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
    /// What the answer calls it.
    pub message_id: String,
    /// What it says.
    #[serde(default)]
    pub body: String,
    /// What SQS says about it.
    #[serde(default)]
    pub attributes: SqsAttributes,
}

/// What SQS says about a message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SqsAttributes {
    /// When it was sent, in milliseconds since 1970.
    #[serde(default)]
    pub sent_timestamp: Option<String>,
}

/// Visits the users of a batch of tasks, in parallel; the tasks of one user one after another, so that they do not find each other's lock.
/// The answer names the messages to be delivered again. What cannot be understood is parked, and a user whom another worker has is done.
pub async fn collections_worker<E: Engine, G: Gateway>(collector: &Collector<E, G>, event: SqsEvent) -> SqsEventResponse {
    let mut ends = Vec::with_capacity(event.records.len());
    let mut lanes: HashMap<UserId, Vec<(Incoming, Task)>> = HashMap::new();
    for message in incoming(&collector.store, event) {
        match read_task(&message.data) {
            Ok(task) => lanes.entry(task.user_id.clone()).or_default().push((message, task)),
            Err(error) => {
                let end = park(&collector.store, &message, "malformed", error.to_string()).await;
                ends.push((message.sequence, end));
            }
        }
    }
    let mut running = iter(lanes.into_values()).map(|lane| run_lane(collector.clone(), lane)).buffer_unordered(PARALLEL);
    while let Some(done) = running.next().await {
        ends.extend(done);
    }
    answer(COLLECTIONS, &ends)
}

/// Works off a batch of operators' lists, one after another: two of them may name the same user. The answer names those to be delivered again.
pub async fn batch_worker<E: Engine, G: Gateway>(collector: &Collector<E, G>, event: SqsEvent) -> SqsEventResponse {
    let mut ends = Vec::with_capacity(event.records.len());
    for message in incoming(&collector.store, event) {
        let end = match list::batch_worker(collector, &message).await {
            // Nothing came of it: an empty list, or one that was parked because it cannot be read.
            Ok(done) if done.is_empty() => {
                let unreadable = list::BatchList::read(&message.data).is_err();
                End { parked: u64::from(unreadable), ..End::default() }
            }
            Ok(done) => list_end(done.into_iter().map(|(_, visit)| visit)),
            Err(why) => End { failed: Some(why), ..End::default() },
        };
        ends.push((message.sequence, end));
    }
    answer(list::QUEUE, &ends)
}

/// What became of a message.
#[derive(Debug, Default)]
struct End {
    tally: Tally,
    parked: u64,
    failed: Option<String>,
}

fn list_end(visits: impl Iterator<Item = Option<Visit>>) -> End {
    let mut end = End::default();
    for visit in visits {
        match visit {
            Some(visit) => end.tally.count(&Ok(visit)),
            None => end.parked += 1,
        }
    }
    end
}

/// The tasks of one user, in order. It is a task of its own: a visit that panics takes no other with it.
async fn run_lane<E: Engine, G: Gateway>(collector: Collector<E, G>, lane: Vec<(Incoming, Task)>) -> Vec<(String, End)> {
    let messages: Vec<String> = lane.iter().map(|(message, _)| message.sequence.clone()).collect();
    let visits = tokio::spawn(async move {
        let mut ends = Vec::with_capacity(lane.len());
        for (message, task) in &lane {
            ends.push(visit(&collector, message, task).await);
        }
        ends
    });
    match visits.await {
        Ok(ends) => messages.into_iter().zip(ends).collect(),
        Err(error) => {
            let failed = |message| (message, End { failed: Some(format!("the worker stopped: {error}")), ..End::default() });
            messages.into_iter().map(failed).collect()
        }
    }
}

/// Visits the user of one task; `true` when it was parked.
pub(crate) async fn visit_task<E: Engine, G: Gateway>(collector: &Collector<E, G>, message: &Incoming) -> Result<bool, String> {
    let end = match read_task(&message.data) {
        Ok(task) => visit(collector, message, &task).await,
        Err(error) => park(&collector.store, message, "malformed", error.to_string()).await,
    };
    end.failed.map_or(Ok(end.parked > 0), Err)
}

async fn visit<E: Engine, G: Gateway>(collector: &Collector<E, G>, message: &Incoming, task: &Task) -> End {
    match worker::collections_worker(collector, task).await {
        Ok(visit) => list_end([Some(visit)].into_iter()),
        Err(CommitError::Store(error)) if error.is_transient() => End { failed: Some(error.to_string()), ..End::default() },
        // Delivering it again cannot help: somebody has to look.
        Err(CommitError::Store(error)) => park(&collector.store, message, "store", error.to_string()).await,
        Err(CommitError::Rejected(rejection)) => park(&collector.store, message, rejection.code(), rejection.to_string()).await,
    }
}

async fn park<E: Engine>(store: &Store<E>, message: &Incoming, code: &str, reason: String) -> End {
    match park_record(store, COLLECTIONS, message, code, reason).await {
        Fate::Failed(why) => End { failed: Some(why), ..End::default() },
        Fate::Parked | Fate::Applied | Fate::Duplicate | Fate::Ignored | Fate::Skipped => End { parked: 1, ..End::default() },
    }
}

fn read_task(body: &[u8]) -> Result<Task, WireError> {
    let fields = Fields::read(body, "body")?;
    Ok(Task { user_id: fields.id("user_id")?.into(), process: fields.process("process")? })
}

fn incoming<E: Engine>(store: &Store<E>, event: SqsEvent) -> Vec<Incoming> {
    let now = store.clock.now();
    let read = |message: SqsMessage| {
        let sent = message.attributes.sent_timestamp.and_then(|millis| millis.parse().ok()).and_then(DateTime::from_timestamp_millis);
        Incoming { sequence: message.message_id, arrived: sent.unwrap_or(now), data: message.body.into_bytes() }
    };
    event.records.into_iter().map(read).collect()
}

/// Says in the log what became of the batch, and names to Lambda what has to come again.
fn answer(queue: &str, ends: &[(String, End)]) -> SqsEventResponse {
    let (mut tally, mut parked, mut response) = (Tally::default(), 0, SqsEventResponse::default());
    for (message, end) in ends {
        tally.add(&end.tally);
        parked += end.parked;
        if let Some(why) = &end.failed {
            tracing::warn!(queue, message, why, "a message has to be delivered again");
            let mut failure = SqsBatchItemFailure::default();
            failure.item_identifier = Some(message.clone());
            response.batch_item_failures.push(failure);
        }
    }
    tracing::info!(
        queue,
        messages = ends.len(),
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
        left = tally.left.values().sum::<u64>(),
        parked,
        failed = response.batch_item_failures.len(),
        "batch"
    );
    response
}
