//! `dues notify`: tells of what falls due soon, on a durable local stream.

use dues_events::collect::Rules;
use dues_processors::notifier::{Notified, notifier_scheduler};
use dues_store::Store;
use dues_store::lock::Locks;
use serde_json::json;
use std::path::Path;

use crate::args::Notify;
use crate::clock::clock;
use crate::follow::catch_up;
use crate::outgoing::LocalStreams;
use crate::output::{self, Error};
use crate::patience::patiently;

pub(crate) async fn run(data: &Path, args: &Notify) -> Result<(), Error> {
    let store = Store { clock: clock(args.as_of.as_of), ..output::open_existing(data)? };
    let locks = Locks::new(store.engine.clone(), store.clock.clone()).with_lease(args.lock.lease()).with_heartbeat(args.lock.heartbeat());
    let rules = Rules { due_notice_days: args.days, ..Rules::default() };
    let bar = output::progress(None);
    let bus = LocalStreams::new(store.engine.clone());
    let notified = patiently(
        &store.clock,
        &args.lock,
        "the reminders are",
        |notified: &Notified| notified.locked,
        async || Ok(notifier_scheduler(&store, &locks, &rules, &bus, |notified| bar.set_position(notified.due_soon)).await?),
    )
    .await?;
    bar.finish_and_clear();
    let reported = report(args, &notified);
    catch_up(&store).await?;
    reported
}

fn report(args: &Notify, notified: &Notified) -> Result<(), Error> {
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
