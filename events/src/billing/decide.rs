//! The state machine: one total function from a record and an event to a transition or a named rejection.
//!
//! ```text
//!              sent      collected  failed   settled    refunded  charged back  paused  unpaused   pause expired   waived  cancelled  too old
//! SCHEDULED    ACHSENT   COMPLETED  ERROR    –          –         –             PAUSED  –          –               WAIVED  CANCELLED  STALE
//! ACHSENT      –         –          ERROR    COMPLETED  REFUNDED  ERROR+bar     –       –          –               –       –          –
//! ERROR        ACHSENT   COMPLETED  ERROR    COMPLETED  REFUNDED  ERROR+bar     PAUSED  –          –               WAIVED  CANCELLED  STALE
//! PAUSED       –         –          –        –          –         –             –       SCHEDULED  PAUSED_SKIPPED  WAIVED  CANCELLED  STALE
//! COMPLETED    –         –          ERROR    same       REFUNDED  ERROR+bar     –       –          –               –       –          –
//! the others   –         –          –        –          –         –             –       –          –               –       –          –
//! ```
//!
//! Each column is one function below. Each has an arm for every state and no wildcard, so a new state or
//! event does not compile until every case is decided.

mod followups;

use crate::billing::event::{Answer, CancelTime, Event, EventKind, Ignored, Paid};
use crate::billing::record::{
    Closed, FailedAttempt, Failure, Pause, Payment, Plan, Record, State, Status, UpdatedEvent,
};
use crate::collections::ach::Consequence;
use crate::ids::{AttemptKey, SubscriptionId, TransactionId};
use crate::time::GoTime;

pub use followups::{Followup, followups, next_record, resume_date};

/// The result of applying an event to a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// The record after the event.
    pub record: Record,
    /// Whether the event changed it.
    pub outcome: Outcome,
}

/// Whether an event changed its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The record changed.
    Applied,
    /// The record did not change; history records why.
    Ignored(Ignored),
}

/// Why an event cannot apply to a record, in checking order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The user has no records.
    #[error("user_id: {0} has no billing record")]
    UnknownUser(String),
    /// No record has that id.
    #[error("payment.subscription_id: no billing record {0}")]
    UnknownSubscription(SubscriptionId),
    /// The record belongs to another user.
    #[error("payment.user_id: billing record {0} belongs to another user")]
    WrongUser(SubscriptionId),
    /// The event id was used before with other content.
    #[error("event_id: the same id came before with other content")]
    ConflictingContent,
    /// The record has taken the maximum number of events.
    #[error(
        "event_id: the record has taken {} events, no more are accepted",
        crate::billing::idempotency::MAX_EVENTS
    )]
    TooManyEvents,
    /// The record is in a final state.
    #[error("billing_status: {0} is final")]
    Final(Status),
    /// The outcome of a debit that the record does not show as sent; its submission may still arrive.
    #[error("billing_status: not yet sent, the outcome of a debit came before the debit")]
    NotYetSent,
    /// A debit is already in flight.
    #[error("billing_status: a debit is already under way")]
    AlreadySent,
    /// A debit is in flight; the event has to wait until it settles.
    #[error("billing_status: a debit is under way, this has to wait until it settles")]
    InFlight,
    /// The period is already paid.
    #[error("billing_status: the period is already paid")]
    AlreadyPaid,
    /// The record is paused.
    #[error("billing_status: the record is paused")]
    OnPause,
    /// The record is not paused.
    #[error("billing_status: {0} is not paused")]
    NotPaused(Status),
    /// No open record of the user can take the event.
    #[error("user_id: {0} has no open billing record for this")]
    NothingOpen(String),
}

/// How to handle a rejected event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// Retry later: a preceding event may still arrive.
    Hold,
    /// Park it with its reason, for an operator.
    Park,
}

impl Rejection {
    /// Whether to hold or to park the event.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::NotYetSent => Disposition::Hold,
            Self::UnknownUser(_)
            | Self::UnknownSubscription(_)
            | Self::WrongUser(_)
            | Self::ConflictingContent
            | Self::TooManyEvents
            | Self::Final(_)
            | Self::AlreadySent
            | Self::InFlight
            | Self::AlreadyPaid
            | Self::OnPause
            | Self::NotPaused(_)
            | Self::NothingOpen(_) => Disposition::Park,
        }
    }

    /// A short code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownUser(_) => "unknown_user",
            Self::UnknownSubscription(_) => "unknown_subscription",
            Self::WrongUser(_) => "wrong_user",
            Self::ConflictingContent => "different_content",
            Self::TooManyEvents => "too_many_events",
            Self::Final(_) => "final",
            Self::NotYetSent => "not_yet",
            Self::AlreadySent => "already_sent",
            Self::InFlight => "in_flight",
            Self::AlreadyPaid => "already_paid",
            Self::OnPause => "on_pause",
            Self::NotPaused(_) => "not_paused",
            Self::NothingOpen(_) => "nothing_open",
        }
    }
}

type Decision = Result<Transition, Rejection>;

/// Decides what an event does to a record. Pure and total: the same record and event always give the same
/// result.
///
/// # Errors
/// A [`Rejection`] where the state table has a dash.
pub fn decide(record: &Record, event: &Event) -> Result<Transition, Rejection> {
    match &event.kind {
        EventKind::Sent { transaction_id, key } => sent(record, event, transaction_id.as_ref(), key.as_ref()),
        EventKind::CollectedAtOnce(paid) => collected_at_once(record, event, paid),
        EventKind::Failed { transaction_id, failure } => {
            failed(record, event, transaction_id.as_ref(), failure)
        }
        EventKind::Settled(paid) => settled(record, event, paid),
        EventKind::Refunded { transaction_id } => refunded(record, event, transaction_id.as_ref()),
        EventKind::ChargedBack { transaction_id, failure } => {
            charged_back(record, event, transaction_id.as_ref(), failure)
        }
        EventKind::Paused { months } => paused(record, event, *months),
        EventKind::Unpaused => unpaused(record, event),
        EventKind::PauseExpired => pause_expired(record, event),
        EventKind::Waived => waived(record, event),
        EventKind::Cancelled => cancelled(record, event),
        EventKind::TooOld => too_old(record, event),
        EventKind::Answered { key, answer } => answered(record, event, key, answer),
        EventKind::PauseEnding => pause_ending(record, event),
        EventKind::DueSoon => due_soon(record, event),
        EventKind::PlanChanged(plan) => plan_changed(record, event, plan),
        EventKind::DowngradeRequested(plan) => downgrade_requested(record, event, plan),
        EventKind::CancelRequested(time) => cancel_requested(record, event, *time),
        EventKind::CancelRetracted => cancel_retracted(record, event),
        EventKind::Superseded(by) => superseded(record, event, by),
        EventKind::Created => ignored(record, Ignored::AlreadyThere),
        EventKind::NoChange(reason) => ignored(record, *reason),
    }
}

fn sent(
    record: &Record,
    event: &Event,
    transaction: Option<&TransactionId>,
    key: Option<&AttemptKey>,
) -> Decision {
    match &record.state {
        State::Scheduled(_) | State::Error(_) if knows(record, transaction) => {
            ignored(record, Ignored::AttemptKnown)
        }
        State::Scheduled(_) | State::Error(_) => {
            let mut after = attempt(record, event);
            after.state = State::AchSent(transaction.cloned());
            after.attempt_key = key.cloned();
            applied(after, event)
        }
        State::AchSent(_) => Err(Rejection::AlreadySent),
        State::Paused(_) => Err(Rejection::OnPause),
        State::Completed(_) => Err(Rejection::AlreadyPaid),
        State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => ended(record),
    }
}

fn collected_at_once(record: &Record, event: &Event, paid: &Paid) -> Decision {
    match &record.state {
        State::Scheduled(_) | State::Error(_) => {
            let after = attempt(record, event);
            applied(with_payment(after, event, paid), event)
        }
        State::AchSent(_) => Err(Rejection::AlreadySent),
        State::Paused(_) => Err(Rejection::OnPause),
        State::Completed(_) => Err(Rejection::AlreadyPaid),
        State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => ended(record),
    }
}

fn failed(
    record: &Record,
    event: &Event,
    transaction: Option<&TransactionId>,
    failure: &Failure,
) -> Decision {
    let consequence = failure.code().map(|code| code.consequence());
    if consequence == Some(Consequence::Notice) {
        return ignored(record, Ignored::NotificationOfChange);
    }
    let after = |mut after: Record| {
        after.state = State::Error(FailedAttempt {
            transaction_id: transaction.or(record.state.transaction_id()).cloned(),
            failure: failure.clone(),
        });
        if consequence == Some(Consequence::Bar) {
            after.bar = Some(failure.text().to_owned());
        }
        applied(after, event)
    };
    match &record.state {
        State::AchSent(_) | State::Error(_) | State::Completed(_) if is_other(record, transaction) => {
            ignored(record, Ignored::OldAttempt)
        }
        // Refused on submission: an attempt that was never in flight.
        State::Scheduled(_) => after(attempt(record, event)),
        // After COMPLETED it is a late return: the payment is reversed.
        State::AchSent(_) | State::Error(_) | State::Completed(_) => after(record.clone()),
        State::Paused(_) => Err(Rejection::OnPause),
        State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => ended(record),
    }
}

fn settled(record: &Record, event: &Event, paid: &Paid) -> Decision {
    match &record.state {
        State::Scheduled(_) => Err(Rejection::NotYetSent),
        State::AchSent(_) if is_other(record, paid.transaction_id.as_ref()) => {
            ignored(record, Ignored::OldAttempt)
        }
        State::Completed(_) if is_other(record, paid.transaction_id.as_ref()) => {
            ignored(record, Ignored::OldAttempt)
        }
        State::Completed(_) => ignored(record, Ignored::AlreadySettled),
        // On an ERROR record any settlement counts, including one of an earlier attempt: the money arrived.
        State::AchSent(_) | State::Error(_) => applied(with_payment(record.clone(), event, paid), event),
        State::Paused(_) => Err(Rejection::OnPause),
        State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => ended(record),
    }
}

fn refunded(record: &Record, event: &Event, transaction: Option<&TransactionId>) -> Decision {
    match &record.state {
        State::Scheduled(_) => Err(Rejection::NotYetSent),
        State::AchSent(_) | State::Error(_) | State::Completed(_) if is_other(record, transaction) => {
            ignored(record, Ignored::OldAttempt)
        }
        State::AchSent(_) | State::Error(_) | State::Completed(_) => {
            let transaction_id = transaction.or(record.state.transaction_id()).cloned();
            let mut after = record.clone();
            after.state = State::Refunded(Payment { transaction_id, at: Some(GoTime::trimmed(event.at)) });
            applied(after, event)
        }
        State::Paused(_) => Err(Rejection::OnPause),
        State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => ended(record),
    }
}

fn charged_back(
    record: &Record,
    event: &Event,
    transaction: Option<&TransactionId>,
    failure: &Failure,
) -> Decision {
    match &record.state {
        State::Scheduled(_) => Err(Rejection::NotYetSent),
        State::AchSent(_) | State::Error(_) | State::Completed(_) if is_other(record, transaction) => {
            ignored(record, Ignored::OldAttempt)
        }
        State::AchSent(_) | State::Error(_) | State::Completed(_) => {
            let transaction_id = transaction.or(record.state.transaction_id()).cloned();
            let mut after = record.clone();
            after.state = State::Error(FailedAttempt { transaction_id, failure: failure.clone() });
            after.bar = Some(failure.text().to_owned());
            applied(after, event)
        }
        State::Paused(_) => Err(Rejection::OnPause),
        State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => ended(record),
    }
}

fn paused(record: &Record, event: &Event, months: u32) -> Decision {
    match &record.state {
        State::Scheduled(_) | State::Error(_) => {
            let mut after = record.clone();
            after.state = State::Paused(Pause { months, last: record.state.last_failure().cloned() });
            applied(after, event)
        }
        State::AchSent(_) => Err(Rejection::InFlight),
        State::Paused(_) => Err(Rejection::OnPause),
        State::Completed(_) => Err(Rejection::AlreadyPaid),
        State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => ended(record),
    }
}

fn unpaused(record: &Record, event: &Event) -> Decision {
    match &record.state {
        State::Paused(pause) => {
            let mut after = record.clone();
            after.state = State::Scheduled(pause.last.clone());
            tagged(after, event, UpdatedEvent::PauseResume)
        }
        State::Scheduled(_) | State::AchSent(_) | State::Error(_) | State::Completed(_) => {
            Err(Rejection::NotPaused(record.status()))
        }
        State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => ended(record),
    }
}

fn pause_expired(record: &Record, event: &Event) -> Decision {
    match &record.state {
        State::Paused(pause) => {
            let mut after = record.clone();
            after.state = State::PausedSkipped(
                pause.clone(),
                Closed { at: Some(GoTime::trimmed(event.at)), last: None },
            );
            tagged(followups::with_next(after), event, UpdatedEvent::PauseSkipped)
        }
        State::Scheduled(_) | State::AchSent(_) | State::Error(_) | State::Completed(_) => {
            Err(Rejection::NotPaused(record.status()))
        }
        State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => ended(record),
    }
}

fn waived(record: &Record, event: &Event) -> Decision {
    // Waiving one period does not end the membership: the next period's record follows, as after an
    // attempt.
    close(record, event, State::Waived).map(|transition| match record.initial_run_date {
        None => Transition { record: followups::with_next(transition.record), ..transition },
        Some(_) => transition,
    })
}

fn cancelled(record: &Record, event: &Event) -> Decision {
    close(record, event, State::Cancelled)
}

fn too_old(record: &Record, event: &Event) -> Decision {
    close(record, event, State::Stale)
}

/// Closes an unpaid record: waived, cancelled or stale.
fn close(record: &Record, event: &Event, state: fn(Closed) -> State) -> Decision {
    match &record.state {
        State::Scheduled(_) | State::Error(_) | State::Paused(_) => {
            let mut after = record.clone();
            after.state = state(Closed {
                at: Some(GoTime::trimmed(event.at)),
                last: record.state.last_failure().cloned(),
            });
            after.cancel_at = None;
            applied(after, event)
        }
        State::AchSent(_) => Err(Rejection::InFlight),
        State::Completed(_) => Err(Rejection::AlreadyPaid),
        State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => ended(record),
    }
}

/// The gateway's answer to an attempt of this system. It counts only while that attempt waits for it: a
/// settlement may have arrived first, and a late answer must not be taken for that of a later attempt.
fn answered(record: &Record, event: &Event, key: &AttemptKey, answer: &Answer) -> Decision {
    match (&record.state, answer) {
        (State::AchSent(_), _) if record.attempt_key.as_ref() != Some(key) => {
            ignored(record, Ignored::OldAttempt)
        }
        (State::AchSent(Some(_)), Answer::Accepted { .. }) => ignored(record, Ignored::AttemptKnown),
        (State::AchSent(None), Answer::Accepted { transaction_id }) => {
            let mut after = record.clone();
            after.state = State::AchSent(Some(transaction_id.clone()));
            applied(after, event)
        }
        (State::AchSent(_), Answer::Collected(paid)) => settled(record, event, paid),
        (State::AchSent(_), Answer::Refused { transaction_id, failure }) => {
            failed(record, event, transaction_id.as_ref(), failure)
        }
        (
            State::Scheduled(_)
            | State::Error(_)
            | State::Paused(_)
            | State::Completed(_)
            | State::Waived(_)
            | State::Cancelled(_)
            | State::PausedSkipped(..)
            | State::Refunded(_)
            | State::Stale(_),
            Answer::Accepted { .. } | Answer::Collected(_) | Answer::Refused { .. },
        ) => ignored(record, Ignored::OldAttempt),
    }
}

fn pause_ending(record: &Record, event: &Event) -> Decision {
    match &record.state {
        State::Paused(_) => tagged(record.clone(), event, UpdatedEvent::PausePendingResume),
        State::Scheduled(_) | State::AchSent(_) | State::Error(_) | State::Completed(_) => {
            Err(Rejection::NotPaused(record.status()))
        }
        State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => ended(record),
    }
}

fn due_soon(record: &Record, event: &Event) -> Decision {
    match &record.state {
        State::Scheduled(_) => {
            let mut after = record.clone();
            after.due_notice = Some(record.billing_date.clone());
            applied(after, event)
        }
        State::AchSent(_) | State::Error(_) | State::Paused(_) | State::Completed(_) => {
            ignored(record, Ignored::NothingOpen)
        }
        State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => ended(record),
    }
}

fn plan_changed(record: &Record, event: &Event, plan: &Plan) -> Decision {
    match &record.state {
        State::Scheduled(_) | State::Paused(_) => {
            let mut after = record.clone();
            after.plan = plan.clone();
            // The newer request replaces a pending downgrade.
            after.downgrade = None;
            applied(after, event)
        }
        State::AchSent(_) => Err(Rejection::InFlight),
        // A presented debit may be presented again only for the same amount.
        State::Error(_) | State::Completed(_) => Err(Rejection::NothingOpen(record.user_id.to_string())),
        State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => ended(record),
    }
}

fn downgrade_requested(record: &Record, event: &Event, plan: &Plan) -> Decision {
    match &record.state {
        State::Scheduled(_) | State::Paused(_) => {
            let mut after = record.clone();
            after.downgrade = Some(plan.clone());
            applied(after, event)
        }
        State::AchSent(_) => Err(Rejection::InFlight),
        State::Error(_) | State::Completed(_) => Err(Rejection::NothingOpen(record.user_id.to_string())),
        State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => ended(record),
    }
}

fn cancel_requested(record: &Record, event: &Event, time: CancelTime) -> Decision {
    let end = match time {
        CancelTime::Now => Some(event.at),
        CancelTime::PeriodEnd => followups::period_end(record),
    };
    let at_once = end.is_none_or(|end| end <= event.at);
    let mut after = record.clone();
    after.cancel_at = end.map(GoTime::trimmed);
    match &record.state {
        State::Scheduled(_) | State::Error(_) | State::Paused(_) if at_once => {
            close(record, event, State::Cancelled)
        }
        // A debit in flight is not touched: the request stays on the record and applies if the debit
        // is returned.
        State::Scheduled(_) | State::Error(_) | State::Paused(_) | State::AchSent(_) => applied(after, event),
        State::Completed(_) => Err(Rejection::AlreadyPaid),
        State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => ended(record),
    }
}

fn cancel_retracted(record: &Record, event: &Event) -> Decision {
    match &record.state {
        State::Scheduled(_) | State::Error(_) | State::Paused(_) | State::AchSent(_)
            if record.cancel_at.is_none() =>
        {
            ignored(record, Ignored::NoPendingCancel)
        }
        State::Scheduled(_) | State::Error(_) | State::Paused(_) | State::AchSent(_) => {
            let mut after = record.clone();
            after.cancel_at = None;
            applied(after, event)
        }
        State::Completed(_) => Err(Rejection::AlreadyPaid),
        State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => ended(record),
    }
}

fn superseded(record: &Record, event: &Event, by: &SubscriptionId) -> Decision {
    match &record.state {
        // Never attempted, so it can be closed.
        State::Scheduled(_) | State::Paused(_) => {
            close(record, event, State::Cancelled).map(|mut transition| {
                transition.record.superseded_by = Some(by.clone());
                transition
            })
        }
        // A failed record keeps its state, and a debit in flight settles; neither is collected again.
        State::Error(_) | State::AchSent(_) => {
            let mut after = record.clone();
            after.superseded_by = Some(by.clone());
            applied(after, event)
        }
        State::Completed(_) => Err(Rejection::AlreadyPaid),
        State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => ended(record),
    }
}

/// Whether the event names a transaction other than the record's current one. While the current one has no
/// id yet, earlier ones are recognised by theirs.
fn is_other(record: &Record, transaction: Option<&TransactionId>) -> bool {
    match (record.state.transaction_id(), transaction) {
        (Some(current), Some(named)) => current != named,
        (None, Some(named)) => record.earlier.contains(named),
        (Some(_) | None, None) => false,
    }
}

/// Whether the transaction is the record's current one or an earlier one.
fn knows(record: &Record, transaction: Option<&TransactionId>) -> bool {
    transaction.is_some_and(|t| record.state.transaction_id() == Some(t) || record.earlier.contains(t))
}

/// Records one more attempt: counts it, keeps the previous transaction id, and, on the first attempt, sets
/// its date and the next period's record.
fn attempt(record: &Record, event: &Event) -> Record {
    let mut after = record.clone();
    after.attempts = record.attempts.saturating_add(1);
    after.attempt_key = None;
    after.earlier.extend(record.state.transaction_id().cloned());
    if after.initial_run_date.is_none() {
        after.initial_run_date = Some(GoTime::trimmed(event.at));
        after = followups::with_next(after);
    }
    after
}

fn with_payment(mut after: Record, event: &Event, paid: &Paid) -> Record {
    let transaction_id = paid.transaction_id.as_ref().or(after.state.transaction_id()).cloned();
    let before =
        after.state.transaction_id().filter(|before| Some(*before) != transaction_id.as_ref()).cloned();
    after.earlier.extend(before);
    after.earlier.dedup();
    after.state = State::Completed(Payment { transaction_id, at: Some(GoTime::trimmed(event.at)) });
    if !paid.receipt.account_mask.is_empty() {
        after.receipt.account_mask.clone_from(&paid.receipt.account_mask);
    }
    if !paid.receipt.payment_type.is_empty() {
        after.receipt.payment_type.clone_from(&paid.receipt.payment_type);
    }
    after
}

fn applied(mut after: Record, event: &Event) -> Decision {
    after.last_run_date = Some(GoTime::nine_digits(event.at));
    // A tag describes one update and is cleared by the next.
    after.updated_event = None;
    if let Some(process) = &event.process {
        after.process = process.clone();
    }
    Ok(Transition { record: after, outcome: Outcome::Applied })
}

fn tagged(after: Record, event: &Event, tag: UpdatedEvent) -> Decision {
    let mut transition = applied(after, event)?;
    transition.record.updated_event = Some(tag);
    Ok(transition)
}

fn ignored(record: &Record, reason: Ignored) -> Decision {
    Ok(Transition { record: record.clone(), outcome: Outcome::Ignored(reason) })
}

fn ended(record: &Record) -> Decision {
    Err(Rejection::Final(record.status()))
}
