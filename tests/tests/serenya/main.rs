//! The read model `serenya`: its access patterns, payments, jobs from S3, TTL, limits under load, the API,
//! and rebuilds.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod access;
mod api;
mod crowd;
mod objects;
mod payments;
mod rebuild;
mod ttl;

use dues_events::{Item, Time};
use dues_processors::api::Api;
use dues_processors::collections::Collector;
use dues_processors::collections::gateway::sandbox::{Odds, Sandbox};
use dues_processors::read_models::ReadModels;
use dues_processors::{Context, Outcome};
use dues_projections::serenya::tiers::Settings;
use dues_store::table::serenya::SERENYA;
use dues_store::{Engine, Store};
use dues_tests::clock::TestClock;
use dues_tests::fixtures::company::{all, context, incoming, t};
use dues_tests::rest::{Request, Response, Serve as _};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const NOW: &str = "2026-03-01T00:00:00Z";

fn at<E: Engine>(engine: &E, time: &str) -> Store<E> {
    let time: Time = t(time);
    Store::new(engine.clone(), TestClock::frozen(time).shared())
}

fn context_at<E: Engine>(engine: &E, time: &str) -> Context<E> {
    Context { store: at(engine, time), ..context(engine.clone()) }
}

/// A deployment with a limit of three free documents a month.
fn limit_of_three() -> ReadModels {
    let mut settings = Settings::default();
    settings.tiers.get_mut("free").unwrap().max_documents_per_month = Some(3);
    ReadModels::default().with_serenya(settings)
}

fn api_at<E: Engine>(engine: &E, time: &str) -> Api<E, Sandbox<E>> {
    let store = at(engine, time);
    Api {
        read_models: limit_of_three(),
        ..Api::new(Collector::new(store.clone(), Sandbox::new(store, Odds::NONE)))
    }
}

/// Sends a request to the API: `GET users/u-1/payments?limit=2`.
async fn ask_at<E: Engine>(engine: &E, time: &str, method: &str, path: &str, body: Value) -> Response {
    let path = format!("/models/serenya/{path}");
    let (path, query) = path.split_once('?').unwrap_or((&path, ""));
    let body = if body.is_null() { String::new() } else { body.to_string() };
    // Boxed: a test sends many requests, and each would take its own space on the stack.
    Box::pin(api_at(engine, time).handle(Request { method, path, query, body: body.as_bytes() })).await
}

async fn ask<E: Engine>(engine: &E, method: &str, path: &str, body: Value) -> Response {
    ask_at(engine, NOW, method, path, body).await
}

/// Creates Ada, with the id `u-1`.
async fn ada<E: Engine>(engine: &E) -> Value {
    let body = json!({"id": "u-1", "email": "ada@example.com", "name": "Ada", "auth_provider": "google",
        "external_id": "113426185144286227617"});
    let made = ask(engine, "POST", "users", body).await;
    assert_eq!(made.status, 201, "{made:?}");
    made.body
}

/// Ingests an application's event.
async fn deliver<E: Engine>(engine: &E, id: &str, kind: &str, time: &str, mut body: Value) -> Outcome {
    (body["event_id"], body["type"], body["occurred_at"]) =
        (id.into(), format!("serenya.{kind}").into(), time.into());
    let report = dues_processors::read_models::app_events::app_events_worker(
        &context_at(engine, NOW),
        &[incoming(&body, 1)],
    )
    .await;
    report.outcomes.into_iter().next().unwrap()
}

/// All rows of the table, by key.
async fn rows<E: Engine>(engine: &E) -> BTreeMap<(String, String), Item> {
    let key = |item: &Item| (item.text("PK").unwrap().to_owned(), item.text("SK").unwrap().to_owned());
    all(engine, &SERENYA).await.into_iter().map(|item| (key(&item), item)).collect()
}

async fn row<E: Engine>(engine: &E, sort: &str) -> Option<Value> {
    rows(engine).await.remove(&("USER#u-1".to_owned(), sort.to_owned())).map(|row| row.to_json())
}
