//! The server's own paths, each with its handler and its description: the router and the OpenAPI document are
//! made from the same list.

use axum::body::{Body, HttpBody as _};
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_TYPE, HeaderMap};
use axum::http::{Method, Request};
use axum::response::{IntoResponse as _, Response};
use dues_processors::STREAMS;
use dues_processors::api::Response as Json;
use dues_processors::api::document::{Operation, one_of};
use dues_processors::api::routes::Routes;
use dues_processors::entitlements::stripe_webhook;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use utoipa::ToSchema as _;
use utoipa::openapi::example::Example;
use utoipa::openapi::schema::{Array, ObjectBuilder, Schema, Type};
use utoipa::openapi::{Content, ContentBuilder, Ref, RefOr};

use super::app::{App, closing, too_busy};
use super::metrics::CONTENT_TYPE as METRICS_TYPE;
use super::monitor::Overload;
use super::openapi::{Appended, Health, OpenApiDocument, Ready, StreamRecord};
use super::{ingest, monitor};

/// Paths of liveness, readiness and metrics.
pub(super) const HEALTH: &str = "/health";
pub(super) const READY: &str = "/ready";
pub(super) const METRICS: &str = "/metrics";
/// Path of the OpenAPI document.
pub(super) const OPENAPI: &str = "/openapi.json";
/// Path of a stream.
pub(super) const STREAM: &str = "/streams/{name}";
/// Time limit of the write probe; a slower store is not writable.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

type Shared = State<Arc<App>>;

/// Paths without authentication: liveness, and Stripe's webhook, which verifies a signature.
pub(super) fn declare_open<R: Routes<Arc<App>>>(routes: R) -> R {
    routes
        .route(Method::GET, HEALTH, health, || {
            Operation::new("get_health", "Whether the program runs.").answer::<Health>(200, "It runs.").open()
        })
        .tag("webhooks", "Deliveries of others.")
        .route(Method::POST, stripe_webhook::PATH, webhook, stripe_webhook::operation)
}

/// Paths behind authentication.
pub(super) fn declare<R: Routes<Arc<App>>>(routes: R) -> R {
    routes
        .route(Method::GET, READY, ready, || {
            let about = "Whether the store is writable, no stream lags, and nothing fails.";
            Operation::new("get_readiness", about)
                .answer::<Ready>(200, "Ready.")
                .answer::<Ready>(503, "Not ready, and why.")
        })
        .route(Method::GET, METRICS, metrics, || {
            Operation::new("get_metrics", "Metrics for Prometheus.")
                .answer_text(200, "The text format, version 0.0.4.")
                .errors(&[503])
        })
        .route(Method::GET, OPENAPI, document, || {
            Operation::new("get_openapi", "This document.").answer::<OpenApiDocument>(200, "OpenAPI 3.1.")
        })
        .route(Method::POST, STREAM, append, describe_append)
}

async fn health() -> Json {
    Json::of(200, json!({"status": "ok"}))
}

async fn ready(State(app): Shared) -> Json {
    let write = app.store.engine.set_checkpoint(monitor::PROBE, monitor::PROBE, 1);
    let writable = tokio::select! {
        written = write => written.is_ok(),
        () = app.store.clock.sleep(WRITE_TIMEOUT) => false,
    };
    if let Err(error) = app.monitor.refresh_lags() {
        app.monitor.report_failure("lag", &error);
    }
    let (ready, body) = app.monitor.ready(writable);
    Json::of(if ready { 200 } else { 503 }, body)
}

async fn metrics(State(app): Shared) -> Response {
    match app.monitor.render_metrics() {
        Ok(page) => ([(CONTENT_TYPE, METRICS_TYPE)], page).into_response(),
        Err(error) => {
            app.monitor.report_failure("metrics", &error);
            Json::error(503, "unavailable", "the store cannot be read now").into_response()
        }
    }
}

async fn document(State(app): Shared) -> Json {
    Json::of(200, app.document.clone())
}

async fn webhook(State(app): Shared, request: Request<Body>) -> Response {
    let (head, body) = request.into_parts();
    let backlog = app.monitor.check_backlog(stripe_webhook::STREAM);
    if let Err(overload) = backlog.and_then(|()| app.monitor.check_writer_queue()) {
        return closing(too_busy(overload));
    }
    match app.read(body, stripe_webhook::MAX_BODY_BYTES, stripe_webhook::too_large).await {
        Ok(body) => {
            let signature = joined(&head.headers, stripe_webhook::SIGNATURE);
            let method = head.method.as_str();
            let request = stripe_webhook::Request { method, signature: signature.as_deref(), body: &body };
            app.webhook.receive(request).await.into_response()
        }
        Err(refused) => closing(refused),
    }
}

/// A header's values, joined with commas. A value that is not text becomes one that no signature matches.
fn joined(headers: &HeaderMap, name: &str) -> Option<String> {
    let values =
        headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    values.reduce(|all, next| all + "," + &next)
}

/// Appends the body's records to a stream.
async fn append(State(app): Shared, Path(name): Path<String>, request: Request<Body>) -> Response {
    let body = request.into_body();
    let Some(stream) = ingest::named(&name) else { return closing(ingest::no_such_stream(&name)) };
    let kilobytes = body.size_hint().upper().unwrap_or(u64::MAX).min(ingest::LARGEST as u64) / 1024 + 1;
    let place = app.ingest_room.try_acquire_many(u32::try_from(kilobytes).unwrap_or(u32::MAX));
    let overload = place.as_ref().map(drop).map_err(|_| Overload {
        why: "too many records are on their way: try again soon".to_owned(),
        retry_after: 1,
    });
    if let Err(overload) = overload
        .and_then(|()| app.monitor.check_backlog(stream))
        .and_then(|()| app.monitor.check_writer_queue())
    {
        return closing(too_busy(overload));
    }
    let body = match app.read(body, ingest::LARGEST, ingest::too_large).await {
        Ok(body) => body,
        Err(refused) => return closing(refused),
    };
    match ingest::take(&app.store, stream, &body).await {
        Ok(count) => {
            // Thousands of records per second arrive here: log at debug only.
            tracing::debug!(stream, records = count, "taken");
            app.monitor.records_ingested(stream, count);
            app.notify_appended();
            ingest::taken(stream, count)
        }
        Err(refused) => refused,
    }
    .into_response()
}

fn describe_append() -> Operation {
    let lines = ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("One record a line, each of the shape `StreamRecord`."))
        .build();
    let record = RefOr::Ref(Ref::from_schema_name(StreamRecord::name()));
    let examples = STREAMS.into_iter().filter_map(|stream| {
        let record = example_of(stream)?;
        Some((stream.to_owned(), example(stream, &record)))
    });
    let ndjson =
        ContentBuilder::new().schema(Some(Schema::Object(lines))).examples_from_iter(examples).build();
    let array = Content::new(Some(Schema::Array(Array::new(record))));
    Operation::new(
        "append_to_stream",
        "Appends records to a stream; answered when they are durable. Records that cannot be read are \
            parked.",
    )
    .id("name", one_of(STREAMS))
    .names::<StreamRecord>()
    .content("application/x-ndjson", ndjson)
    .content("application/json", array)
    .answer::<Appended>(202, "Durable, and will be processed.")
    .errors(&[400, 404, 503])
}

fn example(stream: &str, record: &Value) -> Example {
    let mut example = Example::new();
    example.summary = format!("A record of {stream}.");
    example.value = Some(Value::String(record.to_string()));
    example
}

/// The first example of a stream's section in `docs/streams.md`, which a test ingests.
pub(super) fn example_of(stream: &str) -> Option<Value> {
    const PAGE: &str = include_str!("../../../docs/streams.md");
    let section = PAGE.split("\n## ").find(|section| section.lines().next() == Some(stream))?;
    let block = section.split("```json\n").nth(1)?.split("```").next()?;
    serde_json::Deserializer::from_str(block).into_iter().next()?.ok()
}
