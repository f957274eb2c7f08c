//! `app-events`: events of applications, from a stream to the read models.
//!
//! A lane per aggregate. A type that no read model of this deployment reads is skipped; an event that cannot
//! be decoded, or that contradicts the one with its id, is parked.

use aws_lambda_events::event::kinesis::KinesisEvent;
use aws_lambda_events::event::streams::KinesisEventResponse;
use dues_events::wire::app_events::{AppEvent, decode};
use dues_events::wire::peek_ids;
use dues_projections::figureforge::Figureforge;
use dues_projections::model::{Model, Recorded};
use dues_projections::serenya::{Serenya, raw_token, remove_tokens};
use dues_projections::usage::Usage;
use dues_store::Engine;
use serde_json::Value as Json;
use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::aws::triggers::kinesis;
use crate::outcome::FactOutcome;
use crate::read_models::ReadModel;
use crate::read_models::journal_commit::record_facts;
use crate::runtime::context::Context;
use crate::runtime::lanes::{Batch, BatchReport, Delivery, Lane, LaneOutcomes, Outcome, lanes_by};
use crate::runtime::parking::{Poison, park};

/// The stream it reads.
pub const STREAM: &str = "app-events";
/// Code of a parked event with a known id and other content.
pub const DIFFERENT: &str = "different_content";

/// Handles one batch of the stream.
pub async fn app_events<E: Engine>(context: &Context<E>, batch: KinesisEvent) -> KinesisEventResponse {
    let records = kinesis::deliveries(batch);
    let report = app_events_worker(context, &records).await;
    kinesis::answer(STREAM, &records, &report, context.store.clock.now())
}

/// Applies a batch of events.
pub async fn app_events_worker<E: Engine>(context: &Context<E>, records: &[Delivery]) -> BatchReport {
    let mut batch = Batch::new(records.len());
    let decode = |record: &Delivery| {
        let Some(event) = decode(&record.data)? else { return Ok(None) };
        let model = ReadModel::named(&event.model).filter(|model| context.read_models.has(*model));
        Ok(model.map(|model| (model, event)))
    };
    let park = |index: usize, poison| park_without_tokens(context, &records[index], poison);
    let mut by_model: BTreeMap<ReadModel, Vec<(usize, AppEvent)>> = BTreeMap::new();
    for entry in batch.decode(records.iter().enumerate(), decode, park).await {
        let (model, event) = entry.item;
        by_model.entry(model).or_default().push((entry.index, event));
    }
    for (model, events) in by_model {
        match model {
            ReadModel::Usage => run::<Usage, E>(context, records, &mut batch, events).await,
            ReadModel::Figureforge => run::<Figureforge, E>(context, records, &mut batch, events).await,
            ReadModel::Serenya => run::<Serenya, E>(context, records, &mut batch, events).await,
        }
    }
    batch.report()
}

/// Applies the events of one read model, a lane per aggregate.
async fn run<M: Model, E: Engine>(
    context: &Context<E>,
    records: &[Delivery],
    batch: &mut Batch,
    events: Vec<(usize, AppEvent)>,
) {
    let decode = |event: AppEvent| {
        let fact = M::read(&event)?;
        Ok(fact.map(|(aggregate, fact)| (aggregate, Recorded { id: event.id, at: event.at, fact })))
    };
    let park = |index: usize, poison| park_without_tokens(context, &records[index], poison);
    let facts = batch.decode(events, decode, park).await;
    let lanes = lanes_by(facts, |(aggregate, _)| aggregate);
    batch.run(lanes, context.parallel, |lane| run_lane::<M, E>(context, records, lane)).await;
}

/// Records the facts of one aggregate together.
async fn run_lane<M: Model, E: Engine>(
    context: &Context<E>,
    records: &[Delivery],
    lane: Lane<String, (String, Recorded<M::Fact>)>,
) -> LaneOutcomes {
    let (indices, facts): (Vec<usize>, Vec<_>) =
        lane.entries.into_iter().map(|entry| (entry.index, entry.item.1)).unzip();
    let recorded = record_facts::<M, E>(&context.store, &lane.key, &facts).await;
    let mut outcomes = LaneOutcomes::with_capacity(indices.len());
    for (n, index) in indices.into_iter().enumerate() {
        let poison = match &recorded {
            Ok(recorded) => match recorded[n] {
                FactOutcome::Applied => Err(Outcome::Applied),
                FactOutcome::Duplicate => Err(Outcome::Duplicate),
                FactOutcome::ConflictingContent => {
                    Ok(Poison::new(DIFFERENT, "this event_id is known with other content"))
                }
            },
            Err(error) => Poison::of(error),
        };
        let outcome = match poison {
            Ok(poison) => park_without_tokens(context, &records[index], poison).await,
            Err(outcome) => outcome,
        };
        outcomes.settle(index, outcome);
    }
    outcomes
}

async fn park_without_tokens<E: Engine>(context: &Context<E>, record: &Delivery, poison: Poison) -> Outcome {
    let (ids, data) = (peek_ids(&record.data), without_tokens(&record.data).into_owned());
    park(&context.store, STREAM, &Delivery { data, ..record.clone() }, poison, ids).await
}

/// Removes tokens that were sent by mistake: they are stored nowhere, not even parked.
pub(crate) fn without_tokens(data: &[u8]) -> Cow<'_, [u8]> {
    match serde_json::from_slice::<Json>(data) {
        Ok(mut json) if raw_token(&json).is_some() => {
            remove_tokens(&mut json);
            Cow::Owned(json.to_string().into_bytes())
        }
        Ok(_) | Err(_) => Cow::Borrowed(data),
    }
}
