//! `dues demo`: months of a made-up company, through the real handlers and the collections engine, in simulated time.

mod company;

use chrono::TimeDelta;
use dues_events::record::{Record, Status};
use dues_events::{Money, Time};
use dues_processors::collections::Collector;
use dues_processors::collections::job::Process;
use dues_processors::collections::signals::{Acted, webhook_balance_worker, webhook_worker};
use dues_processors::collections::worker::Tally;
use dues_processors::gateway::sandbox::{Odds, Sandbox};
use dues_processors::notifier::notifier_scheduler;
use dues_processors::redrive::process_stream;
use dues_processors::{Context, Counts, Incoming};
use dues_projections::billing_record::replay;
use dues_store::embedded::Embedded;
use dues_store::table::BILLING_ACTIVITY;
use dues_store::{Engine as _, Store};
use futures::stream::{StreamExt as _, iter};
use rust_decimal::Decimal;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::args::Demo;
use crate::clock::Simulated;
use crate::collect::collect;
use crate::follow::catch_up;
use crate::outgoing::LocalStreams;
use crate::output::{self, Error};
use company::{Company, Stream};

/// Records in a batch.
const BATCH: usize = 1000;

/// When things happen on a day, in minutes after midnight: members' changes and
/// settlements come in, what failed is tried again, what is due is collected,
/// members are reminded, incomes and balances are seen, pauses end.
const CHANGES: i64 = 6 * 60;
const SETTLEMENTS: i64 = 6 * 60 + 30;
const RETRY: i64 = 7 * 60;
const INITIAL: i64 = 8 * 60;
const REMINDERS: i64 = 9 * 60;
const SIGNALS: i64 = 12 * 60;
const PAUSE: i64 = 22 * 60;

pub(crate) async fn run(data: &Path, args: &Demo) -> Result<(), Error> {
    let folder = fresh_folder(data)?;
    let clock = Simulated::at(company::START);
    let store = Store { clock: clock.clone(), ..output::open(&folder)? };
    let mut year = Year::new(store, Company::new(args.members, args.seed), args.seed);
    let start = Instant::now();
    let days = Company::days(args.months);
    let bar = output::progress_of("days", days.len() as u64);
    let joined = year.company.join();
    year.deliver("memberships", joined).await?;
    for day in days {
        year.live_through(day, &clock).await?;
        bar.inc(1);
    }
    let spent = start.elapsed();
    let sums = sum_up(&year.context.store).await?;
    bar.finish_and_clear();
    report(args, &folder, &sums, &year, spent)
}

/// A company, and all that works for it.
struct Year {
    context: Context<Embedded>,
    collector: Collector<Embedded, Sandbox<Embedded>>,
    company: Company,
    counts: Counts,
    tally: Tally,
    reminders: u64,
    events: u64,
}

impl Year {
    fn new(store: Store<Embedded>, company: Company, seed: u64) -> Self {
        let sandbox = Sandbox::new(store.clone(), Odds { seed, ..Odds::USUAL });
        let collector = Collector::new(store.clone(), sandbox);
        let context = Context { parallel: BATCH, hold: TimeDelta::zero(), ..Context::new(store) };
        Self { context, collector, company, counts: Counts::default(), tally: Tally::default(), reminders: 0, events: 0 }
    }

    async fn live_through(&mut self, day: Time, clock: &Simulated) -> Result<(), Error> {
        let at = |minutes| clock.set(day + TimeDelta::minutes(minutes));
        at(CHANGES);
        let changes = self.company.changes(day);
        self.deliver("memberships", changes).await?;
        at(SETTLEMENTS);
        self.settle().await?;
        at(RETRY);
        self.collect(Process::Retry).await?;
        at(INITIAL);
        self.collect(Process::Initial).await?;
        at(REMINDERS);
        self.remind().await?;
        at(SIGNALS);
        self.see_signals(day).await?;
        at(PAUSE);
        self.collect(Process::Pause).await?;
        catch_up(&self.context.store).await
    }

    /// Sends records through the stream's handler, in batches.
    async fn deliver(&mut self, stream: &str, records: Vec<String>) -> Result<(), Error> {
        let now = self.context.store.clock.now();
        let batch = |(n, data): (usize, String)| Incoming { sequence: n.to_string(), arrived: now, data: data.into_bytes() };
        let records: Vec<Incoming> = records.into_iter().enumerate().map(batch).collect();
        for batch in records.chunks(BATCH) {
            let report = process_stream(&self.context, stream, batch).await;
            let report = report.ok_or_else(|| Error::Said(format!("no handler reads {stream}")))?;
            report.fates.iter().for_each(|fate| self.counts.count(fate));
            if let Some(failed) = report.first_failure() {
                return Err(Error::Said(format!("a record of {stream} was not processed: {:?}", report.fates[failed])));
            }
        }
        self.events += records.len() as u64;
        Ok(())
    }

    async fn settle(&mut self) -> Result<(), Error> {
        loop {
            let news = self.collector.gateway.outcomes(self.context.store.clock.now()).await?;
            if news.is_empty() {
                return Ok(());
            }
            let records = self.company.deliver(news.iter().map(|outcome| outcome.record.clone()).collect());
            self.deliver("site-payments", records).await?;
            self.collector.gateway.told(news).await?;
        }
    }

    async fn collect(&mut self, process: Process) -> Result<(), Error> {
        let collected = collect(&self.collector, process, |_, _| {}).await?;
        self.events += collected.tally.users;
        self.tally.add(&collected.tally);
        Ok(())
    }

    async fn remind(&mut self) -> Result<(), Error> {
        let bus = LocalStreams::new(self.context.store.engine.clone());
        let notified = notifier_scheduler(&self.context.store, &self.collector.locks, &self.collector.rules, &bus, |_| {}).await?;
        self.reminders += notified.told;
        Ok(())
    }

    async fn see_signals(&mut self, day: Time) -> Result<(), Error> {
        let (collector, tally) = (&self.collector, &mut self.tally);
        let acts = self.company.signals(day).into_iter().map(|(stream, signal)| async move {
            let record = Incoming { sequence: String::new(), arrived: day, data: signal.into_bytes() };
            match stream {
                Stream::Income => webhook_worker(collector, &record).await,
                Stream::Balance => webhook_balance_worker(collector, &record).await,
            }
        });
        let mut acts = iter(acts).buffer_unordered(BATCH);
        while let Some(act) = acts.next().await {
            if let Acted::Visited(_, visit) = act.map_err(Error::Said)? {
                tally.count(&Ok(visit));
            }
            self.events += 1;
        }
        Ok(())
    }
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

fn report(args: &Demo, folder: &Path, sums: &Sums, year: &Year, spent: Duration) -> Result<(), Error> {
    let Year { counts, tally, events, .. } = year;
    let events = *events;
    let per_s = u64::try_from(u128::from(events) * 1000 / spent.as_millis().max(1)).unwrap_or_default();
    if args.json {
        return output::json(&json!({
            "members": args.members, "months": args.months, "seed": args.seed, "events": events, "events_per_s": per_s,
            "applied": counts.applied, "duplicate": counts.duplicate, "ignored": counts.ignored, "parked": counts.parked,
            "records": sums.records, "by_status": sums.by_status, "collected": sums.collected.to_string(), "at_risk": sums.at_risk.to_string(),
            "recovered": sums.recovered, "barred": sums.barred, "differences": sums.differences, "debits": tally.sent,
            "reminders": year.reminders, "pauses_ended": tally.pause_expired, "left_alone": tally.left,
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
    output::text(&format!("  collected   ${}, with {} debits", sums.collected, n(tally.sent)))?;
    output::text(&format!("  at risk     ${}, in returned debits", sums.at_risk))?;
    output::text(&format!("  recovered   {} records, by presenting them again", n(sums.recovered)))?;
    output::text(&format!("  barred      {} records, after unauthorised debits and chargebacks", n(sums.barred)))?;
    output::text(&format!("  reminded    {} times, three days ahead", n(year.reminders)))?;
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
