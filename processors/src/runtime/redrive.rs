//! Redrive: parked records go through their handler again.

use dues_events::ParkedEvents;
use dues_events::collections::wire::{BALANCE, INCOME};
use dues_events::wire::peek_ids;
use dues_store::parked::Parked;
use dues_store::{Engine, Store, StoreError};

use crate::FACT_STREAMS;
use crate::aws::triggers::sqs;
use crate::billing::ach_handler::{self, AchHandler};
use crate::billing::feeder::{self, KinesisFeeder};
use crate::billing::memberships::{self, Memberships};
use crate::billing::user_lanes::process;
use crate::collections::gateway::Gateway;
use crate::collections::signals::{SignalOutcome, webhook_balance_worker, webhook_worker};
use crate::collections::{Collector, UserCollection, batch_worker};
use crate::entitlements::groups::Directory;
use crate::entitlements::stripe_worker;
use crate::messaging::bus::Bus;
use crate::messaging::outbox::Outbox;
use crate::projector::{GROUPS_STREAM, Projector, redrive_groups};
use crate::read_models::app_events;
use crate::runtime::changes::Change;
use crate::runtime::context::Context;
use crate::runtime::lanes::{Batch, BatchReport, Delivery, Entry, LaneOutcomes, Outcome, lanes_by};
use crate::serenya::s3_events;

/// Runs a batch of a stream of facts; `None` for any other stream.
pub async fn process_stream<E: Engine>(
    context: &Context<E>,
    stream: &str,
    records: &[Delivery],
) -> Option<BatchReport> {
    match stream {
        ach_handler::STREAM => Some(process::<AchHandler, E>(context, records).await),
        memberships::STREAM => Some(process::<Memberships, E>(context, records).await),
        stripe_worker::STREAM => Some(stripe_worker::apply_events(context, records).await),
        app_events::STREAM => Some(app_events::app_events_worker(context, records).await),
        s3_events::STREAM => Some(s3_events::s3_events_worker(context, records).await),
        _ => None,
    }
}

/// Runs a batch of a stream of collection requests; `None` for any other stream. Signals run in a lane per
/// member, so that they do not contend for the member's lock; a failed one does not stop its lane, because
/// collections are independent. Operators' lists run one after another: two may name the same member.
pub async fn process_collections<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    stream: &str,
    records: &[Delivery],
) -> Option<BatchReport> {
    let source = CollectionSource::named(stream)?;
    let lane_key = |record: &Delivery| match source {
        CollectionSource::Income | CollectionSource::Balance => peek_ids(&record.data).1.unwrap_or_default(),
        CollectionSource::Tasks | CollectionSource::Lists => String::new(),
    };
    let entries = records.iter().enumerate();
    let entries = entries.map(|(index, record)| Entry { index, item: (lane_key(record), record) }).collect();
    let mut batch = Batch::new(records.len());
    let lanes = lanes_by(entries, |(key, _)| key);
    batch
        .run(lanes, PARALLEL_MEMBERS, async |lane| {
            let mut outcomes = LaneOutcomes::with_capacity(lane.entries.len());
            for Entry { index, item: (_, record) } in lane.entries {
                outcomes.settle(index, source.collect(collector, record).await);
            }
            outcomes
        })
        .await;
    Some(batch.report())
}

/// Members collected from at once.
const PARALLEL_MEMBERS: usize = 128;

/// Where a request to collect comes from.
#[derive(Clone, Copy)]
enum CollectionSource {
    Income,
    Balance,
    /// Tasks of `collections-job`.
    Tasks,
    /// Operators' lists.
    Lists,
}

impl CollectionSource {
    fn named(stream: &str) -> Option<Self> {
        match stream {
            INCOME => Some(Self::Income),
            BALANCE => Some(Self::Balance),
            sqs::COLLECTIONS => Some(Self::Tasks),
            batch_worker::QUEUE => Some(Self::Lists),
            _ => None,
        }
    }

    /// Collects for one request. A member that another worker has locked was not collected from: the request
    /// has to be redelivered.
    async fn collect<E: Engine, G: Gateway>(self, collector: &Collector<E, G>, record: &Delivery) -> Outcome {
        let of_signal = |handled: Result<SignalOutcome, String>| match handled {
            Ok(SignalOutcome::Collected(user, UserCollection::Locked)) => locked(user.as_str()),
            Ok(SignalOutcome::Collected(_, UserCollection::Done(_))) => Outcome::Applied,
            Ok(SignalOutcome::BelowThreshold) => Outcome::Ignored,
            Ok(SignalOutcome::Parked) => Outcome::Parked,
            Err(reason) => Outcome::Failed(reason),
        };
        match self {
            Self::Income => of_signal(webhook_worker(collector, record).await),
            Self::Balance => of_signal(webhook_balance_worker(collector, record).await),
            Self::Tasks => sqs::collect_task(collector, record).await,
            Self::Lists => match batch_worker::batch_worker(collector, record).await {
                Ok(done) => {
                    let is_locked = |collection: &_| *collection == Some(UserCollection::Locked);
                    match done.iter().find(|(_, collection)| is_locked(collection)) {
                        Some((id, _)) => locked(id.as_str()),
                        // Records of a longer list that could not be collected are parked one by one.
                        None if done.len() <= 1
                            && done.iter().all(|(_, collection)| collection.is_none()) =>
                        {
                            Outcome::Parked
                        }
                        None => Outcome::Applied,
                    }
                }
                Err(reason) => Outcome::Failed(reason),
            },
        }
    }
}

fn locked(whom: &str) -> Outcome {
    Outcome::Failed(format!("{whom}: another worker has locked the member"))
}

/// The id under which a record of a stream would be parked. Stripe events without a known user use their
/// event id, since two sources deliver them; application events are parked without tokens.
#[must_use]
pub fn parked_id(stream: &str, data: &[u8]) -> String {
    let event = if stream == stripe_worker::STREAM {
        dues_events::entitlements::stripe::wire::decode(data).ok().flatten()
    } else {
        None
    };
    match event {
        Some(event) if event.user().is_none() => stripe_worker::parked_id(&event),
        None if stream == app_events::STREAM => Parked::id_of(stream, &app_events::without_tokens(data)),
        Some(_) | None => Parked::id_of(stream, data),
    }
}

/// The handlers of all parked records.
pub struct Handlers<E: Engine, G, D, O, B> {
    /// For stream records.
    pub context: Context<E>,
    /// For signals, tasks and lists of the collections engine.
    pub collector: Collector<E, G>,
    /// For changes of the tables, and group effects.
    pub projector: Projector<E, D>,
    /// For publications.
    pub feeder: KinesisFeeder<E, O, B>,
}

impl<E: Engine, G: Gateway, D: Directory, O: Outbox, B: Bus> Handlers<E, G, D, O, B> {
    /// Redrives one parked record.
    ///
    /// # Errors
    /// The store failed, or no handler reads the stream.
    pub async fn redrive(&self, parked: &Parked) -> Result<Outcome, StoreError> {
        match parked.stream.as_str() {
            stream if FACT_STREAMS.contains(&stream) => redrive(&self.context, parked).await,
            INCOME | BALANCE | sqs::COLLECTIONS | batch_worker::QUEUE => {
                redrive_collection(&self.collector, parked).await
            }
            GROUPS_STREAM => redrive_groups(&self.projector, parked).await,
            stream if stream.starts_with(feeder::NAME) => redrive_feed(&self.feeder, parked).await,
            _ => redrive_change(&self.projector, parked).await,
        }
    }
}

/// Redrives a stream record, and unparks it if it is done.
pub async fn redrive<E: Engine>(context: &Context<E>, parked: &Parked) -> Result<Outcome, StoreError> {
    let redrive = Context { parked_events: ParkedEvents::Redrive, ..context.clone() };
    let record =
        Delivery { sequence: parked.sequence.clone(), arrived: parked.parked_at, data: parked.body.clone() };
    let report = process_stream(&redrive, &parked.stream, &[record]).await;
    let outcome = report.and_then(|report| report.outcomes.into_iter().next());
    let outcome =
        outcome.ok_or_else(|| StoreError::Invalid(format!("no handler reads stream {}", parked.stream)))?;
    unpark_done(&context.store, parked, outcome).await
}

/// Redrives a signal, task or list through the collections engine, and unparks it if it is done.
pub async fn redrive_collection<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    parked: &Parked,
) -> Result<Outcome, StoreError> {
    let record =
        Delivery { sequence: parked.sequence.clone(), arrived: parked.parked_at, data: parked.body.clone() };
    let Some(source) = CollectionSource::named(&parked.stream) else {
        return Err(StoreError::Invalid(format!("no handler reads stream {}", parked.stream)));
    };
    let outcome = source.collect(collector, &record).await;
    unpark_done(&collector.store, parked, outcome).await
}

/// Redrives a change through the projector, and unparks it if it is done.
pub async fn redrive_change<E: Engine, D: Directory>(
    projector: &Projector<E, D>,
    parked: &Parked,
) -> Result<Outcome, StoreError> {
    let Ok(change) = Change::of_parked(parked, &projector.tables) else { return Ok(Outcome::Parked) };
    let outcome = match projector.repeat(&change).await {
        Ok(outcome) => outcome,
        Err(error) if error.is_transient() => Outcome::Failed(error.to_string()),
        Err(_) => Outcome::Parked,
    };
    unpark_done(&projector.store, parked, outcome).await
}

/// Redrives a change through the feeder, and unparks it if it is published.
pub async fn redrive_feed<E: Engine, O: Outbox, B: Bus>(
    feeder: &KinesisFeeder<E, O, B>,
    parked: &Parked,
) -> Result<Outcome, StoreError> {
    let Ok(change) = Change::of_parked(parked, &feeder.tables) else { return Ok(Outcome::Parked) };
    let outcome = feeder.repeat(&change).await;
    unpark_done(&feeder.store, parked, outcome).await
}

/// Unparks a record if its outcome is done.
async fn unpark_done<E: Engine>(
    store: &Store<E>,
    parked: &Parked,
    outcome: Outcome,
) -> Result<Outcome, StoreError> {
    if outcome.is_done() {
        store.unpark(parked).await?;
    }
    Ok(outcome)
}
