//! `dues demo`: simulates a company for some months with the real handlers and the collections engine.

mod apps;
mod company;
mod customers;

use chrono::TimeDelta;
use clap::Parser as _;
use dues_events::billing::record::{Record, Status};
use dues_events::entitlements::credits::{MOVEMENT_TYPE, Movement};
use dues_events::entitlements::profile::{PROFILE_PREFIX, Profile};
use dues_events::entitlements::rows::PASS_KIND;
use dues_events::{GoTime, Item, Money, MovementKind, Time, attributes};
use dues_processors::collections::Collector;
use dues_processors::collections::gateway::sandbox::{Odds, Sandbox};
use dues_processors::collections::job::{JobRun, Staleness};
use dues_processors::collections::notifier::notifier_scheduler;
use dues_processors::collections::signals::{SignalOutcome, webhook_balance_worker, webhook_worker};
use dues_processors::collections::worker::Tally;
use dues_processors::entitlements::access;
use dues_processors::operators::audit::audit;
use dues_processors::runtime::redrive::process_stream;
use dues_processors::usage::count;
use dues_processors::{Context, Delivery, OutcomeCounts};
use dues_store::embedded::Embedded;
use dues_store::table::figureforge::FIGUREFORGE;
use dues_store::table::{BILLING_ACTIVITY, GG_CORE, Table};
use dues_store::usage::count::CountOutcome;
use dues_store::{Engine as _, Store};
use futures::stream::{StreamExt as _, iter};
use rust_decimal::Decimal;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::args::{Args, Command, CompanyArgs, DemoArgs};
use crate::commands::clock::book_timers;
use crate::commands::collect::collect;
use crate::commands::serve;
use crate::local::clock::SimulatedClock;
use crate::local::followers::catch_up;
use crate::local::settings;
use crate::local::streams::LocalStreams;
use crate::log::{self, LogFilter};
use crate::output::{self, Error};
use apps::Apps;
use company::{Company, Stream};
use customers::Customers;

/// Records per batch.
const BATCH_RECORDS: usize = 1000;

/// The daily timetable of the simulation, in minutes after midnight UTC.
const CHANGES: i64 = 6 * 60;
const SETTLEMENTS: i64 = 6 * 60 + 30;
const RETRY: i64 = 7 * 60;
const INITIAL: i64 = 8 * 60;
const REMINDERS: i64 = 9 * 60;
const SIGNALS: i64 = 12 * 60;
const STRIPE: i64 = 13 * 60;
const APPS: i64 = 18 * 60;
const PAUSE: i64 = 22 * 60;

pub(crate) async fn run(data: &Path, args: &DemoArgs, log_filter: &LogFilter) -> Result<(), Error> {
    let folder = fresh_folder(data)?;
    let start = Instant::now();
    let simulation = Simulation::run(&folder, &args.company).await?;
    let elapsed = start.elapsed();
    let totals = compute_totals(&simulation.context.store).await?;
    report(args, &folder, &totals, &simulation, elapsed)?;
    if args.json || args.headless {
        return Ok(());
    }
    let end = simulation.context.store.clock.now();
    drop(simulation);
    log::init_server(log_filter);
    serve(&folder, args.port, end).await
}

/// Serves the console with a clock that continues at the end of the simulation. No jobs run.
async fn serve(folder: &Path, port: u16, end: Time) -> Result<(), Error> {
    let free = std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    let port = if free { port } else { 0 }.to_string();
    let parsed =
        Args::try_parse_from(["dues", "serve", "--host", "127.0.0.1", "--schedule", "off", "--port", &port]);
    let Ok(Args { command: Command::Serve(args), .. }) = parsed else {
        return Err(Error::Message("cannot start the console".into()));
    };
    output::print_line("\nConsole (Ctrl-C to stop):")?;
    serve::run_by(crate::local::clock::clock(Some(end)), folder, &args).await
}

/// A simulated company and the processors that serve it.
pub(crate) struct Simulation {
    pub(crate) context: Context<Embedded>,
    collector: Collector<Embedded, Sandbox<Embedded>>,
    company: Company,
    customers: Customers,
    apps: Apps,
    actions_counted: u64,
    actions_refused: u64,
    counts: OutcomeCounts,
    tally: Tally,
    reminders: u64,
    events: u64,
}

impl Simulation {
    /// Simulates the company in a new data directory, with a progress bar.
    pub(crate) async fn run(folder: &Path, company: &CompanyArgs) -> Result<Self, Error> {
        let clock = SimulatedClock::at(company::START);
        let store = Store { clock: clock.clone(), ..output::open(folder)? };
        let mut simulation = Self::new(store, company.members, company.seed);
        let days = Company::days(company.months);
        let bar = output::progress_of("days", days.len() as u64);
        let joined = simulation.company.join();
        simulation.deliver("memberships", joined).await?;
        for day in days {
            simulation.run_day(day, &clock).await?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(simulation)
    }

    fn new(store: Store<Embedded>, members: u32, seed: u64) -> Self {
        let (company, customers, apps) =
            (Company::new(members, seed), Customers::new(members, seed), Apps::new(members, seed));
        let sandbox = Sandbox::new(store.clone(), Odds { seed, ..Odds::USUAL });
        let collector = Collector::new(store.clone(), sandbox);
        let context = Context { parallel: BATCH_RECORDS, ..Context::new(store) };
        Self {
            context,
            collector,
            company,
            customers,
            apps,
            actions_counted: 0,
            actions_refused: 0,
            counts: OutcomeCounts::default(),
            tally: Tally::default(),
            reminders: 0,
            events: 0,
        }
    }

    async fn run_day(&mut self, day: Time, clock: &SimulatedClock) -> Result<(), Error> {
        let at = |minutes| clock.set(day + TimeDelta::minutes(minutes));
        at(CHANGES);
        let changes = self.company.changes(day);
        self.deliver("memberships", changes).await?;
        at(SETTLEMENTS);
        self.settle().await?;
        at(RETRY);
        self.collect(JobRun::Retry).await?;
        at(INITIAL);
        self.collect(JobRun::Initial).await?;
        at(REMINDERS);
        self.notify().await?;
        at(SIGNALS);
        self.process_signals(day).await?;
        at(STRIPE);
        let events = self.customers.events(day);
        self.deliver("stripe", events).await?;
        at(APPS);
        self.use_features(day).await?;
        at(PAUSE);
        self.collect(JobRun::Pause).await?;
        catch_up(&self.context.store).await?;
        book_timers(&self.context.store).await?.check().map_err(Error::Message)?;
        catch_up(&self.context.store).await
    }

    /// Sends records through the stream's handler, in batches.
    async fn deliver(&mut self, stream: &str, records: Vec<String>) -> Result<(), Error> {
        let now = self.context.store.clock.now();
        let batch = |(n, data): (usize, String)| Delivery {
            sequence: n.to_string(),
            arrived: now,
            data: data.into_bytes(),
        };
        let records: Vec<Delivery> = records.into_iter().enumerate().map(batch).collect();
        for batch in records.chunks(BATCH_RECORDS) {
            let report = process_stream(&self.context, stream, batch).await;
            let report = report.ok_or_else(|| Error::Message(format!("no handler reads {stream}")))?;
            report.outcomes.iter().for_each(|fate| self.counts.count(fate));
            if let Some(failed) = report.first_failure() {
                return Err(Error::Message(format!(
                    "a record of {stream} was not processed: {:?}",
                    report.outcomes[failed]
                )));
            }
        }
        self.events += records.len() as u64;
        Ok(())
    }

    async fn settle(&mut self) -> Result<(), Error> {
        loop {
            let outcomes = self.collector.gateway.due_events(self.context.store.clock.now()).await?;
            if outcomes.is_empty() {
                return Ok(());
            }
            let records =
                self.company.deliver(outcomes.iter().map(|outcome| outcome.record.clone()).collect());
            self.deliver("site-payments", records).await?;
            self.collector.gateway.mark_published(outcomes).await?;
        }
    }

    async fn collect(&mut self, process: JobRun) -> Result<(), Error> {
        let collected = collect(&self.collector, (process, Staleness::Guarded), |_, _| {}).await?;
        self.events += collected.tally.users;
        self.tally.add(&collected.tally);
        Ok(())
    }

    async fn notify(&mut self) -> Result<(), Error> {
        let bus = LocalStreams::new(self.context.store.engine.clone());
        let notified = notifier_scheduler(
            &self.context.store,
            &self.collector.locks,
            &self.collector.rules,
            &bus,
            |_| {},
        )
        .await?;
        self.reminders += notified.published;
        Ok(())
    }

    /// Counted actions, images and documents of a day.
    async fn use_features(&mut self, day: Time) -> Result<(), Error> {
        let (images, documents, actions) =
            (self.apps.images(day), self.apps.documents(day), self.apps.actions());
        self.deliver("app-events", images).await?;
        self.deliver("s3-events", documents).await?;
        self.events += actions.len() as u64;
        let (store, settings) = (&self.context.store, settings::usage()?);
        let counted = iter(actions.iter().map(|request| count(store, &settings, request)))
            .buffered(BATCH_RECORDS)
            .collect::<Vec<_>>()
            .await;
        for counted in counted {
            match counted? {
                CountOutcome::Done(_) => self.actions_counted += 1,
                CountOutcome::AtLimit { .. } => self.actions_refused += 1,
                CountOutcome::Different => {}
            }
        }
        Ok(())
    }

    async fn process_signals(&mut self, day: Time) -> Result<(), Error> {
        let (collector, tally) = (&self.collector, &mut self.tally);
        let signals = self.company.signals(day).into_iter().map(|(stream, signal)| async move {
            let record = Delivery { sequence: String::new(), arrived: day, data: signal.into_bytes() };
            match stream {
                Stream::Income => webhook_worker(collector, &record).await,
                Stream::Balance => webhook_balance_worker(collector, &record).await,
            }
        });
        let mut results = iter(signals).buffer_unordered(BATCH_RECORDS);
        while let Some(result) = results.next().await {
            if let SignalOutcome::Collected(_, visit) = result.map_err(Error::Message)? {
                tally.count(&Ok(visit));
            }
            self.events += 1;
        }
        Ok(())
    }
}

/// An emptied `demo` directory inside the data directory: a demo never touches other data.
fn fresh_folder(data: &Path) -> Result<PathBuf, Error> {
    let folder = data.join("demo");
    match std::fs::remove_dir_all(&folder) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::Io { doing: format!("empty {}", folder.display()), cause })
        }
        Ok(()) | Err(_) => Ok(folder),
    }
}

/// Totals over the tables at the end.
#[derive(Default)]
struct Totals {
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
    /// Events folded by the audit.
    audited: u64,
    /// Rows that differ from their history.
    differences: u64,
    /// Members with a profile.
    profiles: u64,
    /// Members with a profile that shows another tier than they have access to.
    wrong_tiers: u64,
    /// An instructive record: returned, preferably long after it was paid.
    example: Option<Record>,
}

/// Computes the totals and audits every row against its history.
async fn compute_totals(store: &Store<Embedded>) -> Result<Totals, Error> {
    let mut totals = Totals::default();
    let unreadable = dues_store::StoreError::from;
    for_each_row(store, &BILLING_ACTIVITY, |item| {
        totals.add(Record::from_item(item).map_err(unreadable)?);
        Ok(())
    })
    .await?;
    let mut profiles = Vec::new();
    for_each_row(store, &GG_CORE, |item| {
        if item.text(attributes::SK).is_some_and(|sort| sort.starts_with(PROFILE_PREFIX)) {
            profiles.push(Profile::from_item(item.clone()).map_err(unreadable)?);
        }
        totals.passes += u64::from(item.text(attributes::TYPE) == Some(PASS_KIND));
        if item.text(attributes::TYPE) == Some(MOVEMENT_TYPE) {
            let movement = Movement::from_item(item).map_err(unreadable)?;
            match movement.kind {
                MovementKind::Grant | MovementKind::TopUp => totals.granted += movement.amount,
                MovementKind::TakeBack => totals.taken_back -= movement.amount,
                MovementKind::Consume | MovementKind::Expire => {}
            }
        }
        Ok(())
    })
    .await?;
    for_each_row(store, &FIGUREFORGE, |item| {
        totals.images += u64::from(
            item.text("sk") == Some("META") && item.text("pk").is_some_and(|key| key.starts_with("IMG#")),
        );
        Ok(())
    })
    .await?;
    totals.profiles = profiles.len() as u64;
    for profile in profiles {
        let access = access(store, &profile.user).await?;
        totals.wrong_tiers += u64::from(access.tier != profile.tier);
    }
    let audit = audit(store, &settings::tiers()?, &settings::read_models()?, |_| {}).await?;
    (totals.audited, totals.differences) = (audit.events, audit.findings.len() as u64);
    Ok(totals)
}

/// Calls `visit` with every row of a table.
async fn for_each_row(
    store: &Store<Embedded>,
    table: &'static Table,
    mut visit: impl FnMut(Item) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut start = None;
    loop {
        let page = store.engine.scan(table, start, 1000).await?;
        page.items.into_iter().try_for_each(&mut visit)?;
        match page.next {
            Some(next) => start = Some(next),
            None => return Ok(()),
        }
    }
}

impl Totals {
    fn add(&mut self, record: Record) {
        self.records += 1;
        *self.by_status.entry(record.status().as_str()).or_default() += 1;
        self.barred += u64::from(record.bar.is_some());
        match record.status() {
            Status::Completed => {
                self.collected += Money::decimal(record.plan.amount);
                self.recovered += u64::from(record.attempts.count() > 1);
            }
            Status::Error => {
                self.at_risk += Money::decimal(record.plan.amount);
                // Prefer the latest return: such a record was paid for weeks before.
                let late = |record: &Record| {
                    record.last_run_date.as_ref().map(|last| last.at() - record.billing_date.at())
                };
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

fn report(
    args: &DemoArgs,
    folder: &Path,
    totals: &Totals,
    simulation: &Simulation,
    elapsed: Duration,
) -> Result<(), Error> {
    let Simulation { counts, tally, events, .. } = simulation;
    let events = *events;
    let per_s = u64::try_from(u128::from(events) * 1000 / elapsed.as_millis().max(1)).unwrap_or_default();
    if args.json {
        return output::print_json(&json!({
            "members": args.company.members, "months": args.company.months, "seed": args.company.seed,
            "events": events, "events_per_s": per_s,
            "applied": counts.applied, "duplicate": counts.duplicate, "ignored": counts.ignored,
            "parked": counts.parked,
            "records": totals.records, "by_status": totals.by_status,
            "collected": totals.collected.to_string(), "at_risk": totals.at_risk.to_string(),
            "recovered": totals.recovered, "barred": totals.barred, "differences": totals.differences,
            "wrong_tiers": totals.wrong_tiers,
            "debits": tally.sent,
            "reminders": simulation.reminders, "pauses_ended": tally.pause_expired,
            "left_alone": tally.skipped, "audited": totals.audited,
            "stripe_customers": simulation.customers.len(), "founder_passes": totals.passes,
            "credits_granted": totals.granted,
            "credits_taken_back": totals.taken_back, "actions_counted": simulation.actions_counted,
            "actions_refused": simulation.actions_refused, "images": totals.images,
        }));
    }
    let n = output::grouped;
    let (granted, reversed) = (n(totals.granted.unsigned_abs()), n(totals.taken_back.unsigned_abs()));
    output::print_line(&format!(
        "Simulated {} members over {} months: {} events in {:.1} s ({}/s).\n",
        n(args.company.members.into()),
        args.company.months,
        n(events),
        elapsed.as_secs_f64(),
        n(per_s)
    ))?;
    let lines = [
        ("collected", format!("{} in {} ACH debits", output::dollars(totals.collected), n(tally.sent))),
        ("at risk", format!("{} in returned debits", output::dollars(totals.at_risk))),
        ("recovered", format!("{} records, by re-presenting a returned debit", n(totals.recovered))),
        (
            "barred",
            format!(
                "{} records, no further debits after an unauthorised return or chargeback",
                n(totals.barred)
            ),
        ),
        ("reminders", format!("{} published, three days before the due date", n(simulation.reminders))),
        (
            "Stripe",
            format!("{} customers, {} founder passes", n(simulation.customers.len()), n(totals.passes)),
        ),
        ("credits", format!("{granted} granted or bought, {reversed} reversed by refunds and disputes")),
        (
            "usage",
            format!(
                "{} actions counted, {} rejected at a plan limit, {} images",
                n(simulation.actions_counted),
                n(simulation.actions_refused),
                n(totals.images)
            ),
        ),
        ("duplicates", format!("{} redelivered events ignored, nothing applied twice", n(counts.duplicate))),
        ("parked", format!("{} records that were invalid or impossible to apply", n(counts.parked))),
        (
            "access",
            format!(
                "{} of {} profiles show another tier than their member has access to",
                n(totals.wrong_tiers),
                n(totals.profiles)
            ),
        ),
        ("audit", format!("{} events folded, {} rows differ", n(totals.audited), n(totals.differences))),
    ];
    for (name, value) in lines {
        output::print_line(&format!("  {name:<11} {value}"))?;
    }
    output::print_line("")?;
    let mut table = output::table(["status", "records"]);
    for (status, count) in &totals.by_status {
        table.add_row([(*status).to_owned(), n(*count)]);
    }
    output::print_line(&table.to_string())?;
    let data = folder.display();
    output::print_line("Try next:")?;
    if let Some(record) = &totals.example {
        output::print_line(&format!("  dues --data {data} explain {}", record.user_id))?;
        output::print_line(&format!("  dues --data {data} show {}", record.user_id))?;
        output::print_line(&format!("  dues --data {data} history {}", record.subscription_id))?;
    }
    output::print_line(&format!("  dues --data {data} show customer-000000"))?;
    output::print_line(&format!("  dues --data {data} parked"))?;
    let end = GoTime::trimmed(simulation.context.store.clock.now()).text();
    output::print_line(&format!("  dues --data {data} audit --as-of {end}"))?;
    if totals.wrong_tiers > 0 {
        return Err(Error::Message(format!("{} profiles show a wrong tier", totals.wrong_tiers)));
    }
    if totals.differences > 0 {
        return Err(Error::Message(format!("{} rows differ from their history", totals.differences)));
    }
    Ok(())
}
