//! Membership changes, planned over a user's billing records.
//!
//! A settlement concerns one record; a membership change concerns a user, and so possibly several records.
//! [`plan`] names the next step, which [`crate::billing::decide`] decides. The step is committed only if its
//! record is still at the version that was planned on; then everything is read and planned again, until
//! nothing is left to do. Only the last step's token is sealed: sealed means that the change is done,
//! unsealed that steps may remain.

use chrono::TimeDelta;
use std::borrow::Cow;

use crate::billing::attempts::Attempts;
use crate::billing::decide::Rejection;
use crate::billing::event::{CancelTime, Creation, Event, EventKind, Ignored};
use crate::billing::idempotency::{Applied, IdempotencyToken, Lookup, ParkedEvents};
use crate::billing::record::{Plan, Process, Provider, Receipt, Record, Standing, State, UpdatedEvent};
use crate::billing::wire::memberships::encode;
use crate::calendar::{BillingWeek, Term, billing_period};
use crate::collections::correction::Correction;
use crate::ids::{EventId, SubscriptionId, UserId};
use crate::item::Item;
use crate::time::{GoTime, Time};

/// A change of a user's membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MembershipEvent {
    /// Identifies the fact.
    pub id: EventId,
    /// When it occurred.
    pub at: Time,
    /// The member.
    pub user_id: UserId,
    /// Source and type.
    pub source: Cow<'static, str>,
    /// What changed.
    pub change: Change,
    /// Its idempotency token.
    pub token: IdempotencyToken,
}

/// The kind of membership change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A membership begins.
    Activate(NewMembership),
    /// A lapsed membership begins again.
    Reactivate(NewMembership),
    /// Cancellation at the end of the paid period.
    Cancel,
    /// Retraction of a cancellation.
    Retract,
    /// The account is closed immediately.
    CloseAccount,
    /// Billing is paused.
    Pause {
        /// Length in months, 1 to 12.
        months: u32,
    },
    /// Billing resumes.
    Unpause,
    /// A higher tier, effective now.
    Upgrade(Plan),
    /// A lower tier, effective with the next record.
    Downgrade(Plan),
}

/// The terms of a new membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMembership {
    /// Amount and tier.
    pub plan: Plan,
    /// Billing interval.
    pub term: Term,
    /// The first due date: the anchor of all others.
    pub billing_date: Time,
    /// Set for Friday billing.
    pub billing_week: Option<BillingWeek>,
    /// Where the user signs in.
    pub provider: Option<Provider>,
}

/// One write of a membership change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// An event for an existing record, to be committed only at this version of it.
    Change {
        /// The record.
        id: SubscriptionId,
        /// Its version when the step was planned.
        version: u64,
        /// The event.
        event: Box<Event>,
    },
    /// A record to create, with its event.
    Create(Box<Record>, Box<Event>),
}

/// What remains to be done for a membership change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangePlan {
    /// Nothing: it was applied.
    Done,
    /// It was parked before.
    Parked,
    /// This write, then plan again.
    Next(Step),
}

/// Plans a membership change over all of the user's records, with their follow-ups applied.
///
/// A change only affects records of memberships that had begun when it occurred: a cancellation made before
/// a reactivation, but delivered after it, does not end the new membership. A parked change is planned
/// again only on redrive.
///
/// # Errors
/// A [`Rejection`] when no record can take the change, or when its id was used before with other content.
pub fn plan(
    records: &[Record],
    event: &MembershipEvent,
    parked_events: ParkedEvents,
) -> Result<ChangePlan, Rejection> {
    for record in records {
        match record.applied.lookup(&event.token) {
            Lookup::ConflictingContent => return Err(Rejection::ConflictingContent),
            Lookup::Known { sealed: true } => return Ok(ChangePlan::Done),
            Lookup::Parked if parked_events == ParkedEvents::Keep => return Ok(ChangePlan::Parked),
            Lookup::Known { sealed: false } | Lookup::Parked | Lookup::Unknown => {}
        }
    }
    let begun_before = |r: &&Record| r.since().is_none_or(|since| since <= event.at);
    let covered: Vec<&Record> = records.iter().filter(begun_before).collect();
    let takes_part = |r: &Record| is_billed(r) || may_be_returned(r, event.at);
    let steps = match &event.change {
        Change::Activate(new) => activate(records, event, new),
        Change::Reactivate(new) => reactivate(records, event, new),
        Change::Cancel => {
            on_each(&covered, event, takes_part, |_| EventKind::CancelRequested(CancelTime::PeriodEnd))
        }
        Change::Retract => {
            on_each(&covered, event, |r| r.is_cancelling(event.at), |_| EventKind::CancelRetracted)
        }
        Change::CloseAccount => on_each(&covered, event, takes_part, |r| match r.state {
            State::AchSent(_) | State::Completed(_) => EventKind::CancelRequested(CancelTime::Now),
            State::Scheduled
            | State::Error(_)
            | State::Paused(_)
            | State::Waived(_)
            | State::Cancelled(_)
            | State::PausedSkipped(..)
            | State::Refunded(_)
            | State::Stale(_) => EventKind::Cancelled,
        }),
        Change::Pause { months } => {
            on_each(&covered, event, is_scheduled, |_| EventKind::Paused { months: *months })
        }
        Change::Unpause => on_each(&covered, event, is_paused, |_| EventKind::Unpaused),
        Change::Upgrade(plan) => {
            on_each(&covered, event, takes_a_plan, |_| EventKind::PlanChanged(plan.clone()))
        }
        Change::Downgrade(plan) => {
            on_each(&covered, event, takes_a_plan, |_| EventKind::DowngradeRequested(plan.clone()))
        }
    };
    let has_begun = records.iter().any(|r| has_taken(r, event));
    let is_whole = steps.len() == 1 && !has_begun;
    if let Some(step) = steps.into_iter().next() {
        return Ok(ChangePlan::Next(match (is_whole, has_begun) {
            (true, _) => step,
            (false, true) => step.unsealed(),
            (false, false) => step.unsealed().begins(event),
        }));
    }
    // All that it concerns have taken it; the seal keeps a redelivery from the records that follow.
    let first = records.iter().find(|r| r.pending_change.is_some() && has_taken(r, event));
    if let Some(record) = first.or_else(|| records.iter().find(|r| has_taken(r, event))) {
        return Ok(ChangePlan::Next(Step::on(record, event.step(EventKind::ChangeCompleted))));
    }
    nothing_to_do(records, &covered, event)
}

/// No record is affected: note that in the newest record's history, or reject a request that would silently
/// be lost.
fn nothing_to_do(
    records: &[Record],
    covered: &[&Record],
    event: &MembershipEvent,
) -> Result<ChangePlan, Rejection> {
    let newest = records
        .iter()
        .max_by_key(|r| r.billing_date.at())
        .ok_or_else(|| Rejection::UnknownUser(event.user_id.to_string()))?;
    let began_anew = covered.len() < records.len();
    let reason = match &event.change {
        Change::Activate(_) if !began_anew => Ignored::AlreadyActive,
        Change::Activate(_) | Change::Reactivate(_) => Ignored::OlderMembership,
        Change::Cancel | Change::CloseAccount if !began_anew => Ignored::NothingOpen,
        Change::Retract if !began_anew => Ignored::NoPendingCancel,
        Change::Unpause if !began_anew => Ignored::NotPaused,
        Change::Pause { .. } if covered.iter().any(|r| is_paused(r)) => Ignored::AlreadyPaused,
        // Reject: these requests would silently be lost, so an operator has to look.
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
    Ok(ChangePlan::Next(event.note(newest, reason)))
}

/// Whether the record has taken this change.
fn has_taken(record: &Record, event: &MembershipEvent) -> bool {
    matches!(record.applied.lookup(&event.token), Lookup::Known { .. })
}

/// Whether the record is open or its debit is in flight.
fn is_billed(record: &Record) -> bool {
    record.is_open() || matches!(record.state, State::AchSent(_))
}

/// Days after a settlement in which the bank may return it.
const RETURN_DAYS: i64 = 60;

/// Whether a paid record may still be returned, and be open again. The end of a membership has to be on it
/// before that, or it would be collected once more.
#[must_use]
pub fn may_be_returned(record: &Record, now: Time) -> bool {
    match &record.state {
        State::Completed(payment) => {
            payment.at.as_ref().is_none_or(|settled| settled.at() + TimeDelta::days(RETURN_DAYS) >= now)
        }
        State::Scheduled
        | State::Error(_)
        | State::Paused(_)
        | State::AchSent(_)
        | State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => false,
    }
}

fn is_scheduled(record: &Record) -> bool {
    matches!(record.state, State::Scheduled)
}

fn is_paused(record: &Record) -> bool {
    matches!(record.state, State::Paused(_))
}

/// Whether a new plan takes effect on this record: it was never presented. One that was presented and got the
/// wrong amount waits again, for the amount that it was presented with; the next record takes the plan.
fn takes_a_plan(record: &Record) -> bool {
    let was_presented = record.next.is_some() && !record.attempts.is_empty();
    (is_scheduled(record) || is_paused(record)) && record.state.last_failure().is_none() && !was_presented
}

fn on_each(
    records: &[&Record],
    event: &MembershipEvent,
    which: impl Fn(&Record) -> bool,
    kind: impl Fn(&Record) -> EventKind,
) -> Vec<Step> {
    records
        .iter()
        .filter(|r| which(r) && r.superseded_by.is_none() && !has_taken(r, event))
        .map(|r| Step::on(r, event.step(kind(r))))
        .collect()
}

fn activate(records: &[Record], event: &MembershipEvent, new: &NewMembership) -> Vec<Step> {
    // A debit in flight of a membership that has ended settles, and nothing follows it.
    let has_ended = |r: &Record| r.cancel_at.as_ref().is_some_and(|end| end.at() <= event.at);
    let is_in_flight = |r: &Record| matches!(r.state, State::AchSent(_)) && !has_ended(r);
    let active =
        |r: &Record| (is_scheduled(r) || is_paused(r) || is_in_flight(r)) && r.superseded_by.is_none();
    if records.iter().any(active) {
        return Vec::new();
    }
    begin(records, event, new, None)
}

fn reactivate(records: &[Record], event: &MembershipEvent, new: &NewMembership) -> Vec<Step> {
    begin(records, event, new, Some(UpdatedEvent::UserReactivated))
}

/// Starts a membership: supersedes open records of an earlier one, then creates the first record.
fn begin(
    records: &[Record],
    event: &MembershipEvent,
    new: &NewMembership,
    tag: Option<UpdatedEvent>,
) -> Vec<Step> {
    if records.iter().any(|r| r.since().is_some_and(|since| since > event.at)) {
        return Vec::new();
    }
    let first = first_record(records, event, new, tag);
    let created = EventKind::Created(Creation::Began(Box::new(new.clone())));
    let id = first.subscription_id.clone();
    let all: Vec<&Record> = records.iter().filter(|r| r.subscription_id != id).collect();
    let takes_part = |r: &Record| is_billed(r) || may_be_returned(r, event.at);
    let mut steps = on_each(&all, event, takes_part, |_| EventKind::Superseded(id.clone()));
    if all.len() < records.len() {
        return steps;
    }
    // A reactivation falls due on its own date: a record that is not SCHEDULED makes room, except one with a
    // debit in flight.
    let makes_room = |r: &Record| !is_scheduled(r) && !matches!(r.state, State::AchSent(_));
    if let Some(old) = all
        .iter()
        .find(|r| r.billing_date.at() == new.billing_date && makes_room(r))
        .filter(|_| steps.is_empty())
    {
        let to = free_due_date(records, &old.subscription_id, new.billing_date + TimeDelta::hours(1));
        let moved = Event::internal(
            format!("make-room:{}:{}", old.subscription_id, event.id).into(),
            event.at,
            "dues make-room",
            EventKind::Moved { to: to.at() },
        );
        return vec![Step::on(old, moved), Step::Create(Box::new(first), Box::new(event.step(created)))];
    }
    steps.push(Step::Create(Box::new(first), Box::new(event.step(created))));
    steps
}

/// The first record of a membership, clear of the keys of the user's other records.
pub(crate) fn first_record(
    records: &[Record],
    event: &MembershipEvent,
    new: &NewMembership,
    tag: Option<UpdatedEvent>,
) -> Record {
    let id = SubscriptionId::of_period(
        &event.user_id,
        event.at,
        new.billing_date,
        &billing_period(new.billing_date),
    );
    Record {
        user_id: event.user_id.clone(),
        billing_date: free_due_date(records, &id, new.billing_date),
        subscription_id: id,
        plan: new.plan.clone(),
        term: new.term,
        billing_week: new.billing_week,
        standing: Standing::Open,
        attempts: Attempts::default(),
        state: State::Scheduled,
        process: if tag.is_some() { Process::Reactivation } else { Process::Initial },
        updated_event: tag,
        created_date: Some(GoTime::trimmed(event.at)),
        initial_run_date: None,
        last_run_date: Some(GoTime::nine_digits(event.at)),
        receipt: Receipt::default(),
        anchor: Some(GoTime::trimmed(new.billing_date)),
        member_since: Some(GoTime::trimmed(event.at)),
        provider: new.provider,
        due_notice: None,
        next: None,
        cancel_at: None,
        downgrade: None,
        bar: records.iter().find_map(|r| r.bar.clone()),
        // A membership that begins anew brings an account of its own.
        correction: Correction::default(),
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
    }
}

/// The wanted due date, moved by as many hours as needed to avoid the keys of the user's other records.
#[must_use]
pub fn free_due_date(records: &[Record], id: &SubscriptionId, wanted: Time) -> GoTime {
    let taken = |date: &GoTime| records.iter().any(|r| r.billing_date == *date && r.subscription_id != *id);
    let mut date = GoTime::trimmed(wanted);
    while taken(&date) {
        date = GoTime::trimmed(date.at() + TimeDelta::hours(1));
    }
    date
}

impl Step {
    fn on(record: &Record, event: Event) -> Self {
        Self::Change { id: record.subscription_id.clone(), version: record.version, event: Box::new(event) }
    }

    /// The first step of a change of several records carries the whole change.
    fn begins(mut self, change: &MembershipEvent) -> Self {
        let (Self::Change { event, .. } | Self::Create(_, event)) = &mut self;
        // A record that only makes room is no part of the change.
        event.begins = (event.id == change.id).then(|| encode(change).into());
        self
    }

    fn unsealed(mut self) -> Self {
        let (Self::Change { event, .. } | Self::Create(_, event)) = &mut self;
        event.token = event.token.unsealed();
        self
    }
}

impl MembershipEvent {
    /// Notes on a record that the change needs nothing more.
    fn note(&self, record: &Record, reason: Ignored) -> Step {
        Step::on(record, self.step(EventKind::NoChange(reason)))
    }

    /// The event for one record.
    #[must_use]
    pub fn step(&self, kind: EventKind) -> Event {
        let process = matches!(self.change, Change::Reactivate(_)).then_some(Process::Reactivation);
        Event {
            id: self.id.clone(),
            at: self.at,
            source: self.source.clone(),
            kind,
            process,
            token: self.token,
            data: Item::new(),
            begins: None,
        }
    }
}
