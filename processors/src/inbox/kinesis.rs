//! An inbox on Kinesis.

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::primitives::Blob;
use dues_store::SharedClock;
use std::time::Duration;

use super::{Inbox, InboxError};
use crate::outbox::kinesis::once;
use crate::resend::{Hope, Refusal, Request, tried, whole};

/// How long one request may take: the sender waits, and a request that hangs has to leave time for others.
const PATIENCE: Duration = Duration::from_secs(2);

/// A stream on Kinesis. Writing to it needs `kinesis:PutRecord` and nothing else.
#[derive(Clone)]
pub struct Kinesis {
    client: Client,
    stream: String,
    clock: SharedClock,
}

impl Kinesis {
    /// The stream with that name. The clock times the pauses before a record is put again; the client's own retries are turned off,
    /// since the two together would keep the sender waiting.
    #[must_use]
    pub fn new(client: &Client, stream: impl Into<String>, clock: SharedClock) -> Self {
        Self { client: once(client, PATIENCE), stream: stream.into(), clock }
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

    /// There is one entry. `PutRecords` would take more, and would need a permission of its own.
    async fn request(&self, entries: Vec<(String, Blob)>) -> Vec<Result<(), Refusal>> {
        let mut said = Vec::new();
        for (key, body) in entries {
            match self.client.put_record().stream_name(&self.stream).partition_key(key).data(body).send().await {
                Ok(_) => said.push(Ok(())),
                Err(error) => said.extend(whole(&error, 1)),
            }
        }
        said
    }
}
