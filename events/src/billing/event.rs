//! The events of a billing record.

use std::borrow::Cow;

use crate::attributes::DATA_ACTOR;
use crate::billing::attempts::Resolution;
use crate::billing::idempotency::IdempotencyToken;
use crate::billing::membership::NewMembership;
use crate::billing::record::{Failure, Plan, Process, Receipt, Record};
use crate::ids::{EventId, SubscriptionId, TransactionId};
use crate::item::Item;
use crate::money::{Currency, Money};
use crate::time::Time;

/// A fact about one record, with the data that its history row needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Identifies the fact.
    pub id: EventId,
    /// When it occurred. The key of its history row derives from this, never from the clock.
    pub at: Time,
    /// Source and type, such as `site-payments SUBSCRIPTION_COMPLETED`.
    pub source: Cow<'static, str>,
    /// What happened.
    pub kind: EventKind,
    /// The process to write to the record; `None` keeps the current one.
    pub process: Option<Process>,
    /// Its idempotency token.
    pub token: IdempotencyToken,
    /// `data_` attributes for the history row.
    pub data: Item,
    /// The first step of a change of several records carries the whole change, as on its stream: the next
    /// reader completes it before anything else.
    pub begins: Option<Box<str>>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// The bank reported on an attempt. Taken in every state: arrival order does not matter.
    Reported(Report),

    /// This system is about to submit its attempt with that number, or to submit it again.
    Intended {
        /// The attempt's number.
        number: u32,
    },
    /// The attempt was withdrawn before it was submitted, and counts for nothing.
    Withdrawn {
        /// The attempt's number.
        number: u32,
    },
    /// The gateway answered an attempt of this system.
    Answered {
        /// The attempt's number.
        number: u32,
        /// The gateway's answer.
        answer: Answer,
    },
    /// The amount is zero: completed without a debit.
    Free,
    /// A new account of the member is on file.
    NewAccount,
    /// An operator decided what becomes of money that pays for nothing.
    MoneyResolved {
        /// The attempt that brought the money.
        attempt: AttemptName,
        /// The decision.
        resolution: Resolution,
    },

    /// The member paused billing.
    Paused {
        /// Length in months, 1 to 12.
        months: u32,
    },
    /// The member resumed billing.
    Unpaused,
    /// The pause expired.
    PauseExpired,
    /// The period was waived.
    Waived,
    /// The record was cancelled.
    Cancelled,
    /// The record is older than the age limit of collection.
    TooOld,
    /// The record falls due on another date.
    Moved {
        /// The new due date.
        to: Time,
    },

    /// The pause ends soon.
    PauseEnding,
    /// The member was reminded of the due date.
    DueSoon,
    /// The open record changes its plan now.
    PlanChanged(Plan),
    /// The next record is to have another plan.
    DowngradeRequested(Plan),
    /// The member requested cancellation.
    CancelRequested(CancelTime),
    /// The member retracted the cancellation.
    CancelRetracted,
    /// A reactivation replaced this record with another.
    Superseded(SubscriptionId),
    /// A change of several records is complete.
    ChangeCompleted,
    /// The record was created.
    Created(Creation),
    /// An administrator wrote the record, as given.
    Replaced(Box<Record>),
    /// Nothing changes; history records why.
    NoChange(Ignored),
}

/// How a record came to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Creation {
    /// A membership began, or began again, on these terms.
    Began(Box<NewMembership>),
    /// It follows this record of the period before.
    NextOf(SubscriptionId),
    /// It was taken over from elsewhere, as given.
    Imported(Box<Record>),
}

/// What the bank said about an attempt; its time is the event's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The attempt it is about.
    pub attempt: AttemptName,
    /// What was reported.
    pub kind: ReportKind,
}

/// The names by which a report knows its attempt. Without any, it is about the one under way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttemptName {
    /// The processor's id.
    pub transaction_id: Option<TransactionId>,
    /// The number, for an attempt of this system.
    pub number: Option<u32>,
}

/// A report, in the order of rank for reports of the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportKind {
    /// The debit was sent.
    Sent,
    /// The debit settled.
    Settled {
        /// How much arrived.
        amount: Money,
        /// In which currency.
        currency: Currency,
        /// Receipt data.
        receipt: Receipt,
    },
    /// The debit failed or was returned.
    Returned(Failure),
    /// Some or all of the money went back to the member.
    Refunded {
        /// How much went back.
        amount: Money,
        /// In which currency.
        currency: Currency,
    },
    /// The member's bank reversed a settled debit.
    ChargedBack(Failure),
}

/// When a requested cancellation takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CancelTime {
    /// At the end of the paid period.
    PeriodEnd,
    /// As soon as no money is in flight.
    Now,
}

/// A payment gateway's answer to a debit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Accepted; a settlement reports the outcome.
    Accepted {
        /// Its transaction id, which settlements name.
        transaction_id: TransactionId,
    },
    /// Collected immediately.
    Collected(Paid),
    /// Refused: there is no debit.
    Refused {
        /// Its transaction id, if one was assigned.
        transaction_id: Option<TransactionId>,
        /// Why it was refused.
        failure: Failure,
    },
}

/// A payment that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paid {
    /// Its transaction id.
    pub transaction_id: Option<TransactionId>,
    /// Receipt data.
    pub receipt: Receipt,
}

/// Why an event changes nothing; written to `outcome` in history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ignored {
    /// It repeats a report, or an older one than the record knows.
    ReportKnown,
    /// Older rows of this program: a notification of change, which is now kept on the record.
    NotificationOfChange,
    /// The membership is already active.
    AlreadyActive,
    /// Billing is paused already.
    AlreadyPaused,
    /// No open record is affected.
    NothingOpen,
    /// No record is paused.
    NotPaused,
    /// No cancellation is pending.
    NoPendingCancel,
    /// A newer membership has begun since.
    OlderMembership,
    /// The record already exists.
    AlreadyThere,
    /// The gateway was called, and the result is not known.
    AnswerUnknown,
    /// The cause of the event no longer holds.
    NoLongerTrue,
    /// An operator requested a refund; the bank reports it when the money has gone back.
    RefundRequested,
}

impl Ignored {
    /// Every reason.
    pub const ALL: [Self; 12] = [
        Self::ReportKnown,
        Self::NotificationOfChange,
        Self::AlreadyActive,
        Self::AlreadyPaused,
        Self::NothingOpen,
        Self::NotPaused,
        Self::NoPendingCancel,
        Self::OlderMembership,
        Self::AlreadyThere,
        Self::AnswerUnknown,
        Self::NoLongerTrue,
        Self::RefundRequested,
    ];

    /// Parses the text of [`Self::as_str`].
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }

    /// The reason as text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReportKnown => "the report says nothing new",
            Self::NotificationOfChange => "notification of change",
            Self::AlreadyActive => "already active",
            Self::AlreadyPaused => "already paused",
            Self::NothingOpen => "nothing open",
            Self::NotPaused => "not paused",
            Self::NoPendingCancel => "no cancellation pending",
            Self::OlderMembership => "membership began anew since",
            Self::AlreadyThere => "already there",
            Self::RefundRequested => "refund requested",
            Self::NoLongerTrue => "no longer true",
            Self::AnswerUnknown => "the gateway's answer is not known",
        }
    }
}

/// Prefix of `source` for events created by this program.
pub const OWN_SOURCE_PREFIX: &str = "dues ";

impl Event {
    /// The same event, with the person who acted.
    #[must_use]
    pub fn by(mut self, actor: Option<&str>) -> Self {
        if let Some(actor) = actor {
            self.data.set_text(DATA_ACTOR, actor);
        }
        self
    }

    /// An event of this program with a deterministic id: every creator produces the same event.
    #[must_use]
    pub fn internal(id: EventId, at: Time, source: &'static str, kind: EventKind) -> Self {
        let token = IdempotencyToken::new(&id, &[]);
        Self { id, at, source: source.into(), kind, process: None, token, data: Item::new(), begins: None }
    }

    /// An event that depends on the creating worker's time and process. Two workers that create it
    /// concurrently produce different content under one id, and a record takes only the first.
    #[must_use]
    pub fn internal_at(
        id: EventId,
        at: Time,
        source: &'static str,
        process: Option<Process>,
        kind: EventKind,
    ) -> Self {
        let token =
            IdempotencyToken::new(&id, &[&at.to_rfc3339(), process.as_ref().map_or("", Process::as_str)]);
        Self { id, at, source: source.into(), kind, process, token, data: Item::new(), begins: None }
    }
}
