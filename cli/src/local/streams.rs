//! Published messages in the embedded program: durable local streams, retained for a day.

use chrono::TimeDelta;
use dues_processors::OUTGOING;
use dues_processors::messaging::bus;
use dues_processors::messaging::bus::{Bus, Message, SOURCE};
use dues_processors::messaging::outbox;
use dues_processors::messaging::outbox::{Outbox, Outgoing, PublishError};
use dues_store::embedded::Embedded;
use dues_store::{SharedClock, SystemClock};
use serde_json::{Value, json};

use crate::output::Error;

/// The stream `subscriptions` and the bus, in the same file as the tables.
#[derive(Clone)]
pub(crate) struct LocalStreams {
    engine: Embedded,
    /// The system clock: messages of simulated months are retained for a real day too.
    clock: SharedClock,
}

impl LocalStreams {
    pub(crate) fn new(engine: Embedded) -> Self {
        Self { engine, clock: SystemClock::shared() }
    }

    /// Deletes messages older than a day, the default retention of Kinesis.
    pub(crate) async fn trim(&self) -> Result<(), Error> {
        let before = self.clock.now() - TimeDelta::days(1);
        for stream in OUTGOING {
            // The oldest record shows whether there is anything to delete.
            if self
                .engine
                .records(stream, 0, 1)?
                .iter()
                .any(|oldest| oldest.at_millis < before.timestamp_millis())
            {
                self.engine.trim_stream(stream, self.engine.last_record(stream)?, before).await?;
            }
        }
        Ok(())
    }

    /// Appends all or none.
    async fn append(&self, stream: &str, records: Vec<(String, Vec<u8>)>) -> Vec<Result<(), PublishError>> {
        let count = records.len();
        if count == 0 {
            return Vec::new();
        }
        let appended = self.engine.append(stream, self.clock.now(), records).await;
        vec![appended.map(drop).map_err(|error| PublishError::Transient(error.to_string())); count]
    }
}

impl Outbox for LocalStreams {
    const IN_ORDER: bool = true;

    async fn put_many(&self, messages: &[Outgoing]) -> Vec<Result<(), PublishError>> {
        self.append(
            outbox::STREAM,
            messages.iter().map(|message| (message.key.clone(), message.data.clone())).collect(),
        )
        .await
    }
}

impl Bus for LocalStreams {
    const IN_ORDER: bool = true;

    async fn publish(&self, messages: &[Message]) -> Vec<Result<(), PublishError>> {
        let record = |message: &Message| (message.id.to_string(), envelope(message).to_string().into_bytes());
        self.append(bus::STREAM, messages.iter().map(record).collect()).await
    }
}

/// A message as EventBridge would deliver it.
fn envelope(message: &Message) -> Value {
    let mut envelope = json!({"id": message.id, "source": SOURCE, "detail-type": message.detail_type,
        "detail": message.detail});
    if let Some(at) = message.at {
        envelope["time"] = json!(at.to_rfc3339());
    }
    envelope
}
