//! The billing record: one billing period of one user.

mod codec;
mod enums;
mod standing;
mod status;

use crate::billing::attempts::{Attempts, PaymentStatus, UnappliedMoney};
use crate::billing::chain::Chain;
use crate::billing::idempotency::Applied;
use crate::calendar::{BillingWeek, Schedule, Term, billing_period};
use crate::collections::ach::{Consequence, ReturnCode};
use crate::collections::correction::Correction;
use crate::ids::{AttemptKey, SubscriptionId, TransactionId, UserId};
use crate::item::Item;
use crate::money::Money;
use crate::time::{GoTime, Time};

pub use codec::{APPLIED_OUTCOME, History, ReadError};
pub use enums::{Process, Provider, TierName, UpdatedEvent};
pub use standing::{ClosedAs, Standing};
pub use status::Status;

/// A billing record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The user.
    pub user_id: UserId,
    /// The due date; the sort key, kept as it was read.
    pub billing_date: GoTime,
    /// Its UUID.
    pub subscription_id: SubscriptionId,
    /// Amount and tier.
    pub plan: Plan,
    /// Billing interval.
    pub term: Term,
    /// Set for Friday billing.
    pub billing_week: Option<BillingWeek>,
    /// What the membership made of it.
    pub standing: Standing,
    /// The attempts to collect it.
    pub attempts: Attempts,
    /// The state that follows from standing and attempts; kept up to date by [`Record::derive_state`].
    pub state: State,
    /// The process that last updated the record.
    pub process: Process,
    /// Tag of the latest lifecycle update.
    pub updated_event: Option<UpdatedEvent>,
    /// Creation time.
    pub created_date: Option<GoTime>,
    /// Time of the first attempt.
    pub initial_run_date: Option<GoTime>,
    /// Time of the latest update: the key of its history row.
    pub last_run_date: Option<GoTime>,
    /// Receipt data of the payment.
    pub receipt: Receipt,
    /// The date from which due dates are counted. Rows of older writers have none and count from their own
    /// date.
    pub anchor: Option<GoTime>,
    /// Start of the membership that this record belongs to.
    pub member_since: Option<GoTime>,
    /// Where the user signs in.
    pub provider: Option<Provider>,
    /// The due date for which the member was reminded.
    pub due_notice: Option<GoTime>,
    /// The following period's record; set once this one has been attempted.
    pub next: Option<SubscriptionId>,
    /// When a requested cancellation takes effect.
    pub cancel_at: Option<GoTime>,
    /// Target plan of a pending downgrade, applied when the next record is created.
    pub downgrade: Option<Plan>,
    /// Why the user is barred from collection.
    pub bar: Option<String>,
    /// Whether the member's account has to be corrected before the next debit.
    pub correction: Correction,
    /// The reactivation's record that replaced this one.
    pub superseded_by: Option<SubscriptionId>,
    /// A change of several records that has begun with this one, as on its stream, until it is complete.
    pub pending_change: Option<String>,
    /// Length in months of a pause that goes over to the next record, because this one was collected.
    pub pause_passed_on: Option<u32>,
    /// The due date before the record was moved to another one.
    pub original_due_date: Option<GoTime>,
    /// Target due date while an administrator's move is in progress.
    pub moved_to: Option<GoTime>,
    /// Number of commits; 0 for a row that only older writers wrote.
    pub version: u64,
    /// Tokens of the events it has taken.
    pub applied: Applied,
    /// The chain's newest link: that of the latest committed history row.
    pub chain: Option<Chain>,
    /// `data_` attributes: written to history, never to the primary table.
    pub data: Item,
    /// Unknown attributes of other writers, kept unchanged.
    pub extra: Item,
}

/// A state with its own data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Waits for its first attempt.
    Scheduled,
    /// A debit is in flight.
    AchSent(Option<TransactionId>),
    /// Paid.
    Completed(Payment),
    /// The latest attempt failed.
    Error(FailedAttempt),
    /// Waived.
    Waived(Closed),
    /// Cancelled before it was paid.
    Cancelled(Closed),
    /// Billing is paused.
    Paused(Pause),
    /// The pause expired; the next record follows.
    PausedSkipped(Pause, Closed),
    /// Paid, then refunded.
    Refunded(Payment),
    /// Too old to collect.
    Stale(Closed),
}

/// Data of a failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedAttempt {
    /// The debit's transaction id.
    pub transaction_id: Option<TransactionId>,
    /// Why it failed.
    pub failure: Failure,
}

/// A payment that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// Its transaction id.
    pub transaction_id: Option<TransactionId>,
    /// When the record was closed.
    pub at: Option<GoTime>,
}

/// How a record was closed without a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// When it was closed.
    pub at: Option<GoTime>,
    /// The latest failed attempt, if there was one.
    pub last: Option<FailedAttempt>,
}

/// A pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Length in months.
    pub months: u32,
    /// The latest failed attempt, if there was one.
    pub last: Option<FailedAttempt>,
}

/// Why an attempt failed: `usio_error`, kept as it was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure(String);

impl Failure {
    /// From a return code and a message; either may be missing.
    #[must_use]
    pub fn new(code: Option<ReturnCode>, message: Option<&str>) -> Self {
        Self(match (code, message.filter(|m| !m.is_empty())) {
            (Some(code), Some(message)) => format!("{code} {message}"),
            (Some(code), None) => code.to_string(),
            (None, Some(message)) => message.to_owned(),
            (None, None) => "failed, no reason given".to_owned(),
        })
    }

    /// From the text of `usio_error`.
    #[must_use]
    pub fn from_text(text: String) -> Self {
        Self(text)
    }

    /// The text of `usio_error`.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// What its return code allows next, if it has one.
    #[must_use]
    pub fn consequence(&self) -> Option<Consequence> {
        self.code().map(ReturnCode::consequence)
    }

    /// The return code at its start, if there is one.
    #[must_use]
    pub fn code(&self) -> Option<ReturnCode> {
        self.0.split([' ', ':']).next().and_then(ReturnCode::read)
    }
}

/// The status shown for a user without an active record.
pub const INACTIVE: &str = "INACTIVE";

/// The status of a user: that of the newest active record, else `INACTIVE`.
#[must_use]
pub fn membership_status<'a>(records: impl IntoIterator<Item = &'a Record>) -> &'static str {
    records
        .into_iter()
        .filter(|r| r.is_active())
        .max_by_key(|r| r.billing_date.at())
        .map_or(INACTIVE, |r| r.status().as_str())
}

impl State {
    /// The stored status of this state.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Scheduled => Status::Scheduled,
            Self::AchSent(_) => Status::AchSent,
            Self::Completed(_) => Status::Completed,
            Self::Error(_) => Status::Error,
            Self::Waived(_) => Status::Waived,
            Self::Cancelled(_) => Status::Cancelled,
            Self::Paused(_) => Status::Paused,
            Self::PausedSkipped(..) => Status::PausedSkipped,
            Self::Refunded(_) => Status::Refunded,
            Self::Stale(_) => Status::Stale,
        }
    }

    /// The latest failed attempt, in states that keep one.
    #[must_use]
    pub fn last_failure(&self) -> Option<&FailedAttempt> {
        match self {
            Self::Error(failed) => Some(failed),
            Self::Paused(pause) | Self::PausedSkipped(pause, _) => pause.last.as_ref(),
            Self::Waived(closed) | Self::Cancelled(closed) | Self::Stale(closed) => closed.last.as_ref(),
            Self::Scheduled | Self::AchSent(_) | Self::Completed(_) | Self::Refunded(_) => None,
        }
    }

    /// The transaction id of the latest attempt.
    #[must_use]
    pub fn transaction_id(&self) -> Option<&TransactionId> {
        match self {
            Self::AchSent(transaction) => transaction.as_ref(),
            Self::Completed(payment) | Self::Refunded(payment) => payment.transaction_id.as_ref(),
            Self::Scheduled
            | Self::Error(_)
            | Self::Waived(_)
            | Self::Cancelled(_)
            | Self::Paused(_)
            | Self::PausedSkipped(..)
            | Self::Stale(_) => self.last_failure().and_then(|failed| failed.transaction_id.as_ref()),
        }
    }

    /// When the record was closed, for states that close a record.
    #[must_use]
    pub fn closed_at(&self) -> Option<&GoTime> {
        match self {
            Self::Completed(payment) | Self::Refunded(payment) => payment.at.as_ref(),
            Self::Waived(closed)
            | Self::Cancelled(closed)
            | Self::PausedSkipped(_, closed)
            | Self::Stale(closed) => closed.at.as_ref(),
            Self::Scheduled | Self::AchSent(_) | Self::Error(_) | Self::Paused(_) => None,
        }
    }

    /// The length of the pause in months; 0 when there is none.
    #[must_use]
    pub fn pause_months(&self) -> u32 {
        match self {
            Self::Paused(pause) | Self::PausedSkipped(pause, _) => pause.months,
            Self::Scheduled
            | Self::AchSent(_)
            | Self::Completed(_)
            | Self::Error(_)
            | Self::Waived(_)
            | Self::Cancelled(_)
            | Self::Refunded(_)
            | Self::Stale(_) => 0,
        }
    }
}

impl Record {
    /// The stored status of its state.
    #[must_use]
    pub fn status(&self) -> Status {
        self.state.status()
    }

    /// Whether a cancellation was requested that has not taken effect at that time.
    #[must_use]
    pub fn is_cancelling(&self, at: Time) -> bool {
        self.cancel_at.as_ref().is_some_and(|end| end.at() > at)
    }

    /// Whether it is still to be collected: SCHEDULED, ERROR or PAUSED. (ACHSENT is in flight.)
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Scheduled | State::Error(_) | State::Paused(_))
    }

    /// The attempt in doubt: this system recorded it as submitted, and the gateway's answer is not recorded.
    #[must_use]
    pub fn in_doubt(&self) -> Option<AttemptKey> {
        let number = self.attempts.in_doubt(self.plan.amount)?.number?;
        Some(AttemptKey::of(&self.subscription_id, number))
    }

    /// The key of the next attempt of this system.
    #[must_use]
    pub fn next_attempt_key(&self) -> AttemptKey {
        AttemptKey::of(&self.subscription_id, self.attempts.next_number())
    }

    /// The money that arrived for this record and pays for nothing, resolved or not.
    #[must_use]
    pub fn unapplied_money(&self) -> Vec<UnappliedMoney> {
        self.attempts.unapplied(self.plan.amount, matches!(self.standing, Standing::Closed { .. }))
    }

    /// How much of the payment went back to the member. What was paid beyond the amount due is unapplied
    /// money, and no part of it.
    #[must_use]
    pub fn refunded_amount(&self) -> Money {
        match self.attempts.payment(self.plan.amount) {
            PaymentStatus::Paid(attempt, _) | PaymentStatus::Refunded(attempt, _) => {
                attempt.refunded_of(self.plan.amount)
            }
            PaymentStatus::None | PaymentStatus::UnderWay(_) | PaymentStatus::Failed(..) => Money::ZERO,
        }
    }

    /// Whether it makes its user an active member: open, in flight, or paid.
    #[must_use]
    pub fn is_active(&self) -> bool {
        (self.is_open() && self.superseded_by.is_none())
            || matches!(self.state, State::AchSent(_) | State::Completed(_))
    }

    /// The due dates of its membership.
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        let anchor = self.anchor.as_ref().unwrap_or(&self.billing_date).at();
        Schedule { anchor, term: self.term, week: self.billing_week }
    }

    /// The due date that its schedule gave it: the period it bills, wherever it was moved to.
    #[must_use]
    pub fn scheduled_date(&self) -> &GoTime {
        self.original_due_date.as_ref().unwrap_or(&self.billing_date)
    }

    /// The start of its membership, as far as known.
    #[must_use]
    pub fn since(&self) -> Option<Time> {
        self.member_since.as_ref().or(self.created_date.as_ref()).map(GoTime::at)
    }

    /// `MM/YYYY` of the due date.
    #[must_use]
    pub fn period(&self) -> String {
        billing_period(self.billing_date.at())
    }
}

/// Amount and tier of a membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The amount charged for a period.
    pub amount: Money,
    /// The tier.
    pub tier: TierName,
}

/// Receipt data of a payment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Receipt {
    /// Last four digits of the account.
    pub account_mask: String,
    /// Payment type, such as `ACH`.
    pub payment_type: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tier_names_split_into_tier_and_version() {
        let name = TierName::new("Plus", "v2");
        assert_eq!((name.as_str(), name.tier(), name.version()), ("Plus:v2", "Plus", "v2"));
        let bare = TierName::read("Plus");
        assert_eq!((bare.tier(), bare.version()), ("Plus", ""));
        assert_eq!(TierName::new("Plus", "").as_str(), "Plus");
        assert_eq!(TierName::read("A:b:c").version(), "b:c");
    }

    #[test]
    fn failures_have_their_code() {
        let code = ReturnCode::read("R01");
        assert_eq!(Failure::new(code, Some("Insufficient funds")).text(), "R01 Insufficient funds");
        assert_eq!(Failure::new(code, Some("Insufficient funds")).code(), code);
        assert_eq!(Failure("R01: old style".into()).code(), code);
        assert_eq!(Failure::new(code, None).code(), code);
        assert_eq!(Failure::new(None, Some("no route")).code(), None);
        assert_eq!(Failure::new(None, None).text(), "failed, no reason given");
    }

    #[test]
    fn statuses_and_tags_are_spelled_as_in_the_tables() {
        for status in Status::ALL {
            assert_eq!(Status::read(status.as_str()), Some(status));
        }
        assert_eq!(Status::read(INACTIVE), None, "INACTIVE is never stored");
        assert_eq!(Process::read("WEBHOOK_BALANCE"), Process::WebhookBalance);
        assert_eq!(Process::read("LEGACY").as_str(), "LEGACY");
        assert_eq!(UpdatedEvent::read("pause-resume"), UpdatedEvent::PauseResume);
    }
}
