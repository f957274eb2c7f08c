//! The state machine: one total function from a record and an event to a transition or a named rejection.
//!
//! What the bank reports is taken in every state; the status follows from the attempts together, see
//! [`crate::billing::attempts`]. What members, operators and jobs do depends on the record's phase:
//!
//! ```text
//!                   intended  paused  unpaused                   pause expired   waived  cancelled  too old
//! SCHEDULED         ACHSENT   PAUSED  –                          –               WAIVED  CANCELLED  STALE
//! ERROR             ACHSENT   –       –                          –               WAIVED  CANCELLED  STALE
//! PAUSED            –         –       SCHEDULED, PAUSED_SKIPPED  PAUSED_SKIPPED  WAIVED  CANCELLED  STALE
//! ACHSENT           –         –       –                          –               –       –          –
//! COMPLETED         –         –       –                          –               –       –          –
//! REFUNDED, closed  –         –       –                          –               –       –          –
//! ```
//!
//! Each column is one function below. Each has an arm for every phase and no wildcard, so a new phase or
//! event does not compile until every case is decided.

mod followups;

use crate::billing::attempts::{AttemptOutcome, PaymentStatus};
use crate::billing::event::{Answer, AttemptName, CancelTime, Event, EventKind, Ignored, Report, ReportKind};
use crate::billing::record::{ClosedAs, Plan, Receipt, Record, Standing, State, Status, UpdatedEvent};
use crate::collections::ach::{Consequence, ReturnCode};
use crate::collections::correction::Notice;
use crate::ids::SubscriptionId;
use crate::money::{Currency, Money};
use crate::time::{GoTime, Time};

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
    /// A debit is already in flight.
    #[error("billing_status: a debit is already under way")]
    AlreadySent,
    /// A debit is in flight; the event has to wait until it settles.
    #[error("billing_status: a debit is under way, this has to wait until it settles")]
    InFlight,
    /// The period is already paid.
    #[error("billing_status: the period is already paid")]
    AlreadyPaid,
    /// A debit of it has failed: what the member is behind with is not paused, the next record is.
    #[error("billing_status: a debit of this record has failed; pause the record that follows it")]
    Presented,
    /// The record is paused.
    #[error("billing_status: the record is paused")]
    OnPause,
    /// The record is not paused.
    #[error("billing_status: {0} is not paused")]
    NotPaused(Status),
    /// No open record of the user can take the event.
    #[error("user_id: {0} has no open billing record for this")]
    NothingOpen(String),
    /// Another record of the member bills the month of the new due date.
    #[error("to: another record of this member bills {0}")]
    PeriodTaken(String),
}

impl Rejection {
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
            Self::AlreadySent => "already_sent",
            Self::InFlight => "in_flight",
            Self::AlreadyPaid => "already_paid",
            Self::Presented => "presented",
            Self::OnPause => "on_pause",
            Self::NotPaused(_) => "not_paused",
            Self::NothingOpen(_) => "nothing_open",
            Self::PeriodTaken(_) => "period_taken",
        }
    }
}

type Decision = Result<Transition, Rejection>;

/// The part of a record's state on which members, operators and jobs depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// SCHEDULED or ERROR: to be collected.
    Open,
    /// PAUSED.
    Paused,
    /// ACHSENT: a debit is in flight.
    InFlight,
    /// COMPLETED.
    Paid,
    /// REFUNDED, or closed without a payment.
    Ended,
}

fn phase(record: &Record) -> Phase {
    match &record.state {
        State::Scheduled | State::Error(_) => Phase::Open,
        State::Paused(_) => Phase::Paused,
        State::AchSent(_) => Phase::InFlight,
        State::Completed(_) => Phase::Paid,
        State::Refunded(_)
        | State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Stale(_) => Phase::Ended,
    }
}

/// Decides what an event does to a record. Pure and total: the same record and event always give the same
/// result.
///
/// # Errors
/// A [`Rejection`] where the table has a dash.
pub fn decide(record: &Record, event: &Event) -> Result<Transition, Rejection> {
    match &event.kind {
        EventKind::Reported(report) => reported(record, event, report),
        EventKind::Intended { number } => intended(record, event, *number),
        EventKind::Withdrawn { number } => withdrawn(record, event, *number),
        EventKind::Answered { number, answer } => answered(record, event, *number, answer),
        EventKind::Free => free(record, event),
        EventKind::NewAccount => new_account(record, event),
        EventKind::MoneyResolved { attempt, resolution } => {
            let mut after = record.clone();
            let is_closed = matches!(record.standing, Standing::Closed { .. });
            if after.attempts.resolve(attempt, resolution, record.plan.amount, is_closed) {
                applied(after, event)
            } else {
                ignored(record, Ignored::NoLongerTrue)
            }
        }
        EventKind::Paused { months } => paused(record, event, *months),
        EventKind::Unpaused => unpaused(record, event),
        EventKind::PauseExpired => pause_expired(record, event),
        EventKind::Waived => close(record, event, ClosedAs::Waived),
        EventKind::Cancelled => close(record, event, ClosedAs::Cancelled),
        EventKind::TooOld => close(record, event, ClosedAs::Stale),
        EventKind::Moved { to } => moved(record, event, *to),
        EventKind::PauseEnding => pause_ending(record, event),
        EventKind::DueSoon => due_soon(record, event),
        EventKind::PlanChanged(plan) => plan_changed(record, event, plan),
        EventKind::DowngradeRequested(plan) => downgrade_requested(record, event, plan),
        EventKind::CancelRequested(time) => cancel_requested(record, event, *time),
        EventKind::CancelRetracted => cancel_retracted(record, event),
        EventKind::Superseded(by) => superseded(record, event, by),
        EventKind::ChangeCompleted => {
            let mut after = record.clone();
            after.pending_change = None;
            applied(after, event)
        }
        EventKind::Created(_) => ignored(record, Ignored::AlreadyThere),
        EventKind::Replaced(by) => {
            let outcome = Outcome::Applied;
            Ok(Transition { record: replaced(record, by), outcome })
        }
        EventKind::NoChange(reason) => ignored(record, *reason),
    }
}

/// The bank's report joins the set; the status follows from the whole set.
fn reported(record: &Record, event: &Event, report: &Report) -> Decision {
    if let ReportKind::Returned(failure) = &report.kind
        && let Some(code) = failure.code().filter(|code| code.consequence() == Consequence::Notice)
    {
        return notified(record, event, code);
    }
    let mut after = record.clone();
    let is_news = after.attempts.take(report, event.at, record.plan.amount);
    // A bar stays, whatever the same attempt came to later: an older report can still bring it.
    if let ReportKind::Returned(failure) | ReportKind::ChargedBack(failure) = &report.kind
        && (matches!(report.kind, ReportKind::ChargedBack(_))
            || failure.consequence() == Some(Consequence::Bar))
    {
        // One of several, whatever the order in which they arrive.
        let why = failure.text().to_owned();
        after.bar = Some(after.bar.map_or(why.clone(), |known| known.min(why)));
    }
    if !is_news && after.bar == record.bar {
        return ignored(record, Ignored::ReportKnown);
    }
    // Another service collected a paused record: the pause goes over to the next one, as if it had come after
    // the debit.
    if let Standing::Paused { months } = record.standing
        && !was_collected(record)
        && was_collected(&after)
    {
        after.standing = Standing::Open;
        after.pause_passed_on = Some(months).filter(|_| record.next.is_none());
    }
    let mut transition = applied(attempted(after, event), event)?;
    if let (ReportKind::Settled { receipt, .. }, State::Completed(_)) =
        (&report.kind, &transition.record.state)
    {
        set_receipt(&mut transition.record, receipt);
    }
    Ok(transition)
}

/// A notification of change says nothing about the attempt: the payment stands. The account has to be
/// corrected before the member's next debit.
fn notified(record: &Record, event: &Event, code: ReturnCode) -> Decision {
    let mut after = record.clone();
    match after.correction.notified(Notice { at: event.at, code }) {
        true => applied(after, event),
        false => ignored(record, Ignored::ReportKnown),
    }
}

/// A new account concerns the member, so it is taken in every state.
fn new_account(record: &Record, event: &Event) -> Decision {
    let mut after = record.clone();
    match after.correction.put_on_file(event.at) {
        true => applied(after, event),
        false => ignored(record, Ignored::NoLongerTrue),
    }
}

/// Whether the attempts say anything about its status.
fn was_collected(record: &Record) -> bool {
    match record.attempts.payment(record.plan.amount) {
        PaymentStatus::None => false,
        PaymentStatus::Paid(..)
        | PaymentStatus::UnderWay(_)
        | PaymentStatus::Refunded(..)
        | PaymentStatus::Failed(..) => true,
    }
}

/// Records an attempt of this system before the gateway is called, or that it will be called once more.
fn intended(record: &Record, event: &Event, number: u32) -> Decision {
    let submit = || {
        let mut after = record.clone();
        after.attempts.submit(number, event.at);
        applied(attempted(after, event), event)
    };
    match phase(record) {
        Phase::Open if number == record.attempts.next_number() => submit(),
        Phase::InFlight if in_doubt(record) == Some(number) => submit(),
        Phase::Open | Phase::InFlight => Err(Rejection::AlreadySent),
        Phase::Paused => Err(Rejection::OnPause),
        Phase::Paid => Err(Rejection::AlreadyPaid),
        Phase::Ended => ended(record),
    }
}

/// An attempt that was never submitted counts for nothing. One that the bank has reported on was submitted.
fn withdrawn(record: &Record, event: &Event, number: u32) -> Decision {
    let due = record.plan.amount;
    let unknown_at_the_bank = record.attempts.numbered(number).is_some_and(|attempt| {
        attempt.transaction_id.is_none()
            && attempt.sent.is_none()
            && attempt.outcome(due) == AttemptOutcome::UnderWay
    });
    if !unknown_at_the_bank {
        return ignored(record, Ignored::NoLongerTrue);
    }
    let mut after = record.clone();
    after.attempts.withdraw(number);
    if after.attempts.is_empty() {
        after.initial_run_date = None;
    }
    applied(after, event)
}

/// The gateway's answer names the attempt's transaction, and may report its outcome.
fn answered(record: &Record, event: &Event, number: u32, answer: &Answer) -> Decision {
    let due = record.plan.amount;
    let name = |id| AttemptName { transaction_id: id, number: Some(number) };
    let mut after = record.clone();
    let changed = match answer {
        Answer::Accepted { transaction_id } => {
            after.attempts.identify(&name(Some(transaction_id.clone())), due)
        }
        Answer::Collected(paid) => {
            set_receipt(&mut after, &paid.receipt);
            let kind =
                ReportKind::Settled { amount: due, currency: Currency::USD, receipt: paid.receipt.clone() };
            let report = Report { attempt: name(paid.transaction_id.clone()), kind };
            after.attempts.take(&report, event.at, due)
        }
        Answer::Refused { transaction_id, failure } => {
            let report =
                Report { attempt: name(transaction_id.clone()), kind: ReportKind::Returned(failure.clone()) };
            after.attempts.take(&report, event.at, due)
        }
    };
    if changed { applied(attempted(after, event), event) } else { ignored(record, Ignored::ReportKnown) }
}

fn free(record: &Record, event: &Event) -> Decision {
    match phase(record) {
        Phase::Open => {
            let receipt = Receipt { account_mask: String::new(), payment_type: "NONE".to_owned() };
            let mut after = record.clone();
            set_receipt(&mut after, &receipt);
            let kind = ReportKind::Settled { amount: Money::ZERO, currency: Currency::USD, receipt };
            let report = Report { attempt: AttemptName::default(), kind };
            after.attempts.take(&report, event.at, record.plan.amount);
            applied(attempted(after, event), event)
        }
        Phase::InFlight => Err(Rejection::AlreadySent),
        Phase::Paused => Err(Rejection::OnPause),
        Phase::Paid => Err(Rejection::AlreadyPaid),
        Phase::Ended => ended(record),
    }
}

fn paused(record: &Record, event: &Event, months: u32) -> Decision {
    match phase(record) {
        Phase::Open if was_never_presented(record) => {
            let mut after = record.clone();
            after.standing = Standing::Paused { months };
            applied(after, event)
        }
        Phase::Open => Err(Rejection::Presented),
        Phase::InFlight => Err(Rejection::InFlight),
        Phase::Paused => Err(Rejection::OnPause),
        Phase::Paid => Err(Rejection::AlreadyPaid),
        Phase::Ended => ended(record),
    }
}

/// Resumes billing. Months of the pause are never billed: past its due date the record is skipped, and the
/// next one follows.
fn unpaused(record: &Record, event: &Event) -> Decision {
    match phase(record) {
        Phase::Paused if event.at < record.billing_date.at() => {
            let mut after = record.clone();
            after.standing = Standing::Open;
            tagged(after, event, UpdatedEvent::PauseResume)
        }
        Phase::Paused => {
            let mut transition = close(record, event, ClosedAs::PausedSkipped)?;
            transition.record.updated_event = Some(UpdatedEvent::PauseResume);
            Ok(transition)
        }
        Phase::Open | Phase::InFlight | Phase::Paid => Err(Rejection::NotPaused(record.status())),
        Phase::Ended => ended(record),
    }
}

fn pause_expired(record: &Record, event: &Event) -> Decision {
    match phase(record) {
        Phase::Paused => {
            let mut transition = close(record, event, ClosedAs::PausedSkipped)?;
            transition.record.updated_event = Some(UpdatedEvent::PauseSkipped);
            Ok(transition)
        }
        Phase::Open | Phase::InFlight | Phase::Paid => Err(Rejection::NotPaused(record.status())),
        Phase::Ended => ended(record),
    }
}

/// Closes an unpaid record.
fn close(record: &Record, event: &Event, closed_as: ClosedAs) -> Decision {
    match phase(record) {
        Phase::Open | Phase::Paused => {
            let mut after = record.clone();
            let months = match (closed_as, &record.standing) {
                (ClosedAs::PausedSkipped, Standing::Paused { months }) => *months,
                (
                    ClosedAs::PausedSkipped | ClosedAs::Waived | ClosedAs::Cancelled | ClosedAs::Stale,
                    Standing::Open | Standing::Paused { .. } | Standing::Closed { .. },
                ) => 0,
            };
            after.standing = Standing::Closed { closed_as, at: Some(GoTime::trimmed(event.at)), months };
            after.cancel_at = after.cancel_at.filter(|_| closed_as != ClosedAs::Cancelled);
            applied(after, event)
        }
        Phase::InFlight => Err(Rejection::InFlight),
        Phase::Paid => Err(Rejection::AlreadyPaid),
        Phase::Ended => ended(record),
    }
}

/// Moves the due date. The period that the record bills stays the same.
fn moved(record: &Record, event: &Event, to: Time) -> Decision {
    match phase(record) {
        Phase::Open | Phase::Paused | Phase::Paid | Phase::Ended => {
            let mut after = record.clone();
            after.original_due_date = Some(record.scheduled_date().clone());
            after.billing_date = GoTime::trimmed(to);
            applied(after, event)
        }
        Phase::InFlight => Err(Rejection::InFlight),
    }
}

fn pause_ending(record: &Record, event: &Event) -> Decision {
    match phase(record) {
        Phase::Paused => tagged(record.clone(), event, UpdatedEvent::PausePendingResume),
        Phase::Open | Phase::InFlight | Phase::Paid => Err(Rejection::NotPaused(record.status())),
        Phase::Ended => ended(record),
    }
}

fn due_soon(record: &Record, event: &Event) -> Decision {
    match (phase(record), &record.state) {
        (Phase::Open, State::Scheduled) => {
            let mut after = record.clone();
            after.due_notice = Some(record.billing_date.clone());
            applied(after, event)
        }
        (Phase::Open | Phase::InFlight | Phase::Paused | Phase::Paid, _) => {
            ignored(record, Ignored::NothingOpen)
        }
        (Phase::Ended, _) => ended(record),
    }
}

/// An upgrade takes effect at once, except on a presented debit: it may be presented again only for the same
/// amount.
fn plan_changed(record: &Record, event: &Event, plan: &Plan) -> Decision {
    match phase(record) {
        Phase::Open | Phase::Paused if was_never_presented(record) => {
            let mut after = record.clone();
            after.plan = plan.clone();
            // The newer request replaces a pending downgrade.
            after.downgrade = None;
            applied(after, event)
        }
        Phase::InFlight => Err(Rejection::InFlight),
        Phase::Open | Phase::Paused | Phase::Paid => Err(Rejection::NothingOpen(record.user_id.to_string())),
        Phase::Ended => ended(record),
    }
}

fn downgrade_requested(record: &Record, event: &Event, plan: &Plan) -> Decision {
    match phase(record) {
        Phase::Open | Phase::Paused if was_never_presented(record) => {
            let mut after = record.clone();
            after.downgrade = Some(plan.clone());
            applied(after, event)
        }
        Phase::InFlight => Err(Rejection::InFlight),
        Phase::Open | Phase::Paused | Phase::Paid => Err(Rejection::NothingOpen(record.user_id.to_string())),
        Phase::Ended => ended(record),
    }
}

fn cancel_requested(record: &Record, event: &Event, time: CancelTime) -> Decision {
    let end = match time {
        CancelTime::Now => Some(event.at),
        CancelTime::PeriodEnd => followups::period_end(record, event.at),
    };
    // The earlier of two cancellations counts.
    let end = end.into_iter().chain(record.cancel_at.as_ref().map(GoTime::at)).min();
    let at_once = end.is_none_or(|end| end <= event.at);
    let mut after = record.clone();
    after.cancel_at = end.map(GoTime::trimmed);
    match phase(record) {
        Phase::Open | Phase::Paused if at_once => close(record, event, ClosedAs::Cancelled),
        // A debit in flight and a payment are not touched: the request stays on the record and applies if
        // it is returned.
        Phase::Open | Phase::Paused | Phase::InFlight | Phase::Paid => applied(after, event),
        Phase::Ended => ended(record),
    }
}

/// Withdraws a cancellation that has not taken effect, also from a record that has settled since: its next
/// record inherits the request.
fn cancel_retracted(record: &Record, event: &Event) -> Decision {
    match phase(record) {
        Phase::Open | Phase::Paused | Phase::InFlight | Phase::Paid | Phase::Ended
            if record.is_cancelling(event.at) =>
        {
            let mut after = record.clone();
            after.cancel_at = None;
            applied(after, event)
        }
        Phase::Open | Phase::Paused | Phase::InFlight => ignored(record, Ignored::NoPendingCancel),
        Phase::Paid => Err(Rejection::AlreadyPaid),
        Phase::Ended => ended(record),
    }
}

fn superseded(record: &Record, event: &Event, by: &SubscriptionId) -> Decision {
    let mut after = record.clone();
    after.superseded_by = Some(by.clone());
    match phase(record) {
        // Never attempted, so it can be closed.
        Phase::Open | Phase::Paused if was_never_presented(record) => {
            close(&after, event, ClosedAs::Cancelled)
        }
        // A failed record keeps its state, a debit in flight settles, and what is paid stays paid; none of
        // them is collected again.
        Phase::Open | Phase::Paused | Phase::InFlight | Phase::Paid => applied(after, event),
        Phase::Ended => ended(record),
    }
}

/// What an administrator wrote stands as it is; it is still the same record.
fn replaced(record: &Record, by: &Record) -> Record {
    Record {
        user_id: record.user_id.clone(),
        subscription_id: record.subscription_id.clone(),
        chain: record.chain,
        applied: record.applied.clone(),
        ..by.clone()
    }
}

/// The number of the attempt in doubt.
fn in_doubt(record: &Record) -> Option<u32> {
    record.attempts.in_doubt(record.plan.amount).and_then(|attempt| attempt.number)
}

/// Whether no debit of it has failed. A presented debit may be presented again only as it was.
fn was_never_presented(record: &Record) -> bool {
    record.state.last_failure().is_none()
}

fn attempted(mut after: Record, event: &Event) -> Record {
    // The earliest, in whatever order the bank's reports arrive.
    let earlier = after.initial_run_date.as_ref().filter(|first| first.at() <= event.at);
    if earlier.is_none() {
        after.initial_run_date = Some(GoTime::trimmed(event.at));
    }
    after
}

/// A membership goes on after every record that was presented, paid, waived, skipped or too old.
fn promises_next(record: &Record) -> bool {
    match &record.standing {
        Standing::Open => !matches!(record.state, State::Scheduled),
        // A pause that a late settlement of an earlier attempt overtook.
        Standing::Paused { .. } => matches!(record.state, State::Completed(_)),
        Standing::Closed { closed_as, .. } => match closed_as {
            ClosedAs::Waived | ClosedAs::PausedSkipped | ClosedAs::Stale => true,
            ClosedAs::Cancelled => false,
        },
    }
}

fn set_receipt(after: &mut Record, receipt: &Receipt) {
    if !receipt.account_mask.is_empty() {
        after.receipt.account_mask.clone_from(&receipt.account_mask);
    }
    if !receipt.payment_type.is_empty() {
        after.receipt.payment_type.clone_from(&receipt.payment_type);
    }
}

fn applied(mut after: Record, event: &Event) -> Decision {
    after.derive_state();
    if promises_next(&after) {
        after = followups::with_next(after);
    }
    after.last_run_date = Some(GoTime::nine_digits(event.at));
    // A tag describes one update and is cleared by the next.
    after.updated_event = None;
    if let Some(process) = &event.process {
        after.process = process.clone();
    }
    if let Some(change) = &event.begins {
        after.pending_change = Some(change.to_string());
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
