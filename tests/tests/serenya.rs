//! Read model `serenya` (seed 004): its access patterns, payments, jobs from S3, TTL, limits under load, the API, and rows made again.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "serenya/access.rs"]
mod access;
#[path = "serenya/api.rs"]
mod api;
#[path = "serenya/crowd.rs"]
mod crowd;
#[path = "serenya/objects.rs"]
mod objects;
#[path = "serenya/payments.rs"]
mod payments;
#[path = "serenya/rebuild.rs"]
mod rebuild;
#[path = "serenya/ttl.rs"]
mod ttl;

use dues_events::{Item, Time};
use dues_processors::api::{Api, Request, Response};
use dues_processors::collections::Collector;
use dues_processors::gateway::sandbox::{Odds, Sandbox};
use dues_processors::read_models::ReadModels;
use dues_processors::{Context, Fate};
use dues_projections::serenya::tiers::Settings;
use dues_store::table::serenya::SERENYA;
use dues_store::{Engine, Store};
use dues_tests::world::{Standing, all, context, incoming, t};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const NOW: &str = "2026-03-01T00:00:00Z";

fn at<E: Engine>(engine: &E, time: &str) -> Store<E> {
    let time: Time = t(time);
    Store::new(engine.clone(), Arc::new(Standing(time)))
}

fn context_at<E: Engine>(engine: &E, time: &str) -> Context<E> {
    Context { store: at(engine, time), ..context(engine.clone()) }
}

/// A deployment where three free documents are all that there is.
fn limit_of_three() -> ReadModels {
    let mut settings = Settings::default();
    settings.tiers.get_mut("free").unwrap().max_documents_per_month = Some(3);
    ReadModels::default().with_serenya(settings)
}

fn api_at<E: Engine>(engine: &E, time: &str) -> Api<E, Sandbox<E>> {
    let store = at(engine, time);
    Api { collector: Collector::new(store.clone(), Sandbox::new(store, Odds::NONE)), read_models: limit_of_three() }
}

/// Asks the API: `GET users/u-1/payments?limit=2`.
async fn ask_at<E: Engine>(engine: &E, time: &str, method: &str, path: &str, body: Value) -> Response {
    let path = format!("/models/serenya/{path}");
    let (path, query) = path.split_once('?').unwrap_or((&path, ""));
    let body = if body.is_null() { String::new() } else { body.to_string() };
    // Boxed: a test asks often, and each request would have a place of its own on the stack.
    Box::pin(api_at(engine, time).handle(Request { method, path, query, body: body.as_bytes() })).await
}

async fn ask<E: Engine>(engine: &E, method: &str, path: &str, body: Value) -> Response {
    ask_at(engine, NOW, method, path, body).await
}

/// Makes Ada, whose id is `u-1`.
async fn ada<E: Engine>(engine: &E) -> Value {
    let body =
        json!({"id": "u-1", "email": "ada@example.com", "name": "Ada", "auth_provider": "google", "external_id": "113426185144286227617"});
    let made = ask(engine, "POST", "users", body).await;
    assert_eq!(made.status, 201, "{made:?}");
    made.body
}

/// Tells an application's event.
async fn tell<E: Engine>(engine: &E, id: &str, kind: &str, time: &str, mut body: Value) -> Fate {
    (body["event_id"], body["type"], body["occurred_at"]) = (id.into(), format!("serenya.{kind}").into(), time.into());
    let report = dues_processors::app_events::app_events_worker(&context_at(engine, NOW), &[incoming(&body, 1)]).await;
    report.fates.into_iter().next().unwrap()
}

/// All rows of the table, by key.
async fn rows<E: Engine>(engine: &E) -> BTreeMap<(String, String), Item> {
    let key = |item: &Item| (item.text("PK").unwrap().to_owned(), item.text("SK").unwrap().to_owned());
    all(engine, &SERENYA).await.into_iter().map(|item| (key(&item), item)).collect()
}

async fn row<E: Engine>(engine: &E, sort: &str) -> Option<Value> {
    rows(engine).await.remove(&("USER#u-1".to_owned(), sort.to_owned())).map(|row| row.to_json())
}
