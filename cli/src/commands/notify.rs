//! `dues notify`: publishes reminders for records that are due soon.

use dues_events::collections::eligibility::Rules;
use dues_processors::collections::notifier::{NotifierSummary, notifier_scheduler};
use dues_store::Store;
use dues_store::lock::Locks;
use serde_json::json;
use std::path::Path;

use crate::args::NotifyArgs;
use crate::local::clock::clock;
use crate::local::followers::catch_up;
use crate::local::lock_wait::retry_while_locked;
use crate::local::streams::LocalStreams;
use crate::output::{self, Error};

pub(crate) async fn run(data: &Path, args: &NotifyArgs) -> Result<(), Error> {
    let store = Store { clock: clock(args.as_of.as_of), ..output::open_existing(data)? };
    let locks = Locks::new(store.engine.clone(), store.clock.clone())
        .with_lease(args.lock.lease())
        .with_heartbeat(args.lock.heartbeat());
    let rules = Rules { due_notice_days: args.days, ..Rules::default() };
    let bar = output::progress(None);
    let bus = LocalStreams::new(store.engine.clone());
    let notified = retry_while_locked(
        &store.clock,
        &args.lock,
        "the reminder job is",
        |notified: &NotifierSummary| notified.locked,
        async || {
            Ok(notifier_scheduler(&store, &locks, &rules, &bus, |notified| {
                bar.set_position(notified.due_soon)
            })
            .await?)
        },
    )
    .await?;
    bar.finish_and_clear();
    let reported = report(args, &notified);
    catch_up(&store).await?;
    reported
}

fn report(args: &NotifyArgs, notified: &NotifierSummary) -> Result<(), Error> {
    if args.json {
        return output::print_json(&json!(notified));
    }
    if notified.locked {
        return output::print_line("another run holds the lock: nothing was done");
    }
    let n = output::grouped;
    output::print_line(&format!(
        "{} records due within {} days: {} reminders published, {} already published",
        n(notified.due_soon),
        args.days,
        n(notified.published),
        n(notified.known)
    ))
}
