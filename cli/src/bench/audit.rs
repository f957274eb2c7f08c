//! `dues bench audit`: how many events a second `dues audit` and `dues replay --dry-run` fold again and compare with the rows.
//!
//! The events are those of the demo's company, made by the real handlers: billing records, Stripe's events, credits, usage, images, documents. What is
//! told is the median of some rounds, in which the two take turns.

use dues_processors::audit::audit;
use dues_processors::replay::{Part, compare};
use dues_store::Store;
use dues_store::embedded::Embedded;
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Folder;
use crate::args::BenchAudit;
use crate::demo::Year;
use crate::memory;
use crate::output::{self, Error};
use crate::settings;

/// How often each is run.
const ROUNDS: usize = 5;

pub(crate) async fn run(data: &Path, args: &BenchAudit) -> Result<(), Error> {
    let folder = Folder::new(data)?;
    if !args.json {
        eprintln!("living through {} months of {} members", args.company.months, output::grouped(args.company.members.into()));
    }
    let store = Year::lived(&folder.0.join("company"), &args.company).await?.context.store;
    let before = memory::peak_kb();
    let (mut audits, mut replays) = (Runs::default(), Runs::default());
    for _ in 0..ROUNDS {
        audits.time(async || audited(&store).await).await?;
        replays.time(async || replayed(&store).await).await?;
    }
    let grown_mb = (memory::peak_kb() - before) / 1024;
    report(args, &audits, &replays, grown_mb)
}

/// Runs of one of the two, each over the same events.
#[derive(Default)]
struct Runs {
    events: u64,
    took: Vec<Duration>,
}

impl Runs {
    async fn time(&mut self, run: impl AsyncFnOnce() -> Result<u64, Error>) -> Result<(), Error> {
        let start = Instant::now();
        self.events = run().await?;
        self.took.push(start.elapsed());
        Ok(())
    }

    /// In the median run.
    fn per_s(&self) -> f64 {
        let mut took = self.took.clone();
        took.sort();
        self.events as f64 / took.get(took.len() / 2).map_or(f64::INFINITY, Duration::as_secs_f64)
    }
}

async fn audited(store: &Store<Embedded>) -> Result<u64, Error> {
    let audit = audit(store, &settings::tiers()?, &settings::read_models()?, |_| {}).await?;
    match audit.findings.len() {
        0 => Ok(audit.events),
        found => Err(Error::Said(format!("{found} rows do not agree: {:?}", audit.findings.first()))),
    }
}

async fn replayed(store: &Store<Embedded>) -> Result<u64, Error> {
    let mut events = 0;
    for part in Part::ALL {
        let compared = compare(part, store, |_| {}).await?;
        if let Some(found) = compared.differences.first() {
            return Err(Error::Said(format!("{} is not as history makes it: {}", part.name(), found.detail())));
        }
        events += compared.events;
    }
    Ok(events)
}

fn report(args: &BenchAudit, audits: &Runs, replays: &Runs, grown_mb: u64) -> Result<(), Error> {
    if args.json {
        return output::json(&json!({
            "members": args.company.members, "months": args.company.months, "rounds": ROUNDS,
            "audit_events": audits.events, "audit_events_per_s": audits.per_s().round(),
            "replay_events": replays.events, "replay_events_per_s": replays.per_s().round(),
            "memory_grown_mb": grown_mb,
        }));
    }
    for (name, runs) in [("audit", audits), ("replay", replays)] {
        output::text(&format!("{name:<7} {:.0} events/s, of {}", runs.per_s(), output::grouped(runs.events)))?;
    }
    output::text(&format!("medians of {ROUNDS} runs each; they needed {grown_mb} MB more than living through the months"))
}
