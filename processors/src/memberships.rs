//! `memberships`: who joins, leaves, pauses and changes tier, from Kinesis `memberships` to the billing records.

use aws_lambda_events::event::kinesis::KinesisEvent;
use aws_lambda_events::event::streams::KinesisEventResponse;
use dues_events::event::{Event, Happening};
use dues_events::ids::{SubscriptionId, UserId};
use dues_events::membership::{Course, MembershipEvent, Step, plan};
use dues_events::wire::WireError;
use dues_events::wire::memberships::decode;
use dues_store::user::UserRecords;
use dues_store::{CommitError, Committed, Engine, Store};

use crate::batch::{Context, Handler};
use crate::kinesis;

/// The stream it reads.
pub const STREAM: &str = "memberships";

/// Handles one batch of `memberships`.
pub async fn memberships<E: Engine>(context: &Context<E>, batch: KinesisEvent) -> KinesisEventResponse {
    kinesis::handle::<Memberships, E>(context, batch).await
}

/// Activations, cancellations, pauses and changes of tier.
#[derive(Debug, Clone, Copy)]
pub struct Memberships;

impl Handler for Memberships {
    type Event = MembershipEvent;
    const STREAM: &'static str = STREAM;

    fn decode(bytes: &[u8]) -> Result<Option<MembershipEvent>, WireError> {
        decode(bytes)
    }

    fn user(event: &MembershipEvent) -> &UserId {
        &event.user_id
    }

    /// A refused change is noted on the user's newest record.
    fn target(user: &UserRecords, event: &MembershipEvent) -> Option<(SubscriptionId, Event)> {
        let newest = user.records.iter().max_by_key(|record| record.billing_date.at())?;
        Some((newest.subscription_id.clone(), event.step(Happening::Created)))
    }

    async fn apply<E: Engine>(store: &Store<E>, user: &mut UserRecords, event: &MembershipEvent) -> Result<Committed, CommitError> {
        let steps = match plan(&user.records, event, user.redriving)? {
            Course::Done => return Ok(Committed::Duplicate),
            Course::Parked => return Ok(Committed::Parked),
            Course::Steps(steps) => steps,
        };
        let mut answer = Committed::Duplicate;
        for step in steps {
            let committed = match step {
                Step::Change(id, event) => store.apply(user, &id, &event).await?,
                Step::Create(record, event) => store.create(user, *record, &event).await?,
            };
            answer = louder(answer, committed);
        }
        Ok(answer)
    }
}

/// A change that touched several records is told by what it did most.
fn louder(a: Committed, b: Committed) -> Committed {
    match (a, b) {
        (Committed::Applied, _) | (_, Committed::Applied) => Committed::Applied,
        (Committed::Ignored(reason), _) | (_, Committed::Ignored(reason)) => Committed::Ignored(reason),
        (Committed::Parked, _) | (_, Committed::Parked) => Committed::Parked,
        (Committed::Duplicate, Committed::Duplicate) => Committed::Duplicate,
    }
}
