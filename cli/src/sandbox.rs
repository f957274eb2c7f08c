//! `dues sandbox`, and how the made-up network's news reaches the records: on the stream, as a payments service's would.

use chrono::TimeDelta;
use dues_events::UserId;
use dues_processors::ach_handler::STREAM;
use dues_processors::gateway::sandbox::{Odds, Outcome, Sandbox};
use dues_processors::redrive::release_waiting;
use dues_processors::{Context, Counts, Fate};
use dues_store::Store;
use dues_store::embedded::Embedded;
use serde_json::json;
use std::path::Path;

use crate::args::{self, SandboxCommand};
use crate::clock::clock;
use crate::follow::catch_up;
use crate::output::{self, Error};
use crate::stream_run::{StreamRun, key_of};

pub(crate) async fn run(data: &Path, args: &args::Sandbox) -> Result<(), Error> {
    match &args.command {
        SandboxCommand::Account { user, mask } => {
            let store = output::open(data)?;
            Sandbox::new(store, Odds::NONE).set_account(&UserId::from(user.as_str()), mask).await?;
            output::text(&format!("{user} has an account that ends in {mask}"))
        }
        SandboxCommand::Deliver { as_of, json } => {
            let store = Store { clock: clock(as_of.as_of), ..output::open_existing(data)? };
            let counts = deliver(&store, &Sandbox::new(store.clone(), Odds::NONE)).await?;
            let told = if *json { output::json(&as_json(&counts)) } else { output::text(&in_words(&counts)) };
            catch_up(&store).await?;
            told
        }
    }
}

/// Brings in what has become of debits by now.
pub(crate) async fn deliver(store: &Store<Embedded>, sandbox: &Sandbox<Embedded>) -> Result<Counts, Error> {
    let context = Context { hold: TimeDelta::zero(), parallel: 1000, ..Context::new(store.clone()) };
    let mut counts = Counts::default();
    let mut run = StreamRun::new(context.clone(), STREAM)?;
    let name = |record: &dues_store::embedded::StreamRecord| format!("seq {}", record.seq);
    // A run that was killed may have left some on the stream.
    while run.step(name, |_, fate| count(&mut counts, &fate)).await? {}
    loop {
        let now = store.clock.now();
        let news = sandbox.outcomes(now).await?;
        if news.is_empty() {
            break;
        }
        let record = |outcome: &Outcome| (key_of(STREAM, outcome.record.as_bytes()), outcome.record.clone().into_bytes());
        let records = news.iter().map(record).collect();
        store.engine.append(STREAM, now, records).await?;
        sandbox.told(news).await?;
        while run.step(name, |_, fate| count(&mut counts, &fate)).await? {}
    }
    for (_, fate) in release_waiting(&context, STREAM).await? {
        counts.parked = counts.parked.saturating_sub(1);
        count(&mut counts, &fate);
    }
    Ok(counts)
}

fn count(counts: &mut Counts, fate: &Fate) {
    // What failed is delivered again, and counted then.
    if !matches!(fate, Fate::Failed(_)) {
        counts.count(fate);
    }
}

pub(crate) fn as_json(counts: &Counts) -> serde_json::Value {
    json!({"applied": counts.applied, "duplicate": counts.duplicate, "ignored": counts.ignored, "parked": counts.parked})
}

pub(crate) fn in_words(counts: &Counts) -> String {
    let n = output::grouped;
    format!(
        "the sandbox told of {} debits: {} applied, {} parked",
        n(counts.applied + counts.ignored + counts.duplicate + counts.parked),
        n(counts.applied),
        n(counts.parked)
    )
}
