//! What a membership change means for a user's billing records.
//!
//! A settlement concerns one record; a membership change concerns a user, and so perhaps several. [`plan`] turns it into steps, one
//! record each, for [`crate::decide`] to judge. Only the last step's stamp is sealed: found sealed, the change is done; found unsealed,
//! it was cut short and the remaining steps follow.

use chrono::TimeDelta;
use std::borrow::Cow;

use crate::calendar::{BillingWeek, Term, billing_period};
use crate::decide::Rejection;
use crate::event::{CancelTime, Event, Happening, Ignored};
use crate::ids::{EventId, SubscriptionId, UserId};
use crate::item::Item;
use crate::record::{Plan, Process, Provider, Receipt, Record, State, UpdatedEvent};
use crate::stamp::{Applied, Seen, Stamp};
use crate::time::{GoTime, Time};

/// A change of somebody's membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MembershipEvent {
    /// The identity of the fact.
    pub id: EventId,
    /// When it occurred.
    pub at: Time,
    /// Whose membership.
    pub user_id: UserId,
    /// Where it came from and what it was.
    pub source: Cow<'static, str>,
    /// What changed.
    pub change: Change,
    /// How records remember it.
    pub stamp: Stamp,
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A membership begins.
    Activate(NewMembership),
    /// A lapsed membership begins again.
    Reactivate(NewMembership),
    /// The member leaves when what was paid for ends.
    Cancel,
    /// The member stays after all.
    Retract,
    /// The account is closed at once.
    CloseAccount,
    /// Billing rests.
    Pause {
        /// For how many months, 1 to 12.
        months: u32,
    },
    /// Billing goes on.
    Unpause,
    /// A higher tier, now.
    Upgrade(Plan),
    /// A lower tier, from the next record on.
    Downgrade(Plan),
}

/// The terms of a membership that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMembership {
    /// What it costs and gives.
    pub plan: Plan,
    /// How often.
    pub term: Term,
    /// The first due date: the anchor of all others.
    pub billing_date: Time,
    /// Set for Friday billing.
    pub billing_week: Option<BillingWeek>,
    /// Where the user signs in.
    pub provider: Option<Provider>,
}

/// One write of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// An event for a record that is there.
    Change(SubscriptionId, Box<Event>),
    /// A record to be created.
    Create(Box<Record>, Box<Event>),
}

/// What to do about a membership change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Course {
    /// It was done before.
    Done,
    /// It was parked before.
    Parked,
    /// These writes, in this order.
    Steps(Vec<Step>),
}

/// Plans a membership change over the user's records.
///
/// A change only concerns records of memberships that had begun when it occurred: a cancellation that arrives after a reactivation,
/// but was made before it, does not end the new membership. One that was parked is planned again only when somebody drives it through.
///
/// # Errors
/// A [`Rejection`] when there is nothing that the change could apply to, or its id was used before with other content.
pub fn plan(records: &[Record], event: &MembershipEvent, redriving: bool) -> Result<Course, Rejection> {
    for record in records {
        match record.applied.seen(&event.stamp) {
            Seen::Different => return Err(Rejection::DifferentContent),
            Seen::Same { sealed: true } => return Ok(Course::Done),
            Seen::Parked if !redriving => return Ok(Course::Parked),
            Seen::Same { sealed: false } | Seen::Parked | Seen::Never => {}
        }
    }
    let begun_before = |r: &&Record| r.since().is_none_or(|since| since <= event.at);
    let covered: Vec<&Record> = records.iter().filter(begun_before).collect();
    let steps = match &event.change {
        Change::Activate(new) => activate(records, event, new),
        Change::Reactivate(new) => reactivate(records, event, new),
        Change::Cancel => on_each(&covered, event, is_billed, |_| Happening::CancelRequested(CancelTime::PeriodEnd)),
        Change::Retract => on_each(&covered, event, |r| is_billed(r) && r.cancel_at.is_some(), |_| Happening::CancelRetracted),
        Change::CloseAccount => on_each(&covered, event, is_billed, |r| match r.state {
            State::AchSent(_) => Happening::CancelRequested(CancelTime::Now),
            State::Scheduled(_)
            | State::Error(_)
            | State::Paused(_)
            | State::Completed(_)
            | State::Waived(_)
            | State::Cancelled(_)
            | State::PausedSkipped(..)
            | State::Refunded(_)
            | State::Stale(_) => Happening::Cancelled,
        }),
        Change::Pause { months } => {
            let scheduled = on_each(&covered, event, is_scheduled, |_| Happening::Paused { months: *months });
            if scheduled.is_empty() {
                on_each(&covered, event, |r| r.is_open() && !is_paused(r), |_| Happening::Paused { months: *months })
            } else {
                scheduled
            }
        }
        Change::Unpause => on_each(&covered, event, is_paused, |_| Happening::Unpaused),
        Change::Upgrade(plan) => on_each(&covered, event, |r| is_scheduled(r) || is_paused(r), |_| Happening::PlanChanged(plan.clone())),
        Change::Downgrade(plan) => {
            on_each(&covered, event, |r| is_scheduled(r) || is_paused(r), |_| Happening::DowngradeRequested(plan.clone()))
        }
    };
    if !steps.is_empty() {
        return Ok(Course::Steps(sealed(steps)));
    }
    if records.iter().any(|r| has_taken(r, event)) {
        return Ok(Course::Done);
    }
    nothing_to_do(records, &covered, event)
}

/// No record is concerned: history says so on the newest one, unless the change asked for something that is now missing.
fn nothing_to_do(records: &[Record], covered: &[&Record], event: &MembershipEvent) -> Result<Course, Rejection> {
    let newest = records.iter().max_by_key(|r| r.billing_date.at()).ok_or_else(|| Rejection::UnknownUser(event.user_id.to_string()))?;
    let began_anew = covered.len() < records.len();
    let reason = match &event.change {
        Change::Activate(_) if !began_anew => Ignored::AlreadyActive,
        Change::Activate(_) | Change::Reactivate(_) => Ignored::OlderMembership,
        Change::Cancel | Change::CloseAccount if !began_anew => Ignored::NothingOpen,
        Change::Retract if !began_anew => Ignored::NoPendingCancel,
        Change::Unpause if !began_anew => Ignored::NotPaused,
        // These asked for something that would silently not happen: somebody has to look.
        Change::Pause { .. } | Change::Upgrade(_) | Change::Downgrade(_) if !began_anew => {
            return Err(Rejection::NothingOpen(event.user_id.to_string()));
        }
        Change::Cancel
        | Change::CloseAccount
        | Change::Retract
        | Change::Unpause
        | Change::Pause { .. }
        | Change::Upgrade(_)
        | Change::Downgrade(_) => Ignored::OlderMembership,
    };
    Ok(Course::Steps(vec![Step::Change(newest.subscription_id.clone(), Box::new(event.step(Happening::Noted(reason))))]))
}

/// Whether this step of the change is done.
fn has_taken(record: &Record, event: &MembershipEvent) -> bool {
    matches!(record.applied.seen(&event.stamp), Seen::Same { .. })
}

/// Money is still to come from it, or is on its way.
fn is_billed(record: &Record) -> bool {
    record.is_open() || matches!(record.state, State::AchSent(_))
}

fn is_scheduled(record: &Record) -> bool {
    matches!(record.state, State::Scheduled(_))
}

fn is_paused(record: &Record) -> bool {
    matches!(record.state, State::Paused(_))
}

fn on_each(
    records: &[&Record],
    event: &MembershipEvent,
    which: impl Fn(&Record) -> bool,
    happening: impl Fn(&Record) -> Happening,
) -> Vec<Step> {
    records
        .iter()
        .filter(|r| which(r) && r.superseded_by.is_none() && !has_taken(r, event))
        .map(|r| Step::Change(r.subscription_id.clone(), Box::new(event.step(happening(r)))))
        .collect()
}

fn activate(records: &[Record], event: &MembershipEvent, new: &NewMembership) -> Vec<Step> {
    let active = |r: &Record| (is_scheduled(r) || is_paused(r) || matches!(r.state, State::AchSent(_))) && r.superseded_by.is_none();
    if records.iter().any(active) {
        return Vec::new();
    }
    begin(records, event, new, None)
}

fn reactivate(records: &[Record], event: &MembershipEvent, new: &NewMembership) -> Vec<Step> {
    begin(records, event, new, Some(UpdatedEvent::UserReactivated))
}

/// A membership begins: what an earlier one left open is superseded, then the first record is created.
fn begin(records: &[Record], event: &MembershipEvent, new: &NewMembership, tag: Option<UpdatedEvent>) -> Vec<Step> {
    if records.iter().any(|r| r.since().is_some_and(|since| since > event.at)) {
        return Vec::new();
    }
    let first = first_record(records, event, new, tag);
    let id = first.subscription_id.clone();
    let all: Vec<&Record> = records.iter().filter(|r| r.subscription_id != id).collect();
    let mut steps = on_each(&all, event, is_billed, |_| Happening::Superseded(id.clone()));
    steps.push(Step::Create(Box::new(first), Box::new(event.step(Happening::Created))));
    steps
}

fn first_record(records: &[Record], event: &MembershipEvent, new: &NewMembership, tag: Option<UpdatedEvent>) -> Record {
    let id = SubscriptionId::of_period(&event.user_id, event.at, new.billing_date, &billing_period(new.billing_date));
    Record {
        user_id: event.user_id.clone(),
        billing_date: free_date(records, &id, new.billing_date),
        subscription_id: id,
        plan: new.plan.clone(),
        term: new.term,
        billing_week: new.billing_week,
        state: State::Scheduled(None),
        process: if tag.is_some() { Process::Reactivation } else { Process::Initial },
        updated_event: tag,
        created_date: Some(GoTime::trimmed(event.at)),
        initial_run_date: None,
        last_run_date: Some(GoTime::nine_digits(event.at)),
        receipt: Receipt::default(),
        anchor: Some(GoTime::trimmed(new.billing_date)),
        member_since: Some(GoTime::trimmed(event.at)),
        provider: new.provider,
        attempts: 0,
        attempt_key: None,
        due_notice: None,
        earlier: Vec::new(),
        next: None,
        cancel_at: None,
        downgrade: None,
        bar: records.iter().find_map(|r| r.bar.clone()),
        superseded_by: None,
        moved_to: None,
        version: 0,
        applied: Applied::default(),
        data: Item::new(),
        extra: Item::new(),
    }
}

/// The wanted date, or as many hours later as it takes to find one that no other record of the user is stored under.
#[must_use]
pub fn free_date(records: &[Record], id: &SubscriptionId, wanted: Time) -> GoTime {
    let taken = |date: &GoTime| records.iter().any(|r| r.billing_date == *date && r.subscription_id != *id);
    let mut date = GoTime::trimmed(wanted);
    while taken(&date) {
        date = GoTime::trimmed(date.at() + TimeDelta::hours(1));
    }
    date
}

fn sealed(mut steps: Vec<Step>) -> Vec<Step> {
    let last = steps.len().saturating_sub(1);
    for step in &mut steps[..last] {
        let (Step::Change(_, event) | Step::Create(_, event)) = step;
        event.stamp = event.stamp.unsealed();
    }
    steps
}

impl MembershipEvent {
    /// The event as one record sees it.
    #[must_use]
    pub fn step(&self, happening: Happening) -> Event {
        let process = matches!(self.change, Change::Reactivate(_)).then_some(Process::Reactivation);
        Event { id: self.id.clone(), at: self.at, source: self.source.clone(), happening, process, stamp: self.stamp, data: Item::new() }
    }
}
