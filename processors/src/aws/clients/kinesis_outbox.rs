//! The outbox on Kinesis: requests of at most 500 records and 5 MB; only failed records are retried.

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::config::retry::RetryConfig;
use aws_sdk_kinesis::config::timeout::TimeoutConfig;
use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::{PutRecordsRequestEntry, PutRecordsResultEntry};
use dues_store::SharedClock;
use std::time::Duration;

use crate::messaging::outbox::{Outbox, Outgoing, PublishError};
use crate::runtime::partial_retry::{Hope, Limits, Refusal, Request, send_fitting, whole};

/// Limits of one request.
const LIMITS: Limits = Limits { entries: 500, bytes: 5 * 1024 * 1024 };
/// Maximum bytes of a record, its key included.
pub const MOST_BYTES: usize = 1024 * 1024;
/// Maximum characters of a key.
pub const MOST_KEY: usize = 256;
/// Timeout of one attempt.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A Kinesis stream. Writing to it needs only the permission `kinesis:PutRecords`.
#[derive(Clone)]
pub struct Kinesis {
    client: Client,
    stream: String,
    clock: SharedClock,
}

impl Kinesis {
    /// The stream with that name. The clock times the backoff between retries. The client's own retries are
    /// disabled, since they would repeat whole requests.
    #[must_use]
    pub fn new(client: &Client, stream: impl Into<String>, clock: SharedClock) -> Self {
        Self { client: once(client, TIMEOUT), stream: stream.into(), clock }
    }
}

/// The same client without retries, and with a timeout for each attempt.
pub(crate) fn once(client: &Client, timeout: Duration) -> Client {
    let timeouts = TimeoutConfig::builder().operation_attempt_timeout(timeout).build();
    Client::from_conf(
        client.config().to_builder().retry_config(RetryConfig::disabled()).timeout_config(timeouts).build(),
    )
}

impl Outbox for Kinesis {
    async fn put_many(&self, messages: &[Outgoing]) -> Vec<Result<(), PublishError>> {
        let entries =
            messages.iter().map(|message| fitting(message).map(|size| (message.clone(), size))).collect();
        send_fitting(self, &self.clock, LIMITS, entries).await
    }
}

impl Request for Kinesis {
    type Entry = Outgoing;

    async fn request(&self, messages: Vec<Outgoing>) -> Vec<Result<(), Refusal>> {
        let count = messages.len();
        let entry = |message: Outgoing| {
            PutRecordsRequestEntry::builder().partition_key(message.key).data(Blob::new(message.data)).build()
        };
        let entries = match messages.into_iter().map(entry).collect::<Result<Vec<_>, _>>() {
            Ok(entries) => entries,
            Err(error) => return vec![Err(Refusal { why: error.to_string(), hope: Hope::Never }); count],
        };
        let answer =
            match self.client.put_records().stream_name(&self.stream).set_records(Some(entries)).send().await
            {
                Ok(answer) => answer,
                Err(error) => return whole(&error, count),
            };
        let mut said: Vec<Result<(), Refusal>> = answer.records().iter().take(count).map(read).collect();
        said.resize_with(count, || {
            Err(Refusal { why: "Kinesis did not say what became of it".to_owned(), hope: Hope::Soon })
        });
        said
    }
}

/// The result of one record. Kinesis rejects single records when their shard is throttled, or on an internal
/// failure.
fn read(entry: &PutRecordsResultEntry) -> Result<(), Refusal> {
    match (entry.sequence_number(), entry.error_code()) {
        (Some(_), None) => Ok(()),
        (_, code) => {
            let why = format!(
                "{}: {}",
                code.unwrap_or("no sequence number"),
                entry.error_message().unwrap_or("no message")
            );
            Err(Refusal { why, hope: Hope::Soon })
        }
    }
}

/// The size of a record, or why it is invalid: it would fail the other records of its request.
fn fitting(message: &Outgoing) -> Result<usize, String> {
    let characters = message.key.chars().count();
    if characters == 0 || characters > MOST_KEY {
        return Err(format!("its key has {characters} characters, it takes between 1 and {MOST_KEY}"));
    }
    match message.key.len() + message.data.len() {
        size if size <= MOST_BYTES => Ok(size),
        size => Err(format!("has {size} bytes, the most is {MOST_BYTES}")),
    }
}
