//! Commands of members and operators on one record: pay, waive, cancel, pause, resume.

use dues_events::billing::event::{CancelTime, Event, EventKind};
use dues_events::billing::membership::may_be_returned;
use dues_events::calendar::billing_period;
use dues_events::collections::eligibility::{CollectionRequest, Trigger};
use dues_events::{Record, Rejection, State, Status, SubscriptionId, Time, UserId};
use dues_store::billing::user_records::UserRecords;
use dues_store::{CommitError, Committed, Engine};

use super::{Collector, UserCollection};
use crate::collections::gateway::Gateway;

/// A command on one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Collect now.
    Pay {
        /// The member has a new account on file.
        new_account: bool,
        /// The member has authorised the debit again, or its terms were corrected: R08, R11.
        authorised: bool,
    },
    /// Waive the period.
    Waive,
    /// Cancel.
    Cancel {
        /// At once instead of at the end of the paid period.
        now: bool,
    },
    /// Pause billing.
    Pause {
        /// Months, 1 to 12.
        months: u32,
    },
    /// Resume billing.
    Resume,
    /// Move to another due date.
    Move {
        /// The new due date.
        to: Time,
    },
}

/// The reply to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandReply {
    /// The collection that `pay` ran.
    Collected(UserCollection),
    /// The record after the command.
    Changed(Box<Record>),
}

impl Command {
    /// The verb, as on the command line and in the API's path.
    #[must_use]
    pub fn verb(self) -> &'static str {
        match self {
            Self::Pay { .. } => "pay",
            Self::Waive => "waive",
            Self::Cancel { .. } => "cancel",
            Self::Pause { .. } => "pause",
            Self::Resume => "resume",
            Self::Move { .. } => "move",
        }
    }
}

/// Executes a command. History keeps the actor.
///
/// # Errors
/// [`CommitError::Rejected`] when the record's state does not allow the command.
pub async fn command<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    user: &UserId,
    id: &SubscriptionId,
    command: Command,
    actor: &str,
) -> Result<CommandReply, CommitError> {
    let kind = match command {
        Command::Pay { new_account, authorised } => {
            let request = CollectionRequest {
                only: Some(id.clone()),
                authorised,
                new_account,
                actor: Some(actor.to_owned()),
                ..CollectionRequest::triggered_by(Trigger::Manual)
            };
            return collector.collect_user(user, &request).await.map(CommandReply::Collected);
        }
        Command::Waive => EventKind::Waived,
        Command::Cancel { now: true } => EventKind::CancelRequested(CancelTime::Now),
        Command::Cancel { now: false } => EventKind::CancelRequested(CancelTime::PeriodEnd),
        Command::Pause { months } => EventKind::Paused { months },
        Command::Resume => EventKind::Unpaused,
        Command::Move { to } => EventKind::Moved { to },
    };
    // No lock: there is no external call, and the record's version guards the write.
    let request =
        CollectionRequest { only: Some(id.clone()), ..CollectionRequest::triggered_by(Trigger::Manual) };
    let begun = collector.store.clock.now();
    let mut done: Vec<SubscriptionId> = Vec::new();
    for _ in 0..MAX_STEPS {
        // Planned from the records as they are now, until nothing is left to do.
        let (mut records, _) = collector.load(user, &request).await?;
        let next = affected_records(&records, id, command, begun).into_iter().find(|id| !done.contains(id));
        let Some(record) = next.and_then(|id| records.get(&id).cloned()) else {
            let record = records.get(id).cloned();
            let record = record.ok_or_else(|| Rejection::UnknownSubscription(id.clone()))?;
            return Ok(CommandReply::Changed(Box::new(record)));
        };
        if let Command::Move { to } = command {
            may_move(&record, to, &records.records)?;
        }
        if done.is_empty() && matches!(record.state, State::Completed(_)) {
            return Err(Rejection::AlreadyPaid.into());
        }
        let name = format!("{}:{}:{}", command.verb(), record.subscription_id, record.version);
        let event = Event::internal_at(name.into(), begun, source(command), None, kind.clone());
        let event = event.by(Some(actor));
        match collector.store.apply_at(&mut records, &record.subscription_id, record.version, &event).await {
            Ok(Committed::Overtaken) => {}
            Ok(Committed::Applied | Committed::Ignored(_) | Committed::Duplicate | Committed::Parked) => {
                done.push(record.subscription_id);
            }
            // The first record decides whether the command is possible.
            Err(CommitError::Rejected(_)) if !done.is_empty() => {
                done.push(record.subscription_id);
            }
            Err(error) => return Err(error),
        }
    }
    Err(dues_store::StoreError::Contended(MAX_STEPS).into())
}

/// Only a record that is still to be collected can get another due date, and only in a month that no other
/// record of the member bills.
fn may_move(record: &Record, to: Time, of_user: &[Record]) -> Result<(), Rejection> {
    let period = billing_period(to);
    let bills_it = |other: &Record| {
        other.subscription_id != record.subscription_id
            && other.status() != Status::Cancelled
            && other.superseded_by.is_none()
            && billing_period(other.billing_date.at()) == period
    };
    match &record.state {
        State::Scheduled | State::Error(_) | State::Paused(_) if of_user.iter().any(bills_it) => {
            Err(Rejection::PeriodTaken(period))
        }
        State::Scheduled | State::Error(_) | State::Paused(_) => Ok(()),
        State::AchSent(_) => Err(Rejection::InFlight),
        State::Completed(_) => Err(Rejection::AlreadyPaid),
        State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => Err(Rejection::Final(record.status())),
    }
}

/// Maximum number of steps and lost races of one command; more indicate a fault.
const MAX_STEPS: u32 = 200;

/// The named record; for a cancellation also the others of the membership, or billing would continue.
fn affected_records(
    user: &UserRecords,
    id: &SubscriptionId,
    command: Command,
    now: Time,
) -> Vec<SubscriptionId> {
    let mut ids = vec![id.clone()];
    if !matches!(command, Command::Cancel { .. }) {
        return ids;
    }
    while let Some(next) = ids
        .last()
        .and_then(|id| user.get(id))
        .and_then(|record| record.next.as_ref())
        .and_then(|next| user.get(next))
    {
        if ids.contains(&next.subscription_id) {
            break;
        }
        ids.push(next.subscription_id.clone());
    }
    let since = user.get(id).and_then(|record| record.member_since.clone());
    // What the member is behind with, of the same membership, ends with it.
    let behind = |record: &&Record| {
        since.is_some() && record.member_since == since && !ids.contains(&record.subscription_id)
    };
    let behind: Vec<SubscriptionId> =
        user.records.iter().filter(behind).map(|record| record.subscription_id.clone()).collect();
    ids.extend(behind);
    let is_open = |id: &SubscriptionId| {
        user.get(id).is_some_and(|record| record.is_open() || matches!(record.state, State::AchSent(_)))
    };
    let open_records: Vec<SubscriptionId> = ids.iter().filter(|id| is_open(id)).cloned().collect();
    // None is open: applying to the record itself yields the rejection.
    if open_records.is_empty() {
        return vec![id.clone()];
    }
    // Paid records of the same membership that may still be returned end with it.
    let paid = user.records.iter().filter(|r| r.member_since == since && may_be_returned(r, now));
    open_records.into_iter().chain(paid.map(|record| record.subscription_id.clone())).collect()
}

fn source(command: Command) -> &'static str {
    match command {
        Command::Pay { .. } => "dues pay",
        Command::Waive => "dues waive",
        Command::Cancel { .. } => "dues cancel",
        Command::Pause { .. } => "dues pause",
        Command::Resume => "dues resume",
        Command::Move { .. } => "dues move",
    }
}
