//! Follow-ups of a changed record. They derive from the record alone, so after a crash a redelivery,
//! another event or the sweeper completes the same writes.

use chrono::{Months, NaiveTime, TimeDelta};

use crate::billing::attempts::Attempts;
use crate::billing::event::{Creation, Event, EventKind};
use crate::billing::idempotency::Applied;
use crate::billing::record::{ClosedAs, Pause, Process, Receipt, Record, Standing, State};
use crate::calendar::{Term, billing_period};
use crate::ids::SubscriptionId;
use crate::item::Item;
use crate::time::{GoTime, Time};

/// A write that must follow from a record's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Followup {
    /// Create the next period's record, unless it exists.
    CreateNext(Box<Record>, Box<Event>),
    /// Apply an event that waited for a debit in flight.
    Apply(Box<Event>),
}

/// The follow-ups of a record: the next period's record if it names one, and a cancellation that waited for
/// its debit.
///
/// The caller knows the user's other records and skips follow-ups that are already done.
#[must_use]
pub fn followups(record: &Record) -> Vec<Followup> {
    let mut owed = Vec::new();
    // The membership that superseded it goes on in its own records.
    let next = next_record(record).filter(|_| record.superseded_by.is_none());
    if let (Some(id), Some(next)) = (&record.next, next) {
        // Slightly after its cause, so that its history row has a key of its own. Every creator finds that
        // key free or holding this same row.
        let at = next.created_date.as_ref().map_or(next.billing_date.at(), GoTime::at)
            + TimeDelta::microseconds(1);
        let event = Event::internal(
            format!("next:{}", record.subscription_id).into(),
            at,
            "dues next-period",
            EventKind::Created(Creation::NextOf(record.subscription_id.clone())),
        );
        // An administrator may have moved this record since: keep the id that it names.
        let next = Record { subscription_id: id.clone(), ..next };
        owed.push(Followup::CreateNext(Box::new(next), Box::new(event)));
    }
    if let (State::Scheduled | State::Error(_) | State::Paused(_), Some(updated)) =
        (&record.state, &record.last_run_date)
    {
        let cancelled = |id: String, source| {
            Followup::Apply(Box::new(Event::internal(id.into(), updated.at(), source, EventKind::Cancelled)))
        };
        if let Some(cancel_at) = record.cancel_at.as_ref().filter(|cancel_at| cancel_at.at() <= updated.at())
        {
            let id = format!("cancel:{}:{}", record.subscription_id, cancel_at.text());
            owed.push(cancelled(id, "dues deferred-cancel"));
        } else if let (Some(by), None) = (&record.superseded_by, record.state.last_failure()) {
            // Its debit was in flight when another record replaced it, and was withdrawn.
            owed.push(cancelled(format!("superseded:{}:{by}", record.subscription_id), "dues superseded"));
        }
    }
    owed
}

/// The following period's record: a pure function of this one, including its id.
#[must_use]
pub fn next_record(record: &Record) -> Option<Record> {
    let made_at = record.initial_run_date.as_ref().or(record.state.closed_at())?.at();
    let schedule = record.schedule();
    // The period that it bills, wherever it was moved to; the next one is never due before it.
    let period = record.scheduled_date().at();
    let due_since = period.max(record.billing_date.at());
    let (anchor, due) = match (&record.standing, record.term) {
        // A monthly membership continues with the first due date on or after the day of resuming.
        (Standing::Closed { closed_as: ClosedAs::PausedSkipped, .. }, Term::Monthly) => {
            let day = resumed_on(record)?.date_naive().and_time(NaiveTime::MIN).and_utc();
            (schedule.anchor, schedule.from_in_later_period(day, period)?)
        }
        // A yearly membership would lose a year that way: its due dates are counted from the day of resuming.
        (Standing::Closed { closed_as: ClosedAs::PausedSkipped, .. }, Term::Yearly) => {
            // Counted from its own anchor it would have this record's id.
            let resumed = resumed_on(record)?.max(schedule.anchor + TimeDelta::seconds(1));
            (resumed, resumed)
        }
        // What was missed meanwhile is not billed.
        (
            Standing::Closed { closed_as: ClosedAs::Stale, at: Some(closed_at), .. },
            Term::Monthly | Term::Yearly,
        ) => (schedule.anchor, schedule.from_in_later_period(closed_at.at(), period)?),
        (
            Standing::Open | Standing::Paused { .. } | Standing::Closed { .. },
            Term::Monthly | Term::Yearly,
        ) => (schedule.anchor, schedule.from_in_later_period(due_since, period)?),
    };
    let since = record.since().unwrap_or(schedule.anchor);
    Some(Record {
        user_id: record.user_id.clone(),
        billing_date: GoTime::trimmed(due),
        subscription_id: SubscriptionId::of_period(&record.user_id, since, anchor, &billing_period(due)),
        plan: record.downgrade.clone().unwrap_or_else(|| record.plan.clone()),
        term: record.term,
        billing_week: record.billing_week,
        standing: record.pause_passed_on.map_or(Standing::Open, |months| Standing::Paused { months }),
        attempts: Attempts::default(),
        state: record
            .pause_passed_on
            .map_or(State::Scheduled, |months| State::Paused(Pause { months, last: None })),
        process: Process::Initial,
        updated_event: None,
        created_date: Some(GoTime::trimmed(made_at)),
        initial_run_date: None,
        last_run_date: Some(GoTime::nine_digits(made_at)),
        receipt: Receipt::default(),
        anchor: Some(GoTime::trimmed(anchor)),
        member_since: Some(GoTime::trimmed(since)),
        provider: record.provider,
        due_notice: None,
        next: None,
        cancel_at: record.cancel_at.clone(),
        downgrade: None,
        bar: record.bar.clone(),
        correction: record.correction,
        superseded_by: None,
        pending_change: None,
        pause_passed_on: None,
        original_due_date: None,
        moved_to: None,
        version: 0,
        applied: Applied::default(),
        chain: None,
        data: Item::new(),
        extra: Item::new(),
    })
}

/// Names the next period's record, unless one is named already or this record is superseded.
pub(super) fn with_next(mut record: Record) -> Record {
    if record.next.is_none() && record.superseded_by.is_none() {
        record.next = next_record(&record).map(|next| next.subscription_id);
    }
    record
}

/// The end of the member's paid time, seen from this record. A record that waits for its first attempt
/// bills the time after its due date; an attempted one covers the time up to the next due date, unless it was
/// paid ahead of its own.
pub(super) fn period_end(record: &Record, now: Time) -> Option<Time> {
    if now < record.billing_date.at() {
        return Some(record.billing_date.at());
    }
    match &record.state {
        State::Scheduled | State::Paused(_) => Some(record.billing_date.at()),
        State::AchSent(_)
        | State::Completed(_)
        | State::Error(_)
        | State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => {
            let period = record.scheduled_date().at();
            record.schedule().from_in_later_period(period.max(record.billing_date.at()), period)
        }
    }
}

/// The day on which a skipped pause ended: when it expired, or earlier when the member resumed.
fn resumed_on(record: &Record) -> Option<Time> {
    let expires = resume_date(record)?;
    Some(record.state.closed_at().map_or(expires, |closed| closed.at().min(expires)))
}

/// When the pause of a record expires: its due date plus the length of the pause in months.
#[must_use]
pub fn resume_date(record: &Record) -> Option<Time> {
    record.billing_date.at().checked_add_months(Months::new(record.state.pause_months()))
}
