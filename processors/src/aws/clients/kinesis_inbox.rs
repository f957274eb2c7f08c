//! The inbox on Kinesis.

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::primitives::Blob;
use dues_store::SharedClock;
use std::time::Duration;

use crate::aws::clients::kinesis_outbox::once;
use crate::messaging::inbox::{Inbox, InboxError};
use crate::runtime::partial_retry::{Hope, Refusal, Request, tried, whole};

/// Timeout of one attempt. The sender waits, so a request that hangs has to leave time for retries.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A Kinesis stream. Writing to it needs only the permission `kinesis:PutRecord`.
#[derive(Clone)]
pub struct Kinesis {
    client: Client,
    stream: String,
    clock: SharedClock,
}

impl Kinesis {
    /// The stream with that name. The clock times the backoff between retries. The client's own retries are
    /// disabled, since both together would keep the sender waiting.
    #[must_use]
    pub fn new(client: &Client, stream: impl Into<String>, clock: SharedClock) -> Self {
        Self { client: once(client, TIMEOUT), stream: stream.into(), clock }
    }
}

impl Inbox for Kinesis {
    async fn put(&self, key: &str, body: &[u8]) -> Result<(), InboxError> {
        let answers = tried(self, &self.clock, vec![(key.to_owned(), Blob::new(body))]).await;
        answers.into_iter().collect::<Result<(), Refusal>>().map_err(|Refusal { why, hope }| match hope {
            Hope::Soon => InboxError::Unavailable(why),
            Hope::Later | Hope::Never => InboxError::Refused(why),
        })
    }
}

impl Request for Kinesis {
    type Entry = (String, Blob);

    /// Puts the one entry with `PutRecord`: `PutRecords` would need another permission.
    async fn request(&self, entries: Vec<(String, Blob)>) -> Vec<Result<(), Refusal>> {
        let mut said = Vec::new();
        for (key, body) in entries {
            match self
                .client
                .put_record()
                .stream_name(&self.stream)
                .partition_key(key)
                .data(body)
                .send()
                .await
            {
                Ok(_) => said.push(Ok(())),
                Err(error) => said.extend(whole(&error, 1)),
            }
        }
        said
    }
}
