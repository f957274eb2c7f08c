//! The state machine. One total function: a record and an event give a transition or a named rejection.
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
//! Each column is one function below; each has an arm for every state, and no wildcard, so that a new state or event does not
//! compile until someone has decided.

mod follow;

use crate::ach::Consequence;
use crate::event::{Answer, CancelTime, Event, Happening, Ignored, Paid};
use crate::ids::{AttemptKey, SubscriptionId, TransactionId};
use crate::record::{Closed, FailedAttempt, Failure, Pause, Payment, Plan, Record, State, Status, UpdatedEvent};
use crate::time::GoTime;

pub use follow::{Owed, next_record, owed, resume_date};

/// What an event does to a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// The record afterwards.
    pub record: Record,
    /// Whether the event changed it.
    pub outcome: Outcome,
}

/// Whether an event changed its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did.
    Applied,
    /// It did not, and history says why.
    Ignored(Ignored),
}

/// Why an event cannot happen to a record, in the order in which it is checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The user has no record at all.
    #[error("user_id: {0} has no billing record")]
    UnknownUser(String),
    /// No record has that id.
    #[error("payment.subscription_id: no billing record {0}")]
    UnknownSubscription(SubscriptionId),
    /// The record is another user's.
    #[error("payment.user_id: billing record {0} belongs to another user")]
    WrongUser(SubscriptionId),
    /// The same event id came before, with other content.
    #[error("event_id: the same id came before with other content")]
    DifferentContent,
    /// The record has taken more events than a billing period can honestly see.
    #[error("event_id: the record has taken {} events, no more are accepted", crate::stamp::MOST_EVENTS)]
    TooManyEvents,
    /// The record has ended.
    #[error("billing_status: {0} is final")]
    Final(Status),
    /// The outcome of a debit that the record has not seen sent: it may still be on its way.
    #[error("billing_status: not yet sent, the outcome of a debit came before the debit")]
    NotYetSent,
    /// A debit is under way already.
    #[error("billing_status: a debit is already under way")]
    AlreadySent,
    /// Money is in flight; it cannot be done before that settles.
    #[error("billing_status: a debit is under way, this has to wait until it settles")]
    InFlight,
    /// The period is paid.
    #[error("billing_status: the period is already paid")]
    AlreadyPaid,
    /// The record is paused.
    #[error("billing_status: the record is paused")]
    OnPause,
    /// The record is not paused.
    #[error("billing_status: {0} is not paused")]
    NotPaused(Status),
    /// No record of the user is open for it.
    #[error("user_id: {0} has no open billing record for this")]
    NothingOpen(String),
}

/// What to do with a rejected event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// Try again later: what it waits for may still come.
    Hold,
    /// Put it aside, with its reason, for a person to look at.
    Park,
}

impl Rejection {
    /// Whether trying again can help.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::NotYetSent => Disposition::Hold,
            Self::UnknownUser(_)
            | Self::UnknownSubscription(_)
            | Self::WrongUser(_)
            | Self::DifferentContent
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

    /// A short name for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownUser(_) => "unknown_user",
            Self::UnknownSubscription(_) => "unknown_subscription",
            Self::WrongUser(_) => "wrong_user",
            Self::DifferentContent => "different_content",
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

/// Decides what an event does to a record. Pure and total: the same record and event always give the same answer.
///
/// # Errors
/// A [`Rejection`] where the state table has a dash.
pub fn decide(record: &Record, event: &Event) -> Result<Transition, Rejection> {
    match &event.happening {
        Happening::Sent { transaction_id, key } => sent(record, event, transaction_id.as_ref(), key.as_ref()),
        Happening::CollectedAtOnce(paid) => collected_at_once(record, event, paid),
        Happening::Failed { transaction_id, failure } => failed(record, event, transaction_id.as_ref(), failure),
        Happening::Settled(paid) => settled(record, event, paid),
        Happening::Refunded { transaction_id } => refunded(record, event, transaction_id.as_ref()),
        Happening::ChargedBack { transaction_id, failure } => charged_back(record, event, transaction_id.as_ref(), failure),
        Happening::Paused { months } => paused(record, event, *months),
        Happening::Unpaused => unpaused(record, event),
        Happening::PauseExpired => pause_expired(record, event),
        Happening::Waived => waived(record, event),
        Happening::Cancelled => cancelled(record, event),
        Happening::TooOld => too_old(record, event),
        Happening::Answered { key, answer } => answered(record, event, key, answer),
        Happening::PauseEnding => pause_ending(record, event),
        Happening::DueSoon => due_soon(record, event),
        Happening::PlanChanged(plan) => plan_changed(record, event, plan),
        Happening::DowngradeRequested(plan) => downgrade_requested(record, event, plan),
        Happening::CancelRequested(time) => cancel_requested(record, event, *time),
        Happening::CancelRetracted => cancel_retracted(record, event),
        Happening::Superseded(by) => superseded(record, event, by),
        Happening::Created => ignored(record, Ignored::AlreadyThere),
        Happening::Noted(reason) => ignored(record, *reason),
    }
}

fn sent(record: &Record, event: &Event, transaction: Option<&TransactionId>, key: Option<&AttemptKey>) -> Decision {
    match &record.state {
        State::Scheduled(_) | State::Error(_) if knows(record, transaction) => ignored(record, Ignored::AttemptKnown),
        State::Scheduled(_) | State::Error(_) => {
            let mut after = attempt(record, event);
            after.state = State::AchSent(transaction.cloned());
            after.attempt_key = key.cloned();
            applied(after, event)
        }
        State::AchSent(_) => Err(Rejection::AlreadySent),
        State::Paused(_) => Err(Rejection::OnPause),
        State::Completed(_) => Err(Rejection::AlreadyPaid),
        State::Waived(_) | State::Cancelled(_) | State::PausedSkipped(..) | State::Refunded(_) | State::Stale(_) => ended(record),
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
        State::Waived(_) | State::Cancelled(_) | State::PausedSkipped(..) | State::Refunded(_) | State::Stale(_) => ended(record),
    }
}

fn failed(record: &Record, event: &Event, transaction: Option<&TransactionId>, failure: &Failure) -> Decision {
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
        State::AchSent(_) | State::Error(_) | State::Completed(_) if is_other(record, transaction) => ignored(record, Ignored::OldAttempt),
        // Refused when it was submitted: an attempt that never was in flight.
        State::Scheduled(_) => after(attempt(record, event)),
        // After COMPLETED it is a late return: the payment is taken back.
        State::AchSent(_) | State::Error(_) | State::Completed(_) => after(record.clone()),
        State::Paused(_) => Err(Rejection::OnPause),
        State::Waived(_) | State::Cancelled(_) | State::PausedSkipped(..) | State::Refunded(_) | State::Stale(_) => ended(record),
    }
}

fn settled(record: &Record, event: &Event, paid: &Paid) -> Decision {
    match &record.state {
        State::Scheduled(_) => Err(Rejection::NotYetSent),
        State::AchSent(_) if is_other(record, paid.transaction_id.as_ref()) => ignored(record, Ignored::OldAttempt),
        State::Completed(_) if is_other(record, paid.transaction_id.as_ref()) => ignored(record, Ignored::OldAttempt),
        State::Completed(_) => ignored(record, Ignored::AlreadySettled),
        // On an ERROR record any settlement counts, also one of an earlier attempt: the money arrived.
        State::AchSent(_) | State::Error(_) => applied(with_payment(record.clone(), event, paid), event),
        State::Paused(_) => Err(Rejection::OnPause),
        State::Waived(_) | State::Cancelled(_) | State::PausedSkipped(..) | State::Refunded(_) | State::Stale(_) => ended(record),
    }
}

fn refunded(record: &Record, event: &Event, transaction: Option<&TransactionId>) -> Decision {
    match &record.state {
        State::Scheduled(_) => Err(Rejection::NotYetSent),
        State::AchSent(_) | State::Error(_) | State::Completed(_) if is_other(record, transaction) => ignored(record, Ignored::OldAttempt),
        State::AchSent(_) | State::Error(_) | State::Completed(_) => {
            let transaction_id = transaction.or(record.state.transaction_id()).cloned();
            let mut after = record.clone();
            after.state = State::Refunded(Payment { transaction_id, at: Some(GoTime::trimmed(event.at)) });
            applied(after, event)
        }
        State::Paused(_) => Err(Rejection::OnPause),
        State::Waived(_) | State::Cancelled(_) | State::PausedSkipped(..) | State::Refunded(_) | State::Stale(_) => ended(record),
    }
}

fn charged_back(record: &Record, event: &Event, transaction: Option<&TransactionId>, failure: &Failure) -> Decision {
    match &record.state {
        State::Scheduled(_) => Err(Rejection::NotYetSent),
        State::AchSent(_) | State::Error(_) | State::Completed(_) if is_other(record, transaction) => ignored(record, Ignored::OldAttempt),
        State::AchSent(_) | State::Error(_) | State::Completed(_) => {
            let transaction_id = transaction.or(record.state.transaction_id()).cloned();
            let mut after = record.clone();
            after.state = State::Error(FailedAttempt { transaction_id, failure: failure.clone() });
            after.bar = Some(failure.text().to_owned());
            applied(after, event)
        }
        State::Paused(_) => Err(Rejection::OnPause),
        State::Waived(_) | State::Cancelled(_) | State::PausedSkipped(..) | State::Refunded(_) | State::Stale(_) => ended(record),
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
        State::Waived(_) | State::Cancelled(_) | State::PausedSkipped(..) | State::Refunded(_) | State::Stale(_) => ended(record),
    }
}

fn unpaused(record: &Record, event: &Event) -> Decision {
    match &record.state {
        State::Paused(pause) => {
            let mut after = record.clone();
            after.state = State::Scheduled(pause.last.clone());
            tagged(after, event, UpdatedEvent::PauseResume)
        }
        State::Scheduled(_) | State::AchSent(_) | State::Error(_) | State::Completed(_) => Err(Rejection::NotPaused(record.status())),
        State::Waived(_) | State::Cancelled(_) | State::PausedSkipped(..) | State::Refunded(_) | State::Stale(_) => ended(record),
    }
}

fn pause_expired(record: &Record, event: &Event) -> Decision {
    match &record.state {
        State::Paused(pause) => {
            let mut after = record.clone();
            after.state = State::PausedSkipped(pause.clone(), Closed { at: Some(GoTime::trimmed(event.at)), last: None });
            tagged(follow::with_next(after), event, UpdatedEvent::PauseSkipped)
        }
        State::Scheduled(_) | State::AchSent(_) | State::Error(_) | State::Completed(_) => Err(Rejection::NotPaused(record.status())),
        State::Waived(_) | State::Cancelled(_) | State::PausedSkipped(..) | State::Refunded(_) | State::Stale(_) => ended(record),
    }
}

fn waived(record: &Record, event: &Event) -> Decision {
    // Forgiving one period does not end the membership: the next period's record follows, as it does after an attempt.
    close(record, event, State::Waived).map(|transition| match record.initial_run_date {
        None => Transition { record: follow::with_next(transition.record), ..transition },
        Some(_) => transition,
    })
}

fn cancelled(record: &Record, event: &Event) -> Decision {
    close(record, event, State::Cancelled)
}

fn too_old(record: &Record, event: &Event) -> Decision {
    close(record, event, State::Stale)
}

/// The three ways of closing an unpaid record.
fn close(record: &Record, event: &Event, state: fn(Closed) -> State) -> Decision {
    match &record.state {
        State::Scheduled(_) | State::Error(_) | State::Paused(_) => {
            let mut after = record.clone();
            after.state = state(Closed { at: Some(GoTime::trimmed(event.at)), last: record.state.last_failure().cloned() });
            after.cancel_at = None;
            applied(after, event)
        }
        State::AchSent(_) => Err(Rejection::InFlight),
        State::Completed(_) => Err(Rejection::AlreadyPaid),
        State::Waived(_) | State::Cancelled(_) | State::PausedSkipped(..) | State::Refunded(_) | State::Stale(_) => ended(record),
    }
}

/// The gateway's answer to an attempt that was made here. It only counts while that attempt waits for it: a settlement may have been
/// faster, and an answer that comes late must not be taken for that of a later attempt.
fn answered(record: &Record, event: &Event, key: &AttemptKey, answer: &Answer) -> Decision {
    match (&record.state, answer) {
        (State::AchSent(_), _) if record.attempt_key.as_ref() != Some(key) => ignored(record, Ignored::OldAttempt),
        (State::AchSent(Some(_)), Answer::Accepted { .. }) => ignored(record, Ignored::AttemptKnown),
        (State::AchSent(None), Answer::Accepted { transaction_id }) => {
            let mut after = record.clone();
            after.state = State::AchSent(Some(transaction_id.clone()));
            applied(after, event)
        }
        (State::AchSent(_), Answer::Collected(paid)) => settled(record, event, paid),
        (State::AchSent(_), Answer::Refused { transaction_id, failure }) => failed(record, event, transaction_id.as_ref(), failure),
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
        State::Scheduled(_) | State::AchSent(_) | State::Error(_) | State::Completed(_) => Err(Rejection::NotPaused(record.status())),
        State::Waived(_) | State::Cancelled(_) | State::PausedSkipped(..) | State::Refunded(_) | State::Stale(_) => ended(record),
    }
}

fn due_soon(record: &Record, event: &Event) -> Decision {
    match &record.state {
        State::Scheduled(_) => {
            let mut after = record.clone();
            after.due_notice = Some(record.billing_date.clone());
            applied(after, event)
        }
        State::AchSent(_) | State::Error(_) | State::Paused(_) | State::Completed(_) => ignored(record, Ignored::NothingOpen),
        State::Waived(_) | State::Cancelled(_) | State::PausedSkipped(..) | State::Refunded(_) | State::Stale(_) => ended(record),
    }
}

fn plan_changed(record: &Record, event: &Event, plan: &Plan) -> Decision {
    match &record.state {
        State::Scheduled(_) | State::Paused(_) => {
            let mut after = record.clone();
            after.plan = plan.clone();
            // The newer wish replaces a downgrade that was still waiting.
            after.downgrade = None;
            applied(after, event)
        }
        State::AchSent(_) => Err(Rejection::InFlight),
        // What was presented once may be presented again only for the same amount.
        State::Error(_) | State::Completed(_) => Err(Rejection::NothingOpen(record.user_id.to_string())),
        State::Waived(_) | State::Cancelled(_) | State::PausedSkipped(..) | State::Refunded(_) | State::Stale(_) => ended(record),
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
        State::Waived(_) | State::Cancelled(_) | State::PausedSkipped(..) | State::Refunded(_) | State::Stale(_) => ended(record),
    }
}

fn cancel_requested(record: &Record, event: &Event, time: CancelTime) -> Decision {
    let end = match time {
        CancelTime::Now => Some(event.at),
        CancelTime::PeriodEnd => follow::period_end(record),
    };
    let at_once = end.is_none_or(|end| end <= event.at);
    let mut after = record.clone();
    after.cancel_at = end.map(GoTime::trimmed);
    match &record.state {
        State::Scheduled(_) | State::Error(_) | State::Paused(_) if at_once => close(record, event, State::Cancelled),
        // Money in flight is not moved: the wish waits on the record, and is acted on if the debit comes back.
        State::Scheduled(_) | State::Error(_) | State::Paused(_) | State::AchSent(_) => applied(after, event),
        State::Completed(_) => Err(Rejection::AlreadyPaid),
        State::Waived(_) | State::Cancelled(_) | State::PausedSkipped(..) | State::Refunded(_) | State::Stale(_) => ended(record),
    }
}

fn cancel_retracted(record: &Record, event: &Event) -> Decision {
    match &record.state {
        State::Scheduled(_) | State::Error(_) | State::Paused(_) | State::AchSent(_) if record.cancel_at.is_none() => {
            ignored(record, Ignored::NoPendingCancel)
        }
        State::Scheduled(_) | State::Error(_) | State::Paused(_) | State::AchSent(_) => {
            let mut after = record.clone();
            after.cancel_at = None;
            applied(after, event)
        }
        State::Completed(_) => Err(Rejection::AlreadyPaid),
        State::Waived(_) | State::Cancelled(_) | State::PausedSkipped(..) | State::Refunded(_) | State::Stale(_) => ended(record),
    }
}

fn superseded(record: &Record, event: &Event, by: &SubscriptionId) -> Decision {
    match &record.state {
        // Not yet attempted: nothing is lost when it goes.
        State::Scheduled(_) | State::Paused(_) => close(record, event, State::Cancelled).map(|mut transition| {
            transition.record.superseded_by = Some(by.clone());
            transition
        }),
        // An old failure stays what it is, and a debit in flight settles; neither is collected (again).
        State::Error(_) | State::AchSent(_) => {
            let mut after = record.clone();
            after.superseded_by = Some(by.clone());
            applied(after, event)
        }
        State::Completed(_) => Err(Rejection::AlreadyPaid),
        State::Waived(_) | State::Cancelled(_) | State::PausedSkipped(..) | State::Refunded(_) | State::Stale(_) => ended(record),
    }
}

/// Whether the event speaks of another transaction than the record's current one. While the current one has no name yet, those before
/// it are still known by theirs.
fn is_other(record: &Record, transaction: Option<&TransactionId>) -> bool {
    match (record.state.transaction_id(), transaction) {
        (Some(current), Some(named)) => current != named,
        (None, Some(named)) => record.earlier.contains(named),
        (Some(_) | None, None) => false,
    }
}

/// Whether the record has met that transaction before.
fn knows(record: &Record, transaction: Option<&TransactionId>) -> bool {
    transaction.is_some_and(|t| record.state.transaction_id() == Some(t) || record.earlier.contains(t))
}

/// One more attempt: it is counted, the first one is dated and brings the next period's record, and the transaction before it
/// is remembered.
fn attempt(record: &Record, event: &Event) -> Record {
    let mut after = record.clone();
    after.attempts = record.attempts.saturating_add(1);
    after.attempt_key = None;
    after.earlier.extend(record.state.transaction_id().cloned());
    if after.initial_run_date.is_none() {
        after.initial_run_date = Some(GoTime::trimmed(event.at));
        after = follow::with_next(after);
    }
    after
}

fn with_payment(mut after: Record, event: &Event, paid: &Paid) -> Record {
    let transaction_id = paid.transaction_id.as_ref().or(after.state.transaction_id()).cloned();
    let before = after.state.transaction_id().filter(|before| Some(*before) != transaction_id.as_ref()).cloned();
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
    // A tag describes one update; it does not outlive it.
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
