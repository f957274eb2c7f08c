//! A user's billing records, every change of one, and the user's story.

use dues_events::record::{History, membership_status};
use dues_events::wire::WireError;
use dues_events::{Record, SubscriptionId, Time, UserId, attr, time};
use dues_store::{Engine, Store, StoreError};
use serde_json::{Value, json};

use super::path::{Wanted, decoded_text};
use super::{Api, Response, find, not_found, store_failed};
use crate::explain::explain;

/// Answers with records, as their tables have them.
pub(super) async fn answer<E: Engine>(store: &Store<E>, user: &UserId, wanted: &Wanted) -> Response {
    let answered = match wanted {
        Wanted::All => all(store, user).await,
        Wanted::One(id) => one(store, user, id).await,
        Wanted::History(id) => history(store, user, id).await,
    };
    answered.unwrap_or_else(|error| store_failed(&error))
}

/// Tells a user's story, as of now or of the time that the query names.
pub(super) async fn story<E: Engine, G>(api: &Api<E, G>, user: &UserId, query: &str) -> Response {
    let store = &api.collector.store;
    let at = match read_at(query) {
        Ok(at) => at.unwrap_or_else(|| store.clock.now()),
        Err(error) => return Response::error(422, "invalid_field", error.to_string()),
    };
    match explain(store, &api.tiers, &api.collector.rules, user, at).await {
        Ok(explained) if explained.is_empty() => Response::error(404, "not_found", format!("nothing is known of user {user}")),
        Ok(explained) => Response::of(200, explained.json()),
        Err(error) => store_failed(&error),
    }
}

/// The row under its attribute names. The packed list of applied events is for the program, not for readers.
#[must_use]
pub fn record_json(record: &Record) -> Value {
    let mut item = record.to_item();
    item.remove(attr::APPLIED);
    item.to_json()
}

/// The row under its attribute names, without the event's hash, which is for the program.
#[must_use]
pub fn history_json(row: &History) -> Value {
    let mut item = row.to_item();
    item.remove(attr::STAMP);
    item.to_json()
}

async fn all<E: Engine>(store: &Store<E>, user: &UserId) -> Result<Response, StoreError> {
    let records = store.list_by_user_id(user).await?;
    let listed: Vec<Value> = records.iter().map(record_json).collect();
    Ok(Response::of(200, json!({"user_id": user.as_str(), "status": membership_status(&records), "subscriptions": listed})))
}

async fn one<E: Engine>(store: &Store<E>, user: &UserId, id: &SubscriptionId) -> Result<Response, StoreError> {
    let found = find(store, user, id).await?.filter(|record| record.user_id == *user);
    Ok(found.map_or_else(|| not_found(user, id), |record| Response::of(200, record_json(&record))))
}

async fn history<E: Engine>(store: &Store<E>, user: &UserId, id: &SubscriptionId) -> Result<Response, StoreError> {
    let rows = store.history_by_id(id).await?;
    let rows: Vec<Value> = rows.iter().filter(|row| row.record.user_id == *user).map(history_json).collect();
    if rows.is_empty() {
        return Ok(not_found(user, id));
    }
    Ok(Response::of(200, json!({"user_id": user.as_str(), "subscription_id": id.as_str(), "rows": rows})))
}

fn read_at(query: &str) -> Result<Option<Time>, WireError> {
    let wrong = |problem: String| WireError { field: "at".to_owned(), problem };
    let Some(value) = query.split('&').find_map(|pair| pair.strip_prefix("at=")) else { return Ok(None) };
    let text = decoded_text(value).ok_or_else(|| wrong("is not UTF-8".to_owned()))?;
    time::parse_or_day(&text).map(Some).ok_or_else(|| wrong(format!("{text:?} is neither an RFC 3339 time nor a day such as 2026-02-01")))
}
