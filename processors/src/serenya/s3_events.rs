//! `s3-events`: S3 objects created and deleted, from EventBridge or from bucket notifications, to the jobs
//! of `serenya`.
//!
//! S3 delivers at least once and in no order: of the events of one object, the greatest sequencer counts.

use dues_events::Time;
use dues_events::wire::{WireError, peek_ids};
use dues_projections::model::Recorded;
use dues_projections::serenya::document::{Document, Object, ObjectKind, read_key, read_sequencer};
use dues_projections::serenya::{Fact, Serenya, aggregate_of};
use dues_store::{Engine, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::api::decoded_text;
use crate::outcome::FactOutcome;
use crate::read_models::ReadModel;
use crate::read_models::journal_commit::record_facts;
use crate::runtime::context::Context;
use crate::runtime::lanes::{BatchReport, Delivery, Outcome};
use crate::runtime::parking::{Poison, park};

/// The stream it reads locally, and the name of its parked records.
pub const STREAM: &str = "s3-events";
/// The source of these events on the bus.
const SOURCE: &str = "aws.s3";

/// An event as Lambda delivers it: EventBridge's envelope, or `{"Records":[…]}` of a bucket notification.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct S3Event(pub Json);

/// An event has to be redelivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event has to be redelivered: {0}")]
pub struct S3Failed(pub String);

/// The outcome of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct S3Summary {
    /// `applied`, `duplicate`, `skipped` or `parked`.
    pub acted: &'static str,
}

/// Handles one event.
pub async fn s3_events<E: Engine>(context: &Context<E>, event: S3Event) -> Result<S3Summary, S3Failed> {
    let id = event.0["id"].as_str().unwrap_or_default().to_owned();
    let record = Delivery {
        sequence: id.clone(),
        arrived: context.store.clock.now(),
        data: event.0.to_string().into_bytes(),
    };
    let acted = match handle(context, &record).await {
        Outcome::Applied => "applied",
        Outcome::Duplicate | Outcome::Ignored => "duplicate",
        Outcome::Skipped => "skipped",
        Outcome::Parked => "parked",
        Outcome::Failed(why) => {
            tracing::info!(event = id, acted = "failed", failed = 1_u64, "s3 event");
            return Err(S3Failed(why));
        }
    };
    // `parked` is a metric.
    tracing::info!(event = id, acted, parked = u64::from(acted == "parked"), "s3 event");
    Ok(S3Summary { acted })
}

/// Runs a batch of events, one after the other.
pub async fn s3_events_worker<E: Engine>(context: &Context<E>, records: &[Delivery]) -> BatchReport {
    let mut outcomes = Vec::with_capacity(records.len());
    for record in records {
        outcomes.push(handle(context, record).await);
    }
    BatchReport { outcomes }
}

async fn handle<E: Engine>(context: &Context<E>, record: &Delivery) -> Outcome {
    if !context.read_models.has(ReadModel::Serenya) {
        return Outcome::Skipped;
    }
    let park = |poison| park(&context.store, STREAM, record, poison, peek_ids(&record.data));
    let changes = match read(&record.data) {
        Ok(changes) => changes,
        Err(error) => return park(error.into()).await,
    };
    let mut outcome = Outcome::Skipped;
    for change in changes {
        match record_change(context, change).await {
            Ok(FactOutcome::Applied) => outcome = Outcome::Applied,
            // The sequencer identifies the event: the two sources of S3 format its time differently.
            Ok(FactOutcome::Duplicate | FactOutcome::ConflictingContent) if outcome == Outcome::Skipped => {
                outcome = Outcome::Duplicate
            }
            Ok(FactOutcome::Duplicate | FactOutcome::ConflictingContent) => {}
            Err(error) => {
                return match Poison::of(&error) {
                    Ok(poison) => park(poison).await,
                    Err(failed) => failed,
                };
            }
        }
    }
    outcome
}

async fn record_change<E: Engine>(
    context: &Context<E>,
    ObjectChange { user, file, place, object }: ObjectChange,
) -> Result<FactOutcome, StoreError> {
    let change = if object.gone { "deleted" } else { "created" };
    let id = format!("{}:{change}:{}", place.as_str(), object.sequencer.trim_start_matches('0'));
    let aggregate = aggregate_of("document", &user, &file);
    let fact = Recorded {
        id: id.into(),
        at: object.at,
        fact: Fact::Document(Document::object(&user, &file, place, object)),
    };
    let recorded = record_facts::<Serenya, E>(&context.store, &aggregate, &[fact]).await?;
    Ok(recorded.first().copied().unwrap_or(FactOutcome::Duplicate))
}

/// A change of a document's object.
struct ObjectChange {
    user: String,
    file: String,
    place: ObjectKind,
    object: Object,
}

/// Decodes an event of either source; leaves out objects that belong to no document.
fn read(data: &[u8]) -> Result<Vec<ObjectChange>, WireError> {
    let event: Json =
        serde_json::from_slice(data).map_err(|error| wrong("record", format!("is not JSON: {error}")))?;
    if let Some(records) = event.get("Records") {
        let records = records.as_array().ok_or_else(|| wrong("Records", "is not a list".to_owned()))?;
        let read = records.iter().enumerate().map(|(n, record)| notification(record, n));
        return Ok(read.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect());
    }
    if !event.is_object() {
        return Err(wrong("record", "is not a JSON object".to_owned()));
    }
    let gone = match (event["source"].as_str(), event["detail-type"].as_str()) {
        (Some(SOURCE), Some("Object Created")) => false,
        (Some(SOURCE), Some("Object Deleted")) => true,
        (_, _) => return Ok(Vec::new()),
    };
    let text = |pointer: &str, field: &str| text(&event, pointer, field);
    let key = text("/detail/object/key", "detail.object.key")?;
    let sequencer = || text("/detail/object/sequencer", "detail.object.sequencer");
    object_change(key, gone, || time(text("/time", "time")?, "time"), sequencer, "detail.object.sequencer")
        .map(|change| change.into_iter().collect())
}

/// Decodes one record of a bucket notification, where keys are form-encoded.
fn notification(record: &Json, n: usize) -> Result<Option<ObjectChange>, WireError> {
    let field = |name: &str| format!("Records[{n}].{name}");
    let name = text(record, "/eventName", &field("eventName"))?;
    let gone = match name.trim_start_matches("s3:").split(':').next() {
        Some("ObjectCreated") => false,
        Some("ObjectRemoved" | "LifecycleExpiration") => true,
        Some(_) | None => return Ok(None),
    };
    let encoded = text(record, "/s3/object/key", &field("s3.object.key"))?.replace('+', " ");
    let key =
        decoded_text(&encoded).ok_or_else(|| wrong(&field("s3.object.key"), "is not UTF-8".to_owned()))?;
    let (when, sequencer) = (field("eventTime"), field("s3.object.sequencer"));
    object_change(
        &key,
        gone,
        || time(text(record, "/eventTime", &when)?, &when),
        || text(record, "/s3/object/sequencer", &sequencer),
        &sequencer,
    )
}

/// Decodes the rest of a record if its key is that of a document.
fn object_change<'a>(
    key: &str,
    gone: bool,
    at: impl FnOnce() -> Result<Time, WireError>,
    sequencer: impl FnOnce() -> Result<&'a str, WireError>,
    field: &str,
) -> Result<Option<ObjectChange>, WireError> {
    let Some((user, place, file)) = read_key(key) else { return Ok(None) };
    let sequencer =
        read_sequencer(sequencer()?).ok_or_else(|| wrong(field, "is not a hexadecimal number".to_owned()))?;
    let object = Object { sequencer, at: at()?, gone };
    Ok(Some(ObjectChange { user: user.to_owned(), file: file.to_owned(), place, object }))
}

fn text<'a>(json: &'a Json, pointer: &str, field: &str) -> Result<&'a str, WireError> {
    json.pointer(pointer)
        .and_then(Json::as_str)
        .ok_or_else(|| wrong(field, "is missing or no text".to_owned()))
}

fn time(text: &str, field: &str) -> Result<Time, WireError> {
    dues_events::time::parse(text).map_err(|error| wrong(field, format!("is not an RFC 3339 time: {error}")))
}

fn wrong(field: &str, problem: String) -> WireError {
    WireError { field: field.to_owned(), problem }
}
