//! `dues sandbox`: test accounts, and delivery of the sandbox's outcomes over the settlement stream, as a
//! payments service would deliver them.

use dues_events::UserId;
use dues_processors::billing::ach_handler::STREAM;
use dues_processors::collections::gateway::sandbox::{NetworkEvent, Odds, Sandbox};
use dues_processors::{Context, OutcomeCounts};
use dues_store::Store;
use dues_store::embedded::Embedded;
use serde_json::json;
use std::path::Path;

use crate::args::{self, SandboxCommand};
use crate::local::clock::clock;
use crate::local::followers::catch_up;
use crate::local::stream_runner::{StreamRunner, key_of};
use crate::output::{self, Error};

pub(crate) async fn run(data: &Path, args: &args::SandboxArgs) -> Result<(), Error> {
    match &args.command {
        SandboxCommand::Account { user, mask } => {
            let store = output::open(data)?;
            Sandbox::new(store, Odds::NONE).set_account(&UserId::from(user.as_str()), mask).await?;
            output::print_line(&format!("{user} now has an account ending in {mask}"))
        }
        SandboxCommand::Deliver { as_of, json } => {
            let store = Store { clock: clock(as_of.as_of), ..output::open_existing(data)? };
            let counts = deliver(&store, &Sandbox::new(store.clone(), Odds::NONE)).await?;
            let printed = if *json {
                output::print_json(&as_json(&counts))
            } else {
                output::print_line(&summary(&counts))
            };
            catch_up(&store).await?;
            printed
        }
    }
}

/// Ingests every outcome that is due.
pub(crate) async fn deliver(
    store: &Store<Embedded>,
    sandbox: &Sandbox<Embedded>,
) -> Result<OutcomeCounts, Error> {
    let context = Context { parallel: 1000, ..Context::new(store.clone()) };
    let mut counts = OutcomeCounts::default();
    let mut run = StreamRunner::new(context.clone(), STREAM)?;
    let name = |record: &dues_store::embedded::StreamRecord| format!("seq {}", record.seq);
    // Finish what an interrupted run left on the stream.
    while run.step(name, |_, fate| count(&mut counts, &fate)).await? {}
    loop {
        let now = store.clock.now();
        let outcomes = sandbox.due_events(now).await?;
        if outcomes.is_empty() {
            break;
        }
        let record = |outcome: &NetworkEvent| {
            (key_of(STREAM, outcome.record.as_bytes()), outcome.record.clone().into_bytes())
        };
        let records = outcomes.iter().map(record).collect();
        store.engine.append(STREAM, now, records).await?;
        sandbox.mark_published(outcomes).await?;
        while run.step(name, |_, fate| count(&mut counts, &fate)).await? {}
    }
    Ok(counts)
}

fn count(counts: &mut OutcomeCounts, fate: &dues_processors::Outcome) {
    // Failed records are redelivered and counted then.
    if !matches!(fate, dues_processors::Outcome::Failed(_)) {
        counts.count(fate);
    }
}

pub(crate) fn as_json(counts: &OutcomeCounts) -> serde_json::Value {
    json!({"applied": counts.applied, "duplicate": counts.duplicate, "ignored": counts.ignored,
        "parked": counts.parked})
}

pub(crate) fn summary(counts: &OutcomeCounts) -> String {
    let n = output::grouped;
    format!(
        "sandbox delivered {} outcomes: {} applied, {} parked",
        n(counts.applied + counts.ignored + counts.duplicate + counts.parked),
        n(counts.applied),
        n(counts.parked)
    )
}
