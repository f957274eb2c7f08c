//! What a member or an operator asks of one record: pay, waive, cancel, pause, resume.

use dues_events::collect::{Ask, Run};
use dues_events::event::{CancelTime, Event, Happening};
use dues_events::{Record, State, SubscriptionId, UserId};
use dues_store::user::UserRecords;
use dues_store::{CommitError, Committed, Engine};

use super::{Collector, Visit};
use crate::gateway::Gateway;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Collect it now.
    Pay {
        /// The member has put another account on file.
        new_account: bool,
    },
    /// Forgive the period.
    Waive,
    /// End it.
    Cancel {
        /// At once, and not only when what was paid for ends.
        now: bool,
    },
    /// Let billing rest.
    Pause {
        /// For how many months, 1 to 12.
        months: u32,
    },
    /// Let billing go on.
    Resume,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The visit that a payment led to.
    Visited(Visit),
    /// The record as it is now.
    Changed(Box<Record>),
}

impl Command {
    /// As it is typed and as the API's path has it.
    #[must_use]
    pub fn verb(self) -> &'static str {
        match self {
            Self::Pay { .. } => "pay",
            Self::Waive => "waive",
            Self::Cancel { .. } => "cancel",
            Self::Pause { .. } => "pause",
            Self::Resume => "resume",
        }
    }
}

/// Carries a command out.
///
/// # Errors
/// A rejection where the state table has a dash; what the store could not do.
pub async fn command<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    user: &UserId,
    id: &SubscriptionId,
    command: Command,
) -> Result<Reply, CommitError> {
    let happening = match command {
        Command::Pay { new_account } => {
            // Whoever asks to pay authorises the debit.
            let ask = Ask { only: Some(id.clone()), authorised: true, new_account, ..Ask::of(Run::Manual) };
            return collector.visit(user, &ask).await.map(Reply::Visited);
        }
        Command::Waive => Happening::Waived,
        Command::Cancel { now: true } => Happening::CancelRequested(CancelTime::Now),
        Command::Cancel { now: false } => Happening::CancelRequested(CancelTime::PeriodEnd),
        Command::Pause { months } => Happening::Paused { months },
        Command::Resume => Happening::Unpaused,
    };
    // No lock: this calls nobody, and the record's version is what makes the write safe.
    let ask = Ask { only: Some(id.clone()), ..Ask::of(Run::Manual) };
    let (mut records, _) = collector.load(user, &ask).await?;
    for id in concerned(&records, id, command) {
        let version = records.get(&id).map_or(0, |record| record.version);
        let name = format!("{}:{id}:{version}", command.verb());
        let event = Event::made(name.into(), collector.store.clock.now(), source(command), None, happening.clone());
        match collector.store.apply(&mut records, &id, &event).await? {
            Committed::Applied | Committed::Ignored(_) | Committed::Duplicate | Committed::Parked => {}
        }
    }
    let record = records.get(id).cloned().ok_or_else(|| dues_events::Rejection::UnknownSubscription(id.clone()))?;
    Ok(Reply::Changed(Box::new(record)))
}

/// The record that was named; for a cancellation also those that follow it, or else the member would be billed on.
fn concerned(user: &UserRecords, id: &SubscriptionId, command: Command) -> Vec<SubscriptionId> {
    let mut ids = vec![id.clone()];
    if !matches!(command, Command::Cancel { .. }) {
        return ids;
    }
    while let Some(next) = ids.last().and_then(|id| user.get(id)).and_then(|record| record.next.as_ref()).and_then(|next| user.get(next)) {
        if ids.contains(&next.subscription_id) {
            break;
        }
        ids.push(next.subscription_id.clone());
    }
    let open = |id: &SubscriptionId| user.get(id).is_some_and(|record| record.is_open() || matches!(record.state, State::AchSent(_)));
    let billed: Vec<SubscriptionId> = ids.iter().filter(|id| open(id)).cloned().collect();
    // Nothing is: the record itself says why not.
    if billed.is_empty() { vec![id.clone()] } else { billed }
}

fn source(command: Command) -> &'static str {
    match command {
        Command::Pay { .. } => "dues pay",
        Command::Waive => "dues waive",
        Command::Cancel { .. } => "dues cancel",
        Command::Pause { .. } => "dues pause",
        Command::Resume => "dues resume",
    }
}
