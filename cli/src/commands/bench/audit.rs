//! `dues bench audit`: events per second of `dues audit` and `dues replay --dry-run`.
//!
//! The events are those of the demo company. Audit and replay alternate; the medians are reported.

use dues_processors::operators::audit::audit;
use dues_processors::operators::replay::{ReplayTarget, compare};
use dues_store::Store;
use dues_store::embedded::Embedded;
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Folder;
use crate::args::BenchAuditArgs;
use crate::commands::demo::Simulation;
use crate::local::settings;
use crate::memory;
use crate::output::{self, Error};

/// Runs of each.
const ROUNDS: usize = 5;

pub(crate) async fn run(data: &Path, args: &BenchAuditArgs) -> Result<(), Error> {
    let folder = Folder::new(data)?;
    if !args.json {
        eprintln!(
            "simulating {} months of {} members",
            args.company.months,
            output::grouped(args.company.members.into())
        );
    }
    let store = Simulation::run(&folder.0.join("company"), &args.company).await?.context.store;
    let before = memory::peak_kb();
    let (mut audits, mut replays) = (Runs::default(), Runs::default());
    for _ in 0..ROUNDS {
        audits.time(async || run_audit(&store).await).await?;
        replays.time(async || run_replay(&store).await).await?;
    }
    let grown_mb = (memory::peak_kb() - before) / 1024;
    report(args, &audits, &replays, grown_mb)
}

/// Timed runs over the same events.
#[derive(Default)]
struct Runs {
    events: u64,
    durations: Vec<Duration>,
}

impl Runs {
    async fn time(&mut self, run: impl AsyncFnOnce() -> Result<u64, Error>) -> Result<(), Error> {
        let start = Instant::now();
        self.events = run().await?;
        self.durations.push(start.elapsed());
        Ok(())
    }

    /// Events per second of the median run.
    fn per_s(&self) -> f64 {
        let mut durations = self.durations.clone();
        durations.sort();
        self.events as f64 / durations.get(durations.len() / 2).map_or(f64::INFINITY, Duration::as_secs_f64)
    }
}

async fn run_audit(store: &Store<Embedded>) -> Result<u64, Error> {
    let audit = audit(store, &settings::tiers()?, &settings::read_models()?, |_| {}).await?;
    match audit.findings.len() {
        0 => Ok(audit.events),
        found => Err(Error::Message(format!(
            "{found} rows do not match their history: {:?}",
            audit.findings.first()
        ))),
    }
}

async fn run_replay(store: &Store<Embedded>) -> Result<u64, Error> {
    let mut events = 0;
    for part in ReplayTarget::ALL {
        let compared = compare(part, store, |_| {}).await?;
        if let Some(found) = compared.differences.first() {
            return Err(Error::Message(format!(
                "{} does not match its history: {}",
                part.name(),
                found.detail()
            )));
        }
        events += compared.events;
    }
    Ok(events)
}

fn report(args: &BenchAuditArgs, audits: &Runs, replays: &Runs, grown_mb: u64) -> Result<(), Error> {
    if args.json {
        return output::print_json(&json!({
            "members": args.company.members, "months": args.company.months, "rounds": ROUNDS,
            "audit_events": audits.events, "audit_events_per_s": audits.per_s().round(),
            "replay_events": replays.events, "replay_events_per_s": replays.per_s().round(),
            "memory_grown_mb": grown_mb,
        }));
    }
    for (name, runs) in [("audit", audits), ("replay", replays)] {
        output::print_line(&format!(
            "{name:<7} {:.0} events/s, of {}",
            runs.per_s(),
            output::grouped(runs.events)
        ))?;
    }
    output::print_line(&format!("medians of {ROUNDS} runs each; memory grew by {grown_mb} MB"))
}
