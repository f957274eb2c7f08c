//! Batch requests that can fail in part, as with SQS, EventBridge and Kinesis: only the failed entries are
//! retried, with exponential backoff.

use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use dues_store::SharedClock;
use futures::stream::{StreamExt as _, iter};
use std::error::Error;
use std::future::Future;
use std::ops::Range;
use std::time::Duration;

use crate::messaging::outbox::PublishError;

/// Maximum entries of a request to SQS or EventBridge.
pub(crate) const MOST: usize = 10;
/// Concurrent requests.
pub(crate) const PARALLEL: usize = 8;
/// Attempts for each entry.
const TRIES: u32 = 6;
/// The first backoff; it doubles with every attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Why an entry was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The service's error.
    pub(crate) why: String,
    /// Whether a retry can succeed.
    pub(crate) hope: Hope,
}

/// When a retry of an entry can succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hope {
    /// After a backoff.
    Soon,
    /// After an operator has fixed the configuration, such as a permission or a name.
    Later,
    /// Never: the entry itself is invalid.
    Never,
}

/// Limits of one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Maximum number of entries.
    pub(crate) entries: usize,
    /// Maximum bytes over all entries.
    pub(crate) bytes: usize,
}

/// A service that takes batch requests.
pub(crate) trait Request: Sync {
    /// One entry of a request.
    type Entry: Clone + Send + Sync;

    /// Sends one request. Returns the result of each entry, in order.
    fn request(&self, entries: Vec<Self::Entry>) -> impl Future<Output = Vec<Result<(), Refusal>>> + Send;
}

/// Sends entries in one request and retries those that fail. Returns, for each, the last error.
pub(crate) async fn send<R: Request>(
    to: &R,
    clock: &SharedClock,
    entries: Vec<R::Entry>,
) -> Vec<Result<(), String>> {
    tried(to, clock, entries).await.into_iter().map(|answer| answer.map_err(|refusal| refusal.why)).collect()
}

/// Sends sized entries in as few requests as `limits` allow, and retries those that fail. An `Err` entry
/// fits into no request and is rejected with its reason. Returns the result of each entry, in order.
pub(crate) async fn send_fitting<R: Request>(
    to: &R,
    clock: &SharedClock,
    limits: Limits,
    entries: Vec<Result<(R::Entry, usize), String>>,
) -> Vec<Result<(), PublishError>> {
    let mut answers: Vec<Result<(), PublishError>> = Vec::with_capacity(entries.len());
    let (mut places, mut fitting, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    for (place, entry) in entries.into_iter().enumerate() {
        match entry {
            Ok((entry, size)) => {
                places.push(place);
                fitting.push(entry);
                sizes.push(size);
                answers.push(Err(PublishError::Transient("was not reached".to_owned())));
            }
            Err(why) => answers.push(Err(PublishError::Rejected(why))),
        }
    }
    // The stream owns its requests: a borrowed slice would have to outlive it.
    let requests: Vec<(Vec<usize>, Vec<R::Entry>)> = cuts(&sizes, limits)
        .into_iter()
        .map(|cut| (places[cut.clone()].to_vec(), fitting[cut].to_vec()))
        .collect();
    let sent =
        iter(requests).map(|(places, entries)| async move { (places, tried(to, clock, entries).await) });
    let mut sent = sent.buffer_unordered(PARALLEL);
    while let Some((places, said)) = sent.next().await {
        for (place, answer) in places.into_iter().zip(said) {
            answers[place] = answer.map_err(|Refusal { why, hope }| match hope {
                Hope::Soon | Hope::Later => PublishError::Transient(why),
                Hope::Never => PublishError::Rejected(why),
            });
        }
    }
    answers
}

/// Splits entries into ranges that stay within the limits of a request.
fn cuts(sizes: &[usize], limits: Limits) -> Vec<Range<usize>> {
    let (mut cuts, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (place, size) in sizes.iter().enumerate() {
        if place > start && (place - start == limits.entries || bytes + size > limits.bytes) {
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

/// Like [`send`], but keeps the whole [`Refusal`].
pub(crate) async fn tried<R: Request>(
    to: &R,
    clock: &SharedClock,
    entries: Vec<R::Entry>,
) -> Vec<Result<(), Refusal>> {
    let mut answers: Vec<Result<(), Refusal>> =
        vec![Err(Refusal { why: "was not answered".to_owned(), hope: Hope::Soon }); entries.len()];
    let mut pause = FIRST_PAUSE;
    for tried in 0..TRIES {
        let left: Vec<usize> = (0..entries.len())
            .filter(|place| answers[*place].as_ref().is_err_and(|refusal| refusal.hope == Hope::Soon))
            .collect();
        if left.is_empty() {
            break;
        }
        if tried > 0 {
            clock.sleep(pause).await;
            pause *= 2;
        }
        let said = to.request(left.iter().map(|place| entries[*place].clone()).collect()).await;
        for (place, answer) in left.into_iter().zip(said) {
            answers[place] = answer;
        }
    }
    answers
}

/// One refusal for each entry of a request that failed as a whole.
pub(crate) fn whole<E>(error: &SdkError<E, HttpResponse>, entries: usize) -> Vec<Result<(), Refusal>>
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    vec![
        Err(Refusal {
            why: DisplayErrorContext(error).to_string(),
            hope: if may_pass(error) { Hope::Soon } else { Hope::Later }
        });
        entries
    ]
}

/// Whether the same request can succeed later. A request without a response is retried too: consumers drop
/// duplicates.
pub(crate) fn may_pass<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> bool {
    match error {
        SdkError::ConstructionFailure(_) => false,
        SdkError::TimeoutError(_) | SdkError::DispatchFailure(_) | SdkError::ResponseError(_) => true,
        SdkError::ServiceError(refused) => {
            let status = refused.raw().status().as_u16();
            status >= 500 || status == 429 || refused.err().code().is_some_and(is_throttling)
        }
        // `SdkError` is non-exhaustive.
        _ => false,
    }
}

/// Whether an error code means throttling. Some services return it with status 400.
pub(crate) fn is_throttling(code: &str) -> bool {
    let code = code.rsplit('.').next().unwrap_or(code);
    matches!(
        code,
        "Throttling"
            | "ThrottlingException"
            | "ThrottledException"
            | "ProvisionedThroughputExceededException"
            | "KmsThrottled"
            | "KMSThrottlingException"
            | "RequestThrottled"
            | "RequestThrottledException"
            | "TooManyRequestsException"
            | "OverLimit"
            | "SlowDown"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_no_more_entries_and_bytes_than_a_request_takes() {
        let cuts = |sizes: &[usize]| cuts(sizes, Limits { entries: 10, bytes: 256 });
        assert_eq!(cuts(&[]), []);
        assert_eq!(cuts(&[1; 21]), [0..10, 10..20, 20..21]);
        assert_eq!(cuts(&[256, 1, 255, 1]), [0..1, 1..3, 3..4]);
    }
}
