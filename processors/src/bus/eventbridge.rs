//! Messages on EventBridge: in tens of at most 256 KB, and only what failed is sent again.

use aws_sdk_eventbridge::Client;
use aws_sdk_eventbridge::primitives::DateTime;
use aws_sdk_eventbridge::types::{PutEventsRequestEntry, PutEventsResultEntry};
use dues_store::SharedClock;
use futures::stream::{StreamExt as _, iter};

use super::{Bus, Message, SOURCE};
use crate::resend::{MOST, PARALLEL, Refusal, Request, send, whole};

/// The most bytes that one request takes, over all its entries.
pub const MOST_BYTES: usize = 256 * 1024;
/// What EventBridge counts for an entry's time.
const TIME_BYTES: usize = 14;

/// A bus on EventBridge.
#[derive(Clone)]
pub struct EventBridge {
    client: Client,
    bus_name: String,
    clock: SharedClock,
}

impl EventBridge {
    /// The bus with that name or ARN. The clock times the pauses before failed messages are sent again.
    #[must_use]
    pub fn new(client: Client, bus_name: impl Into<String>, clock: SharedClock) -> Self {
        Self { client, bus_name: bus_name.into(), clock }
    }

    fn entry(&self, message: &Message) -> PutEventsRequestEntry {
        PutEventsRequestEntry::builder()
            .event_bus_name(&self.bus_name)
            .source(SOURCE)
            .detail_type(message.detail_type)
            .time(DateTime::from_millis(message.at.timestamp_millis()))
            .detail(message.detail.to_string())
            .build()
    }
}

impl Bus for EventBridge {
    async fn publish(&self, messages: &[Message]) -> Vec<Result<(), String>> {
        let entries: Vec<PutEventsRequestEntry> = messages.iter().map(|message| self.entry(message)).collect();
        let mut answers: Vec<Result<(), String>> = entries.iter().map(fits).collect();
        let fitting: Vec<usize> = (0..entries.len()).filter(|place| answers[*place].is_ok()).collect();
        let sizes: Vec<usize> = fitting.iter().map(|place| size(&entries[*place])).collect();
        let requests: Vec<Vec<usize>> = cuts(&sizes).into_iter().map(|cut| fitting[cut].to_vec()).collect();
        let sent = iter(requests).map(|places| {
            let entries = places.iter().map(|place| entries[*place].clone()).collect();
            async move { (places, send(self, &self.clock, entries).await) }
        });
        let mut sent = sent.buffer_unordered(PARALLEL);
        while let Some((places, said)) = sent.next().await {
            for (place, answer) in places.into_iter().zip(said) {
                answers[place] = answer;
            }
        }
        answers
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
        said.resize_with(count, || Err(Refusal { why: "EventBridge did not say what became of it".to_owned(), again: true }));
        said
    }
}

fn read(entry: &PutEventsResultEntry) -> Result<(), Refusal> {
    match (entry.event_id(), entry.error_code()) {
        (Some(_), None) => Ok(()),
        (_, code) => {
            let code = code.unwrap_or("no event id");
            let why = format!("{code}: {}", entry.error_message().unwrap_or("no message"));
            Err(Refusal { why, again: !is_our_fault(code) })
        }
    }
}

/// What EventBridge says of an entry that it will never take.
fn is_our_fault(code: &str) -> bool {
    code.starts_with("NotAuthorized") || code == "MalformedDetail" || code == "InvalidArgument" || code == "InvalidAccountIdException"
}

fn fits(entry: &PutEventsRequestEntry) -> Result<(), String> {
    match size(entry) {
        size if size <= MOST_BYTES => Ok(()),
        size => Err(format!("has {size} bytes, the most is {MOST_BYTES}")),
    }
}

/// An entry's size as EventBridge counts it.
fn size(entry: &PutEventsRequestEntry) -> usize {
    [entry.source(), entry.detail_type(), entry.detail()].into_iter().flatten().map(str::len).sum::<usize>() + TIME_BYTES
}

/// Where to cut, so that no piece has too many entries or too many bytes.
fn cuts(sizes: &[usize]) -> Vec<std::ops::Range<usize>> {
    let (mut cuts, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (place, size) in sizes.iter().enumerate() {
        if place > start && (place - start == MOST || bytes + size > MOST_BYTES) {
            cuts.push(start..place);
            (start, bytes) = (place, 0);
        }
        bytes += size;
    }
    if start < sizes.len() {
        cuts.push(start..sizes.len());
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_ten_entries_or_256_kilobytes_at_the_most() {
        assert_eq!(cuts(&[]), []);
        assert_eq!(cuts(&[1; 21]), [0..10, 10..20, 20..21]);
        assert_eq!(cuts(&[MOST_BYTES, 1, MOST_BYTES - 1, 1]), [0..1, 1..3, 3..4]);
    }
}
