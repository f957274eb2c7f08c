//! Requests of many entries of which some may fail: only those are sent again, after pauses that grow. SQS, EventBridge and Kinesis work like that.

use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use dues_store::SharedClock;
use futures::stream::{StreamExt as _, iter};
use std::error::Error;
use std::future::Future;
use std::ops::Range;
use std::time::Duration;

use crate::outbox::NotTaken;

/// The most entries that one request to SQS or EventBridge takes.
pub(crate) const MOST: usize = 10;
/// How many requests are under way at once.
pub(crate) const PARALLEL: usize = 8;
/// How often an entry is sent before it is given up.
const TRIES: u32 = 6;
/// The first pause; each one is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Why an entry was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// As the service said it.
    pub(crate) why: String,
    /// Whether it may be taken another time.
    pub(crate) hope: Hope,
}

/// When an entry that was not taken may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hope {
    /// After a pause.
    Soon,
    /// Not before somebody has mended something that is not part of it: a permission, a name.
    Later,
    /// The entry itself is wrong.
    Never,
}

/// What one request takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// So many entries.
    pub(crate) entries: usize,
    /// So many bytes, over all its entries.
    pub(crate) bytes: usize,
}

/// One request of some entries.
pub(crate) trait Request: Sync {
    /// What is sent.
    type Entry: Clone + Send + Sync;

    /// Sends them, and gives for each what became of it, in their order.
    fn request(&self, entries: Vec<Self::Entry>) -> impl Future<Output = Vec<Result<(), Refusal>>> + Send;
}

/// Sends entries, and those that failed again. Gives, for each, why it was not taken in the end.
pub(crate) async fn send<R: Request>(to: &R, clock: &SharedClock, entries: Vec<R::Entry>) -> Vec<Result<(), String>> {
    tried(to, clock, entries).await.into_iter().map(|answer| answer.map_err(|refusal| refusal.why)).collect()
}

/// Sends entries with their sizes, or with why they fit into no request, in as few requests as take them. Gives, for each, why it was not taken.
pub(crate) async fn send_fitting<R: Request>(
    to: &R,
    clock: &SharedClock,
    limits: Limits,
    entries: Vec<Result<(R::Entry, usize), String>>,
) -> Vec<Result<(), NotTaken>> {
    let mut answers: Vec<Result<(), NotTaken>> = Vec::with_capacity(entries.len());
    let (mut places, mut fitting, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    for (place, entry) in entries.into_iter().enumerate() {
        match entry {
            Ok((entry, size)) => {
                places.push(place);
                fitting.push(entry);
                sizes.push(size);
                answers.push(Err(NotTaken::Later("was not reached".to_owned())));
            }
            Err(why) => answers.push(Err(NotTaken::Never(why))),
        }
    }
    // The requests are owned by the stream: a borrowed piece would have to outlive it.
    let requests: Vec<(Vec<usize>, Vec<R::Entry>)> =
        cuts(&sizes, limits).into_iter().map(|cut| (places[cut.clone()].to_vec(), fitting[cut].to_vec())).collect();
    let sent = iter(requests).map(|(places, entries)| async move { (places, tried(to, clock, entries).await) });
    let mut sent = sent.buffer_unordered(PARALLEL);
    while let Some((places, said)) = sent.next().await {
        for (place, answer) in places.into_iter().zip(said) {
            answers[place] = answer.map_err(|Refusal { why, hope }| match hope {
                Hope::Soon | Hope::Later => NotTaken::Later(why),
                Hope::Never => NotTaken::Never(why),
            });
        }
    }
    answers
}

/// Where to cut, so that no piece has too many entries or too many bytes.
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

/// The same as [`send`], also giving whether it may be taken later.
pub(crate) async fn tried<R: Request>(to: &R, clock: &SharedClock, entries: Vec<R::Entry>) -> Vec<Result<(), Refusal>> {
    let mut answers: Vec<Result<(), Refusal>> = vec![Err(Refusal { why: "was not answered".to_owned(), hope: Hope::Soon }); entries.len()];
    let mut pause = FIRST_PAUSE;
    for tried in 0..TRIES {
        let left: Vec<usize> =
            (0..entries.len()).filter(|place| answers[*place].as_ref().is_err_and(|refusal| refusal.hope == Hope::Soon)).collect();
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

/// The same refusal for every entry of a request that failed as a whole.
pub(crate) fn whole<E>(error: &SdkError<E, HttpResponse>, entries: usize) -> Vec<Result<(), Refusal>>
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    vec![
        Err(Refusal { why: DisplayErrorContext(error).to_string(), hope: if may_pass(error) { Hope::Soon } else { Hope::Later } });
        entries
    ]
}

/// Whether the same request can succeed later. A request whose answer was lost is sent again too: whoever listens drops repeats.
pub(crate) fn may_pass<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> bool {
    match error {
        SdkError::ConstructionFailure(_) => false,
        SdkError::TimeoutError(_) | SdkError::DispatchFailure(_) | SdkError::ResponseError(_) => true,
        SdkError::ServiceError(refused) => {
            let status = refused.raw().status().as_u16();
            status >= 500 || status == 429 || refused.err().code().is_some_and(is_throttling)
        }
        // The SDK may grow more kinds.
        _ => false,
    }
}

/// The names that throttling goes by: services answer it with 400 too.
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
