//! Kinesis batches as Lambda delivers them, and the partial-batch answer that it expects.

use aws_lambda_events::event::kinesis::KinesisEvent;
use aws_lambda_events::event::streams::KinesisEventResponse;
use dues_store::Engine;

use crate::batch::{Context, Handler, Incoming, process};

/// Runs a batch through a handler. The answer names the first record that has to be delivered again: Lambda then redelivers from there, and what
/// had gone through is found to be a duplicate.
pub async fn handle<H: Handler, E: Engine>(context: &Context<E>, batch: KinesisEvent) -> KinesisEventResponse {
    let records: Vec<Incoming> = batch
        .records
        .into_iter()
        .map(|record| Incoming {
            sequence: record.kinesis.sequence_number,
            arrived: record.kinesis.approximate_arrival_timestamp.0,
            data: record.kinesis.data.0,
        })
        .collect();
    let report = process::<H, E>(context, &records).await;
    let counts = report.counts();
    tracing::info!(
        stream = H::STREAM,
        records = records.len(),
        applied = counts.applied,
        duplicate = counts.duplicate,
        ignored = counts.ignored,
        skipped = counts.skipped,
        parked = counts.parked,
        failed = counts.failed,
        "batch"
    );
    let mut response = KinesisEventResponse::default();
    if let Some(first) = report.first_failure() {
        response.add_failure(records[first].sequence.clone());
    }
    response
}
