//! What can happen to one billing record.

use std::borrow::Cow;

use crate::ids::{AttemptKey, EventId, SubscriptionId, TransactionId};
use crate::item::Item;
use crate::record::{Failure, Plan, Process, Receipt};
use crate::stamp::Stamp;
use crate::time::Time;

/// A fact about one record, with what history needs to tell of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The identity of the fact.
    pub id: EventId,
    /// When it occurred: the key of its history row comes from here, never from the clock.
    pub at: Time,
    /// Where it came from and what it was, such as `site-payments SUBSCRIPTION_COMPLETED`.
    pub source: Cow<'static, str>,
    /// What happened.
    pub happening: Happening,
    /// The process that the record will name; `None` keeps the one it has.
    pub process: Option<Process>,
    /// How records remember it.
    pub stamp: Stamp,
    /// `data_` attributes for the history row.
    pub data: Item,
}

/// What happened. The first twelve are the columns of the state table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// A debit was submitted.
    Sent {
        /// Its confirmation.
        transaction_id: Option<TransactionId>,
        /// Set when it was made here: the gateway is called after this is on record.
        key: Option<AttemptKey>,
    },
    /// The processor collected without a settlement to wait for.
    CollectedAtOnce(Paid),
    /// The debit failed or was returned.
    Failed {
        /// Which debit.
        transaction_id: Option<TransactionId>,
        /// Why.
        failure: Failure,
    },
    /// The money arrived.
    Settled(Paid),
    /// The money went back to the member.
    Refunded {
        /// Which debit.
        transaction_id: Option<TransactionId>,
    },
    /// The member's bank took the money back.
    ChargedBack {
        /// Which debit.
        transaction_id: Option<TransactionId>,
        /// Why.
        failure: Failure,
    },
    /// The member paused billing.
    Paused {
        /// For how many months, 1 to 12.
        months: u32,
    },
    /// The member resumed.
    Unpaused,
    /// The pause ran out.
    PauseExpired,
    /// The period was forgiven.
    Waived,
    /// The record was cancelled.
    Cancelled,
    /// The record is past the age at which dues are still collected.
    TooOld,

    /// The gateway answered an attempt that was made here.
    Answered {
        /// Which attempt.
        key: AttemptKey,
        /// What it said.
        answer: Answer,
    },
    /// The pause is about to end.
    PauseEnding,
    /// The member was reminded of the due date.
    DueSoon,
    /// The open record takes another plan now.
    PlanChanged(Plan),
    /// The next record shall take another plan.
    DowngradeRequested(Plan),
    /// The member leaves.
    CancelRequested(CancelTime),
    /// The member stays after all.
    CancelRetracted,
    /// A reactivation put another record in this one's place.
    Superseded(SubscriptionId),
    /// The record came into being.
    Created,
    /// Nothing changes, and history says why.
    Noted(Ignored),
}

/// When a requested cancellation takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CancelTime {
    /// When what was paid for ends.
    PeriodEnd,
    /// As soon as no money is in flight.
    Now,
}

/// What a payment gateway says to a debit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is on its way; the outcome comes as a settlement.
    Accepted {
        /// Its confirmation, which settlements will name.
        transaction_id: TransactionId,
    },
    /// The money is there.
    Collected(Paid),
    /// There is no debit.
    Refused {
        /// Its confirmation, if it got as far as that.
        transaction_id: Option<TransactionId>,
        /// Why.
        failure: Failure,
    },
}

/// A payment that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paid {
    /// Its confirmation.
    pub transaction_id: Option<TransactionId>,
    /// How it was paid.
    pub receipt: Receipt,
}

/// Why an event that was understood changes nothing. History says so in its `outcome`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ignored {
    /// It speaks of a transaction before the record's current one.
    OldAttempt,
    /// It tells again of a payment that the record already counts.
    AlreadySettled,
    /// It tells again of an attempt that has failed since.
    AttemptKnown,
    /// A notification of change: the payment itself stands.
    NotificationOfChange,
    /// A membership that is active cannot be activated again.
    AlreadyActive,
    /// There is no open record that it could concern.
    NothingOpen,
    /// Nothing is paused.
    NotPaused,
    /// No cancellation is pending.
    NoPendingCancel,
    /// The membership has begun anew since.
    OlderMembership,
    /// The record is there already.
    AlreadyThere,
    /// The gateway was asked, and what it did is not known.
    AnswerUnknown,
}

impl Ignored {
    /// The reason in words.
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

/// What the `source` of an event begins with that this program makes itself.
pub const OWN_SOURCE: &str = "dues ";

impl Event {
    /// An event that this program makes itself, with a name that any of its makers would give it.
    #[must_use]
    pub fn own(id: EventId, at: Time, source: &'static str, happening: Happening) -> Self {
        let stamp = Stamp::new(&id, &[]);
        Self { id, at, source: source.into(), happening, process: None, stamp, data: Item::new() }
    }

    /// An event that one worker makes at a moment of its own. Two workers that make the same one at once make different ones under
    /// one id: a record takes only the first.
    #[must_use]
    pub fn made(id: EventId, at: Time, source: &'static str, process: Option<Process>, happening: Happening) -> Self {
        let stamp = Stamp::new(&id, &[&at.to_rfc3339(), process.as_ref().map_or("", Process::as_str)]);
        Self { id, at, source: source.into(), happening, process, stamp, data: Item::new() }
    }
}
