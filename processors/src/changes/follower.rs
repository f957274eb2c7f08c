//! Who does something about changes, and what all of them have in common: a batch as Lambda delivers it, the answer, and what is parked.

use aws_lambda_events::event::streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse};
use dues_events::UserId;
use dues_store::{Engine, Store, TableNames};
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::Value as Json;
use std::future::Future;

use super::{Change, DynamoStreamEvent, Read, sequence};
use crate::batch::{Fate, Incoming, Report, park_as};
use crate::kinesis::milliseconds;

/// Somebody who does something about changes.
pub trait Follower: Send + Sync {
    /// Where the tables are.
    type Engine: Engine;

    /// The tables.
    fn store(&self) -> &Store<Self::Engine>;

    /// What the deployment calls them.
    fn tables(&self) -> &TableNames;

    /// The name, among the parked ones, of a change of that table. Each follower needs its own, since what one of them has mended may still wait
    /// for the other; the part behind the last slash is the table's name.
    fn parked_as(&self, table: &str) -> String;

    /// Does what follows from these changes: each user's in order, and whatever fails keeps the later ones of its user back. Doing it again must do
    /// no harm.
    fn follow(&self, changes: &[Change]) -> impl Future<Output = Report> + Send;
}

/// Handles a batch of a table's stream. The answer names the first record that has to be delivered again: Lambda then redelivers from there, and what
/// had gone through is done again without harm.
pub(crate) async fn handle<F: Follower>(follower: &F, event: DynamoStreamEvent) -> DynamoDbEventResponse {
    let now = follower.store().clock.now();
    let mut fates = vec![Fate::Skipped; event.records.len()];
    let (mut places, mut changes, mut unreadable) = (Vec::new(), Vec::new(), FuturesUnordered::new());
    for (place, record) in event.records.iter().enumerate() {
        match Change::read(record, follower.tables(), now) {
            Read::Change(change) => {
                places.push(place);
                changes.push(change);
            }
            Read::Foreign => {}
            Read::Unreadable { stream, error } => unreadable.push(park_unreadable(follower, place, record, stream, error.to_string())),
        }
    }
    while let Some((place, fate)) = unreadable.next().await {
        fates[place] = fate;
    }
    for (place, fate) in places.into_iter().zip(follower.follow(&changes).await.fates) {
        fates[place] = fate;
    }
    let lag = changes.iter().map(|change| change.arrived).min().map_or(0, |oldest| milliseconds(now - oldest));
    answer(&event, &Report { fates }, lag)
}

/// Parks a change as it would have come.
pub(crate) async fn park_change<F: Follower>(follower: &F, change: &Change, code: &str, reason: String, user: &UserId) -> Fate {
    let (sequence, arrived) = (change.sequence.clone(), change.arrived);
    let mut record = change.to_json();
    // The same change is the same record, whichever number it came under.
    if let Some(stream) = record["dynamodb"].as_object_mut() {
        stream.remove("SequenceNumber");
    }
    let incoming = Incoming { sequence, arrived, data: record.to_string().into_bytes() };
    let stream = follower.parked_as(change.table.name);
    park_as(follower.store(), &stream, &incoming, code, reason, (None, Some(user.to_string()))).await
}

/// Parks a record as it came.
async fn park_unreadable<F: Follower>(follower: &F, place: usize, record: &Json, stream: &str, reason: String) -> (usize, Fate) {
    let (sequence, arrived) = (sequence(record).to_owned(), follower.store().clock.now());
    let incoming = Incoming { sequence, arrived, data: record.to_string().into_bytes() };
    let stream = follower.parked_as(stream);
    (place, park_as(follower.store(), &stream, &incoming, "malformed", reason, (None, None)).await)
}

/// Says in the log what became of the batch, and names to Lambda what has to come again.
fn answer(event: &DynamoStreamEvent, report: &Report, lag_ms: u64) -> DynamoDbEventResponse {
    let counts = report.counts();
    let mut response = DynamoDbEventResponse::default();
    if let Some(first) = report.first_failure() {
        let mut failure = DynamoDbBatchItemFailure::default();
        failure.item_identifier = Some(sequence(&event.records[first]).to_owned());
        tracing::warn!(sequence = failure.item_identifier, why = ?report.fates[first], "a change has to be delivered again");
        response.batch_item_failures.push(failure);
    }
    tracing::info!(
        records = report.fates.len(),
        applied = counts.applied,
        duplicate = counts.duplicate,
        ignored = counts.ignored,
        skipped = counts.skipped,
        parked = counts.parked,
        failed = counts.failed,
        lag_ms,
        "changes"
    );
    response
}
