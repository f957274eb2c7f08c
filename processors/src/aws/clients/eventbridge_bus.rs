//! The bus on EventBridge: requests of at most 10 entries and 256 KB; only failed entries are retried.

use aws_sdk_eventbridge::Client;
use aws_sdk_eventbridge::primitives::DateTime;
use aws_sdk_eventbridge::types::{PutEventsRequestEntry, PutEventsResultEntry};
use dues_store::SharedClock;

use crate::messaging::bus::{Bus, Message, SOURCE};
use crate::messaging::outbox::PublishError;
use crate::runtime::partial_retry::{Hope, Limits, MOST, Refusal, Request, send_fitting, whole};

/// Maximum bytes of a request, over all entries.
pub const MOST_BYTES: usize = 256 * 1024;
/// Bytes that EventBridge counts for the time of an entry.
const TIME_BYTES: usize = 14;

/// A bus on EventBridge.
#[derive(Clone)]
pub struct EventBridge {
    client: Client,
    bus_name: String,
    clock: SharedClock,
}

impl EventBridge {
    /// The bus with that name or ARN. The clock times the backoff between retries.
    #[must_use]
    pub fn new(client: Client, bus_name: impl Into<String>, clock: SharedClock) -> Self {
        Self { client, bus_name: bus_name.into(), clock }
    }

    fn entry(&self, message: &Message) -> PutEventsRequestEntry {
        PutEventsRequestEntry::builder()
            .event_bus_name(&self.bus_name)
            .source(SOURCE)
            .detail_type(message.detail_type)
            .set_time(message.at.map(|at| DateTime::from_millis(at.timestamp_millis())))
            .detail(message.detail.to_string())
            .build()
    }
}

impl Bus for EventBridge {
    async fn publish(&self, messages: &[Message]) -> Vec<Result<(), PublishError>> {
        let entries = messages
            .iter()
            .map(|message| self.entry(message))
            .map(|entry| fitting(&entry).map(|size| (entry, size)))
            .collect();
        send_fitting(self, &self.clock, Limits { entries: MOST, bytes: MOST_BYTES }, entries).await
    }
}

impl Request for EventBridge {
    type Entry = PutEventsRequestEntry;

    async fn request(&self, entries: Vec<PutEventsRequestEntry>) -> Vec<Result<(), Refusal>> {
        let count = entries.len();
        let answer = match self.client.put_events().set_entries(Some(entries)).send().await {
            Ok(answer) => answer,
            Err(error) => return whole(&error, count),
        };
        let mut said: Vec<Result<(), Refusal>> = answer.entries().iter().take(count).map(read).collect();
        said.resize_with(count, || {
            Err(Refusal { why: "EventBridge did not say what became of it".to_owned(), hope: Hope::Soon })
        });
        said
    }
}

fn read(entry: &PutEventsResultEntry) -> Result<(), Refusal> {
    match (entry.event_id(), entry.error_code()) {
        (Some(_), None) => Ok(()),
        (_, code) => {
            let code = code.unwrap_or("no event id");
            let why = format!("{code}: {}", entry.error_message().unwrap_or("no message"));
            Err(Refusal { why, hope: hope(code) })
        }
    }
}

/// When a retry can succeed, by the error code of an entry.
fn hope(code: &str) -> Hope {
    match code {
        "MalformedDetail" | "InvalidArgument" => Hope::Never,
        "InvalidAccountIdException" => Hope::Later,
        _ if code.starts_with("NotAuthorized") => Hope::Later,
        _ => Hope::Soon,
    }
}

/// The size of an entry, or why it fits into no request.
fn fitting(entry: &PutEventsRequestEntry) -> Result<usize, String> {
    match size(entry) {
        size if size <= MOST_BYTES => Ok(size),
        size => Err(format!("has {size} bytes, the most is {MOST_BYTES}")),
    }
}

/// An entry's size as EventBridge counts it.
fn size(entry: &PutEventsRequestEntry) -> usize {
    [entry.source(), entry.detail_type(), entry.detail()].into_iter().flatten().map(str::len).sum::<usize>()
        + TIME_BYTES
}
