//! Membership changes: planned over all of a member's records, committed step by step, until nothing is left
//! to do.
//!
//! A change of one record is one compare-and-set. A change of several begins with a step that carries the
//! whole change (`pending_change`): the next writer completes it before it plans or decides, so that none
//! acts on half a change, and a crash leaves none behind.

use dues_events::billing::membership::{ChangePlan, MembershipEvent, Step, plan};
use dues_events::billing::wire::memberships::decode;

use crate::billing::Store;
use crate::billing::commit::{CommitError, Committed};
use crate::billing::user_records::UserRecords;
use crate::engine::{Engine, StoreError};

/// Maximum number of steps and lost races of one change; more indicate a fault.
const MAX_STEPS: u32 = 1000;

impl<E: Engine> Store<E> {
    /// Applies a membership change to all of a member's records.
    ///
    /// # Errors
    /// [`CommitError::Rejected`] when no record can take it; [`CommitError::Store`] when the event has to be
    /// redelivered, which continues the change.
    pub async fn change(
        &self,
        user: &mut UserRecords,
        event: &MembershipEvent,
    ) -> Result<Committed, CommitError> {
        let mut answer = Committed::Duplicate;
        for _ in 0..MAX_STEPS {
            // Planned from all records, as they are now, with nothing outstanding. The caller's view may be
            // older than a change that another handler has acknowledged.
            *user = UserRecords { parked_events: user.parked_events, ..self.load_all(&user.user_id).await? };
            if self.complete_pending_changes(user, Some(event)).await? {
                continue;
            }
            if self.apply_record_followups(user).await? > 0 {
                continue;
            }
            let committed = match plan(&user.records, event, user.parked_events)? {
                ChangePlan::Done => return Ok(answer),
                ChangePlan::Parked => return Ok(Committed::Parked),
                ChangePlan::Next(Step::Change { id, version, event }) => {
                    self.apply_at(user, &id, version, &event).await?
                }
                ChangePlan::Next(Step::Create(record, event)) => self.create(user, *record, &event).await?,
            };
            answer = strongest(answer, committed);
        }
        Err(StoreError::Contended(MAX_STEPS).into())
    }

    /// Completes changes that others have begun, except `own`. Returns whether there was one.
    pub(crate) async fn complete_pending_changes(
        &self,
        user: &mut UserRecords,
        own: Option<&MembershipEvent>,
    ) -> Result<bool, CommitError> {
        let pending = user.records.iter().filter_map(|record| record.pending_change.as_deref());
        let pending: Vec<MembershipEvent> = pending
            .filter_map(|text| decode(text.as_bytes()).ok().flatten())
            .filter(|change| own.is_none_or(|own| own.id != change.id))
            .collect();
        // Two that have begun at once are completed in one order by all writers.
        let first = pending.into_iter().min_by(|a, b| (a.at, &a.id).cmp(&(b.at, &b.id)));
        let Some(first) = first.filter(|first| own.is_none_or(|own| precedes(user, first, own))) else {
            return Ok(false);
        };
        match Box::pin(self.change(user, &first)).await {
            Ok(_) => Ok(true),
            // It cannot go on; its own handler parks it.
            Err(CommitError::Rejected(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Whether the other change goes first: always, unless ours has begun too and is the earlier one.
fn precedes(user: &UserRecords, other: &MembershipEvent, own: &MembershipEvent) -> bool {
    let has_begun = user.records.iter().any(|record| {
        let pending = record.pending_change.as_ref();
        pending.and_then(|text| decode(text.as_bytes()).ok().flatten()).is_some_and(|p| p.id == own.id)
    });
    !has_begun || (other.at, &other.id) < (own.at, &own.id)
}

/// The outcome of a change of several records: the strongest of theirs.
fn strongest(a: Committed, b: Committed) -> Committed {
    match (a, b) {
        (a, Committed::Overtaken) | (Committed::Overtaken, a) => a,
        (Committed::Applied, _) | (_, Committed::Applied) => Committed::Applied,
        (Committed::Ignored(reason), _) | (_, Committed::Ignored(reason)) => Committed::Ignored(reason),
        (Committed::Parked, _) | (_, Committed::Parked) => Committed::Parked,
        (Committed::Duplicate, Committed::Duplicate) => Committed::Duplicate,
    }
}
