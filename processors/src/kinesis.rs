//! Kinesis batches as Lambda delivers them, and the partial-batch answer that it expects.

use aws_lambda_events::event::kinesis::{KinesisEvent, KinesisEventRecord};
use aws_lambda_events::event::streams::KinesisEventResponse;
use chrono::TimeDelta;
use dues_events::Time;
use dues_store::Engine;

use crate::batch::{Context, Handler, Incoming, Report, process};

/// Runs a batch through a handler.
pub async fn handle<H: Handler, E: Engine>(context: &Context<E>, batch: KinesisEvent) -> KinesisEventResponse {
    let records = incoming(batch);
    let report = process::<H, E>(context, &records).await;
    answer(H::STREAM, &records, &report, context.store.clock.now())
}

/// The records of a batch.
pub(crate) fn incoming(batch: KinesisEvent) -> Vec<Incoming> {
    let record = |record: KinesisEventRecord| Incoming {
        sequence: record.kinesis.sequence_number,
        arrived: record.kinesis.approximate_arrival_timestamp.0,
        data: record.kinesis.data.0,
    };
    batch.records.into_iter().map(record).collect()
}

/// Says in the log what became of a batch. The answer names the first record that has to be delivered again: Lambda then redelivers from there, and
/// what had gone through is found to be a duplicate.
pub(crate) fn answer(stream: &str, records: &[Incoming], report: &Report, now: Time) -> KinesisEventResponse {
    let counts = report.counts();
    let oldest = records.iter().map(|record| record.arrived).min();
    tracing::info!(
        stream,
        records = records.len(),
        applied = counts.applied,
        duplicate = counts.duplicate,
        ignored = counts.ignored,
        skipped = counts.skipped,
        parked = counts.parked,
        failed = counts.failed,
        lag_ms = oldest.map_or(0, |oldest| milliseconds(now - oldest)),
        "batch"
    );
    let mut response = KinesisEventResponse::default();
    if let Some(first) = report.first_failure().and_then(|first| records.get(first)) {
        response.add_failure(first.sequence.clone());
    }
    response
}

/// How far behind somebody is. Clocks differ: who seems to be ahead is not behind.
pub(crate) fn milliseconds(behind: TimeDelta) -> u64 {
    u64::try_from(behind.num_milliseconds()).unwrap_or(0)
}
