//! `dues bench`: settlements per second, end to end, against plain SQLite writing the same rows.
//!
//! Both alternate in one process, on the same disk, with the same schema and durability, so that the ratio
//! is stable on a noisy machine. The engine decodes, decides, writes history, primary row and change log,
//! and awaits every write; the baseline only writes.

#![allow(clippy::float_arithmetic)] // Rates and ratios, not money.

mod audit;
mod baseline;
mod serve;
mod workload;

use dues_processors::billing::ach_handler::AchHandler;
use dues_processors::collections::Collector;
use dues_processors::collections::gateway::sandbox::{Odds, Sandbox};
use dues_processors::collections::job::{JobRun, Staleness};
use dues_processors::{Context, process};
use dues_store::Store;
use dues_store::embedded::Embedded;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::args::{BenchArgs, BenchCommand};
use crate::commands::collect::collect;
use crate::local::clock::SimulatedClock;
use crate::memory;
use crate::output::{self, Error};
use baseline::Baseline;

/// Records per batch, as in a Lambda invocation.
const BATCH_RECORDS: u32 = 1000;
/// Concurrent batches, as with this many shards.
const SHARDS: usize = 6;
/// Rounds in which engine and baseline alternate.
const ROUNDS: u32 = 4;

pub(crate) async fn run(data: &Path, args: &BenchArgs) -> Result<(), Error> {
    match &args.command {
        Some(BenchCommand::Serve(args)) => return serve::run(data, args).await,
        Some(BenchCommand::Audit(args)) => return audit::run(data, args).await,
        None => {}
    }
    let folder = Folder::new(data)?;
    let fresh = measure(&folder.0.join("fresh"), args.events, 0, args.json).await?;
    let large = match args.rows {
        0 => None,
        rows => Some(measure(&folder.0.join("large"), args.events, rows, args.json).await?),
    };
    let collected = match args.collections {
        0 => None,
        members => Some(measure_collections(&folder.0.join("due"), members, args.json).await?),
    };
    report(args, &fresh, large.as_ref(), collected)
}

/// Debits per second: lock, read, attempt, next record, sandbox ledger, answer, release; every write
/// awaited.
async fn measure_collections(folder: &Path, members: u32, quiet: bool) -> Result<f64, Error> {
    if !quiet {
        output::notice(&format!("collecting from {} members", output::grouped(members.into())));
    }
    // January 1 is a bank holiday: collect on the second.
    let clock = SimulatedClock::at(workload::joined() + chrono::TimeDelta::hours(32));
    let store = Store { clock, ..output::open(folder)? };
    workload::fill(&store, 0..members, workload::Fill::Due).await?;
    let collector = Collector::new(store.clone(), Sandbox::new(store, Odds::NONE));
    let start = Instant::now();
    let collected = collect(&collector, (JobRun::Initial, Staleness::Guarded), |_, _| {}).await?;
    let spent = start.elapsed();
    if collected.tally.sent != u64::from(members) {
        return Err(Error::Message(format!(
            "not all members were debited: {:?}, {:?}",
            collected.progress, collected.tally
        )));
    }
    Ok(f64::from(members) / spent.as_secs_f64())
}

/// Timings on one store.
struct Measured {
    events: u32,
    engine: Duration,
    raw: Duration,
}

impl Measured {
    fn events_per_s(&self) -> f64 {
        f64::from(self.events) / self.engine.as_secs_f64()
    }

    fn raw_per_s(&self) -> f64 {
        f64::from(self.events) / self.raw.as_secs_f64()
    }
}

async fn measure(folder: &Path, events: u32, rows_before: u32, quiet: bool) -> Result<Measured, Error> {
    let store = output::open(folder)?;
    let file = folder.join("dues.db");
    let notice = |text: String| {
        if !quiet {
            output::notice(&text);
        }
    };
    notice(format!(
        "filling a store with {} records",
        output::grouped(u64::from(rows_before) + u64::from(events))
    ));
    // The members with settlements come last.
    workload::fill(&store, 0..rows_before, workload::Fill::Old).await?;
    workload::fill(&store, rows_before..rows_before + events, workload::Fill::Sent).await?;
    let mut baseline = Baseline::new(&file, &folder.join("raw.db"))?;
    let context = Context { parallel: BATCH_RECORDS as usize, ..Context::new(store) };
    let mut measured = Measured { events: 0, engine: Duration::ZERO, raw: Duration::ZERO };
    let per_round = events.div_ceil(ROUNDS);
    for round in 0..ROUNDS {
        let first = rows_before + (round * per_round).min(events);
        let last = rows_before + ((round + 1) * per_round).min(events);
        let start = Instant::now();
        settle(&context, first..last).await?;
        measured.engine += start.elapsed();
        measured.raw += baseline.write(u64::from(last - first))?;
        measured.events += last - first;
        notice(format!(
            "round {}: {:.0} events/s, plain SQLite {:.0}",
            round + 1,
            measured.events_per_s(),
            measured.raw_per_s()
        ));
    }
    Ok(measured)
}

/// Processes the settlements of these members.
async fn settle(context: &Context<Embedded>, members: std::ops::Range<u32>) -> Result<(), Error> {
    let batches = members
        .clone()
        .step_by(BATCH_RECORDS as usize)
        .map(|first| first..(first + BATCH_RECORDS).min(members.end));
    let tasks = batches.map(|batch| {
        let context = context.clone();
        async move {
            let work = tokio::spawn(async move {
                let records: Vec<_> = batch.map(workload::settlement).collect();
                let counts = process::<AchHandler, Embedded>(&context, &records).await.counts();
                if counts.applied == records.len() as u64 {
                    Ok(())
                } else {
                    Err(Error::Message(format!("not all settlements were applied: {counts:?}")))
                }
            });
            work.await.unwrap_or_else(|e| Err(Error::Message(e.to_string())))
        }
    });
    stream::iter(tasks).buffer_unordered(SHARDS).try_collect().await
}

fn report(
    args: &BenchArgs,
    fresh: &Measured,
    large: Option<&Measured>,
    collected: Option<f64>,
) -> Result<(), Error> {
    let ratio = fresh.events_per_s() / fresh.raw_per_s();
    let memory = memory::peak_kb() / 1024;
    let rounded = |value: f64, places: i32| (value * 10f64.powi(places)).round() / 10f64.powi(places);
    if args.json {
        let mut answer = json!({
            "events": args.events,
            "events_per_s": rounded(fresh.events_per_s(), 0),
            "raw_sqlite_events_per_s": rounded(fresh.raw_per_s(), 0),
            "ratio": rounded(ratio, 3),
            "peak_memory_mb": memory,
        });
        if let Some(large) = large {
            answer["rows"] = json!(args.rows);
            answer["events_per_s_at_rows"] = json!(rounded(large.events_per_s(), 0));
            answer["raw_sqlite_events_per_s_at_rows"] = json!(rounded(large.raw_per_s(), 0));
            answer["flat"] = json!(rounded(large.events_per_s() / fresh.events_per_s(), 3));
        }
        if let Some(per_s) = collected {
            answer["collections"] = json!(args.collections);
            answer["collections_per_s"] = json!(rounded(per_s, 0));
        }
        return output::print_json(&answer);
    }
    let mut table = output::table(["", "settlements/s", "plain SQLite/s", "ratio"]);
    let mut row = |name: String, m: &Measured| {
        let ratio = m.events_per_s() / m.raw_per_s();
        table.add_row([
            name,
            format!("{:.0}", m.events_per_s()),
            format!("{:.0}", m.raw_per_s()),
            format!("{ratio:.2}"),
        ]);
    };
    row("fresh store".into(), fresh);
    if let Some(large) = large {
        row(format!("{} existing records", output::grouped(args.rows.into())), large);
    }
    output::print_line(&table.to_string())?;
    if let Some(per_s) = collected {
        output::print_line(&format!(
            "{per_s:.0} collections/s, from {} members",
            output::grouped(args.collections.into())
        ))?;
    }
    output::print_line(&format!(
        "{} settlements each; peak memory {memory} MB",
        output::grouped(args.events.into())
    ))
}

/// A temporary directory inside the data directory, so that it is on the same disk.
struct Folder(PathBuf);

impl Folder {
    fn new(data: &Path) -> Result<Self, Error> {
        let folder = data.join(format!("bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|cause| Error::Io { doing: format!("create directory {}", folder.display()), cause })?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
        // Removes the data directory only if it is empty.
        if let Some(data) = self.0.parent() {
            let _ = std::fs::remove_dir(data);
        }
    }
}
