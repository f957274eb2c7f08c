//! Billing streams: a lane per user, each event applied to the user's records in order.
//!
//! Rare branches are boxed: a batch holds a thousand lane futures at once, and each reserves space for every
//! branch that is not boxed.

use dues_events::billing::decide::Rejection;
use dues_events::billing::event::Event;
use dues_events::ids::{SubscriptionId, UserId};
use dues_events::wire::{WireError, peek_ids};
use dues_store::billing::user_records::UserRecords;
use dues_store::{CommitError, Committed, Engine, Store, StoreError};
use std::future::Future;

use crate::runtime::context::Context;
use crate::runtime::lanes::{Batch, BatchReport, Delivery, Lane, LaneOutcomes, Outcome, lanes_by};
use crate::runtime::parking::{Poison, park};

/// The handler of a billing stream.
pub trait BillingHandler: Send + Sync + 'static {
    /// A decoded record.
    type Event: Send + Sync;
    /// The stream it reads.
    const STREAM: &'static str;

    /// Decodes a record; `None` for a type that this handler does not read.
    ///
    /// # Errors
    /// [`WireError`] names the field.
    fn decode(bytes: &[u8]) -> Result<Option<Self::Event>, WireError>;

    /// The user, which is the lane: events of one user stay in order.
    fn user(event: &Self::Event) -> &UserId;

    /// The record that gets a rejected event in its history, and the event as applied to that record.
    fn target(user: &UserRecords, event: &Self::Event) -> Option<(SubscriptionId, Event)>;

    /// Applies an event to the user's records.
    fn apply<E: Engine>(
        store: &Store<E>,
        user: &mut UserRecords,
        event: &Self::Event,
    ) -> impl Future<Output = Result<Committed, CommitError>> + Send;
}

/// A record and its event.
struct Message<'a, H: BillingHandler> {
    record: &'a Delivery,
    event: H::Event,
}

/// Runs a batch through a handler.
pub async fn process<H: BillingHandler, E: Engine>(
    context: &Context<E>,
    records: &[Delivery],
) -> BatchReport {
    let mut batch = Batch::new(records.len());
    let park_malformed = |index: usize, poison| {
        let record: &Delivery = &records[index];
        park(&context.store, H::STREAM, record, poison, peek_ids(&record.data))
    };
    let messages = batch.decode(records.iter().enumerate(), decode::<H>, park_malformed).await;
    let mut lanes = lanes_by(messages, |message| H::user(&message.event));
    let parallel = context.parallel.max(1);
    while !lanes.is_empty() {
        // One request reads the records of all users of a chunk.
        let chunk: Vec<_> = lanes.drain(..lanes.len().min(parallel)).collect();
        let users = context.store.load_users(chunk.iter().map(|lane| &lane.key)).await;
        batch.run(chunk.into_iter().zip(users), parallel, |(lane, user)| run_lane(context, lane, user)).await;
    }
    batch.report()
}

fn decode<H: BillingHandler>(record: &Delivery) -> Result<Option<Message<'_, H>>, Poison> {
    Ok(H::decode(&record.data)?.map(|event| Message { record, event }))
}

async fn run_lane<H: BillingHandler, E: Engine>(
    context: &Context<E>,
    lane: Lane<UserId, Message<'_, H>>,
    user: Result<UserRecords, StoreError>,
) -> LaneOutcomes {
    let mut outcomes = LaneOutcomes::with_capacity(lane.entries.len());
    let mut user = match user {
        Ok(user) => UserRecords { parked_events: context.parked_events, ..user },
        Err(error) => {
            for entry in &lane.entries {
                outcomes.settle(entry.index, Box::pin(store_failed(context, &entry.item, &error)).await);
            }
            return outcomes;
        }
    };
    for entry in lane.entries {
        let index = entry.index;
        if outcomes.is_behind_failure(index) {
            continue;
        }
        match H::apply(&context.store, &mut user, &entry.item.event).await {
            Ok(committed) => outcomes.settle(index, outcome(committed)),
            Err(CommitError::Rejected(rejection)) => {
                outcomes.settle(index, Box::pin(reject(context, &mut user, &entry.item, &rejection)).await);
            }
            Err(CommitError::Store(error)) if error.is_transient() => {
                outcomes.settle_or_stop(index, Outcome::Failed(error.to_string()))
            }
            Err(CommitError::Store(error)) => {
                outcomes.settle(index, Box::pin(store_failed(context, &entry.item, &error)).await)
            }
        }
    }
    outcomes
}

fn outcome(committed: Committed) -> Outcome {
    match committed {
        Committed::Applied => Outcome::Applied,
        Committed::Ignored(_) => Outcome::Ignored,
        Committed::Duplicate | Committed::Overtaken => Outcome::Duplicate,
        Committed::Parked => Outcome::Parked,
    }
}

/// Parks a rejected event, and writes the rejection to the history of its record.
async fn reject<H: BillingHandler, E: Engine>(
    context: &Context<E>,
    user: &mut UserRecords,
    message: &Message<'_, H>,
    rejection: &Rejection,
) -> Outcome {
    let outcome = park_message(context, message, rejection.into()).await;
    if outcome == Outcome::Parked
        && let Some((id, event)) = H::target(user, &message.event)
        && let Err(error) = context.store.refuse(user, &id, &event, rejection).await
    {
        return Outcome::Failed(error.to_string());
    }
    outcome
}

async fn store_failed<H: BillingHandler, E: Engine>(
    context: &Context<E>,
    message: &Message<'_, H>,
    error: &StoreError,
) -> Outcome {
    match Poison::of(error) {
        Ok(poison) => park_message(context, message, poison).await,
        Err(failed) => failed,
    }
}

async fn park_message<H: BillingHandler, E: Engine>(
    context: &Context<E>,
    message: &Message<'_, H>,
    poison: Poison,
) -> Outcome {
    let (event_id, _) = peek_ids(&message.record.data);
    let user = H::user(&message.event).to_string();
    park(&context.store, H::STREAM, message.record, poison, (event_id, Some(user))).await
}
