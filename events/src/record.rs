//! The billing record: one billing period of one user, from the moment it is scheduled to its end.

mod items;
mod names;
mod status;

use crate::ach::ReturnCode;
use crate::calendar::{BillingWeek, Schedule, Term, billing_period};
use crate::ids::{AttemptKey, SubscriptionId, TransactionId, UserId};
use crate::item::Item;
use crate::money::Money;
use crate::stamp::Applied;
use crate::time::{GoTime, Time};

pub use items::{APPLIED_OUTCOME, History, ReadError};
pub use names::{Process, Provider, TierName, UpdatedEvent};
pub use status::Status;

/// A billing record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Whose.
    pub user_id: UserId,
    /// When it falls due; the sort key, kept as it was read.
    pub billing_date: GoTime,
    /// Its UUID.
    pub subscription_id: SubscriptionId,
    /// What is charged and for which tier.
    pub plan: Plan,
    /// How often.
    pub term: Term,
    /// Set for Friday billing.
    pub billing_week: Option<BillingWeek>,
    /// Where it stands, with what only that state knows.
    pub state: State,
    /// What last updated it.
    pub process: Process,
    /// Tag of the latest lifecycle update.
    pub updated_event: Option<UpdatedEvent>,
    /// When it was created.
    pub created_date: Option<GoTime>,
    /// The first attempt.
    pub initial_run_date: Option<GoTime>,
    /// The latest update: the key of the history row that tells of it.
    pub last_run_date: Option<GoTime>,
    /// How it was paid, for the receipt.
    pub receipt: Receipt,
    /// The date that due dates are counted from; older writers' rows have none and count from their own date.
    pub anchor: Option<GoTime>,
    /// When the membership began that this record belongs to.
    pub member_since: Option<GoTime>,
    /// Where the user signs in.
    pub provider: Option<Provider>,
    /// How many debits were sent.
    pub attempts: u32,
    /// The key under which the latest attempt was made here; none when another service made it.
    pub attempt_key: Option<AttemptKey>,
    /// The due date that the member was reminded of.
    pub due_notice: Option<GoTime>,
    /// Confirmations of the attempts before the current one.
    pub earlier: Vec<TransactionId>,
    /// The following period's record, once this one has been attempted.
    pub next: Option<SubscriptionId>,
    /// A cancellation that takes effect then.
    pub cancel_at: Option<GoTime>,
    /// The plan that a downgrade leads to when the next record is made.
    pub downgrade: Option<Plan>,
    /// Why the user may not be debited any more.
    pub bar: Option<String>,
    /// The record that a reactivation put in this one's place.
    pub superseded_by: Option<SubscriptionId>,
    /// Set while an administrator's move to another due date is under way: where the record is going.
    pub moved_to: Option<GoTime>,
    /// How often it was committed; 0 for a row that only older writers touched.
    pub version: u64,
    /// The events it has taken.
    pub applied: Applied,
    /// `data_` attributes: written to history, never to the primary table.
    pub data: Item,
    /// Attributes of other writers that this program does not know: kept as they are.
    pub extra: Item,
}

/// A state and what only it knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Waits for its first attempt (or, after a pause, for its next).
    Scheduled(Option<FailedAttempt>),
    /// A debit is under way.
    AchSent(Option<TransactionId>),
    /// Paid.
    Completed(Payment),
    /// The latest attempt failed.
    Error(FailedAttempt),
    /// Forgiven.
    Waived(Closed),
    /// Cancelled before it was paid.
    Cancelled(Closed),
    /// Billing rests.
    Paused(Pause),
    /// The pause ran out; the next record took over.
    PausedSkipped(Pause, Closed),
    /// Paid, and paid back.
    Refunded(Payment),
    /// Too old to collect.
    Stale(Closed),
}

/// What a failed attempt left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedAttempt {
    /// Which debit.
    pub transaction_id: Option<TransactionId>,
    /// Why it failed.
    pub failure: Failure,
}

/// A payment that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// The confirmation.
    pub transaction_id: Option<TransactionId>,
    /// When the record was closed.
    pub at: Option<GoTime>,
}

/// How a record was closed without a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// When.
    pub at: Option<GoTime>,
    /// What the latest attempt had left, if there was one.
    pub last: Option<FailedAttempt>,
}

/// A pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// For how many months.
    pub months: u32,
    /// What the latest attempt had left, if there was one.
    pub last: Option<FailedAttempt>,
}

/// Why an attempt failed: `usio_error`, kept as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(String);

impl Failure {
    /// From a return code and a message, either of which may be missing.
    #[must_use]
    pub fn new(code: Option<ReturnCode>, message: Option<&str>) -> Self {
        Self(match (code, message.filter(|m| !m.is_empty())) {
            (Some(code), Some(message)) => format!("{code} {message}"),
            (Some(code), None) => code.to_string(),
            (None, Some(message)) => message.to_owned(),
            (None, None) => "failed, no reason given".to_owned(),
        })
    }

    /// As it stands in `usio_error`.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The return code that it starts with.
    #[must_use]
    pub fn code(&self) -> Option<ReturnCode> {
        self.0.split([' ', ':']).next().and_then(ReturnCode::read)
    }
}

/// What a reader is told of a user without an active subscription.
pub const INACTIVE: &str = "INACTIVE";

/// The status that answers for a user: that of the newest record which still counts, else `INACTIVE`.
#[must_use]
pub fn membership_status<'a>(records: impl IntoIterator<Item = &'a Record>) -> &'static str {
    records.into_iter().filter(|r| r.is_active()).max_by_key(|r| r.billing_date.at()).map_or(INACTIVE, |r| r.status().as_str())
}

impl State {
    /// The status that stands for it in the tables.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Scheduled(_) => Status::Scheduled,
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

    /// What the latest failed attempt left, where the state still remembers one.
    #[must_use]
    pub fn last_failure(&self) -> Option<&FailedAttempt> {
        match self {
            Self::Error(failed) => Some(failed),
            Self::Scheduled(last) => last.as_ref(),
            Self::Paused(pause) | Self::PausedSkipped(pause, _) => pause.last.as_ref(),
            Self::Waived(closed) | Self::Cancelled(closed) | Self::Stale(closed) => closed.last.as_ref(),
            Self::AchSent(_) | Self::Completed(_) | Self::Refunded(_) => None,
        }
    }

    /// The confirmation of the latest attempt.
    #[must_use]
    pub fn transaction_id(&self) -> Option<&TransactionId> {
        match self {
            Self::AchSent(transaction) => transaction.as_ref(),
            Self::Completed(payment) | Self::Refunded(payment) => payment.transaction_id.as_ref(),
            Self::Scheduled(_)
            | Self::Error(_)
            | Self::Waived(_)
            | Self::Cancelled(_)
            | Self::Paused(_)
            | Self::PausedSkipped(..)
            | Self::Stale(_) => self.last_failure().and_then(|failed| failed.transaction_id.as_ref()),
        }
    }

    /// When it was closed, for states that close a record.
    #[must_use]
    pub fn closed_at(&self) -> Option<&GoTime> {
        match self {
            Self::Completed(payment) | Self::Refunded(payment) => payment.at.as_ref(),
            Self::Waived(closed) | Self::Cancelled(closed) | Self::PausedSkipped(_, closed) | Self::Stale(closed) => closed.at.as_ref(),
            Self::Scheduled(_) | Self::AchSent(_) | Self::Error(_) | Self::Paused(_) => None,
        }
    }

    /// How long the pause is, 0 when there is none.
    #[must_use]
    pub fn pause_months(&self) -> u32 {
        match self {
            Self::Paused(pause) | Self::PausedSkipped(pause, _) => pause.months,
            Self::Scheduled(_)
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
    /// The status of its state.
    #[must_use]
    pub fn status(&self) -> Status {
        self.state.status()
    }

    /// Still to be collected: SCHEDULED, ERROR or PAUSED. (ACHSENT is money in flight.)
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Scheduled(_) | State::Error(_) | State::Paused(_))
    }

    /// The attempt whose answer is not known: it was meant to be made here, and nobody has written down what the gateway said.
    #[must_use]
    pub fn in_doubt(&self) -> Option<&AttemptKey> {
        match &self.state {
            State::AchSent(None) => self.attempt_key.as_ref(),
            State::AchSent(Some(_))
            | State::Scheduled(_)
            | State::Completed(_)
            | State::Error(_)
            | State::Waived(_)
            | State::Cancelled(_)
            | State::Paused(_)
            | State::PausedSkipped(..)
            | State::Refunded(_)
            | State::Stale(_) => None,
        }
    }

    /// Whether it makes its user an active member: open, in flight, or paid.
    #[must_use]
    pub fn is_active(&self) -> bool {
        (self.is_open() && self.superseded_by.is_none()) || matches!(self.state, State::AchSent(_) | State::Completed(_))
    }

    /// The due dates of its membership.
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        let anchor = self.anchor.as_ref().unwrap_or(&self.billing_date).at();
        Schedule { anchor, term: self.term, week: self.billing_week }
    }

    /// When its membership began, as well as can be told.
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

/// What a membership costs and gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What is charged for a period.
    pub amount: Money,
    /// Which tier.
    pub tier: TierName,
}

/// How a record was paid, for the receipt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Receipt {
    /// Last four digits of the account.
    pub account_mask: String,
    /// Such as `ACH`.
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
    fn failures_tell_their_code() {
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
