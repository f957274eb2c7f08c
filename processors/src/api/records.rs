//! A user's billing records, every change of one, and the user's story.

use dues_events::record::{History, INACTIVE, Status, membership_status};
use dues_events::wire::WireError;
use dues_events::{Record, SubscriptionId, Time, UserId, attr, time};
use dues_store::{Engine, Store, StoreError};
use serde_json::{Value, json};

use super::openapi::{Operation, Part, list, object, shape, text, text_or_null, words};
use super::path::{Route, Wanted, decoded_text};
use super::{Api, Response, find, not_found, store_failed};
use crate::explain::explain;

/// The tag of everything about billing records.
pub(super) const BILLING: &str = "billing";
pub(super) const ABOUT_BILLING: &str = "Billing records: what is due, what became of it, and what to do about it.";

/// The paths that are answered here.
pub(super) fn openapi() -> Part {
    let statuses: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
    let memberships = [&statuses[..], &[INACTIVE]].concat();
    let membership = words(memberships);
    let record = object(json!({
        "user_id": text(), "subscription_id": text(), "billing_date": text(), "billing_amount": text(), "term": words(["MONTHLY", "YEARLY"]),
        "billing_status": words(statuses),
    }));
    let beat = object(json!({
        "at": text(), "sentence": text(), "source": text(), "event_id": text_or_null(), "subscription_id": text_or_null(), "from": text_or_null(),
        "to": text_or_null(), "followed": {"type": "array", "items": text()},
    }));
    let next = object(json!({"at": text_or_null(), "subscription_id": text(), "sentence": text()}));
    let path = |wanted: Wanted| Route::Records("u".into(), wanted).template();
    Part::new(BILLING, ABOUT_BILLING)
        .shape("Record", record)
        .with(
            "GET",
            path(Wanted::All),
            Operation::new("list_subscriptions", "A user's billing records, oldest first, with the status of the membership.")
                .answer(200, "All of them.", object(json!({"user_id": text(), "status": membership, "subscriptions": list(shape("Record"))})))
                .errors(&[404, 500, 503]),
        )
        .with(
            "GET",
            path(Wanted::One("s".into())),
            Operation::new("get_subscription", "One billing record.")
                .answer(200, "The record.", shape("Record"))
                .errors(&[404, 500, 503]),
        )
        .with(
            "GET",
            path(Wanted::History("s".into())),
            Operation::new("list_subscription_history", "Every change of a billing record, in order, with its event and source.")
                .answer(200, "The rows.", object(json!({"user_id": text(), "subscription_id": text(), "rows": list(shape("Record"))})))
                .errors(&[404, 500, 503]),
        )
        .with(
            "GET",
            Route::Explain("u".into()).template(),
            Operation::new("explain_user", "A user's story: what happened, because of what, how it stands, and what comes next.")
                .query("at", "As of that time: RFC 3339, or a day.", json!({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}]}))
                .answer(
                    200,
                    "The story.",
                    object(json!({
                        "user_id": text(), "at": text(), "status": membership, "story": list(beat), "records": list(json!({"type": "object"})),
                        "access": {"type": "object"}, "credits": {"type": "integer"}, "next": list(next), "parked": list(json!({"type": "object"})),
                    })),
                )
                .errors(&[404, 422, 500, 503]),
        )
}

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
