//! A user's billing records, the history of one, commands on it, `explain`, and unapplied money.

mod commands;
mod money;
mod schema;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use dues_events::billing::record::{History, membership_status};
use dues_events::collections::retry_plan::RetryPlan;
use dues_events::{GoTime, Record, Status, SubscriptionId, UserId, attributes, time};
use dues_store::{Engine, Store, StoreError};
use serde_json::Value;
use std::collections::BTreeMap;

use super::document::Operation;
use super::extract::{Ids, Parameters};
use super::routes::Routes;
use super::{Error, Shared};
use crate::collections::gateway::Gateway;
use crate::collections::planned_retries::planned_retries;
use crate::operators::explain::explain;
pub use money::money_json;

/// Declares the routes of billing records.
pub(super) fn declare<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(routes: R) -> R {
    let routes = routes
        .tag("billing", "Billing records: what is due, its history, and commands on it.")
        .route(Method::GET, "/{user_id}/subscriptions", list, || {
            Operation::new(
                "list_subscriptions",
                "A user's billing records, oldest first, and the membership's status.",
            )
            .answer::<schema::Subscriptions>(200, "All records.")
            .errors(&[404, 500, 503])
        })
        .route(Method::GET, "/{user_id}/subscriptions/{subscription_id}", get, || {
            Operation::new("get_subscription", "One billing record.")
                .answer::<schema::Record>(200, "The record.")
                .errors(&[404, 500, 503])
        })
        .route(Method::GET, "/{user_id}/subscriptions/{subscription_id}/history", history, || {
            Operation::new(
                "list_subscription_history",
                "Every change of a billing record, in order, with its event and source.",
            )
            .answer::<schema::RecordHistory>(200, "The rows.")
            .errors(&[404, 500, 503])
        })
        .route(Method::GET, "/{user_id}/explain", story, || {
            Operation::new(
                "explain_user",
                "A user's timeline: each change with its cause, the current state, and what is next.",
            )
            .query::<schema::At>()
            .answer::<schema::Explained>(200, "The timeline.")
            .errors(&[404, 422, 500, 503])
        });
    money::declare(commands::declare(routes))
}

/// The row under its attribute names, without the packed list of applied events, which is internal.
#[must_use]
pub fn record_json(record: &Record) -> Value {
    let mut item = record.to_item();
    item.remove(attributes::APPLIED);
    item.to_json()
}

/// The row, and when it is presented again if that is planned.
#[must_use]
pub fn planned_record_json(record: &Record, retries: &BTreeMap<SubscriptionId, RetryPlan>) -> Value {
    let mut body = record_json(record);
    if let Some(plan) = retries.get(&record.subscription_id) {
        body["retry_at"] = GoTime::trimmed(plan.at).text().into();
        body["retry_reason"] = plan.why.to_string().into();
    }
    body
}

/// The row under its attribute names, without the event's hash, which is internal.
#[must_use]
pub fn history_json(row: &History) -> Value {
    let mut item = row.to_item();
    item.remove(attributes::TOKEN);
    item.to_json()
}

async fn list<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
) -> Result<Json<schema::Subscriptions>, Error> {
    let records = api.store().list_by_user_id(&ids.user()).await?;
    let retries = planned_retries(api.store(), &api.collector.rules, &records).await?;
    Ok(Json(schema::Subscriptions {
        user_id: ids.user().to_string(),
        status: membership_status(&records).to_owned(),
        subscriptions: records.iter().map(|record| planned_record_json(record, &retries)).collect(),
    }))
}

async fn get<E: Engine, G: Gateway>(State(api): State<Shared<E, G>>, ids: Ids) -> Result<Json<Value>, Error> {
    let (user, id) = (ids.user(), ids.subscription());
    let found = find(api.store(), &user, &id).await?.filter(|record| record.user_id == user);
    let record = found.ok_or_else(|| not_found(&user, &id))?;
    let retries = match record.status() {
        Status::Error => {
            let records = api.store().list_by_user_id(&user).await?;
            planned_retries(api.store(), &api.collector.rules, &records).await?
        }
        Status::Scheduled
        | Status::AchSent
        | Status::Completed
        | Status::Waived
        | Status::Cancelled
        | Status::Paused
        | Status::PausedSkipped
        | Status::Refunded
        | Status::Stale => BTreeMap::new(),
    };
    Ok(Json(planned_record_json(&record, &retries)))
}

async fn history<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
) -> Result<Json<schema::RecordHistory>, Error> {
    let (user, id) = (ids.user(), ids.subscription());
    let rows = api.store().history_by_id(&id).await?;
    let rows: Vec<Value> = rows.iter().filter(|row| row.record.user_id == user).map(history_json).collect();
    match rows.is_empty() {
        true => Err(not_found(&user, &id)),
        false => Ok(Json(schema::RecordHistory {
            user_id: user.to_string(),
            subscription_id: id.to_string(),
            rows,
        })),
    }
}

/// The timeline as of now, or of the time in the parameter `at`.
async fn story<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
    parameters: Parameters,
) -> Result<Json<Value>, Error> {
    let (store, user) = (api.store(), ids.user());
    let at = parameters.get("at").map(|text| {
        time::parse_or_day(text).ok_or_else(|| {
            Error::field("at", format!("{text:?} is neither an RFC 3339 time nor a day such as 2026-02-01"))
        })
    });
    let at = at.transpose()?.unwrap_or_else(|| store.clock.now());
    let explained = explain(store, &api.tiers, &api.collector.rules, &user, at).await?;
    match explained.is_empty() {
        true => Err(Error::new(404, "not_found", format!("nothing is known of user {user}"))),
        false => Ok(Json(explained.json())),
    }
}

/// The current record: from the user's own rows first, since an index may lag behind them.
async fn find<E: Engine>(
    store: &Store<E>,
    user: &UserId,
    id: &SubscriptionId,
) -> Result<Option<Record>, StoreError> {
    match store.load_user(user).await?.get(id) {
        Some(record) => Ok(Some(record.clone())),
        None => store.get_by_id(id).await,
    }
}

/// The same 404 for a missing record and for one of another user: the response does not reveal which.
fn not_found(user: &UserId, id: &SubscriptionId) -> Error {
    Error::new(404, "not_found", format!("user {user} has no subscription {id}"))
}
