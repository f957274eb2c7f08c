//! What happens, as server-sent events: one message a second while somebody listens, the same for all.

use futures::stream::unfold;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::StatusCode;
use hyper::body::{Bytes, Frame};
use serde_json::{Value, json};
use std::convert::Infallible;

use super::format::{dollars, member_path, moment};
use super::page::{answer_with, headed};
use super::watch::{Move, Snapshot, Watch};
use crate::output::grouped;
use dues_events::record::Status;

/// How many may listen at once: each has one of the server's connections.
const MOST: usize = 64;

/// An answer's body: a whole page, or events without an end.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Tells a listener of everything that is published, until it goes or the program stops.
pub(super) fn stream(watch: &Watch) -> hyper::Response<Body> {
    let Some((listener, told)) = watch.join(MOST) else {
        let busy = Full::new(Bytes::from_static(b"too many listeners"));
        return answer_with(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", busy);
    };
    let events = unfold((listener, told, watch.stopping(), true), |(listener, mut told, mut stopping, first)| async move {
        if !first {
            tokio::select! {
                changed = told.changed() => changed.ok()?,
                _ = stopping.wait_for(|stopping| *stopping) => return None,
            }
        }
        let data = message(&told.borrow_and_update());
        let event = Frame::data(Bytes::from(format!("data: {data}\n\n")));
        Some((Ok::<_, Infallible>(event), (listener, told, stopping, false)))
    });
    headed(StatusCode::OK, "text/event-stream", StreamBody::new(events).boxed_unsync())
}

/// What a page needs to bring itself up to date: texts by the name of their place, and the rest as numbers.
fn message(known: &Snapshot) -> Value {
    if let Some(counted) = known.counting {
        return json!({"counting": counted, "text": {"counting": grouped(counted)}});
    }
    let mut text = json!({
        "at": known.at.format("%H:%M:%S").to_string(),
        "parked": grouped(known.parked()),
        "events_s": grouped(known.events_a_second),
        "changes_s": grouped(known.changes_a_second),
        "records": grouped(known.sums.records()),
        "recovered": grouped(known.sums.recovered.count),
        "barred": grouped(known.sums.barred.count),
    });
    for (name, status) in
        [("collected", Status::Completed), ("at_risk", Status::Error), ("in_flight", Status::AchSent), ("waiting", Status::Scheduled)]
    {
        text[name] = dollars(known.sums.of(status).amount).into();
        text[format!("{name}_count")] = grouped(known.sums.of(status).count).into();
    }
    for stream in &known.streams {
        text[format!("lag_{}", stream.name)] = grouped(stream.waiting).into();
        text[format!("oldest_{}", stream.name)] = oldest(stream.oldest).into();
    }
    json!({"text": text, "pulse": known.pulse, "moves": known.moves.iter().map(moved).collect::<Vec<_>>()})
}

/// For how long something has waited.
pub(super) fn oldest(millis: Option<i64>) -> String {
    match millis {
        None => "–".to_owned(),
        Some(millis) if millis < 1000 => "under 1 s".to_owned(),
        Some(millis) if millis < 120_000 => format!("{} s", millis / 1000),
        Some(millis) => format!("{} min", millis / 60_000),
    }
}

fn moved(moved: &Move) -> Value {
    json!({
        "at": moved.at.map(moment), "user": moved.user.as_str(), "href": member_path(&moved.user),
        "from": moved.from.map(mark), "to": mark(moved.to), "amount": dollars(moved.amount.decimal()),
        "key": format!("{}{:?}{}", moved.subscription, moved.at, moved.to),
    })
}

fn mark(status: Status) -> Value {
    json!({"name": status.as_str(), "class": super::format::class(status)})
}
