//! `app-events`: what applications tell of themselves, from a stream to the read models.
//!
//! Aggregates are worked on in parallel, the events of one together and in order. A type that no read model of this deployment reads is counted and
//! skipped; an event that cannot be read, or contradicts one with its id, is parked.

use aws_lambda_events::event::kinesis::KinesisEvent;
use aws_lambda_events::event::streams::KinesisEventResponse;
use dues_events::wire::WireError;
use dues_events::wire::app_events::{AppEvent, decode};
use dues_events::wire::peek;
use dues_projections::figureforge::Figureforge;
use dues_projections::model::{Model, Told};
use dues_projections::serenya::{Serenya, raw_token, remove_tokens};
use dues_projections::usage::Usage;
use dues_store::{Engine, StoreError};
use futures::stream::{StreamExt as _, iter};
use serde_json::Value as Json;
use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::batch::{Context, Fate, Incoming, Report, guarded, park_as};
use crate::kinesis;
use crate::read_models::ReadModel;
use crate::read_models::booking::{Booked, tell};

/// The stream it reads.
pub const STREAM: &str = "app-events";
/// Why an event is parked that says something else than the one with its id that is known.
pub const DIFFERENT: &str = "different_content";

/// Handles one batch.
pub async fn app_events<E: Engine>(context: &Context<E>, batch: KinesisEvent) -> KinesisEventResponse {
    let records = kinesis::incoming(batch);
    let report = app_events_worker(context, &records).await;
    kinesis::answer(STREAM, &records, &report, context.store.clock.now())
}

/// Runs a batch of events.
pub async fn app_events_worker<E: Engine>(context: &Context<E>, records: &[Incoming]) -> Report {
    let mut fates = vec![Fate::Skipped; records.len()];
    let mut events: BTreeMap<ReadModel, Vec<(usize, AppEvent)>> = BTreeMap::new();
    for (place, record) in records.iter().enumerate() {
        match decode(&record.data) {
            Ok(Some(event)) => {
                if let Some(model) = ReadModel::named(&event.model).filter(|model| context.read_models.has(*model)) {
                    events.entry(model).or_default().push((place, event));
                }
            }
            Ok(None) => {}
            Err(error) => fates[place] = malformed(context, record, &error).await,
        }
    }
    for (model, events) in events {
        let done = match model {
            ReadModel::Usage => run::<Usage, E>(context, records, events).await,
            ReadModel::Figureforge => run::<Figureforge, E>(context, records, events).await,
            ReadModel::Serenya => run::<Serenya, E>(context, records, events).await,
        };
        done.into_iter().for_each(|(place, fate)| fates[place] = fate);
    }
    Report { fates }
}

/// The events of one aggregate, and where they stand in the batch.
type Lane<F> = (Vec<usize>, Vec<Told<F>>);

/// Tells one model what is for it.
async fn run<M: Model, E: Engine>(context: &Context<E>, records: &[Incoming], events: Vec<(usize, AppEvent)>) -> Vec<(usize, Fate)> {
    let mut fates = Vec::with_capacity(events.len());
    let mut lanes: BTreeMap<String, Lane<M::Fact>> = BTreeMap::new();
    for (place, event) in events {
        match M::read(&event) {
            Ok(Some((aggregate, fact))) => {
                let (places, facts) = lanes.entry(aggregate).or_default();
                places.push(place);
                facts.push(Told { id: event.id, at: event.at, fact });
            }
            Ok(None) => fates.push((place, Fate::Skipped)),
            Err(error) => fates.push((place, malformed(context, &records[place], &error).await)),
        }
    }
    let lanes = iter(lanes).map(|(aggregate, lane)| guarded(lane.0.clone(), run_lane::<M, E>(context, records, aggregate, lane)));
    let mut running = lanes.buffer_unordered(context.parallel.max(1));
    while let Some(done) = running.next().await {
        fates.extend(done);
    }
    fates
}

async fn run_lane<M: Model, E: Engine>(
    context: &Context<E>,
    records: &[Incoming],
    aggregate: String,
    (places, facts): Lane<M::Fact>,
) -> Vec<(usize, Fate)> {
    let mut fates = Vec::with_capacity(places.len());
    match tell::<M, E>(&context.store, &aggregate, &facts).await {
        Ok(booked) => {
            for (place, booked) in places.into_iter().zip(booked) {
                let fate = match booked {
                    Booked::Applied => Fate::Applied,
                    Booked::Duplicate => Fate::Duplicate,
                    Booked::Different => {
                        let reason = "another event with this event_id, and other content, was taken before".to_owned();
                        park(context, &records[place], DIFFERENT, reason).await
                    }
                };
                fates.push((place, fate));
            }
        }
        Err(error) => {
            for place in places {
                fates.push((place, failed(context, &records[place], &error).await));
            }
        }
    }
    fates
}

/// What can succeed later is delivered again; the rest is parked.
async fn failed<E: Engine>(context: &Context<E>, record: &Incoming, error: &StoreError) -> Fate {
    if error.is_transient() { Fate::Failed(error.to_string()) } else { park(context, record, "store", error.to_string()).await }
}

async fn malformed<E: Engine>(context: &Context<E>, record: &Incoming, error: &WireError) -> Fate {
    park(context, record, "malformed", error.to_string()).await
}

async fn park<E: Engine>(context: &Context<E>, record: &Incoming, code: &str, reason: String) -> Fate {
    let (who, data) = (peek(&record.data), without_tokens(&record.data).into_owned());
    park_as(&context.store, STREAM, &Incoming { data, ..record.clone() }, code, reason, who).await
}

/// A record without the tokens that somebody told by mistake: nobody keeps those, not even among the parked records.
pub(crate) fn without_tokens(data: &[u8]) -> Cow<'_, [u8]> {
    match serde_json::from_slice::<Json>(data) {
        Ok(mut json) if raw_token(&json).is_some() => {
            remove_tokens(&mut json);
            Cow::Owned(json.to_string().into_bytes())
        }
        Ok(_) | Err(_) => Cow::Borrowed(data),
    }
}
