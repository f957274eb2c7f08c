//! `s3-events`: objects that come and go in S3, from EventBridge or from a bucket's own notifications, to the jobs of `serenya`.
//!
//! S3 tells at least once and in no order. What each event says is joined with what is known: of one object the greatest sequencer counts.

use dues_events::Time;
use dues_events::wire::{WireError, peek};
use dues_projections::model::Told;
use dues_projections::serenya::document::{Document, Object, Place, read_key, read_sequencer};
use dues_projections::serenya::{Fact, Serenya, aggregate_of};
use dues_store::{Engine, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::api::decoded_text;
use crate::batch::{Context, Fate, Incoming, Report, park_as};
use crate::read_models::ReadModel;
use crate::read_models::booking::{Booked, tell};

/// The stream it reads, where there is one, and the name among the parked records.
pub const STREAM: &str = "s3-events";
/// Who puts these events on the bus.
const SOURCE: &str = "aws.s3";

/// An event as Lambda delivers it: EventBridge's envelope, or `{"Records":[…]}` of a bucket's own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct S3Event(pub Json);

/// An event has to be delivered again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the event has to be delivered again: {0}")]
pub struct S3Failed(pub String);

/// What an event came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct S3Summary {
    /// `applied`, `duplicate`, `skipped` or `parked`.
    pub acted: &'static str,
}

/// Handles one event.
///
/// # Errors
/// It has to be delivered again.
pub async fn s3_events<E: Engine>(context: &Context<E>, event: S3Event) -> Result<S3Summary, S3Failed> {
    let id = event.0["id"].as_str().unwrap_or_default().to_owned();
    let record = Incoming { sequence: id.clone(), arrived: context.store.clock.now(), data: event.0.to_string().into_bytes() };
    let acted = match handle(context, &record).await {
        Fate::Applied => "applied",
        Fate::Duplicate | Fate::Ignored => "duplicate",
        Fate::Skipped => "skipped",
        Fate::Parked => "parked",
        Fate::Failed(why) => {
            tracing::info!(event = id, acted = "failed", failed = 1_u64, "s3 event");
            return Err(S3Failed(why));
        }
    };
    // As a figure, too: whoever watches what was put aside counts it.
    tracing::info!(event = id, acted, parked = u64::from(acted == "parked"), "s3 event");
    Ok(S3Summary { acted })
}

/// Runs a batch of events, one after the other.
pub async fn s3_events_worker<E: Engine>(context: &Context<E>, records: &[Incoming]) -> Report {
    let mut fates = Vec::with_capacity(records.len());
    for record in records {
        fates.push(handle(context, record).await);
    }
    Report { fates }
}

async fn handle<E: Engine>(context: &Context<E>, record: &Incoming) -> Fate {
    if !context.read_models.has(ReadModel::Serenya) {
        return Fate::Skipped;
    }
    let park = |code: &'static str, reason: String| park_as(&context.store, STREAM, record, code, reason, peek(&record.data));
    let seen = match read(&record.data) {
        Ok(seen) => seen,
        Err(error) => return park("malformed", error.to_string()).await,
    };
    let mut fate = Fate::Skipped;
    for seen in seen {
        match book(context, seen).await {
            Ok(Booked::Applied) => fate = Fate::Applied,
            // The sequencer is the identity of what happened: the two doors of S3 give its time in two ways.
            Ok(Booked::Duplicate | Booked::Different) if fate == Fate::Skipped => fate = Fate::Duplicate,
            Ok(Booked::Duplicate | Booked::Different) => {}
            Err(error) if error.is_transient() => return Fate::Failed(error.to_string()),
            Err(error) => return park("store", error.to_string()).await,
        }
    }
    fate
}

async fn book<E: Engine>(context: &Context<E>, Seen { user, file, place, object }: Seen) -> Result<Booked, StoreError> {
    let change = if object.gone { "deleted" } else { "created" };
    let id = format!("{}:{change}:{}", place.as_str(), object.sequencer.trim_start_matches('0'));
    let aggregate = aggregate_of("document", &user, &file);
    let told = Told { id: id.into(), at: object.at, fact: Fact::Document(Document::object(&user, &file, place, object)) };
    let booked = tell::<Serenya, E>(&context.store, &aggregate, &[told]).await?;
    Ok(booked.first().copied().unwrap_or(Booked::Duplicate))
}

/// What happened to an object of a document.
struct Seen {
    user: String,
    file: String,
    place: Place,
    object: Object,
}

/// Reads an event of either door; what is no object of a document is left out.
fn read(data: &[u8]) -> Result<Vec<Seen>, WireError> {
    let event: Json = serde_json::from_slice(data).map_err(|error| wrong("record", format!("is not JSON: {error}")))?;
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
    seen(key, gone, || time(text("/time", "time")?, "time"), sequencer, "detail.object.sequencer").map(|seen| seen.into_iter().collect())
}

/// Reads one record of a bucket's own notification, where keys are encoded as in a form.
fn notification(record: &Json, n: usize) -> Result<Option<Seen>, WireError> {
    let field = |name: &str| format!("Records[{n}].{name}");
    let name = text(record, "/eventName", &field("eventName"))?;
    let gone = match name.trim_start_matches("s3:").split(':').next() {
        Some("ObjectCreated") => false,
        Some("ObjectRemoved" | "LifecycleExpiration") => true,
        Some(_) | None => return Ok(None),
    };
    let encoded = text(record, "/s3/object/key", &field("s3.object.key"))?.replace('+', " ");
    let key = decoded_text(&encoded).ok_or_else(|| wrong(&field("s3.object.key"), "is not UTF-8".to_owned()))?;
    let (when, sequencer) = (field("eventTime"), field("s3.object.sequencer"));
    seen(&key, gone, || time(text(record, "/eventTime", &when)?, &when), || text(record, "/s3/object/sequencer", &sequencer), &sequencer)
}

/// Only of what is a document's has more to be read than its key.
fn seen<'a>(
    key: &str,
    gone: bool,
    at: impl FnOnce() -> Result<Time, WireError>,
    sequencer: impl FnOnce() -> Result<&'a str, WireError>,
    field: &str,
) -> Result<Option<Seen>, WireError> {
    let Some((user, place, file)) = read_key(key) else { return Ok(None) };
    let sequencer = read_sequencer(sequencer()?).ok_or_else(|| wrong(field, "is not a hexadecimal number".to_owned()))?;
    let object = Object { sequencer, at: at()?, gone };
    Ok(Some(Seen { user: user.to_owned(), file: file.to_owned(), place, object }))
}

fn text<'a>(json: &'a Json, pointer: &str, field: &str) -> Result<&'a str, WireError> {
    json.pointer(pointer).and_then(Json::as_str).ok_or_else(|| wrong(field, "is missing or no text".to_owned()))
}

fn time(text: &str, field: &str) -> Result<Time, WireError> {
    dues_events::time::parse(text).map_err(|error| wrong(field, format!("is not an RFC 3339 time: {error}")))
}

fn wrong(field: &str, problem: String) -> WireError {
    WireError { field: field.to_owned(), problem }
}
