//! What must follow once a record has changed. It is told from the record alone, so that whoever comes by after a crash (the same
//! event again, another event, the sweeper) finishes the same thing in the same way.

use chrono::{Months, TimeDelta};

use crate::calendar::{Term, billing_period};
use crate::event::{Event, Happening};
use crate::ids::SubscriptionId;
use crate::item::Item;
use crate::record::{Process, Receipt, Record, State};
use crate::stamp::Applied;
use crate::time::{GoTime, Time};

/// Something that a record still owes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owed {
    /// The next period's record, to be created unless it is there.
    Next(Box<Record>, Box<Event>),
    /// An event that waited for money in flight.
    Step(Box<Event>),
}

/// What the record owes: the next period's record if it names one, and a cancellation that waited for its debit.
///
/// The caller knows the user's other records, and skips what is done already.
#[must_use]
pub fn owed(record: &Record) -> Vec<Owed> {
    let mut owed = Vec::new();
    if let (Some(id), Some(next)) = (&record.next, next_record(record)) {
        // A little after what brought it about: its history row has a place of its own, which every maker finds free or finds to be this one.
        let at = next.created_date.as_ref().map_or(next.billing_date.at(), GoTime::at) + TimeDelta::microseconds(1);
        let event = Event::own(format!("next:{}", record.subscription_id).into(), at, "dues next-period", Happening::Created);
        // An administrator may have moved this record since: the id that was promised stays.
        let next = Record { subscription_id: id.clone(), ..next };
        owed.push(Owed::Next(Box::new(next), Box::new(event)));
    }
    if let (State::Error(_), Some(cancel_at), Some(failed_at)) = (&record.state, &record.cancel_at, &record.last_run_date)
        && cancel_at.at() <= failed_at.at()
    {
        let id = format!("cancel:{}:{}", record.subscription_id, cancel_at.text());
        owed.push(Owed::Step(Box::new(Event::own(id.into(), failed_at.at(), "dues deferred-cancel", Happening::Cancelled))));
    }
    owed
}

/// The record of the following period: a pure function of this one, down to its id.
#[must_use]
pub fn next_record(record: &Record) -> Option<Record> {
    let made_at = record.initial_run_date.as_ref().or(record.state.closed_at())?.at();
    let schedule = record.schedule();
    let (anchor, due) = match (&record.state, record.term) {
        // A skipped pause of a monthly membership goes on with the first due date on or after the resume date.
        (State::PausedSkipped(..), Term::Monthly) => (schedule.anchor, schedule.after(resume_date(record)? - TimeDelta::nanoseconds(1))?),
        // A yearly one would lose a year that way: it is counted anew from the day it resumes.
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

/// Promises the next period's record, unless one was promised before or the membership goes on elsewhere.
pub(super) fn with_next(mut record: Record) -> Record {
    let attempted_before = record.next.is_some();
    if !attempted_before && record.superseded_by.is_none() {
        record.next = next_record(&record).map(|next| next.subscription_id);
    }
    record
}

/// When what the member has paid for ends, seen from this record: a record that waits for its first attempt bills the time after its
/// due date, one that was attempted covers the time up to the next.
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

/// When a paused record's pause runs out: as many months after its due date as the pause is long.
#[must_use]
pub fn resume_date(record: &Record) -> Option<Time> {
    record.billing_date.at().checked_add_months(Months::new(record.state.pause_months()))
}
