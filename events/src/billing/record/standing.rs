//! What the membership made of a record, and the state that follows from it and from the attempts.

use super::{Closed, FailedAttempt, Pause, Payment, Record, State, Status};
use crate::billing::attempts::{Attempt, Attempts, Failed, PaymentStatus, Settled};
use crate::money::{Currency, Money};
use crate::time::{GoTime, Time};

/// What the membership made of a record, whatever the bank says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// To be collected.
    Open,
    /// Billing is paused.
    Paused {
        /// Length in months.
        months: u32,
    },
    /// Closed without a payment.
    Closed {
        /// How it was closed.
        closed_as: ClosedAs,
        /// When.
        at: Option<GoTime>,
        /// Length of the pause that it ended with, in months; 0 when there was none.
        months: u32,
    },
}

/// How a record was closed without a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClosedAs {
    /// The period was waived.
    Waived,
    /// The record was cancelled.
    Cancelled,
    /// The pause ended after the due date: the period is not billed.
    PausedSkipped,
    /// Too old to collect.
    Stale,
}

impl ClosedAs {
    /// The status of a record that was closed this way.
    #[must_use]
    pub fn status(self) -> Status {
        match self {
            Self::Waived => Status::Waived,
            Self::Cancelled => Status::Cancelled,
            Self::PausedSkipped => Status::PausedSkipped,
            Self::Stale => Status::Stale,
        }
    }
}

impl Record {
    /// Brings the state up to date with standing and attempts.
    pub fn derive_state(&mut self) {
        self.state = self.derived_state();
        if let Some(failure) = self.attempts.bar() {
            self.bar.get_or_insert_with(|| failure.text().to_owned());
        }
    }

    fn derived_state(&self) -> State {
        let due = self.plan.amount;
        let last =
            || self.attempts.latest_failure(due).map(|(attempt, failed)| failed_attempt(attempt, failed));
        if let Standing::Closed { closed_as, at, months } = &self.standing {
            let closed = Closed { at: at.clone(), last: last() };
            return match closed_as {
                ClosedAs::Waived => State::Waived(closed),
                ClosedAs::Cancelled => State::Cancelled(closed),
                ClosedAs::PausedSkipped => {
                    State::PausedSkipped(Pause { months: *months, last: last() }, closed)
                }
                ClosedAs::Stale => State::Stale(closed),
            };
        }
        match (self.attempts.payment(due), &self.standing) {
            (PaymentStatus::Paid(attempt, settled), _) => State::Completed(payment(attempt, settled.at)),
            (PaymentStatus::UnderWay(attempt), _) => State::AchSent(attempt.transaction_id.clone()),
            (PaymentStatus::Refunded(attempt, at), _) => State::Refunded(payment(attempt, at)),
            (PaymentStatus::Failed(..) | PaymentStatus::None, Standing::Paused { months }) => {
                State::Paused(Pause { months: *months, last: last() })
            }
            (PaymentStatus::Failed(attempt, failed), _) => State::Error(failed_attempt(attempt, failed)),
            (PaymentStatus::None, _) => State::Scheduled,
        }
    }

    /// The same record in that state, as a row of another writer would show it: with as many attempts as the
    /// state shows.
    #[must_use]
    pub fn in_state(mut self, state: State) -> Self {
        (self.standing, self.attempts) = of_state(&state, &self);
        self.derive_state();
        self
    }
}

fn payment(attempt: &Attempt, at: Time) -> Payment {
    Payment { transaction_id: attempt.transaction_id.clone(), at: Some(GoTime::trimmed(at)) }
}

fn failed_attempt(attempt: &Attempt, failed: &Failed) -> FailedAttempt {
    FailedAttempt { transaction_id: attempt.transaction_id.clone(), failure: failed.failure.clone() }
}

/// The standing and the attempts that the row of another writer shows.
pub(super) fn of_state(state: &State, record: &Record) -> (Standing, Attempts) {
    let updated = record.last_run_date.as_ref().or(record.initial_run_date.as_ref());
    let updated = updated.or(record.created_date.as_ref()).unwrap_or(&record.billing_date).at();
    let named =
        |id: &Option<crate::ids::TransactionId>| Attempt { transaction_id: id.clone(), ..Attempt::default() };
    let failed = |failed: &FailedAttempt| Attempt {
        returned: Some(Failed { at: updated, failure: failed.failure.clone() }),
        ..named(&failed.transaction_id)
    };
    let paid = |payment: &Payment| {
        let at = payment.at.as_ref().map_or(updated, GoTime::at);
        Attempt {
            settled: Some(Settled { at, amount: record.plan.amount, currency: Currency::USD }),
            ..named(&payment.transaction_id)
        }
    };
    let closed =
        |closed_as, closed: &Closed, months| Standing::Closed { closed_as, at: closed.at.clone(), months };
    let (standing, attempt) = match state {
        State::Scheduled => (Standing::Open, None),
        State::AchSent(id) => (Standing::Open, Some(named(id))),
        State::Completed(payment) => (Standing::Open, Some(paid(payment))),
        State::Error(failure) => (Standing::Open, Some(failed(failure))),
        State::Refunded(payment) => {
            let mut attempt = paid(payment);
            attempt.refunded = attempt.settled.as_ref().map(|settled| crate::billing::attempts::Refunded {
                at: settled.at,
                sums: vec![(Currency::USD, record.plan.amount.max(Money::ZERO))],
            });
            (Standing::Open, Some(attempt))
        }
        State::Paused(pause) => (Standing::Paused { months: pause.months }, pause.last.as_ref().map(failed)),
        State::Waived(c) => (closed(ClosedAs::Waived, c, 0), c.last.as_ref().map(failed)),
        State::Cancelled(c) => (closed(ClosedAs::Cancelled, c, 0), c.last.as_ref().map(failed)),
        State::Stale(c) => (closed(ClosedAs::Stale, c, 0), c.last.as_ref().map(failed)),
        State::PausedSkipped(pause, c) => {
            (closed(ClosedAs::PausedSkipped, c, pause.months), pause.last.as_ref().map(failed))
        }
    };
    (standing, Attempts::of_other_writer(attempt.into_iter().collect(), 0))
}
