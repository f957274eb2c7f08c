//! `stripe-worker`: Stripe's events, from the inbox that the webhook and EventBridge fill to the user's
//! entitlements.
//!
//! A lane per user; the events of one user are applied together. An event that names no user resolves its
//! owner through the objects that it names; without one it is parked, and applied automatically as soon as
//! an event links the object to a user.

use aws_lambda_events::event::kinesis::KinesisEvent;
use aws_lambda_events::event::streams::KinesisEventResponse;
use dues_events::UserId;
use dues_events::entitlements::stripe::StripeEvent;
use dues_events::entitlements::stripe::wire::{decode, peek_ids};
use dues_events::wire::WireError;
use dues_store::entitlements::Waiting;
use dues_store::parked::Parked;
use dues_store::{Engine, StoreError};
use futures::future::join_all;

use crate::aws::triggers::kinesis;
use crate::entitlements::record_stripe_events;
use crate::outcome::FactOutcome;
use crate::runtime::context::Context;
use crate::runtime::lanes::{Batch, BatchReport, Delivery, Entry, Lane, LaneOutcomes, Outcome, lanes_by};
use crate::runtime::parking::{Poison, park, parked};

/// The stream it reads.
pub const STREAM: &str = "stripe";
/// Code of a parked event with an unknown user.
pub const UNKNOWN_USER: &str = "unknown_user";

/// Handles one batch of the inbox.
pub async fn stripe_worker<E: Engine>(context: &Context<E>, batch: KinesisEvent) -> KinesisEventResponse {
    let records = kinesis::deliveries(batch);
    let report = apply_events(context, &records).await;
    kinesis::answer(STREAM, &records, &report, context.store.clock.now())
}

/// An event with its user.
struct Owned {
    user: UserId,
    event: StripeEvent,
    /// An earlier delivery parked it until its user would be known.
    was_parked: bool,
}

/// Applies a batch of events.
pub async fn apply_events<E: Engine>(context: &Context<E>, records: &[Delivery]) -> BatchReport {
    let mut batch = Batch::new(records.len());
    let park = |index: usize, poison| park_event(context, &records[index], poison);
    let mut events = batch.decode(records.iter().enumerate(), read, park).await;
    // Two passes: events of the first may link the objects of the others to a user.
    for _ in 0..2 {
        let (owned, unowned) = resolve_owners(context, records, &mut batch, events).await;
        let lanes = lanes_by(owned, |owned| &owned.user);
        batch.run(lanes, context.parallel, |lane| run_lane(context, records, lane)).await;
        events = unowned;
    }
    for Entry { index, item } in events {
        batch.settle(index, park_until_owned(context, &records[index], &item).await);
    }
    batch.report()
}

/// Decodes an event. Rejects unknown tiers; never defaults to free.
fn read(record: &Delivery) -> Result<Option<StripeEvent>, Poison> {
    let event = decode(&record.data)?;
    match event.as_ref().and_then(StripeEvent::unknown_tier) {
        Some(tier) => Err(Poison::from(WireError {
            field: "data.object.metadata.planTier".to_owned(),
            problem: format!("{tier:?} is not the name of a tier"),
        })),
        None => Ok(event),
    }
}

/// Resolves the users of events, and returns the events with an unknown user separately.
async fn resolve_owners<E: Engine>(
    context: &Context<E>,
    records: &[Delivery],
    batch: &mut Batch,
    events: Vec<Entry<StripeEvent>>,
) -> (Vec<Entry<Owned>>, Vec<Entry<StripeEvent>>) {
    let (mut owned, mut unowned) = (Vec::new(), Vec::new());
    let mut events = events.into_iter().peekable();
    while events.peek().is_some() {
        let some: Vec<_> = events.by_ref().take(context.parallel.max(1)).collect();
        let owners = join_all(some.iter().map(|entry| resolve_owner(context, &entry.item))).await;
        for (Entry { index, item: event }, owner) in some.into_iter().zip(owners) {
            match owner {
                Ok(Some((user, was_parked))) => {
                    owned.push(Entry { index, item: Owned { user, event, was_parked } })
                }
                Ok(None) => unowned.push(Entry { index, item: event }),
                Err(error) => batch.settle(index, failed(context, &records[index], &error).await),
            }
        }
    }
    (owned, unowned)
}

/// The user of an event, and whether the event is parked until that user is known.
async fn resolve_owner<E: Engine>(
    context: &Context<E>,
    event: &StripeEvent,
) -> Result<Option<(UserId, bool)>, StoreError> {
    if let Some(user) = event.user() {
        return Ok(Some((user.clone(), false)));
    }
    let owner = context.store.owner(event).await?;
    let Some(user) = owner.user else { return Ok(None) };
    let was_parked = owner.was_waited_for && context.store.is_parked(STREAM, &parked_id(event)).await?;
    Ok(Some((user, was_parked)))
}

/// An event is parked once, however often and from whichever source it is delivered.
pub(crate) fn parked_id(event: &StripeEvent) -> String {
    Parked::id_of(STREAM, event.id.as_str().as_bytes())
}

/// Applies the events of one user together.
async fn run_lane<E: Engine>(
    context: &Context<E>,
    records: &[Delivery],
    lane: Lane<UserId, Owned>,
) -> LaneOutcomes {
    let (deliveries, events): (Vec<(usize, bool)>, Vec<StripeEvent>) =
        lane.entries.into_iter().map(|Entry { index, item }| ((index, item.was_parked), item.event)).unzip();
    let recorded = record_stripe_events(&context.store, &lane.key, &events).await;
    let mut outcomes = LaneOutcomes::with_capacity(events.len());
    for (n, ((index, was_parked), event)) in deliveries.into_iter().zip(&events).enumerate() {
        let outcome = match &recorded {
            Ok(recorded) => match recorded.get(n) {
                Some(FactOutcome::Applied) | None => {
                    unpark(context, event, was_parked, Outcome::Applied).await
                }
                Some(FactOutcome::Duplicate) => unpark(context, event, was_parked, Outcome::Duplicate).await,
                Some(FactOutcome::ConflictingContent) => {
                    let reason = format!("event {} is known with other content", event.id);
                    park_event(context, &records[index], Poison::new("different_content", reason)).await
                }
            },
            Err(error) => failed(context, &records[index], error).await,
        };
        outcomes.settle(index, outcome);
    }
    outcomes
}

/// Removes the parked record of an event that has been applied after all.
async fn unpark<E: Engine>(
    context: &Context<E>,
    event: &StripeEvent,
    was_parked: bool,
    outcome: Outcome,
) -> Outcome {
    if !was_parked {
        return outcome;
    }
    let waiting = Waiting { event: event.clone(), parked: parked_id(event) };
    match context.store.engine.transact(waiting.done(STREAM)).await {
        Ok(_) => outcome,
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

/// Parks an event until another one links its objects to a user.
async fn park_until_owned<E: Engine>(
    context: &Context<E>,
    record: &Delivery,
    event: &StripeEvent,
) -> Outcome {
    let objects = event.objects().join(", ");
    let reason =
        format!("no user is known for {objects}: applied automatically once an event names the user");
    let ids = (Some(event.id.to_string()), None);
    let parked = Parked {
        id: parked_id(event),
        ..parked(&context.store, STREAM, record, (UNKNOWN_USER, reason), ids)
    };
    match context.store.wait_for_owner(event, &parked).await {
        Ok(None) => Outcome::Parked,
        // The user became known just now, and the event that linked it may have missed this parked one.
        Ok(Some(user)) => {
            match record_stripe_events(&context.store, &user, std::slice::from_ref(event)).await {
                Ok(_) => unpark(context, event, true, Outcome::Applied).await,
                Err(error) => Outcome::Failed(error.to_string()),
            }
        }
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

async fn failed<E: Engine>(context: &Context<E>, record: &Delivery, error: &StoreError) -> Outcome {
    match Poison::of(error) {
        Ok(poison) => park_event(context, record, poison).await,
        Err(failed) => failed,
    }
}

async fn park_event<E: Engine>(context: &Context<E>, record: &Delivery, poison: Poison) -> Outcome {
    park(&context.store, STREAM, record, poison, peek_ids(&record.data)).await
}
