//! `webhook-worker` and `webhook-balance-worker`: income and balance signals trigger a collection of failed
//! records.

use dues_events::UserId;
use dues_events::collections::eligibility::{CollectionRequest, Trigger};
use dues_events::collections::incomes::Income;
use dues_events::collections::wire::{BALANCE, INCOME, Observation, Signal, decode_balance, decode_income};
use dues_events::wire::WireError;
use dues_store::{CommitError, Engine};

use super::{Collector, UserCollection};
use crate::collections::gateway::Gateway;
use crate::runtime::lanes::{Delivery, Outcome};
use crate::runtime::parking::park_record;

/// The outcome of a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignalOutcome {
    /// The user's failed records were collected.
    Collected(UserId, UserCollection),
    /// The amount is below the threshold.
    BelowThreshold,
    /// Malformed or rejected: parked with the reason.
    Parked,
}

/// Handles `income-detected`.
///
/// # Errors
/// A transient failure: the signal must be redelivered.
pub async fn webhook_worker<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    record: &Delivery,
) -> Result<SignalOutcome, String> {
    handle_signal(collector, INCOME, record, decode_income(&record.data)).await
}

/// Handles `account-balance`.
///
/// # Errors
/// A transient failure: the signal must be redelivered.
pub async fn webhook_balance_worker<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    record: &Delivery,
) -> Result<SignalOutcome, String> {
    handle_signal(collector, BALANCE, record, decode_balance(&record.data)).await
}

async fn handle_signal<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    stream: &str,
    record: &Delivery,
    signal: Result<Signal, WireError>,
) -> Result<SignalOutcome, String> {
    let signal = match signal {
        Ok(signal) => signal,
        Err(error) => return park(collector, stream, record, "malformed", error.to_string()).await,
    };
    let Some(request) = collection_request(collector, &signal) else {
        return Ok(SignalOutcome::BelowThreshold);
    };
    match Box::pin(act_on(collector, &signal, &request)).await {
        Ok(collection) => Ok(SignalOutcome::Collected(signal.user_id, collection)),
        Err(CommitError::Store(error)) if error.is_transient() => Err(error.to_string()),
        Err(CommitError::Store(error)) => park(collector, stream, record, "store", error.to_string()).await,
        Err(CommitError::Rejected(rejection)) => {
            park(collector, stream, record, rejection.code(), rejection.to_string()).await
        }
    }
}

/// Remembers what the signal says, and collects if there is something to collect. An income is remembered
/// first: a redelivery after a crash finds it known, and collects.
async fn act_on<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    signal: &Signal,
    request: &CollectionRequest,
) -> Result<UserCollection, CommitError> {
    let user = &signal.user_id;
    if let Observation::Income(amount) = signal.seen {
        let income = Income { id: signal.id.clone(), at: signal.at, amount };
        Box::pin(collector.store.remember_income(user, &income)).await?;
    }
    // A new account is recorded also where nothing has failed: the next debit may be waiting for it.
    if request.new_account || collector.has_failed_records(user).await? {
        return Box::pin(collector.collect_user(user, request)).await;
    }
    Ok(UserCollection::Done(Vec::new()))
}

/// The collection that a signal triggers, if any.
fn collection_request<E: Engine, G>(
    collector: &Collector<E, G>,
    signal: &Signal,
) -> Option<CollectionRequest> {
    let cause = Some(signal.id.to_string());
    match &signal.seen {
        Observation::Income(amount) if *amount < collector.rules.income_from => None,
        Observation::Income(_) => {
            Some(CollectionRequest { cause, ..CollectionRequest::triggered_by(Trigger::Income) })
        }
        Observation::Balance { available, new_account } => Some(CollectionRequest {
            cause,
            available: Some(*available),
            new_account: *new_account,
            ..CollectionRequest::triggered_by(Trigger::Balance)
        }),
    }
}

async fn park<E: Engine, G>(
    collector: &Collector<E, G>,
    stream: &str,
    record: &Delivery,
    code: &str,
    reason: String,
) -> Result<SignalOutcome, String> {
    match park_record(&collector.store, stream, record, code, reason).await {
        Outcome::Failed(reason) => Err(reason),
        Outcome::Parked | Outcome::Applied | Outcome::Duplicate | Outcome::Ignored | Outcome::Skipped => {
            Ok(SignalOutcome::Parked)
        }
    }
}
