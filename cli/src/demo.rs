//! `dues demo`: months of a made-up company, through the real handlers and the collections engine, in simulated time.

mod apps;
mod company;
mod customers;

use chrono::TimeDelta;
use clap::Parser as _;
use dues_events::credits::{MOVEMENT_TYPE, Movement};
use dues_events::entitled::PASS_KIND;
use dues_events::record::{Record, Status};
use dues_events::{Item, Money, MovementKind, Time, attr};
use dues_processors::audit::audit;
use dues_processors::collections::Collector;
use dues_processors::collections::job::Process;
use dues_processors::collections::signals::{Acted, webhook_balance_worker, webhook_worker};
use dues_processors::collections::worker::Tally;
use dues_processors::gateway::sandbox::{Odds, Sandbox};
use dues_processors::notifier::notifier_scheduler;
use dues_processors::read_models::usage::count;
use dues_processors::redrive::process_stream;
use dues_processors::{Context, Counts, Incoming};
use dues_store::embedded::Embedded;
use dues_store::table::figureforge::FIGUREFORGE;
use dues_store::table::{BILLING_ACTIVITY, GG_CORE, Table};
use dues_store::usage::count::Counted;
use dues_store::{Engine as _, Store};
use futures::stream::{StreamExt as _, iter};
use rust_decimal::Decimal;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::args::{Args, Command, CompanyArgs, Demo};
use crate::clock::Simulated;
use crate::collect::collect;
use crate::follow::catch_up;
use crate::log::{self, Wanted};
use crate::outgoing::LocalStreams;
use crate::output::{self, Error};
use crate::serve;
use crate::settings;
use apps::Apps;
use company::{Company, Stream};
use customers::Customers;

/// Records in a batch.
const BATCH: usize = 1000;

/// When things happen on a day, in minutes after midnight: members' changes and
/// settlements come in, what failed is tried again, what is due is collected,
/// members are reminded, incomes and balances are seen, Stripe tells what it has
/// collected, members use what they pay for, pauses end.
const CHANGES: i64 = 6 * 60;
const SETTLEMENTS: i64 = 6 * 60 + 30;
const RETRY: i64 = 7 * 60;
const INITIAL: i64 = 8 * 60;
const REMINDERS: i64 = 9 * 60;
const SIGNALS: i64 = 12 * 60;
const STRIPE: i64 = 13 * 60;
const APPS: i64 = 18 * 60;
const PAUSE: i64 = 22 * 60;

pub(crate) async fn run(data: &Path, args: &Demo, wanted: &Wanted) -> Result<(), Error> {
    let folder = fresh_folder(data)?;
    let start = Instant::now();
    let year = Year::lived(&folder, &args.company).await?;
    let spent = start.elapsed();
    let sums = sum_up(&year.context.store).await?;
    report(args, &folder, &sums, &year, spent)?;
    if args.json || args.headless {
        return Ok(());
    }
    let end = year.context.store.clock.now();
    drop(year);
    log::begin_serving(wanted);
    serve(&folder, args.port, end).await
}

/// Serves the console, in a time that goes on where the months have ended. No job runs: nobody would deliver what it sends.
async fn serve(folder: &Path, port: u16, end: Time) -> Result<(), Error> {
    let free = std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    let port = if free { port } else { 0 }.to_string();
    let asked = Args::try_parse_from(["dues", "serve", "--host", "127.0.0.1", "--schedule", "off", "--port", &port]);
    let Ok(Args { command: Command::Serve(args), .. }) = asked else { return Err(Error::Said("the console cannot be served".into())) };
    output::text("\nThe console, until you press Ctrl-C:")?;
    serve::run_by(crate::clock::clock(Some(end)), folder, &args).await
}

/// A company, and all that works for it.
pub(crate) struct Year {
    pub(crate) context: Context<Embedded>,
    collector: Collector<Embedded, Sandbox<Embedded>>,
    company: Company,
    customers: Customers,
    apps: Apps,
    used: u64,
    refused: u64,
    counts: Counts,
    tally: Tally,
    reminders: u64,
    events: u64,
}

impl Year {
    /// So many months of a company, in a folder of its own, with a progress bar.
    pub(crate) async fn lived(folder: &Path, company: &CompanyArgs) -> Result<Self, Error> {
        let clock = Simulated::at(company::START);
        let store = Store { clock: clock.clone(), ..output::open(folder)? };
        let mut year = Self::new(store, company.members, company.seed);
        let days = Company::days(company.months);
        let bar = output::progress_of("days", days.len() as u64);
        let joined = year.company.join();
        year.deliver("memberships", joined).await?;
        for day in days {
            year.live_through(day, &clock).await?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(year)
    }

    fn new(store: Store<Embedded>, members: u32, seed: u64) -> Self {
        let (company, customers, apps) = (Company::new(members, seed), Customers::new(members, seed), Apps::new(members, seed));
        let sandbox = Sandbox::new(store.clone(), Odds { seed, ..Odds::USUAL });
        let collector = Collector::new(store.clone(), sandbox);
        let context = Context { parallel: BATCH, hold: TimeDelta::zero(), ..Context::new(store) };
        Self {
            context,
            collector,
            company,
            customers,
            apps,
            used: 0,
            refused: 0,
            counts: Counts::default(),
            tally: Tally::default(),
            reminders: 0,
            events: 0,
        }
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
        at(STRIPE);
        let told = self.customers.tell(day);
        self.deliver("stripe", told).await?;
        at(APPS);
        self.use_it(day).await?;
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

    /// Members use what they pay for.
    async fn use_it(&mut self, day: Time) -> Result<(), Error> {
        let (images, documents, actions) = (self.apps.images(day), self.apps.documents(day), self.apps.actions());
        self.deliver("app-events", images).await?;
        self.deliver("s3-events", documents).await?;
        self.events += actions.len() as u64;
        let (store, settings) = (&self.context.store, settings::usage()?);
        let counted = iter(actions.iter().map(|asked| count(store, &settings, asked))).buffered(BATCH).collect::<Vec<_>>().await;
        for counted in counted {
            match counted? {
                Counted::Done(_) => self.used += 1,
                Counted::AtLimit { .. } => self.refused += 1,
                Counted::Different => {}
            }
        }
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
    passes: u64,
    granted: i64,
    taken_back: i64,
    images: u64,
    /// How many events the audit has folded again, and what does not agree.
    audited: u64,
    differences: u64,
    /// A record worth looking at: returned after it was paid, or at least returned.
    example: Option<Record>,
}

/// Adds up, and audits: every history is folded again and compared with the rows.
async fn sum_up(store: &Store<Embedded>) -> Result<Sums, Error> {
    let mut sums = Sums::default();
    let unreadable = dues_store::StoreError::from;
    each(store, &BILLING_ACTIVITY, |item| {
        sums.add(Record::from_item(item).map_err(unreadable)?);
        Ok(())
    })
    .await?;
    each(store, &GG_CORE, |item| {
        sums.passes += u64::from(item.text(attr::TYPE) == Some(PASS_KIND));
        if item.text(attr::TYPE) == Some(MOVEMENT_TYPE) {
            let movement = Movement::from_item(item).map_err(unreadable)?;
            match movement.kind {
                MovementKind::Grant | MovementKind::TopUp => sums.granted += movement.amount,
                MovementKind::TakeBack => sums.taken_back -= movement.amount,
                MovementKind::Consume | MovementKind::Expire => {}
            }
        }
        Ok(())
    })
    .await?;
    each(store, &FIGUREFORGE, |item| {
        sums.images += u64::from(item.text("sk") == Some("META") && item.text("pk").is_some_and(|key| key.starts_with("IMG#")));
        Ok(())
    })
    .await?;
    let audit = audit(store, &settings::tiers()?, &settings::read_models()?, |_| {}).await?;
    (sums.audited, sums.differences) = (audit.events, audit.findings.len() as u64);
    Ok(sums)
}

/// Calls back with every row of a table.
async fn each(store: &Store<Embedded>, table: &'static Table, mut with: impl FnMut(Item) -> Result<(), Error>) -> Result<(), Error> {
    let mut start = None;
    loop {
        let page = store.engine.scan(table, start, 1000).await?;
        page.items.into_iter().try_for_each(&mut with)?;
        match page.next {
            Some(next) => start = Some(next),
            None => return Ok(()),
        }
    }
}

impl Sums {
    fn add(&mut self, record: Record) {
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
                // One whose money came back after it had arrived has the most to tell: its payment was the last word for weeks.
                let late = |record: &Record| record.last_run_date.as_ref().map(|last| last.at() - record.billing_date.at());
                if self.example.as_ref().is_none_or(|known| late(known) < late(&record)) {
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
            "members": args.company.members, "months": args.company.months, "seed": args.company.seed, "events": events, "events_per_s": per_s,
            "applied": counts.applied, "duplicate": counts.duplicate, "ignored": counts.ignored, "parked": counts.parked,
            "records": sums.records, "by_status": sums.by_status, "collected": sums.collected.to_string(), "at_risk": sums.at_risk.to_string(),
            "recovered": sums.recovered, "barred": sums.barred, "differences": sums.differences, "debits": tally.sent,
            "reminders": year.reminders, "pauses_ended": tally.pause_expired, "left_alone": tally.left, "audited": sums.audited,
            "stripe_customers": year.customers.len(), "founder_passes": sums.passes, "credits_granted": sums.granted,
            "credits_taken_back": sums.taken_back, "actions_counted": year.used, "actions_refused": year.refused, "images": sums.images,
        }));
    }
    let n = output::grouped;
    output::text(&format!(
        "{} members, {} months, {} events in {:.1} s ({}/s)\n",
        n(args.company.members.into()),
        args.company.months,
        n(events),
        spent.as_secs_f64(),
        n(per_s)
    ))?;
    output::text(&format!("  collected   {}, with {} debits", output::dollars(sums.collected), n(tally.sent)))?;
    output::text(&format!("  at risk     {}, in returned debits", output::dollars(sums.at_risk)))?;
    output::text(&format!("  recovered   {} records, by presenting them again", n(sums.recovered)))?;
    output::text(&format!("  barred      {} records, after unauthorised debits and chargebacks", n(sums.barred)))?;
    output::text(&format!("  reminded    {} times, three days ahead", n(year.reminders)))?;
    output::text(&format!("  Stripe      {} customers, {} founder passes", n(year.customers.len()), n(sums.passes)))?;
    let (granted, taken) = (n(sums.granted.unsigned_abs()), n(sums.taken_back.unsigned_abs()));
    output::text(&format!("  credits     {granted} granted or bought, {taken} taken back with the money"))?;
    output::text(&format!(
        "  used        {} actions, {} refused at a plan's limit, {} images",
        n(year.used),
        n(year.refused),
        n(sums.images)
    ))?;
    output::text(&format!("  repeated    {} deliveries of events that were known: nothing happened twice", n(counts.duplicate)))?;
    output::text(&format!("  parked      {} records that could not be understood or could not happen", n(counts.parked)))?;
    output::text(&format!("  audit       {} events folded again, {} rows differ\n", n(sums.audited), n(sums.differences)))?;
    let mut table = output::table(["status", "records"]);
    for (status, count) in &sums.by_status {
        table.add_row([(*status).to_owned(), n(*count)]);
    }
    output::text(&table.to_string())?;
    let data = folder.display();
    output::text("What to try next:")?;
    if let Some(record) = &sums.example {
        output::text(&format!("  dues --data {data} explain {}", record.user_id))?;
        output::text(&format!("  dues --data {data} show {}", record.user_id))?;
        output::text(&format!("  dues --data {data} history {}", record.subscription_id))?;
    }
    output::text(&format!("  dues --data {data} show customer-000000"))?;
    output::text(&format!("  dues --data {data} parked"))?;
    output::text(&format!("  dues --data {data} audit"))?;
    if sums.differences > 0 {
        return Err(Error::Said(format!("{} rows differ from their history", sums.differences)));
    }
    Ok(())
}
