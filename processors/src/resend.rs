//! Requests of many entries of which some may fail: only those are sent again, after pauses that grow. SQS and EventBridge both work like that,
//! and Kinesis with one entry.

use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use dues_store::SharedClock;
use std::error::Error;
use std::future::Future;
use std::time::Duration;

/// The most entries that one request takes.
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
    /// Whether it may be taken next time.
    pub(crate) again: bool,
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

/// The same, also giving whether it may be taken later.
pub(crate) async fn tried<R: Request>(to: &R, clock: &SharedClock, entries: Vec<R::Entry>) -> Vec<Result<(), Refusal>> {
    let mut answers: Vec<Result<(), Refusal>> = vec![Err(Refusal { why: "was not answered".to_owned(), again: true }); entries.len()];
    let mut pause = FIRST_PAUSE;
    for tried in 0..TRIES {
        let left: Vec<usize> = (0..entries.len()).filter(|place| answers[*place].as_ref().is_err_and(|refusal| refusal.again)).collect();
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
    vec![Err(Refusal { why: DisplayErrorContext(error).to_string(), again: may_pass(error) }); entries]
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
