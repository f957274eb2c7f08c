//! Driving parked records through again.

use chrono::TimeDelta;
use dues_events::Rejection;
use dues_events::wire::signals::{BALANCE, INCOME};
use dues_store::parked::Parked;
use dues_store::{Engine, Store, StoreError};

use crate::STREAMS;
use crate::ach_handler::{self, AchHandler};
use crate::app_events;
use crate::batch::{Context, Fate, Incoming, Report, process};
use crate::bus::Bus;
use crate::changes::Change;
use crate::collections::signals::{Acted, webhook_balance_worker, webhook_worker};
use crate::collections::{Collector, batch_worker};
use crate::gateway::Gateway;
use crate::groups::Directory;
use crate::kinesis_feeder::{self, KinesisFeeder};
use crate::memberships::{self, Memberships};
use crate::outbox::Outbox;
use crate::projector::{GROUPS_STREAM, Projector, redrive_groups};
use crate::s3_events;
use crate::sqs;
use crate::stripe;

/// Runs a batch of a stream, by the stream's name; `None` for a stream that nothing here reads.
pub async fn process_stream<E: Engine>(context: &Context<E>, stream: &str, records: &[Incoming]) -> Option<Report> {
    match stream {
        ach_handler::STREAM => Some(process::<AchHandler, E>(context, records).await),
        memberships::STREAM => Some(process::<Memberships, E>(context, records).await),
        stripe::STREAM => Some(stripe::stripe_worker(context, records).await),
        app_events::STREAM => Some(app_events::app_events_worker(context, records).await),
        s3_events::STREAM => Some(s3_events::s3_events_worker(context, records).await),
        _ => None,
    }
}

/// The id under which a record of a stream is parked, if it is. Events of Stripe's that wait for their user go by their own id, because they may come
/// by two doors; of applications' events what is parked has no tokens in it.
#[must_use]
pub fn parked_id(stream: &str, data: &[u8]) -> String {
    let waits = if stream == stripe::STREAM { dues_events::wire::stripe::decode(data).ok().flatten() } else { None };
    match waits {
        Some(event) if event.user().is_none() => stripe::parked_id(&event),
        None if stream == app_events::STREAM => Parked::id_of(stream, &app_events::without_tokens(data)),
        Some(_) | None => Parked::id_of(stream, data),
    }
}

/// Everything that parked records may have to go through.
pub struct Handlers<E: Engine, G, D, O, B> {
    /// For records of the streams.
    pub context: Context<E>,
    /// For signals, tasks and lists.
    pub collector: Collector<E, G>,
    /// For changes of the tables, and groups.
    pub projector: Projector<E, D>,
    /// For what others are told.
    pub feeder: KinesisFeeder<E, O, B>,
}

impl<E: Engine, G: Gateway, D: Directory, O: Outbox, B: Bus> Handlers<E, G, D, O, B> {
    /// Drives one parked record through whatever it was for.
    ///
    /// # Errors
    /// What the store could not do, or a stream that nobody here reads.
    pub async fn redrive(&self, parked: &Parked) -> Result<Fate, StoreError> {
        match parked.stream.as_str() {
            stream if STREAMS.contains(&stream) => redrive(&self.context, parked).await,
            INCOME | BALANCE | sqs::COLLECTIONS | batch_worker::QUEUE => redrive_collection(&self.collector, parked).await,
            GROUPS_STREAM => redrive_groups(&self.projector, parked).await,
            stream if stream.starts_with(kinesis_feeder::NAME) => redrive_feed(&self.feeder, parked).await,
            _ => redrive_change(&self.projector, parked).await,
        }
    }
}

/// Drives one parked record through its handler. What goes through is taken out of the parked ones; what does not, stays.
///
/// # Errors
/// What the store could not do.
pub async fn redrive<E: Engine>(context: &Context<E>, parked: &Parked) -> Result<Fate, StoreError> {
    let redriving = Context { hold: TimeDelta::zero(), redriving: true, ..context.clone() };
    let record = Incoming { sequence: parked.sequence.clone(), arrived: parked.parked_at, data: parked.body.clone() };
    let report = process_stream(&redriving, &parked.stream, &[record]).await;
    let fate = report.and_then(|report| report.fates.into_iter().next());
    let fate = fate.ok_or_else(|| StoreError::Invalid(format!("no handler reads stream {}", parked.stream)))?;
    driven(&context.store, parked, fate).await
}

/// Drives one parked signal, task or list through the collections engine. What goes through is taken out of the parked ones.
///
/// # Errors
/// What the store could not do, or a stream that the engine does not read.
pub async fn redrive_collection<E: Engine, G: Gateway>(collector: &Collector<E, G>, parked: &Parked) -> Result<Fate, StoreError> {
    let record = Incoming { sequence: parked.sequence.clone(), arrived: parked.parked_at, data: parked.body.clone() };
    let acted = |acted: Acted| acted == Acted::Parked;
    let driven = match parked.stream.as_str() {
        INCOME => webhook_worker(collector, &record).await.map(acted),
        BALANCE => webhook_balance_worker(collector, &record).await.map(acted),
        sqs::COLLECTIONS => sqs::visit_task(collector, &record).await,
        // Of a longer list, what could not be done has been parked by itself.
        batch_worker::QUEUE => batch_worker::batch_worker(collector, &record)
            .await
            .map(|done| done.len() <= 1 && done.iter().all(|(_, visit)| visit.is_none())),
        other => return Err(StoreError::Invalid(format!("no handler reads stream {other}"))),
    };
    match driven {
        Ok(true) => Ok(Fate::Parked),
        Ok(false) => {
            collector.store.unpark(parked).await?;
            Ok(Fate::Applied)
        }
        Err(reason) => Ok(Fate::Failed(reason)),
    }
}

/// Does what follows from one parked change. What goes through is taken out of the parked ones; what still cannot be understood, stays.
///
/// # Errors
/// What the store could not do.
pub async fn redrive_change<E: Engine, D: Directory>(projector: &Projector<E, D>, parked: &Parked) -> Result<Fate, StoreError> {
    let Ok(change) = Change::of_parked(parked, &projector.tables) else { return Ok(Fate::Parked) };
    let fate = match projector.repeat(&change).await {
        Ok(fate) => fate,
        Err(error) if error.is_transient() => Fate::Failed(error.to_string()),
        Err(_) => Fate::Parked,
    };
    driven(&projector.store, parked, fate).await
}

/// Tells others of one parked change. What goes through is taken out of the parked ones; what still cannot be told, stays.
///
/// # Errors
/// What the store could not do.
pub async fn redrive_feed<E: Engine, O: Outbox, B: Bus>(feeder: &KinesisFeeder<E, O, B>, parked: &Parked) -> Result<Fate, StoreError> {
    let Ok(change) = Change::of_parked(parked, &feeder.tables) else { return Ok(Fate::Parked) };
    let fate = feeder.repeat(&change).await;
    driven(&feeder.store, parked, fate).await
}

/// Drives those through that only came too early, again and again until none moves. Gives each that went through, with its fate.
///
/// # Errors
/// What the store could not do.
pub async fn release_waiting<E: Engine>(context: &Context<E>, stream: &str) -> Result<Vec<(Parked, Fate)>, StoreError> {
    let mut released = Vec::new();
    loop {
        let before = released.len();
        for parked in context.store.parked_with(stream, Rejection::NotYetSent.code()).await? {
            let fate = redrive(context, &parked).await?;
            if !matches!(fate, Fate::Parked | Fate::Failed(_)) {
                released.push((parked, fate));
            }
        }
        if released.len() == before {
            return Ok(released);
        }
    }
}

/// Takes a record that went through out of the parked ones.
async fn driven<E: Engine>(store: &Store<E>, parked: &Parked, fate: Fate) -> Result<Fate, StoreError> {
    match &fate {
        Fate::Applied | Fate::Duplicate | Fate::Ignored | Fate::Skipped => store.unpark(parked).await?,
        Fate::Parked | Fate::Failed(_) => {}
    }
    Ok(fate)
}
