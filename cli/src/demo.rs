//! `dues demo`: months of a made-up company, through the real handlers, in simulated time.

mod company;

use dues_events::record::{Record, Status};
use dues_events::{Money, Time};
use dues_processors::redrive::process_stream;
use dues_processors::{Context, Counts, Incoming};
use dues_projections::billing_record::replay;
use dues_store::embedded::Embedded;
use dues_store::table::BILLING_ACTIVITY;
use dues_store::{Clock, Engine as _, Store, SystemClock};
use futures::future::BoxFuture;
use rust_decimal::Decimal;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::args::Demo;
use crate::output::{self, Error};
use company::Company;

/// Records in a batch.
const BATCH: usize = 1000;

pub(crate) async fn run(data: &Path, args: &Demo) -> Result<(), Error> {
    let folder = fresh_folder(data)?;
    let clock = Arc::new(Simulated(Mutex::new(company::START)));
    let store = Store { clock: clock.clone(), ..output::open(&folder)? };
    let context = Context { parallel: BATCH, ..Context::new(store) };
    let mut company = Company::new(args.members, args.seed);
    let mut counts = Counts::default();
    let mut events = 0;
    let start = Instant::now();
    let bar = output::progress(Some(u64::from(args.months)));
    deliver(&context, "memberships", company.join(), &mut counts, &mut events).await?;
    for month in 0..args.months {
        bar.set_position(u64::from(month));
        clock.set(company.month(month));
        let due = due_records(&context.store, company.month(month + 1)).await?;
        for (stream, records) in company.live_through(month, &due) {
            deliver(&context, stream, records, &mut counts, &mut events).await?;
        }
    }
    let spent = start.elapsed();
    let sums = sum_up(&context.store).await?;
    bar.finish_and_clear();
    report(args, &folder, &sums, counts, events, spent)
}

/// A folder of its own inside the data folder, made anew each time: a demo never touches other data.
fn fresh_folder(data: &Path) -> Result<PathBuf, Error> {
    let folder = data.join("demo");
    match std::fs::remove_dir_all(&folder) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::Io { doing: format!("empty {}", folder.display()), cause })
        }
        Ok(()) | Err(_) => Ok(folder),
    }
}

/// Sends records through the stream's handler, in batches.
async fn deliver(
    context: &Context<Embedded>,
    stream: &str,
    records: Vec<String>,
    counts: &mut Counts,
    events: &mut u64,
) -> Result<(), Error> {
    let now = context.store.clock.now();
    let batch = |(n, data): (usize, String)| Incoming { sequence: n.to_string(), arrived: now, data: data.into_bytes() };
    let records: Vec<Incoming> = records.into_iter().enumerate().map(batch).collect();
    for batch in records.chunks(BATCH) {
        let report = process_stream(context, stream, batch).await.ok_or_else(|| Error::Said(format!("no handler reads {stream}")))?;
        report.fates.iter().for_each(|fate| counts.count(fate));
        *events += batch.len() as u64;
    }
    Ok(())
}

/// Every record that waits for its first attempt and falls due before a time.
async fn due_records(store: &Store<Embedded>, before: Time) -> Result<Vec<Record>, Error> {
    let mut due = Vec::new();
    let mut start = None;
    loop {
        let page = store.scheduled_page(before, start).await?;
        due.extend(page.records);
        match page.next {
            Some(next) => start = Some(next),
            None => break,
        }
    } // Pages come in the order of writing, which differs from run to run; the company does not.
    due.sort_by(|a, b| (&a.user_id, a.billing_date.at()).cmp(&(&b.user_id, b.billing_date.at())));
    Ok(due)
}

/// What the tables say in the end.
#[derive(Default)]
struct Sums {
    by_status: BTreeMap<&'static str, u64>,
    collected: Decimal,
    at_risk: Decimal,
    recovered: u64,
    barred: u64,
    records: u64,
    differences: u64,
    /// A record worth looking at: returned after it was paid, or at least returned.
    example: Option<Record>,
}

/// Adds up, and refolds every history to compare it with its row.
async fn sum_up(store: &Store<Embedded>) -> Result<Sums, Error> {
    let mut sums = Sums::default();
    let mut start = None;
    loop {
        let page = store.engine.scan(&BILLING_ACTIVITY, start, 1000).await?;
        for item in page.items {
            let record = Record::from_item(item).map_err(dues_store::StoreError::from)?;
            let history = store.history_by_id(&record.subscription_id).await?;
            sums.differences += u64::from(replay(&history).as_ref() != Some(&record));
            sums.add(record, history.iter().any(|row| row.record.status() == Status::Completed));
        }
        match page.next {
            Some(next) => start = Some(next),
            None => return Ok(sums),
        }
    }
}

impl Sums {
    fn add(&mut self, record: Record, was_completed: bool) {
        self.records += 1;
        *self.by_status.entry(record.status().as_str()).or_default() += 1;
        self.barred += u64::from(record.bar.is_some());
        match record.status() {
            Status::Completed => {
                self.collected += Money::decimal(record.plan.amount);
                self.recovered += u64::from(record.attempts > 1);
            }
            Status::Error => {
                self.at_risk += Money::decimal(record.plan.amount);
                if self.example.is_none() || was_completed {
                    self.example = Some(record);
                }
            }
            Status::Scheduled
            | Status::AchSent
            | Status::Waived
            | Status::Cancelled
            | Status::Paused
            | Status::PausedSkipped
            | Status::Refunded
            | Status::Stale => {}
        }
    }
}

fn report(args: &Demo, folder: &Path, sums: &Sums, counts: Counts, events: u64, spent: Duration) -> Result<(), Error> {
    let per_s = u64::try_from(u128::from(events) * 1000 / spent.as_millis().max(1)).unwrap_or_default();
    if args.json {
        return output::json(&json!({
            "members": args.members, "months": args.months, "seed": args.seed, "events": events, "events_per_s": per_s,
            "applied": counts.applied, "duplicate": counts.duplicate, "ignored": counts.ignored, "parked": counts.parked,
            "records": sums.records, "by_status": sums.by_status, "collected": sums.collected.to_string(), "at_risk": sums.at_risk.to_string(),
            "recovered": sums.recovered, "barred": sums.barred, "differences": sums.differences,
        }));
    }
    let n = output::grouped;
    output::text(&format!(
        "{} members, {} months, {} events in {:.1} s ({}/s)\n",
        n(args.members.into()),
        args.months,
        n(events),
        spent.as_secs_f64(),
        n(per_s)
    ))?;
    output::text(&format!("  collected   ${}", sums.collected))?;
    output::text(&format!("  at risk     ${}, in returned debits", sums.at_risk))?;
    output::text(&format!("  recovered   {} records, by presenting them again", n(sums.recovered)))?;
    output::text(&format!("  barred      {} records, after unauthorised debits and chargebacks", n(sums.barred)))?;
    output::text(&format!("  repeated    {} deliveries of events that were known: nothing happened twice", n(counts.duplicate)))?;
    output::text(&format!("  parked      {} records that could not be understood or could not happen", n(counts.parked)))?;
    output::text(&format!("  audit       {} histories folded again, {} differ from their row\n", n(sums.records), n(sums.differences)))?;
    let mut table = output::table(["status", "records"]);
    for (status, count) in &sums.by_status {
        table.add_row([(*status).to_owned(), n(*count)]);
    }
    output::text(&table.to_string())?;
    let data = folder.display();
    output::text("What to try next:")?;
    if let Some(record) = &sums.example {
        output::text(&format!("  dues --data {data} show {}", record.user_id))?;
        output::text(&format!("  dues --data {data} history {}", record.subscription_id))?;
    }
    output::text(&format!("  dues --data {data} parked"))?;
    if sums.differences > 0 {
        return Err(Error::Said(format!("{} records differ from their history", sums.differences)));
    }
    Ok(())
}

/// Time as the demo tells it.
struct Simulated(Mutex<Time>);

impl Simulated {
    fn set(&self, time: Time) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = time;
    }
}

impl Clock for Simulated {
    fn now(&self) -> Time {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn uptime(&self) -> Duration {
        SystemClock.uptime()
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}
