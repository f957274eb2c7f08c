//! `dues collect`: the collections job and its workers in one process, with a bounded queue between them.

use dues_processors::OutcomeCounts;
use dues_processors::collections::gateway::Gateway;
use dues_processors::collections::job::{JobRun, Progress, Staleness, Task, collections_job};
use dues_processors::collections::worker::{Tally, collect_tasks};
use dues_processors::collections::{Collector, UserCollection};
use dues_store::Store;
use dues_store::embedded::Embedded;
use futures::stream;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use tokio::sync::mpsc;

use crate::args::{CollectArgs, LockArgs, ProcessArg};
use crate::commands::clock::book_timers;
use crate::commands::sandbox;
use crate::local::clock::clock;
use crate::local::followers::catch_up;
use crate::local::gateway::{AnyGateway, collector};
use crate::local::lock_wait::RETRY_INTERVAL;
use crate::output::{self, Error};

/// Queued users; a full queue blocks the job.
const MAX_QUEUED_USERS: usize = 1024;
/// Users collected from concurrently.
const PARALLEL_USERS: usize = 1024;

pub(crate) async fn run(data: &Path, args: &CollectArgs) -> Result<(), Error> {
    let store = Store { clock: clock(args.as_of.as_of), ..output::open_existing(data)? };
    let collector = collector(&store, &args.gateway, &args.age, &args.lock)?;
    let process = match args.process {
        ProcessArg::Initial => JobRun::Initial,
        ProcessArg::Retry => JobRun::Retry,
        ProcessArg::Pause => JobRun::Pause,
    };
    let bar = output::progress_of("members", 0);
    let show_progress = |job: Option<&Progress>, users| {
        if let Some(job) = job {
            bar.set_length(job.queued);
        }
        bar.set_position(users);
    };
    let on_wait = |members| args.lock.report_wait(&format!("{members} members are"));
    let staleness = if args.force { Staleness::Forced } else { Staleness::Guarded };
    let (collected, delivered) =
        collect_all(&collector, (process, staleness), &args.lock, show_progress, on_wait).await?;
    bar.finish_and_clear();
    let reported = report(args, &collected, delivered.as_ref());
    catch_up(&store).await?;
    book_timers(&store).await?.check().map_err(Error::Message)?;
    catch_up(&store).await?;
    reported
}

/// A whole run: the sandbox's outcomes first, if it is the gateway; then the job and its workers; then the
/// members that other workers had locked.
pub(crate) async fn collect_all(
    collector: &Collector<Embedded, AnyGateway>,
    run: (JobRun, Staleness),
    lock: &LockArgs,
    on_progress: impl FnMut(Option<&Progress>, u64),
    on_wait: impl Fn(usize),
) -> Result<(Collected, Option<OutcomeCounts>), Error> {
    let delivered = match &collector.gateway {
        AnyGateway::Http(_) => None,
        AnyGateway::Sandbox(network) => Some(sandbox::deliver(&collector.store, network).await?),
    };
    let mut collected = collect(collector, run, on_progress).await?;
    wait_for_locked(collector, &mut collected, lock, on_wait).await;
    Ok((collected, delivered))
}

/// Result of a run.
#[derive(Default)]
pub(crate) struct Collected {
    pub(crate) progress: Progress,
    pub(crate) tally: Tally,
    locked: Vec<Task>,
    problems: Vec<String>,
}

impl Collected {
    /// Fails if a member could not be collected from.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.problems.first() {
            None => Ok(()),
            Some(first) => Err(Error::Message(format!(
                "{} members failed; run it again. The first: {first}",
                self.problems.len()
            ))),
        }
    }

    fn count(&mut self, task: &Task, visit: &Result<UserCollection, dues_store::CommitError>) {
        self.tally.count(visit);
        match visit {
            Ok(UserCollection::Locked) => self.locked.push(task.clone()),
            Ok(UserCollection::Done(_)) => {}
            Err(error) => self.problems.push(format!("{}: {error}", task.user_id)),
        }
    }
}

/// Runs the job and its workers. `on_progress` gets the job's progress, if it changed, and the number of
/// users done.
pub(crate) async fn collect<G: Gateway>(
    collector: &Collector<Embedded, G>,
    (process, staleness): (JobRun, Staleness),
    mut on_progress: impl FnMut(Option<&Progress>, u64),
) -> Result<Collected, Error> {
    let (queue, mut tasks) = mpsc::channel(MAX_QUEUED_USERS);
    let (progress_sender, mut progress_receiver) = mpsc::unbounded_channel();
    let job = async {
        let queue = queue;
        collections_job(&collector.store, &collector.rules, &queue, process, staleness, |progress| {
            let _ = progress_sender.send(progress.clone());
        })
        .await
    };
    let mut collected = Collected::default();
    let tasks = stream::poll_fn(move |cx| tasks.poll_recv(cx));
    let work = collect_tasks(collector, tasks, PARALLEL_USERS, |task, visit| {
        collected.count(task, visit);
        let latest = std::iter::from_fn(|| progress_receiver.try_recv().ok()).last();
        on_progress(latest.as_ref(), collected.tally.users);
    });
    let (progress, ()) = tokio::join!(job, work);
    collected.progress = progress.map_err(|error| Error::Message(error.to_string()))?;
    Ok(collected)
}

/// Retries members that another worker had locked, until it releases them or its lease expires.
async fn wait_for_locked<G: Gateway>(
    collector: &Collector<Embedded, G>,
    collected: &mut Collected,
    args: &LockArgs,
    on_wait: impl Fn(usize),
) {
    for attempt in 0..args.max_retries() {
        let locked = std::mem::take(&mut collected.locked);
        if locked.is_empty() {
            return;
        }
        if attempt == 0 {
            on_wait(locked.len());
        }
        collector.store.clock.sleep(RETRY_INTERVAL).await;
        collected.tally.locked -= locked.len() as u64;
        collect_tasks(collector, stream::iter(locked), PARALLEL_USERS, |task, visit| {
            collected.count(task, visit)
        })
        .await;
    }
}

/// Records skipped by the job or a worker, by reason.
fn skipped(collected: &Collected) -> BTreeMap<&'static str, u64> {
    let mut left = collected.tally.skipped.clone();
    for (reason, count) in &collected.progress.skipped {
        *left.entry(reason).or_default() += count;
    }
    left
}

fn report(args: &CollectArgs, collected: &Collected, delivered: Option<&OutcomeCounts>) -> Result<(), Error> {
    let Collected { progress, tally, .. } = collected;
    if args.json {
        output::print_json(&json!({
            "read": progress.read, "queued": progress.queued, "unreadable": progress.unreadable,
            "closed": progress.closed.as_ref().map(ToString::to_string),
            "users": tally.users, "locked": tally.locked, "sent": tally.sent, "collected": tally.collected,
            "refused": tally.refused,
            "in_doubt": tally.in_doubt, "free": tally.free, "cancelled": tally.cancelled,
            "stale": tally.stale,
            "pause_expired": tally.pause_expired, "pause_ending": tally.pause_ending,
            "withdrawn": tally.withdrawn, "left": skipped(collected), "failed": tally.failed,
            "sandbox": delivered.map(sandbox::as_json),
        }))?;
        return collected.check();
    }
    if let Some(counts) = delivered
        && *counts != OutcomeCounts::default()
    {
        output::print_line(&sandbox::summary(counts))?;
    }
    if let Some(closed) = &progress.closed {
        return output::print_line(&format!("no collections today: {closed}"));
    }
    let mut table = output::table(["", "records"]);
    let counts = [
        ("debits sent", tally.sent),
        ("collected immediately", tally.collected),
        ("refused by the gateway", tally.refused),
        ("awaiting the gateway's answer", tally.in_doubt),
        ("nothing to pay", tally.free),
        ("cancelled as requested", tally.cancelled),
        ("too old to collect", tally.stale),
        ("withdrawn before the gateway was called", tally.withdrawn),
        ("pauses expired", tally.pause_expired),
        ("pauses expiring soon", tally.pause_ending),
        ("locked by another worker (members)", tally.locked),
        ("unreadable rows", progress.unreadable.len() as u64),
    ];
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        table.add_row([name.to_owned(), output::grouped(count)]);
    }
    for (reason, count) in &skipped(collected) {
        table.add_row([format!("skipped: {}", reason.replace('_', " ")), output::grouped(*count)]);
    }
    if table.row_count() == 0 {
        output::print_line(&format!("nothing to do: {} records checked", output::grouped(progress.read)))?;
    } else {
        output::print_line(&table.to_string())?;
    }
    collected.check()
}
