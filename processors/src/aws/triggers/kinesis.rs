//! Batches of Kinesis streams as Lambda delivers them, and the partial-batch response.

use aws_lambda_events::event::kinesis::{KinesisEvent, KinesisEventRecord};
use aws_lambda_events::event::streams::KinesisEventResponse;
use dues_events::Time;

use crate::runtime::lanes::{BatchReport, Delivery};

/// The records of a batch.
pub(crate) fn deliveries(batch: KinesisEvent) -> Vec<Delivery> {
    let delivery = |record: KinesisEventRecord| Delivery {
        sequence: record.kinesis.sequence_number,
        arrived: record.kinesis.approximate_arrival_timestamp.0,
        data: record.kinesis.data.0,
    };
    batch.records.into_iter().map(delivery).collect()
}

/// Logs a batch. The response names the first record to redeliver: Lambda repeats from there, and records
/// that were applied before are duplicates.
pub(crate) fn answer(
    stream: &str,
    records: &[Delivery],
    report: &BatchReport,
    now: Time,
) -> KinesisEventResponse {
    log_batch("batch", Some(stream), report, lag_ms(records.iter().map(|record| record.arrived), now));
    let mut response = KinesisEventResponse::default();
    if let Some(first) = report.first_failure().and_then(|first| records.get(first)) {
        response.add_failure(first.sequence.clone());
    }
    response
}

/// Logs the outcomes of a batch; the counts are metrics.
pub(crate) fn log_batch(message: &str, stream: Option<&str>, report: &BatchReport, lag_ms: u64) {
    let counts = report.counts();
    tracing::info!(
        stream,
        records = report.outcomes.len(),
        applied = counts.applied,
        duplicate = counts.duplicate,
        ignored = counts.ignored,
        skipped = counts.skipped,
        parked = counts.parked,
        failed = counts.failed,
        lag_ms,
        "{message}"
    );
}

/// How long the oldest record has waited; 0 if clock skew puts it in the future.
pub(crate) fn lag_ms(arrived: impl Iterator<Item = Time>, now: Time) -> u64 {
    arrived.min().map_or(0, |oldest| u64::try_from((now - oldest).num_milliseconds()).unwrap_or(0))
}
