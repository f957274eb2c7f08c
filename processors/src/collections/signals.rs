//! `webhook-worker` and `webhook-balance-worker`: a sign that a member can pay sets off a collection of what has failed.

use dues_events::UserId;
use dues_events::collect::{Ask, Run};
use dues_events::wire::WireError;
use dues_events::wire::signals::{BALANCE, INCOME, Seen, Signal, decode_balance, decode_income};
use dues_store::{CommitError, Engine};

use super::{Collector, Visit};
use crate::batch::{Fate, Incoming, park_record};
use crate::gateway::Gateway;

/// What a signal came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acted {
    /// The user was visited.
    Visited(UserId, Visit),
    /// Too little to act on.
    TooSmall,
    /// It could not be understood, and is parked with the reason.
    Parked,
}

/// Handles `income-detected`.
///
/// # Errors
/// The signal has to be delivered again.
pub async fn webhook_worker<E: Engine, G: Gateway>(collector: &Collector<E, G>, record: &Incoming) -> Result<Acted, String> {
    act(collector, INCOME, record, decode_income(&record.data)).await
}

/// Handles `account-balance`.
///
/// # Errors
/// The signal has to be delivered again.
pub async fn webhook_balance_worker<E: Engine, G: Gateway>(collector: &Collector<E, G>, record: &Incoming) -> Result<Acted, String> {
    act(collector, BALANCE, record, decode_balance(&record.data)).await
}

async fn act<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    stream: &str,
    record: &Incoming,
    signal: Result<Signal, WireError>,
) -> Result<Acted, String> {
    let signal = match signal {
        Ok(signal) => signal,
        Err(error) => return park(collector, stream, record, "malformed", error.to_string()).await,
    };
    let Some(ask) = ask(collector, &signal) else { return Ok(Acted::TooSmall) };
    let visit = match collector.has_failed(&signal.user_id).await {
        Ok(true) => collector.visit(&signal.user_id, &ask).await,
        Ok(false) => Ok(Visit::Done(Vec::new())),
        Err(error) => Err(error),
    };
    match visit {
        Ok(visit) => Ok(Acted::Visited(signal.user_id, visit)),
        Err(CommitError::Store(error)) if error.is_transient() => Err(error.to_string()),
        Err(CommitError::Store(error)) => park(collector, stream, record, "store", error.to_string()).await,
        Err(CommitError::Rejected(rejection)) => park(collector, stream, record, rejection.code(), rejection.to_string()).await,
    }
}

/// What the signal is worth trying.
fn ask<E: Engine, G>(collector: &Collector<E, G>, signal: &Signal) -> Option<Ask> {
    let cause = Some(signal.id.to_string());
    match &signal.seen {
        Seen::Income(amount) if *amount < collector.rules.income_from => None,
        Seen::Income(_) => Some(Ask { cause, ..Ask::of(Run::Income) }),
        Seen::Balance { available, new_account } => {
            Some(Ask { cause, available: Some(*available), new_account: *new_account, ..Ask::of(Run::Balance) })
        }
    }
}

async fn park<E: Engine, G>(
    collector: &Collector<E, G>,
    stream: &str,
    record: &Incoming,
    code: &str,
    reason: String,
) -> Result<Acted, String> {
    match park_record(&collector.store, stream, record, code, reason).await {
        Fate::Failed(reason) => Err(reason),
        Fate::Parked | Fate::Applied | Fate::Duplicate | Fate::Ignored | Fate::Skipped => Ok(Acted::Parked),
    }
}
