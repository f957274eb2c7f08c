//! The events of a billing record.

use std::borrow::Cow;

use crate::billing::idempotency::IdempotencyToken;
use crate::billing::record::{Failure, Plan, Process, Receipt};
use crate::ids::{AttemptKey, EventId, SubscriptionId, TransactionId};
use crate::item::Item;
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
}

/// What happened. The first twelve variants are the columns of the state table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// A debit was submitted.
    Sent {
        /// Its transaction id.
        transaction_id: Option<TransactionId>,
        /// Set for an attempt of this system; the gateway is called after this event is committed.
        key: Option<AttemptKey>,
    },
    /// The processor collected immediately, without a later settlement.
    CollectedAtOnce(Paid),
    /// The debit failed or was returned.
    Failed {
        /// The debit's transaction id.
        transaction_id: Option<TransactionId>,
        /// Why it failed.
        failure: Failure,
    },
    /// The debit settled.
    Settled(Paid),
    /// The payment was refunded to the member.
    Refunded {
        /// The debit's transaction id.
        transaction_id: Option<TransactionId>,
    },
    /// The member's bank reversed a settled debit.
    ChargedBack {
        /// The debit's transaction id.
        transaction_id: Option<TransactionId>,
        /// Why it was reversed.
        failure: Failure,
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

    /// The gateway answered an attempt of this system.
    Answered {
        /// Key of the attempt.
        key: AttemptKey,
        /// The gateway's answer.
        answer: Answer,
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
    /// The record was created.
    Created,
    /// Nothing changes; history records why.
    NoChange(Ignored),
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
    /// It names a transaction before the record's current one.
    OldAttempt,
    /// It repeats a payment that the record already counts.
    AlreadySettled,
    /// It repeats an attempt that has failed since.
    AttemptKnown,
    /// A notification of change: the payment remains valid.
    NotificationOfChange,
    /// The membership is already active.
    AlreadyActive,
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
}

impl Ignored {
    /// The reason as text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OldAttempt => "old attempt",
            Self::AlreadySettled => "already settled",
            Self::AttemptKnown => "attempt already known",
            Self::NotificationOfChange => "notification of change",
            Self::AlreadyActive => "already active",
            Self::NothingOpen => "nothing open",
            Self::NotPaused => "not paused",
            Self::NoPendingCancel => "no cancellation pending",
            Self::OlderMembership => "membership began anew since",
            Self::AlreadyThere => "already there",
            Self::AnswerUnknown => "the gateway's answer is not known",
        }
    }
}

/// Prefix of `source` for events created by this program.
pub const OWN_SOURCE_PREFIX: &str = "dues ";

impl Event {
    /// An event of this program with a deterministic id: every creator produces the same event.
    #[must_use]
    pub fn internal(id: EventId, at: Time, source: &'static str, kind: EventKind) -> Self {
        let token = IdempotencyToken::new(&id, &[]);
        Self { id, at, source: source.into(), kind, process: None, token, data: Item::new() }
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
        Self { id, at, source: source.into(), kind, process, token, data: Item::new() }
    }
}
