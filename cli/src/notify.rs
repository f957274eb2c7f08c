//! `dues notify`: tells of what falls due soon, on a durable local stream.

use dues_events::collect::Rules;
use dues_processors::bus::{Bus, Message, SOURCE};
use dues_processors::notifier::{Notified, notifier_scheduler};
use dues_store::Store;
use dues_store::embedded::Embedded;
use dues_store::lock::Locks;
use serde_json::json;
use std::path::Path;

use crate::args::Notify;
use crate::clock::clock;
use crate::output::{self, Error};
use crate::patience::patiently;

/// The stream that stands for the bus.
pub(crate) const STREAM: &str = "events";

pub(crate) async fn run(data: &Path, args: &Notify) -> Result<(), Error> {
    let store = Store { clock: clock(args.as_of.as_of), ..output::open_existing(data)? };
    let locks = Locks::new(store.engine.clone(), store.clock.clone()).with_lease(args.lock.lease()).with_heartbeat(args.lock.heartbeat());
    let rules = Rules { due_notice_days: args.days, ..Rules::default() };
    let bar = output::progress(None);
    let bus = LocalBus(store.clone());
    let notified = patiently(
        &store.clock,
        &args.lock,
        "the reminders are",
        |notified: &Notified| notified.locked,
        async || Ok(notifier_scheduler(&store, &locks, &rules, &bus, |notified| bar.set_position(notified.due_soon)).await?),
    )
    .await?;
    bar.finish_and_clear();
    if args.json {
        return output::json(&json!(notified));
    }
    if notified.locked {
        return output::text("another run is under way: nothing was done");
    }
    let n = output::grouped;
    output::text(&format!(
        "{} records fall due within {} days: told of {}, {} were told before",
        n(notified.due_soon),
        args.days,
        n(notified.told),
        n(notified.known)
    ))
}

/// A bus that is a durable stream in the same file.
pub(crate) struct LocalBus(pub(crate) Store<Embedded>);

impl Bus for LocalBus {
    async fn publish(&self, messages: &[Message]) -> Vec<Result<(), String>> {
        if messages.is_empty() {
            return Vec::new();
        }
        let records = messages
            .iter()
            .map(|message| {
                let envelope = json!({
                    "id": message.id, "source": SOURCE, "detail-type": message.detail_type, "time": message.at.to_rfc3339(), "detail": message.detail,
                });
                (message.id.clone(), envelope.to_string().into_bytes())
            })
            .collect();
        let appended = self.0.engine.append(STREAM, self.0.clock.now(), records).await.map(drop).map_err(|error| error.to_string());
        vec![appended; messages.len()]
    }
}
