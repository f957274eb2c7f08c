//! Whether a record may be collected now, and what else its time has come for. Pure: the worker asks under the user's lock, on rows that
//! it has just read, and does what it is told.
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
//! Before a debit, in this order: superseded, cancelled, too old, not due, barred, the ACH rules, banks closed, not covered.

use chrono::{Days, NaiveDate, TimeDelta};
use rust_decimal::Decimal;
use std::fmt;

use crate::ach::{Consequence, ReturnCode};
use crate::calendar::{Holiday, holiday, is_banking_day};
use crate::decide::resume_date;
use crate::ids::{AttemptKey, SubscriptionId};
use crate::money::Money;
use crate::record::{Process, Record, State, Status, UpdatedEvent};
use crate::time::{GoTime, Time};

/// The numbers behind the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// After so many days a record is too old to collect: `OLD_SUBSCRIPTION_DAYS`.
    pub old_days: u32,
    /// How often one record may be presented: once, and twice again.
    pub presentments: u32,
    /// Within how many days of the first time.
    pub presentment_days: u32,
    /// So many days before a pause ends its member is told.
    pub resume_notice_days: u32,
    /// So many days before it falls due a member is told.
    pub due_notice_days: u32,
    /// From which income on a collection is tried.
    pub income_from: Money,
    /// How many debits signals may cause for one user on one day.
    pub signals_a_day: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            old_days: 90,
            presentments: 3,
            presentment_days: 180,
            resume_notice_days: 7,
            due_notice_days: 3,
            income_from: Money::from_cents(7500),
            signals_a_day: 2,
        }
    }
}

/// What set a collection off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Run {
    /// The scheduled job: what has fallen due.
    Initial,
    /// The scheduled job: what has failed.
    Retry,
    /// The scheduled job: what is paused.
    Pause,
    /// Income was seen.
    Income,
    /// A balance was seen.
    Balance,
    /// An operator's list.
    Batch,
    /// The member, or an operator for the member.
    Manual,
}

impl Run {
    /// The process that a record names afterwards.
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

/// A wish to collect from one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// What set it off.
    pub run: Run,
    /// Only this record; none for all that the run is about.
    pub only: Option<SubscriptionId>,
    /// The member has put another account on file since the last failure.
    pub new_account: bool,
    /// The member has authorised the debit afresh.
    pub authorised: bool,
    /// What the account holds, if that is known.
    pub available: Option<Decimal>,
    /// The fact that caused it, such as a signal's event id.
    pub cause: Option<String>,
}

impl Ask {
    /// A wish of a run, about all records that it is about.
    #[must_use]
    pub fn of(run: Run) -> Self {
        Self { run, only: None, new_account: false, authorised: false, available: None, cause: None }
    }
}

/// What to do about a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Debit it, under this key.
    Collect(AttemptKey),
    /// Nothing is to pay: it is complete.
    Complete,
    /// Find out what became of this attempt.
    Resolve(AttemptKey),
    /// The cancellation that was asked for is due.
    Cancel,
    /// It is too old.
    Stale,
    /// The pause is over: the next record takes over.
    Expire,
    /// The pause ends soon: tell the member.
    Remind,
    /// Nothing, and why.
    Leave(Reason),
}

/// Why nothing is done about a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Its state is not one that the run is about.
    NotForThisRun(Status),
    /// A debit is under way.
    InFlight,
    /// It is paused.
    OnPause,
    /// A reactivation put another record in its place.
    Superseded,
    /// It falls due then.
    NotDue(Time),
    /// The user may not be debited any more.
    Barred(String),
    /// It has been presented as often as the rules allow.
    Exhausted(u32),
    /// Too long ago for another presentment.
    WindowPassed,
    /// The latest return says no, until the member does something about it.
    Stopped(ReturnCode),
    /// Banks are closed.
    BanksClosed(Option<Holiday>),
    /// The account holds less than is due.
    NotCovered,
    /// Signals have caused as many debits today as they may.
    EnoughToday,
    /// The same signal has been acted on.
    SignalKnown,
    /// Another worker was faster.
    Overtaken,
}

impl Reason {
    /// Whether the run is simply not about the record: nothing to mention when nobody asked for it.
    #[must_use]
    pub fn is_beside_the_point(&self) -> bool {
        matches!(self, Self::NotForThisRun(_) | Self::NotDue(_) | Self::OnPause)
    }

    /// A short name for programs.
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
            Self::BanksClosed(_) => "banks_closed",
            Self::NotCovered => "not_covered",
            Self::EnoughToday => "enough_today",
            Self::SignalKnown => "signal_known",
            Self::Overtaken => "overtaken",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotForThisRun(status) => write!(f, "{} is not what this run collects", status.as_str()),
            Self::InFlight => f.write_str("a debit is already under way"),
            Self::OnPause => f.write_str("billing is paused"),
            Self::Superseded => f.write_str("a reactivation put another record in its place"),
            Self::NotDue(at) => write!(f, "not due before {}", GoTime::trimmed(*at).text()),
            Self::Barred(why) => write!(f, "the user is barred from collection: {why}"),
            Self::Exhausted(times) => write!(f, "presented {times} times, which is all that ACH allows"),
            Self::WindowPassed => f.write_str("presented first too long ago to be presented again"),
            Self::Stopped(code) => write!(f, "returned with {code}, which {}", stopped_until(*code)),
            Self::BanksClosed(Some(holiday)) => write!(f, "banks are closed: {holiday}"),
            Self::BanksClosed(None) => f.write_str("banks are closed: weekend"),
            Self::NotCovered => f.write_str("the account holds less than is due"),
            Self::EnoughToday => f.write_str("signals have caused as many debits today as they may"),
            Self::SignalKnown => f.write_str("this signal has been acted on before"),
            Self::Overtaken => f.write_str("another worker was faster"),
        }
    }
}

fn stopped_until(code: ReturnCode) -> &'static str {
    match code.consequence() {
        Consequence::NewAccount => "stops debits until a new account is on file",
        Consequence::NewAuthorisation => "stops debits until the member authorises afresh",
        Consequence::Retry | Consequence::Stop | Consequence::Bar | Consequence::Notice => "stops debits",
    }
}

/// Judges one of a user's records.
#[must_use]
pub fn judge(rules: &Rules, ask: &Ask, record: &Record, of_user: &[Record], now: Time) -> Verdict {
    match (&record.state, ask.run) {
        (State::AchSent(_), Run::Initial | Run::Retry | Run::Income | Run::Balance | Run::Batch | Run::Manual) => {
            record.in_doubt().map_or(Verdict::Leave(Reason::InFlight), |key| Verdict::Resolve(key.clone()))
        }
        (State::Scheduled(_), Run::Initial | Run::Batch | Run::Manual)
        | (State::Error(_), Run::Retry | Run::Income | Run::Balance | Run::Batch | Run::Manual) => {
            judge_open(rules, ask, record, of_user, now)
        }
        (State::Paused(_), Run::Pause) => judge_paused(rules, record, now),
        (State::Paused(_), Run::Initial | Run::Retry | Run::Income | Run::Balance | Run::Batch | Run::Manual) => {
            Verdict::Leave(Reason::OnPause)
        }
        (State::Scheduled(_), Run::Retry | Run::Income | Run::Balance | Run::Pause)
        | (State::Error(_), Run::Initial | Run::Pause)
        | (State::AchSent(_), Run::Pause)
        | (
            State::Completed(_) | State::Waived(_) | State::Cancelled(_) | State::PausedSkipped(..) | State::Refunded(_) | State::Stale(_),
            _,
        ) => Verdict::Leave(Reason::NotForThisRun(record.status())),
    }
}

fn judge_open(rules: &Rules, ask: &Ask, record: &Record, of_user: &[Record], now: Time) -> Verdict {
    if record.superseded_by.is_some() {
        return Verdict::Leave(Reason::Superseded);
    }
    if cancel_is_due(record, now) {
        return Verdict::Cancel;
    }
    if record.billing_date.at() + days(rules.old_days) < now {
        return Verdict::Stale;
    }
    if let Err(reason) = may_debit(rules, ask, record, of_user, now) {
        return Verdict::Leave(reason);
    }
    if record.plan.amount == Money::ZERO {
        return Verdict::Complete;
    }
    Verdict::Collect(AttemptKey::of(&record.subscription_id, record.attempts.saturating_add(1)))
}

fn judge_paused(rules: &Rules, record: &Record, now: Time) -> Verdict {
    let Some(resume) = resume_date(record) else { return Verdict::Leave(Reason::OnPause) };
    if cancel_is_due(record, now) {
        Verdict::Cancel
    } else if resume <= now {
        Verdict::Expire
    } else if resume - days(rules.resume_notice_days) <= now && record.updated_event != Some(UpdatedEvent::PausePendingResume) {
        Verdict::Remind
    } else {
        Verdict::Leave(Reason::OnPause)
    }
}

fn may_debit(rules: &Rules, ask: &Ask, record: &Record, of_user: &[Record], now: Time) -> Result<(), Reason> {
    if record.billing_date.at() > now {
        return Err(Reason::NotDue(record.billing_date.at()));
    }
    barred(record, of_user)?;
    if record.attempts >= rules.presentments {
        return Err(Reason::Exhausted(record.attempts));
    }
    if record.initial_run_date.as_ref().is_some_and(|first| first.at() + days(rules.presentment_days) < now) {
        return Err(Reason::WindowPassed);
    }
    if let Some(code) = standing_stop(ask, record, of_user) {
        return Err(Reason::Stopped(code));
    }
    if let (Some(closed), Run::Initial | Run::Retry | Run::Pause | Run::Income | Run::Balance) = (closed_banks(now.date_naive()), ask.run) {
        return Err(closed);
    }
    if ask.available.is_some_and(|available| available < record.plan.amount.decimal()) {
        return Err(Reason::NotCovered);
    }
    Ok(())
}

/// Whether what was meant to be debited still may be: asked again when an attempt turns out never to have reached the gateway.
///
/// # Errors
/// Why not.
pub fn may_still_debit(record: &Record, of_user: &[Record], now: Time) -> Result<(), String> {
    barred(record, of_user).map_err(|reason| reason.to_string())?;
    if record.superseded_by.is_some() {
        return Err(Reason::Superseded.to_string());
    }
    if cancel_is_due(record, now) {
        return Err("the member has cancelled".to_owned());
    }
    Ok(())
}

/// Why a day is no day for collections.
#[must_use]
pub fn closed_banks(day: NaiveDate) -> Option<Reason> {
    (!is_banking_day(day)).then(|| Reason::BanksClosed(holiday(day)))
}

fn barred(record: &Record, of_user: &[Record]) -> Result<(), Reason> {
    let bar = record.bar.as_ref().or_else(|| of_user.iter().find_map(|r| r.bar.as_ref()));
    bar.map_or(Ok(()), |why| Err(Reason::Barred(why.clone())))
}

fn cancel_is_due(record: &Record, now: Time) -> bool {
    record.cancel_at.as_ref().is_some_and(|at| at.at() <= now)
}

/// A return, of this record or another of the same user, that forbids debits until something changes: the membership has begun anew
/// since, the wish brings what was missing, or, for a missing account, a later payment shows that there is one.
fn standing_stop(ask: &Ask, record: &Record, of_user: &[Record]) -> Option<ReturnCode> {
    let others = of_user.iter().filter(|r| r.subscription_id != record.subscription_id);
    std::iter::once(record).chain(others).find_map(|failed| {
        let (code, at) = stop(failed)?;
        let lifted = match code.consequence() {
            Consequence::NewAccount => ask.new_account || paid_since(of_user, at),
            Consequence::NewAuthorisation => ask.authorised,
            Consequence::Stop => false,
            Consequence::Retry | Consequence::Bar | Consequence::Notice => true,
        };
        let began_since = record.since().is_some_and(|since| since > at);
        (!lifted && !began_since).then_some(code)
    })
}

fn paid_since(of_user: &[Record], at: Time) -> bool {
    let paid = |r: &Record| matches!(&r.state, State::Completed(payment) if payment.at.as_ref().is_some_and(|paid| paid.at() > at));
    of_user.iter().any(paid)
}

/// The return that a record was left with, and when that was at the earliest.
fn stop(record: &Record) -> Option<(ReturnCode, Time)> {
    let at = match &record.state {
        State::Error(_) | State::Scheduled(Some(_)) => record.last_run_date.as_ref()?,
        State::Stale(_) => record.initial_run_date.as_ref()?,
        State::Scheduled(None)
        | State::AchSent(_)
        | State::Completed(_)
        | State::Waived(_)
        | State::Cancelled(_)
        | State::Paused(_)
        | State::PausedSkipped(..)
        | State::Refunded(_) => return None,
    };
    Some((record.state.last_failure()?.failure.code()?, at.at()))
}

fn days(n: u32) -> TimeDelta {
    TimeDelta::days(n.into())
}

/// The end of the days ahead in which a member is told of a due date.
#[must_use]
pub fn notice_until(rules: &Rules, now: Time) -> Option<Time> {
    now.checked_add_days(Days::new(rules.due_notice_days.into()))
}
