//! The task queue on SQS: requests of at most 10 tasks; only failed tasks are retried.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use dues_store::SharedClock;
use futures::stream::{StreamExt as _, iter};

use crate::collections::job::Task;
use crate::messaging::queue::{Queue, QueueError};
use crate::runtime::partial_retry::{Hope, MOST, PARALLEL, Refusal, Request, send, whole};

/// An SQS queue. It may deliver a task more than once: collections are idempotent.
#[derive(Clone)]
pub struct Sqs {
    client: Client,
    queue_url: String,
    clock: SharedClock,
}

impl Sqs {
    /// The queue with that URL. The clock times the backoff between retries.
    #[must_use]
    pub fn new(client: Client, queue_url: impl Into<String>, clock: SharedClock) -> Self {
        Self { client, queue_url: queue_url.into(), clock }
    }
}

impl Queue for Sqs {
    async fn send(&self, tasks: Vec<Task>) -> Result<(), QueueError> {
        let bodies: Result<Vec<String>, _> = tasks.iter().map(serde_json::to_string).collect();
        let bodies =
            bodies.map_err(|error| QueueError(format!("a task cannot be written as JSON: {error}")))?;
        // The stream owns its requests: a borrowed slice would have to outlive it.
        let requests: Vec<Vec<String>> = bodies.chunks(MOST).map(<[String]>::to_vec).collect();
        let mut sent =
            iter(requests).map(|request| send(self, &self.clock, request)).buffer_unordered(PARALLEL);
        let mut lost: Vec<String> = Vec::new();
        while let Some(answers) = sent.next().await {
            lost.extend(answers.into_iter().filter_map(Result::err));
        }
        match lost.first() {
            None => Ok(()),
            Some(why) => {
                Err(QueueError(format!("{} of {} tasks were not queued: {why}", lost.len(), tasks.len())))
            }
        }
    }
}

impl Request for Sqs {
    type Entry = String;

    async fn request(&self, bodies: Vec<String>) -> Vec<Result<(), Refusal>> {
        let count = bodies.len();
        let mut request = self.client.send_message_batch().queue_url(&self.queue_url);
        for (place, body) in bodies.into_iter().enumerate() {
            match SendMessageBatchRequestEntry::builder().id(place.to_string()).message_body(body).build() {
                Ok(entry) => request = request.entries(entry),
                Err(error) => return vec![Err(Refusal { why: error.to_string(), hope: Hope::Never }); count],
            }
        }
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) => return whole(&error, count),
        };
        let mut said =
            vec![
                Err(Refusal { why: "SQS did not say what became of it".to_owned(), hope: Hope::Soon });
                count
            ];
        for place in answer.successful().iter().filter_map(|done| place(done.id(), count)) {
            said[place] = Ok(());
        }
        for failed in answer.failed() {
            if let Some(place) = place(failed.id(), count) {
                let why = format!("{}: {}", failed.code(), failed.message().unwrap_or("no message"));
                said[place] =
                    Err(Refusal { why, hope: if failed.sender_fault() { Hope::Never } else { Hope::Soon } });
            }
        }
        said
    }
}

/// The index of an entry in its request, from the entry's id.
fn place(id: &str, count: usize) -> Option<usize> {
    id.parse().ok().filter(|place| *place < count)
}
