//! Follow-ups of a changed record. They derive from the record alone, so after a crash a redelivery,
//! another event or the sweeper completes the same writes.

use chrono::{Months, TimeDelta};

use crate::billing::event::{Event, EventKind};
use crate::billing::idempotency::Applied;
use crate::billing::record::{Process, Receipt, Record, State};
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
    if let (Some(id), Some(next)) = (&record.next, next_record(record)) {
        // Slightly after its cause, so that its history row has a key of its own. Every creator finds that
        // key free or holding this same row.
        let at = next.created_date.as_ref().map_or(next.billing_date.at(), GoTime::at)
            + TimeDelta::microseconds(1);
        let event = Event::internal(
            format!("next:{}", record.subscription_id).into(),
            at,
            "dues next-period",
            EventKind::Created,
        );
        // An administrator may have moved this record since: keep the id that it names.
        let next = Record { subscription_id: id.clone(), ..next };
        owed.push(Followup::CreateNext(Box::new(next), Box::new(event)));
    }
    if let (State::Error(_), Some(cancel_at), Some(failed_at)) =
        (&record.state, &record.cancel_at, &record.last_run_date)
        && cancel_at.at() <= failed_at.at()
    {
        let id = format!("cancel:{}:{}", record.subscription_id, cancel_at.text());
        owed.push(Followup::Apply(Box::new(Event::internal(
            id.into(),
            failed_at.at(),
            "dues deferred-cancel",
            EventKind::Cancelled,
        ))));
    }
    owed
}

/// The following period's record: a pure function of this one, including its id.
#[must_use]
pub fn next_record(record: &Record) -> Option<Record> {
    let made_at = record.initial_run_date.as_ref().or(record.state.closed_at())?.at();
    let schedule = record.schedule();
    let (anchor, due) = match (&record.state, record.term) {
        // After a skipped pause, a monthly membership continues with the first due date on or after the
        // resume date.
        (State::PausedSkipped(..), Term::Monthly) => {
            (schedule.anchor, schedule.after(resume_date(record)? - TimeDelta::nanoseconds(1))?)
        }
        // A yearly membership would lose a year that way: its due dates are counted from the resume date.
        (State::PausedSkipped(..), Term::Yearly) => (resume_date(record)?, resume_date(record)?),
        (
            State::Scheduled(_)
            | State::AchSent(_)
            | State::Completed(_)
            | State::Error(_)
            | State::Waived(_)
            | State::Cancelled(_)
            | State::Paused(_)
            | State::Refunded(_)
            | State::Stale(_),
            Term::Monthly | Term::Yearly,
        ) => (schedule.anchor, schedule.after(record.billing_date.at())?),
    };
    let since = record.since().unwrap_or(schedule.anchor);
    Some(Record {
        user_id: record.user_id.clone(),
        billing_date: GoTime::trimmed(due),
        subscription_id: SubscriptionId::of_period(&record.user_id, since, anchor, &billing_period(due)),
        plan: record.downgrade.clone().unwrap_or_else(|| record.plan.clone()),
        term: record.term,
        billing_week: record.billing_week,
        state: State::Scheduled(None),
        process: Process::Initial,
        updated_event: None,
        created_date: Some(GoTime::trimmed(made_at)),
        initial_run_date: None,
        last_run_date: Some(GoTime::nine_digits(made_at)),
        receipt: Receipt::default(),
        anchor: Some(GoTime::trimmed(anchor)),
        member_since: Some(GoTime::trimmed(since)),
        provider: record.provider,
        attempts: 0,
        attempt_key: None,
        due_notice: None,
        earlier: Vec::new(),
        next: None,
        cancel_at: record.cancel_at.clone(),
        downgrade: None,
        bar: record.bar.clone(),
        superseded_by: None,
        moved_to: None,
        version: 0,
        applied: Applied::default(),
        data: Item::new(),
        extra: Item::new(),
    })
}

/// Names the next period's record, unless one is named already or this record is superseded.
pub(super) fn with_next(mut record: Record) -> Record {
    let attempted_before = record.next.is_some();
    if !attempted_before && record.superseded_by.is_none() {
        record.next = next_record(&record).map(|next| next.subscription_id);
    }
    record
}

/// The end of the member's paid time, seen from this record. A record that waits for its first attempt
/// bills the time after its due date; an attempted one covers the time up to the next due date.
pub(super) fn period_end(record: &Record) -> Option<Time> {
    match &record.state {
        State::Scheduled(_) | State::Paused(_) => Some(record.billing_date.at()),
        State::AchSent(_)
        | State::Completed(_)
        | State::Error(_)
        | State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => record.schedule().after(record.billing_date.at()),
    }
}

/// When the pause of a record expires: its due date plus the length of the pause in months.
#[must_use]
pub fn resume_date(record: &Record) -> Option<Time> {
    record.billing_date.at().checked_add_months(Months::new(record.state.pause_months()))
}
