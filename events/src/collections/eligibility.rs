//! Whether a record may be collected now, and which other action is due for it. Pure: the worker calls this
//! under the user's lock, on rows that it has just read, and acts on the result.
//!
//! ```text
//!                INITIAL     RETRY, WEBHOOK,     BATCH,                PAUSE
//!                            WEBHOOK_BALANCE     MANUAL_REPAYMENT
//! SCHEDULED      collect     –                   collect               –
//! ERROR          –           collect             collect               –
//! ACHSENT        ask the gateway, if its answer to our attempt was lost –
//! PAUSED         –           –                   –                     remind, expire
//! ```
//!
//! Before a debit, in this order: superseded, cancelled, too old, not due, barred, unapplied money, the ACH
//! rules, the account's correction, the planned date (RETRY only), banks closed, not covered.

use chrono::{Days, NaiveDate, TimeDelta};
use rust_decimal::Decimal;
use std::fmt;

use crate::billing::attempts::{Attempt, Failed, UnappliedMoney};
use crate::billing::decide::resume_date;
use crate::billing::record::{Process, Record, Standing, State, Status, UpdatedEvent};
use crate::calendar::{Holiday, holiday, is_banking_day};
use crate::collections::ach::{Consequence, ReturnCode};
use crate::collections::correction::{Notice, awaited_correction};
use crate::collections::incomes::Incomes;
use crate::collections::retry_plan::{RetryPlan, retry_plan};
use crate::ids::{AttemptKey, SubscriptionId};
use crate::money::Money;
use crate::time::{GoTime, Time};

/// Parameters of the eligibility rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Age in days after which a record is too old to collect: `OLD_SUBSCRIPTION_DAYS`.
    pub old_days: u32,
    /// Maximum presentments of one record: one, and two re-presentments.
    pub presentments: u32,
    /// Days after the first presentment within which the others must fall.
    pub presentment_days: u32,
    /// Banking days between a return and the next presentment by the RETRY job, at least.
    pub retry_banking_days: u32,
    /// Banking days over which presentments are spread where no payday is known.
    pub retry_spread_days: u32,
    /// Days after the due date until which the last presentment is kept for a signal.
    pub last_presentment_days: u32,
    /// Days before the end of a pause at which the member is notified.
    pub resume_notice_days: u32,
    /// Days before the due date at which the member is notified.
    pub due_notice_days: u32,
    /// Minimum income that triggers a collection.
    pub income_from: Money,
    /// Maximum debits caused by signals, per user and day.
    pub signals_a_day: u32,
    /// Hours after the last submission for which a request may still wait in the gateway's queue: until then
    /// "never seen" does not mean that there is no debit.
    pub gateway_queue_hours: u32,
    /// Share of a run's due records, in percent, above which it is not the records that are stale, but the
    /// clock.
    pub stale_percent: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            old_days: 90,
            presentments: 3,
            presentment_days: 180,
            retry_banking_days: 2,
            retry_spread_days: 10,
            last_presentment_days: 45,
            resume_notice_days: 7,
            due_notice_days: 3,
            income_from: Money::from_cents(7500),
            signals_a_day: 2,
            gateway_queue_hours: 24,
            stale_percent: 20,
        }
    }
}

/// What triggered a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// The scheduled job over due records.
    Initial,
    /// The scheduled job over failed records.
    Retry,
    /// The scheduled job over paused records.
    Pause,
    /// Detected income.
    Income,
    /// A reported balance.
    Balance,
    /// An operator's batch.
    Batch,
    /// The member, or an operator on the member's behalf.
    Manual,
}

impl Trigger {
    /// The process written to the record.
    #[must_use]
    pub fn process(self) -> Process {
        match self {
            Self::Initial => Process::Initial,
            Self::Retry => Process::Retry,
            Self::Pause => Process::Pause,
            Self::Income => Process::Webhook,
            Self::Balance => Process::WebhookBalance,
            Self::Batch => Process::Batch,
            Self::Manual => Process::ManualRepayment,
        }
    }
}

/// A request to collect from one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionRequest {
    /// The trigger.
    pub trigger: Trigger,
    /// Only this record; `None` for all records that the trigger covers.
    pub only: Option<SubscriptionId>,
    /// The member has provided another account since the last failure.
    pub new_account: bool,
    /// The member has authorised the debit again.
    pub authorised: bool,
    /// The account's balance, if known.
    pub available: Option<Decimal>,
    /// The member's last incomes, once they are read. Without them, RETRY skips only what is too early by
    /// any plan.
    pub incomes: Option<Incomes>,
    /// The causing fact, such as a signal's event id.
    pub cause: Option<String>,
    /// Who asked for it, where a person did.
    pub actor: Option<String>,
}

impl CollectionRequest {
    /// A request by a trigger, for all records that it covers.
    #[must_use]
    pub fn triggered_by(trigger: Trigger) -> Self {
        Self {
            trigger,
            only: None,
            new_account: false,
            authorised: false,
            available: None,
            incomes: None,
            cause: None,
            actor: None,
        }
    }
}

/// The action for a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Eligibility {
    /// Debit it under this attempt key.
    Collect(AttemptKey),
    /// The amount is zero: complete it without a debit.
    Complete,
    /// Ask the gateway for the result of this attempt.
    Resolve(AttemptKey),
    /// The requested cancellation is due.
    Cancel,
    /// It is too old to collect.
    Stale,
    /// The pause is over: the next record follows.
    Expire,
    /// The pause ends soon: notify the member.
    Remind,
    /// No action, with the reason.
    Skip(Reason),
}

/// Why a record is not collected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The trigger does not cover this status.
    NotForThisRun(Status),
    /// A debit is in flight.
    InFlight,
    /// It is paused.
    OnPause,
    /// A reactivation replaced it with another record.
    Superseded,
    /// It is not due before this time.
    NotDue(Time),
    /// The user is barred from collection.
    Barred(String),
    /// It has reached the maximum number of presentments.
    Exhausted(u32),
    /// The presentment window has passed.
    WindowPassed,
    /// The latest return stops debits until the member acts.
    Stopped(ReturnCode),
    /// The bank has asked for a correction of the account, and no new account is on file.
    AwaitsCorrection(Notice),
    /// It is presented again on a later day.
    RetryPlanned(RetryPlan),
    /// Banks are closed.
    BanksClosed(Option<Holiday>),
    /// The balance is below the amount due.
    NotCovered,
    /// Signals have caused the maximum number of debits today.
    EnoughToday,
    /// The same signal was already acted on.
    SignalKnown,
    /// Money arrived for this record that pays for nothing; an operator has to decide.
    UnappliedMoney,
    /// The member has cancelled: a payment that came back afterwards is not collected again.
    MembershipEnded,
    /// Another worker was first.
    Overtaken,
}

impl Reason {
    /// Whether the trigger just does not cover the record; not worth reporting unless the record was
    /// requested.
    #[must_use]
    pub fn is_out_of_scope(&self) -> bool {
        matches!(self, Self::NotForThisRun(_) | Self::NotDue(_) | Self::OnPause)
    }

    /// A short code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotForThisRun(_) => "not_for_this_run",
            Self::InFlight => "in_flight",
            Self::OnPause => "on_pause",
            Self::Superseded => "superseded",
            Self::NotDue(_) => "not_due",
            Self::Barred(_) => "barred",
            Self::Exhausted(_) => "exhausted",
            Self::WindowPassed => "window_passed",
            Self::Stopped(_) => "stopped",
            Self::AwaitsCorrection(_) => "awaits_correction",
            Self::RetryPlanned(_) => "retry_planned",
            Self::BanksClosed(_) => "banks_closed",
            Self::NotCovered => "not_covered",
            Self::EnoughToday => "enough_today",
            Self::SignalKnown => "signal_known",
            Self::UnappliedMoney => "unapplied_money",
            Self::MembershipEnded => "membership_ended",
            Self::Overtaken => "overtaken",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotForThisRun(status) => write!(f, "{} is not what this trigger collects", status.as_str()),
            Self::InFlight => f.write_str("a debit is already under way"),
            Self::OnPause => f.write_str("billing is paused"),
            Self::Superseded => f.write_str("a reactivation put another record in its place"),
            Self::NotDue(at) => write!(f, "not due before {}", GoTime::trimmed(*at).text()),
            Self::Barred(why) => write!(f, "the user is barred from collection: {why}"),
            Self::Exhausted(times) => write!(f, "presented {times} times, which is all that ACH allows"),
            Self::WindowPassed => f.write_str("presented first too long ago to be presented again"),
            Self::Stopped(code) => write!(f, "returned with {code}, which {}", stopped_until(*code)),
            Self::AwaitsCorrection(notice) => {
                write!(
                    f,
                    "the bank asked for a correction of the account ({notice}), and no new one is on file"
                )
            }
            Self::RetryPlanned(plan) => write!(f, "presented again {plan}"),
            Self::BanksClosed(Some(holiday)) => write!(f, "banks are closed: {holiday}"),
            Self::BanksClosed(None) => f.write_str("banks are closed: weekend"),
            Self::NotCovered => f.write_str("the account holds less than is due"),
            Self::EnoughToday => f.write_str("signals have caused as many debits today as they may"),
            Self::SignalKnown => f.write_str("this signal has been acted on before"),
            Self::UnappliedMoney => {
                f.write_str("money arrived for this record that pays for nothing: see `dues money`")
            }
            Self::MembershipEnded => f.write_str("the member has cancelled since"),
            Self::Overtaken => f.write_str("another worker was faster"),
        }
    }
}

fn stopped_until(code: ReturnCode) -> &'static str {
    match code.consequence() {
        Consequence::NewAccount => "stops debits until a new account is on file",
        Consequence::NewAuthorisation => "stops debits until the member authorises afresh",
        Consequence::Correction => "stops debits until an operator corrects it, once within 60 days",
        Consequence::Retry | Consequence::Stop | Consequence::Bar | Consequence::Notice => "stops debits",
    }
}

/// Decides the action for one of a user's records.
#[must_use]
pub fn eligibility(
    rules: &Rules,
    ask: &CollectionRequest,
    record: &Record,
    of_user: &[Record],
    now: Time,
) -> Eligibility {
    match (&record.state, ask.trigger) {
        (
            State::AchSent(_),
            Trigger::Initial
            | Trigger::Retry
            | Trigger::Income
            | Trigger::Balance
            | Trigger::Batch
            | Trigger::Manual,
        ) => record.in_doubt().map_or(Eligibility::Skip(Reason::InFlight), Eligibility::Resolve),
        (State::Scheduled, Trigger::Initial | Trigger::Batch | Trigger::Manual)
        | (
            State::Error(_),
            Trigger::Retry | Trigger::Income | Trigger::Balance | Trigger::Batch | Trigger::Manual,
        ) => judge_open(rules, ask, record, of_user, now),
        (State::Paused(_), Trigger::Pause) => judge_paused(rules, record, now),
        (
            State::Paused(_),
            Trigger::Initial
            | Trigger::Retry
            | Trigger::Income
            | Trigger::Balance
            | Trigger::Batch
            | Trigger::Manual,
        ) => Eligibility::Skip(Reason::OnPause),
        (State::Scheduled, Trigger::Retry | Trigger::Income | Trigger::Balance | Trigger::Pause)
        | (State::Error(_), Trigger::Initial | Trigger::Pause)
        | (State::AchSent(_), Trigger::Pause)
        | (
            State::Completed(_)
            | State::Waived(_)
            | State::Cancelled(_)
            | State::PausedSkipped(..)
            | State::Refunded(_)
            | State::Stale(_),
            _,
        ) => Eligibility::Skip(Reason::NotForThisRun(record.status())),
    }
}

fn judge_open(
    rules: &Rules,
    ask: &CollectionRequest,
    record: &Record,
    of_user: &[Record],
    now: Time,
) -> Eligibility {
    if record.superseded_by.is_some() {
        return Eligibility::Skip(Reason::Superseded);
    }
    // A return of before the cancellation, that came after it, leaves the record open.
    if cancel_is_due(record, now) {
        return Eligibility::Cancel;
    }
    if let Err(reason) = membership_goes_on(record, of_user) {
        return Eligibility::Skip(reason);
    }
    if record.billing_date.at() + days(rules.old_days) < now {
        return Eligibility::Stale;
    }
    if let Err(reason) = may_debit(rules, ask, record, of_user, now) {
        return Eligibility::Skip(reason);
    }
    if record.plan.amount == Money::ZERO {
        return Eligibility::Complete;
    }
    Eligibility::Collect(record.next_attempt_key())
}

fn judge_paused(rules: &Rules, record: &Record, now: Time) -> Eligibility {
    let Some(resume) = resume_date(record) else { return Eligibility::Skip(Reason::OnPause) };
    if cancel_is_due(record, now) {
        Eligibility::Cancel
    } else if resume <= now {
        Eligibility::Expire
    } else if resume - days(rules.resume_notice_days) <= now
        && record.updated_event != Some(UpdatedEvent::PausePendingResume)
    {
        Eligibility::Remind
    } else {
        Eligibility::Skip(Reason::OnPause)
    }
}

fn may_debit(
    rules: &Rules,
    ask: &CollectionRequest,
    record: &Record,
    of_user: &[Record],
    now: Time,
) -> Result<(), Reason> {
    if record.billing_date.at() > now {
        return Err(Reason::NotDue(record.billing_date.at()));
    }
    barred(record, of_user)?;
    has_no_unapplied_money(record)?;
    if record.attempts.count() >= rules.presentments {
        return Err(Reason::Exhausted(record.attempts.count()));
    }
    if record.initial_run_date.as_ref().is_some_and(|first| first.at() + days(rules.presentment_days) < now) {
        return Err(Reason::WindowPassed);
    }
    if let Some(code) = standing_stop(ask, record, of_user, now).or_else(|| corrected_before(record)) {
        return Err(Reason::Stopped(code));
    }
    if !ask.new_account
        && let Some(notice) = awaited_correction(record, of_user)
    {
        return Err(Reason::AwaitsCorrection(notice));
    }
    waits_for_planned_date(rules, ask, record, now)?;
    if let (
        Some(closed),
        Trigger::Initial | Trigger::Retry | Trigger::Pause | Trigger::Income | Trigger::Balance,
    ) = (bank_closure(now.date_naive()), ask.trigger)
    {
        return Err(closed);
    }
    if ask.available.is_some_and(|available| available < record.plan.amount.decimal()) {
        return Err(Reason::NotCovered);
    }
    Ok(())
}

/// The RETRY job waits for the planned date. A record that it visits has failed; without a day for it, the
/// return came too late to be presented again.
fn waits_for_planned_date(
    rules: &Rules,
    ask: &CollectionRequest,
    record: &Record,
    now: Time,
) -> Result<(), Reason> {
    match ask.trigger {
        Trigger::Retry => {}
        Trigger::Initial
        | Trigger::Pause
        | Trigger::Income
        | Trigger::Balance
        | Trigger::Batch
        | Trigger::Manual => return Ok(()),
    }
    match retry_plan(rules, record, ask.incomes.as_ref()) {
        Some(plan) if plan.at > now => Err(Reason::RetryPlanned(plan)),
        Some(_) => Ok(()),
        None => Err(Reason::WindowPassed),
    }
}

/// Checks once more whether a recorded attempt may be submitted, on records that were read after it was
/// recorded: either a change sees the attempt, or this sees the change.
pub fn may_still_debit(record: &Record, of_user: &[Record], now: Time) -> Result<(), String> {
    barred(record, of_user).map_err(|reason| reason.to_string())?;
    has_no_unapplied_money(record).map_err(|reason| reason.to_string())?;
    if let Some(notice) = awaited_correction(record, of_user) {
        return Err(Reason::AwaitsCorrection(notice).to_string());
    }
    if record.superseded_by.is_some() {
        return Err(Reason::Superseded.to_string());
    }
    membership_goes_on(record, of_user).map_err(|reason| reason.to_string())?;
    if cancel_is_due(record, now) {
        return Err("the member has cancelled".to_owned());
    }
    if record.status() != Status::AchSent {
        return Err(format!("the record is {} already", record.status().as_str()));
    }
    match record.standing {
        Standing::Open => Ok(()),
        Standing::Paused { .. } => Err(Reason::OnPause.to_string()),
        Standing::Closed { closed_as, .. } => Err(format!("the record is {}", closed_as.status().as_str())),
    }
}

/// A payment that is returned after its membership has ended is not collected again. A change marks the paid
/// records that can still be returned; this is for a return after every deadline.
fn membership_goes_on(record: &Record, of_user: &[Record]) -> Result<(), Reason> {
    if record.attempts.is_empty() {
        return Ok(());
    }
    let (since, due) = (record.member_since.as_ref().map(GoTime::at), record.billing_date.at());
    let later = || {
        let later = of_user.iter().filter(|other| other.billing_date.at() > due);
        later.map(|other| (other, other.member_since.as_ref().map(GoTime::at)))
    };
    // Rows of older writers do not name their membership.
    if since.is_some() && later().any(|(_, other_since)| other_since > since) {
        return Err(Reason::Superseded);
    }
    // A superseded record belongs to another membership, even one that began at the same instant.
    let ended = |other: &Record| other.status() == Status::Cancelled && other.superseded_by.is_none();
    if later().any(|(other, other_since)| other_since == since && ended(other)) {
        return Err(Reason::MembershipEnded);
    }
    Ok(())
}

/// A record with money of its own that pays for nothing is not debited.
fn has_no_unapplied_money(record: &Record) -> Result<(), Reason> {
    if record.unapplied_money().iter().any(UnappliedMoney::is_open) {
        return Err(Reason::UnappliedMoney);
    }
    Ok(())
}

/// The reason why nothing is collected on that day, if banks are closed.
#[must_use]
pub fn bank_closure(day: NaiveDate) -> Option<Reason> {
    (!is_banking_day(day)).then(|| Reason::BanksClosed(holiday(day)))
}

fn barred(record: &Record, of_user: &[Record]) -> Result<(), Reason> {
    let bar = record.bar.as_ref().or_else(|| of_user.iter().find_map(|r| r.bar.as_ref()));
    bar.map_or(Ok(()), |why| Err(Reason::Barred(why.clone())))
}

fn cancel_is_due(record: &Record, now: Time) -> bool {
    record.cancel_at.as_ref().is_some_and(|at| at.at() <= now)
}

/// A return, of this record or another of the same user, that stops debits. It is lifted by a newer
/// membership, by a request that provides what was missing, or, for a missing account, by a later payment.
fn standing_stop(
    ask: &CollectionRequest,
    record: &Record,
    of_user: &[Record],
    now: Time,
) -> Option<ReturnCode> {
    let others = of_user.iter().filter(|r| r.subscription_id != record.subscription_id);
    std::iter::once(record).chain(others).find_map(|failed| {
        let (code, at) = stop(failed)?;
        let lifted = match code.consequence() {
            Consequence::NewAccount => ask.new_account || paid_since(of_user, at),
            Consequence::NewAuthorisation => ask.authorised,
            Consequence::Correction => ask.authorised && now <= at + days(CORRECTION_DAYS),
            Consequence::Stop => false,
            Consequence::Retry | Consequence::Bar | Consequence::Notice => true,
        };
        let began_since = record.since().is_some_and(|since| since > at);
        (!lifted && !began_since).then_some(code)
    })
}

/// A return that could be corrected once, and was: it has been presented again since.
fn corrected_before(record: &Record) -> Option<ReturnCode> {
    let corrected = |failed: &Failed| {
        let code = failed.failure.code().filter(|code| code.consequence() == Consequence::Correction)?;
        let is_after = |other: &Attempt| {
            let presented = [other.submitted, other.sent, other.returned.as_ref().map(|r| r.at)];
            presented.into_iter().flatten().any(|at| at > failed.at)
        };
        record.attempts.as_slice().iter().any(is_after).then_some(code)
    };
    record.attempts.as_slice().iter().filter_map(|attempt| attempt.returned.as_ref()).find_map(corrected)
}

/// Days in which a debit that did not follow its authorisation (R11) may be corrected.
const CORRECTION_DAYS: u32 = 60;

fn paid_since(of_user: &[Record], at: Time) -> bool {
    let is_later = |paid: &GoTime| paid.at() > at;
    let paid = |r: &Record| match &r.state {
        State::Completed(payment) => payment.at.as_ref().is_some_and(is_later),
        State::Scheduled
        | State::AchSent(_)
        | State::Error(_)
        | State::Paused(_)
        | State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => false,
    };
    of_user.iter().any(paid)
}

/// The return that a record ended with, and its earliest possible time.
fn stop(record: &Record) -> Option<(ReturnCode, Time)> {
    let at = match &record.state {
        State::Error(_) => record.last_run_date.as_ref()?,
        // Neither a pause nor a waiver makes the account good.
        State::Stale(_) | State::Waived(_) | State::Paused(_) | State::PausedSkipped(..) => {
            record.initial_run_date.as_ref()?
        }
        State::Scheduled
        | State::AchSent(_)
        | State::Completed(_)
        | State::Cancelled(_)
        | State::Refunded(_) => return None,
    };
    Some((record.state.last_failure()?.failure.code()?, at.at()))
}

fn days(n: u32) -> TimeDelta {
    TimeDelta::days(n.into())
}

/// The end of the window in which members are notified of a due date.
#[must_use]
pub fn notice_window_end(rules: &Rules, now: Time) -> Option<Time> {
    now.checked_add_days(Days::new(rules.due_notice_days.into()))
}
