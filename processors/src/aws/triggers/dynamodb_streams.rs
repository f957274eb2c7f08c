//! Batches of DynamoDB streams as Lambda delivers them, and the partial-batch response.

use aws_lambda_events::event::streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse};
use serde::Deserialize;
use serde_json::Value as Json;

use crate::aws::triggers::kinesis::{lag_ms, log_batch};
use crate::runtime::changes::{Change, Read, parked_stream, sequence};
use crate::runtime::followers::Follower;
use crate::runtime::lanes::{Batch, BatchReport, Delivery, Outcome};
use crate::runtime::parking::{Poison, park};

/// A batch.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct DynamoStreamEvent {
    /// Its records, undecoded.
    #[serde(rename = "Records")]
    pub records: Vec<Json>,
}

/// Passes a batch to a follower. The response names the first record to redeliver: Lambda repeats from
/// there, and followers are idempotent.
pub(crate) async fn handle<F: Follower>(follower: &F, event: DynamoStreamEvent) -> DynamoDbEventResponse {
    let now = follower.store().clock.now();
    let mut batch = Batch::new(event.records.len());
    let read = |record: &Json| match Change::read(record, follower.tables(), now) {
        Read::Change(change) => Ok(Some(change)),
        Read::Foreign => Ok(None),
        Read::Unreadable { stream: _, error } => Err(error.into()),
    };
    let park = |index: usize, poison| park_unreadable(follower, &event.records[index], poison);
    let entries = batch.decode(event.records.iter().enumerate(), read, park).await;
    let (indices, changes): (Vec<usize>, Vec<Change>) =
        entries.into_iter().map(|entry| (entry.index, entry.item)).unzip();
    for (index, outcome) in indices.into_iter().zip(follower.follow(&changes).await.outcomes) {
        batch.settle(index, outcome);
    }
    let report = batch.report();
    log_batch("changes", None, &report, lag_ms(changes.iter().map(|change| change.arrived), now));
    answer(&event, &report)
}

/// Parks a record as it was delivered.
async fn park_unreadable<F: Follower>(follower: &F, record: &Json, poison: Poison) -> Outcome {
    let delivery = Delivery {
        sequence: sequence(record).to_owned(),
        arrived: follower.store().clock.now(),
        data: record.to_string().into_bytes(),
    };
    let stream = follower.parked_as(parked_stream(record, follower.tables()));
    park(follower.store(), &stream, &delivery, poison, (None, None)).await
}

fn answer(event: &DynamoStreamEvent, report: &BatchReport) -> DynamoDbEventResponse {
    let mut response = DynamoDbEventResponse::default();
    if let Some(first) = report.first_failure() {
        let mut failure = DynamoDbBatchItemFailure::default();
        failure.item_identifier = Some(sequence(&event.records[first]).to_owned());
        tracing::warn!(sequence = failure.item_identifier, why = ?report.outcomes[first],
            "change is redelivered");
        response.batch_item_failures.push(failure);
    }
    response
}
