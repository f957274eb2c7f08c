//! Live updates as server-sent events: one message a second, the same for every subscriber.

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use futures::stream::unfold;
use serde_json::{Value, json};
use std::convert::Infallible;

use super::format::{date_time, dollars, member_path, status_class};
use super::page::respond;
use super::snapshots::{Snapshot, Snapshots, Transition};
use crate::output::grouped;
use dues_events::billing::record::Status;

/// Each subscriber holds one of the server's connections.
const MAX_SUBSCRIBERS: usize = 64;

/// Streams every snapshot until the client disconnects or the program stops.
pub(super) fn stream(snapshots: &Snapshots) -> Response {
    let Some((subscriber, updates)) = snapshots.subscribe(MAX_SUBSCRIBERS) else {
        return respond(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", "too many subscribers");
    };
    let events = unfold(
        (subscriber, updates, snapshots.stopping(), true),
        |(subscriber, mut updates, mut stopping, first)| async move {
            if !first {
                tokio::select! {
                    changed = updates.changed() => changed.ok()?,
                    _ = stopping.wait_for(|stopping| *stopping) => return None,
                }
            }
            let data = message(&updates.borrow_and_update());
            let event = Bytes::from(format!("data: {data}\n\n"));
            Some((Ok::<_, Infallible>(event), (subscriber, updates, stopping, false)))
        },
    );
    respond(StatusCode::OK, "text/event-stream", Body::from_stream(events))
}

/// `text` has the content of every `data-live` element; the rest feeds the charts.
fn message(snapshot: &Snapshot) -> Value {
    if let Some(counted) = snapshot.counting {
        return json!({"counting": counted, "text": {"counting": grouped(counted)}});
    }
    let mut text = json!({
        "at": snapshot.at.format("%H:%M:%S").to_string(),
        "parked": grouped(snapshot.parked()),
        "unapplied_money": grouped(snapshot.unapplied_money),
        "events_s": grouped(snapshot.events_per_second),
        "changes_s": grouped(snapshot.changes_per_second),
        "records": grouped(snapshot.aggregates.records()),
        "recovered": grouped(snapshot.aggregates.recovered.count),
        "barred": grouped(snapshot.aggregates.barred.count),
    });
    for (name, status) in [
        ("collected", Status::Completed),
        ("at_risk", Status::Error),
        ("in_flight", Status::AchSent),
        ("waiting", Status::Scheduled),
    ] {
        text[name] = dollars(snapshot.aggregates.of(status).amount).into();
        text[format!("{name}_count")] = grouped(snapshot.aggregates.of(status).count).into();
    }
    for stream in &snapshot.streams {
        text[format!("lag_{}", stream.name)] = grouped(stream.waiting).into();
        text[format!("oldest_{}", stream.name)] = waiting_time(stream.oldest_millis).into();
    }
    let moves: Vec<Value> = snapshot.transitions.iter().map(transition).collect();
    json!({"text": text, "pulse": snapshot.events_history, "moves": moves})
}

/// The age of the oldest waiting record.
pub(super) fn waiting_time(millis: Option<i64>) -> String {
    match millis {
        None => "–".to_owned(),
        Some(millis) if millis < 1000 => "under 1 s".to_owned(),
        Some(millis) if millis < 120_000 => format!("{} s", millis / 1000),
        Some(millis) => format!("{} min", millis / 60_000),
    }
}

fn transition(change: &Transition) -> Value {
    json!({
        "at": change.at.map(date_time), "user": change.user.as_str(), "href": member_path(&change.user),
        "from": change.from.map(status_json), "to": status_json(change.to),
        "amount": dollars(change.amount.decimal()),
        "key": format!("{}{:?}{}", change.subscription, change.at, change.to),
    })
}

fn status_json(status: Status) -> Value {
    json!({"name": status.as_str(), "class": status_class(status)})
}
