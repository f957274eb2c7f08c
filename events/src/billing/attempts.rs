//! The attempts to collect one record, as a set.
//!
//! An attempt is one debit at the bank. Everything the bank says about it is a report with a time, and what
//! the attempt comes to is its latest report, by time and then by rank: sent, settled, returned, refunded,
//! charged back. So the order of arrival does not matter, and there is no report that comes too early: a
//! report about an unknown transaction makes that attempt known.
//!
//! [`Attempts::payment`] reads the whole set:
//!
//! | the attempts, together | payment |
//! |---|---|
//! | one stands settled, for the amount due or more, in US dollars | `Paid` |
//! | none pays, one is under way | `UnderWay` |
//! | none of these, one was refunded | `Refunded` |
//! | none of these, one failed | `Failed`, with the latest failure |
//! | no attempt | `None` |
//!
//! Money that arrived and pays for nothing is [`Attempts::unapplied`]: a second settlement, the excess of the
//! paying one, too small an amount, another currency, or any settlement of a closed record.

mod codec;

use std::cmp::Ordering;

use crate::billing::event::{AttemptName, Report, ReportKind};
use crate::billing::record::Failure;
use crate::collections::ach::Consequence;
use crate::ids::{AttemptKey, SubscriptionId, TransactionId};
use crate::money::{Currency, Money};
use crate::time::Time;

/// The attempts of one record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attempts {
    attempts: Vec<Attempt>,
    /// The highest attempt number that was ever used: a withdrawn number is not used again.
    last_number: u32,
}

/// One debit at the bank.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attempt {
    /// Its number, if this system made it: the attempt key is `{subscription}-{number}`.
    pub number: Option<u32>,
    /// The processor's id, once known.
    pub transaction_id: Option<TransactionId>,
    /// When this system last submitted it. No report: the bank may not have seen it.
    pub submitted: Option<Time>,
    /// The latest report that it was sent.
    pub sent: Option<Time>,
    /// The latest report that it settled.
    pub settled: Option<Settled>,
    /// The latest report that it was returned.
    pub returned: Option<Failed>,
    /// All reports of refunds, added up.
    pub refunded: Option<Refunded>,
    /// The latest report that it was charged back.
    pub charged_back: Option<Failed>,
    /// What an operator decided about money of this attempt that pays for nothing.
    pub resolution: Option<Resolution>,
}

/// A report of a settlement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Settled {
    /// When it settled.
    pub at: Time,
    /// How much arrived.
    pub amount: Money,
    /// In which currency.
    pub currency: Currency,
}

/// A report of a failure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failed {
    /// When it failed.
    pub at: Time,
    /// Why.
    pub failure: Failure,
}

/// The refunds of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refunded {
    /// Time of the latest refund.
    pub at: Time,
    /// The sum of all refunds, by currency.
    pub sums: Vec<(Currency, Money)>,
}

/// An operator's decision about unapplied money.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// Applied to another record.
    AppliedTo(SubscriptionId),
    /// A refund was requested at the gateway; the bank reports it when the money has gone back.
    RefundRequested,
    /// The gateway refused the refund: somebody has to decide again.
    RefundRefused,
    /// Dismissed; history has the reason.
    Dismissed,
}

/// What one attempt comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// No outcome yet.
    UnderWay,
    /// The money arrived and stayed.
    Settled,
    /// All of it went back to the member.
    Refunded,
    /// Returned or charged back.
    Failed,
}

/// What the attempts come to, together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaymentStatus<'a> {
    /// No attempt, or only money that pays for nothing.
    None,
    /// Paid by this attempt.
    Paid(&'a Attempt, &'a Settled),
    /// This attempt is under way.
    UnderWay(&'a Attempt),
    /// Paid and refunded.
    Refunded(&'a Attempt, Time),
    /// Failed, with the latest failure.
    Failed(&'a Attempt, &'a Failed),
}

/// Money that arrived and pays for nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnappliedMoney {
    /// The attempt that brought it.
    pub transaction_id: Option<TransactionId>,
    /// The attempt's number, if this system made it.
    pub number: Option<u32>,
    /// How much of it is left.
    pub amount: Money,
    /// Its currency.
    pub currency: Currency,
    /// When it settled.
    pub at: Time,
    /// Why it pays for nothing.
    pub reason: UnappliedReason,
    /// What an operator decided.
    pub resolution: Option<Resolution>,
}

impl UnappliedMoney {
    /// Whether an operator still has to decide about it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match self.resolution {
            None | Some(Resolution::RefundRefused) => true,
            Some(Resolution::AppliedTo(_) | Resolution::RefundRequested | Resolution::Dismissed) => false,
        }
    }
}

/// Why money pays for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnappliedReason {
    /// Another attempt paid the period.
    Surplus,
    /// More than the amount due.
    Excess,
    /// Less than the amount due.
    TooLittle,
    /// Not in US dollars.
    OtherCurrency,
    /// The record was closed without a payment.
    RecordClosed,
    /// No record has that id.
    UnknownRecord,
}

impl UnappliedReason {
    /// All reasons.
    pub const ALL: [Self; 6] = [
        Self::Surplus,
        Self::Excess,
        Self::TooLittle,
        Self::OtherCurrency,
        Self::RecordClosed,
        Self::UnknownRecord,
    ];

    /// The reason as it is stored and shown.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Surplus => "the period was paid by another transaction",
            Self::Excess => "more than the amount due",
            Self::TooLittle => "less than the amount due",
            Self::OtherCurrency => "not in US dollars",
            Self::RecordClosed => "the record was closed without a payment",
            Self::UnknownRecord => "no billing record has that id",
        }
    }

    /// Parses the text of [`Self::as_str`].
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

impl Attempt {
    /// What this attempt comes to: its latest report. A refund counts once all of the money went back.
    #[must_use]
    pub fn outcome(&self, due: Money) -> AttemptOutcome {
        let refunded = self.refunded.as_ref().filter(|_| self.is_refunded_whole(due)).map(|r| r.at);
        let reports = [
            (self.sent, AttemptOutcome::UnderWay),
            (self.settled.as_ref().map(|s| s.at), AttemptOutcome::Settled),
            (self.returned.as_ref().map(|r| r.at), AttemptOutcome::Failed),
            (refunded, AttemptOutcome::Refunded),
            (self.charged_back.as_ref().map(|c| c.at), AttemptOutcome::Failed),
        ];
        // The last of equal maxima wins: the reports stand in the order of their rank.
        reports
            .into_iter()
            .filter_map(|(at, outcome)| Some((at?, outcome)))
            .max_by_key(|(at, _)| *at)
            .map_or(AttemptOutcome::UnderWay, |(_, outcome)| outcome)
    }

    /// How much of the settled money, in its own currency, went back.
    #[must_use]
    pub fn refunded_amount(&self) -> Money {
        let currency = self.settled.as_ref().map_or(Currency::USD, |settled| settled.currency);
        self.refunded.as_ref().map_or(Money::ZERO, |refunded| refunded.sum(currency))
    }

    /// How much of the amount due went back. An excess goes back first: it paid for nothing.
    #[must_use]
    pub fn refunded_of(&self, due: Money) -> Money {
        let settled = self.settled.as_ref().map_or(Money::ZERO, |settled| settled.amount);
        let excess = settled.checked_sub(due).unwrap_or(Money::ZERO);
        self.refunded_amount().checked_sub(excess).unwrap_or(Money::ZERO)
    }

    fn is_refunded_whole(&self, due: Money) -> bool {
        let settled = self.settled.as_ref().map_or(due, |settled| settled.amount);
        self.refunded_amount() >= settled
    }

    /// The money that is still here: what settled, less what was refunded.
    fn net(&self) -> Money {
        let settled = self.settled.as_ref().map_or(Money::ZERO, |settled| settled.amount);
        settled.checked_sub(self.refunded_amount()).unwrap_or(Money::ZERO)
    }

    /// The latest failure of this attempt.
    fn failure(&self) -> Option<&Failed> {
        [self.returned.as_ref(), self.charged_back.as_ref()].into_iter().flatten().max_by_key(|f| f.at)
    }

    /// Whether it has neither a number nor a transaction.
    fn is_anonymous(&self) -> bool {
        self.number.is_none() && self.transaction_id.is_none()
    }

    /// A total order among attempts that does not depend on their order of arrival.
    fn identity(&self) -> (Option<u32>, Option<&str>) {
        (self.number, self.transaction_id.as_ref().map(TransactionId::as_str))
    }

    fn take(&mut self, report: &Report, at: Time) {
        match &report.kind {
            ReportKind::Sent => self.sent = self.sent.max(Some(at)),
            ReportKind::Settled { amount, currency, .. } => {
                let settled = Settled { at, amount: *amount, currency: *currency };
                self.settled = self.settled.take().max(Some(settled));
            }
            ReportKind::Returned(failure) => {
                self.returned = self.returned.take().max(Some(Failed { at, failure: failure.clone() }));
            }
            ReportKind::Refunded { amount, currency } => {
                let refund = Refunded { at, sums: vec![(*currency, *amount)] };
                self.refunded = Some(match self.refunded.take() {
                    Some(before) => before.and(refund),
                    None => refund,
                });
            }
            ReportKind::ChargedBack(failure) => {
                self.charged_back =
                    self.charged_back.take().max(Some(Failed { at, failure: failure.clone() }));
            }
        }
    }

    /// One attempt that was known under two names.
    fn merge(self, other: Self) -> Self {
        Self {
            number: self.number.or(other.number),
            transaction_id: self.transaction_id.or(other.transaction_id),
            submitted: self.submitted.max(other.submitted),
            sent: self.sent.max(other.sent),
            settled: self.settled.max(other.settled),
            returned: self.returned.max(other.returned),
            refunded: match (self.refunded, other.refunded) {
                (Some(a), Some(b)) => Some(a.and(b)),
                (a, b) => a.or(b),
            },
            charged_back: self.charged_back.max(other.charged_back),
            resolution: self.resolution.or(other.resolution),
        }
    }
}

impl Refunded {
    fn sum(&self, currency: Currency) -> Money {
        self.sums.iter().find(|(of, _)| *of == currency).map_or(Money::ZERO, |(_, sum)| *sum)
    }

    fn and(mut self, other: Self) -> Self {
        for (currency, amount) in other.sums {
            match self.sums.iter_mut().find(|(of, _)| *of == currency) {
                // A sum beyond the range of amounts is more than was ever paid, as is the larger one.
                Some((_, sum)) => *sum = sum.checked_add(amount).unwrap_or_else(|_| (*sum).max(amount)),
                None => self.sums.push((currency, amount)),
            }
        }
        self.sums.sort();
        Self { at: self.at.max(other.at), ..self }
    }
}

impl Attempts {
    /// All attempts: this system's by number, then the others by transaction.
    #[must_use]
    pub fn as_slice(&self) -> &[Attempt] {
        &self.attempts
    }

    /// How many there are: each counts as a presentment.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.attempts.len()).unwrap_or(u32::MAX)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }

    /// The number of the next attempt of this system.
    #[must_use]
    pub fn next_number(&self) -> u32 {
        self.last_number.saturating_add(1)
    }

    /// Records that this system is about to submit an attempt.
    pub fn submit(&mut self, number: u32, at: Time) {
        self.last_number = self.last_number.max(number);
        match self.attempts.iter_mut().find(|attempt| attempt.number == Some(number)) {
            Some(attempt) => attempt.submitted = attempt.submitted.max(Some(at)),
            None => self.insert(Attempt { number: Some(number), submitted: Some(at), ..Attempt::default() }),
        }
    }

    /// Forgets an attempt that was never submitted. Its number is not used again.
    pub fn withdraw(&mut self, number: u32) {
        self.attempts.retain(|attempt| attempt.number != Some(number));
    }

    /// The attempt with that number.
    #[must_use]
    pub fn numbered(&self, number: u32) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.number == Some(number))
    }

    /// The attempt with that transaction.
    #[must_use]
    pub fn of_transaction(&self, id: &TransactionId) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.transaction_id.as_ref() == Some(id))
    }

    /// Takes a report. Returns whether it changed the set.
    pub fn take(&mut self, report: &Report, at: Time, due: Money) -> bool {
        let before = self.attempts.clone();
        let mut attempt = self.claim(&report.attempt, due);
        attempt.take(report, at);
        self.insert(attempt);
        self.attempts != before
    }

    /// Makes known that two names belong to one attempt. Returns whether that is news.
    pub fn identify(&mut self, name: &AttemptName, due: Money) -> bool {
        let before = self.attempts.clone();
        let attempt = self.claim(name, due);
        self.insert(attempt);
        self.attempts != before
    }

    /// Records an operator's decision about the money of an attempt. Returns whether it is known.
    pub fn resolve(&mut self, name: &AttemptName, resolution: Resolution) -> bool {
        let known = self.attempts.iter_mut().find(|attempt| match (&name.transaction_id, name.number) {
            (Some(id), _) => attempt.transaction_id.as_ref() == Some(id),
            (None, Some(number)) => attempt.number == Some(number),
            (None, None) => attempt.is_anonymous(),
        });
        known.is_some_and(|attempt| {
            attempt.resolution = Some(resolution);
            true
        })
    }

    /// Removes the attempt that a report names from the set, or makes it known.
    fn claim(&mut self, name: &AttemptName, due: Money) -> Attempt {
        if let Some(number) = name.number {
            self.last_number = self.last_number.max(number);
        }
        let found = name
            .transaction_id
            .as_ref()
            .and_then(|id| self.position(|a| a.transaction_id.as_ref() == Some(id)))
            .map(|n| self.attempts.remove(n));
        // The number names the same attempt, unless the transaction says otherwise.
        let other_number = |found: &Attempt| found.number.is_some() && found.number != name.number;
        let numbered = name
            .number
            .filter(|_| !found.as_ref().is_some_and(other_number))
            .and_then(|number| {
                self.position(|a| {
                    a.number == Some(number) && (a.transaction_id.is_none() || name.transaction_id.is_none())
                })
            })
            .map(|n| self.attempts.remove(n));
        let number_is_free =
            name.number.filter(|number| !self.attempts.iter().any(|a| a.number == Some(*number)));
        let attempt = match (found, numbered) {
            (Some(found), Some(numbered)) => Some(found.merge(numbered)),
            (found, numbered) => found.or(numbered),
        };
        let attempt = attempt.or_else(|| {
            let n = self.unnamed(name, due)?;
            Some(self.attempts.remove(n))
        });
        let mut attempt = attempt.unwrap_or_default();
        attempt.number = attempt.number.or(number_is_free);
        attempt.transaction_id = attempt.transaction_id.or_else(|| name.transaction_id.clone());
        attempt
    }

    /// The attempt meant by a report that names none of the known ones. A named transaction is that of an
    /// anonymous attempt, if there is one. A report without any name is about the one under way, else about
    /// the only one, else about the anonymous one.
    fn unnamed(&self, name: &AttemptName, due: Money) -> Option<usize> {
        let anonymous = || self.position(Attempt::is_anonymous);
        if name.transaction_id.is_some() || name.number.is_some() {
            return anonymous();
        }
        let under_way = |a: &Attempt| a.outcome(due) == AttemptOutcome::UnderWay;
        match self.attempts.iter().filter(|a| under_way(a)).count() {
            1 => self.position(under_way),
            _ if self.attempts.len() == 1 => Some(0),
            _ => anonymous(),
        }
    }

    fn position(&self, which: impl Fn(&Attempt) -> bool) -> Option<usize> {
        self.attempts.iter().position(which)
    }

    fn insert(&mut self, attempt: Attempt) {
        self.attempts.push(attempt);
        self.attempts.sort_by(|a, b| match (a.number, b.number) {
            (Some(a), Some(b)) => a.cmp(&b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => a.transaction_id.cmp(&b.transaction_id),
        });
    }

    /// What the attempts come to for a record with that amount due.
    #[must_use]
    pub fn payment(&self, due: Money) -> PaymentStatus<'_> {
        let with = |outcome| self.attempts.iter().filter(move |a| a.outcome(due) == outcome);
        if let Some((attempt, settled)) = self.paying(due) {
            return PaymentStatus::Paid(attempt, settled);
        }
        if let Some(attempt) =
            with(AttemptOutcome::UnderWay).max_by(|a, b| (a.sent, a.identity()).cmp(&(b.sent, b.identity())))
        {
            return PaymentStatus::UnderWay(attempt);
        }
        if let Some((attempt, at)) = with(AttemptOutcome::Refunded)
            .filter_map(|a| Some((a, a.refunded.as_ref()?.at)))
            .max_by(|(a, x), (b, y)| (x, a.identity()).cmp(&(y, b.identity())))
        {
            return PaymentStatus::Refunded(attempt, at);
        }
        self.latest_failure(due)
            .map_or(PaymentStatus::None, |(attempt, failed)| PaymentStatus::Failed(attempt, failed))
    }

    /// The settled attempt that pays: the first to settle of those that bring the amount due in US dollars.
    fn paying(&self, due: Money) -> Option<(&Attempt, &Settled)> {
        self.standing_settled(due)
            .filter(|(_, settled)| settled.currency == Currency::USD && settled.amount >= due)
            .min_by(|(a, x), (b, y)| (x.at, a.identity()).cmp(&(y.at, b.identity())))
    }

    fn standing_settled(&self, due: Money) -> impl Iterator<Item = (&Attempt, &Settled)> {
        self.attempts
            .iter()
            .filter(move |a| a.outcome(due) == AttemptOutcome::Settled)
            .filter_map(|a| Some((a, a.settled.as_ref()?)))
    }

    /// The latest failure among the attempts that came to one.
    #[must_use]
    pub fn latest_failure(&self, due: Money) -> Option<(&Attempt, &Failed)> {
        self.attempts
            .iter()
            .filter(|a| a.outcome(due) == AttemptOutcome::Failed)
            .filter_map(|a| Some((a, a.failure()?)))
            .max_by(|(a, x), (b, y)| (x.at, a.identity()).cmp(&(y.at, b.identity())))
    }

    /// The attempt of this system that may or may not have reached the gateway.
    #[must_use]
    pub fn in_doubt(&self, due: Money) -> Option<&Attempt> {
        self.attempts.iter().find(|a| {
            a.number.is_some() && a.transaction_id.is_none() && a.outcome(due) == AttemptOutcome::UnderWay
        })
    }

    /// Why the member is barred: an unauthorised return or a chargeback, whatever came after it.
    #[must_use]
    pub fn bar(&self) -> Option<&Failure> {
        let bars = |failed: &&Failed| failed.failure.consequence() == Some(Consequence::Bar);
        let charged_back = self.attempts.iter().filter_map(|a| a.charged_back.as_ref());
        let unauthorised = self.attempts.iter().filter_map(|a| a.returned.as_ref()).filter(bars);
        charged_back.chain(unauthorised).min_by_key(|failed| failed.at).map(|failed| &failed.failure)
    }

    /// The money that pays for nothing, resolved or not.
    #[must_use]
    pub fn unapplied(&self, due: Money, is_closed: bool) -> Vec<UnappliedMoney> {
        let paying = if is_closed { None } else { self.paying(due).map(|(attempt, _)| attempt.identity()) };
        self.standing_settled(due)
            .filter_map(|(attempt, settled)| {
                let pays = paying == Some(attempt.identity());
                let (amount, reason) = if pays {
                    (attempt.net().checked_sub(due).unwrap_or(Money::ZERO), UnappliedReason::Excess)
                } else if is_closed {
                    (attempt.net(), UnappliedReason::RecordClosed)
                } else if settled.currency != Currency::USD {
                    (attempt.net(), UnappliedReason::OtherCurrency)
                } else if settled.amount < due {
                    (attempt.net(), UnappliedReason::TooLittle)
                } else {
                    (attempt.net(), UnappliedReason::Surplus)
                };
                (amount > Money::ZERO).then(|| UnappliedMoney {
                    transaction_id: attempt.transaction_id.clone(),
                    number: attempt.number,
                    amount,
                    currency: settled.currency,
                    at: settled.at,
                    reason,
                    resolution: attempt.resolution.clone(),
                })
            })
            .collect()
    }
}

impl AttemptName {
    /// The name of an attempt of this system.
    #[must_use]
    pub fn numbered(number: u32) -> Self {
        Self { transaction_id: None, number: Some(number) }
    }

    /// The name that a report carries: the processor's id, and the key if it is one of this record's.
    #[must_use]
    pub fn reported(
        subscription: &SubscriptionId,
        transaction_id: Option<TransactionId>,
        payment_id: Option<&str>,
    ) -> Self {
        Self {
            transaction_id,
            number: payment_id.and_then(|id| AttemptKey::from(id).number_of(subscription)),
        }
    }
}
