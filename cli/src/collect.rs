//! `dues collect`: the job and its workers in one program, with a bounded queue between them.

use dues_processors::Counts;
use dues_processors::collections::job::{Process, Progress, Task, collections_job};
use dues_processors::collections::worker::{Tally, work_off};
use dues_processors::collections::{Collector, Visit};
use dues_processors::gateway::Gateway;
use dues_store::Store;
use dues_store::embedded::Embedded;
use futures::stream;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use tokio::sync::mpsc;

use crate::args::{Collect, LockArgs, ProcessArg};
use crate::clock::clock;
use crate::follow::catch_up;
use crate::gateway::{AnyGateway, collector};
use crate::output::{self, Error};
use crate::patience::AGAIN;
use crate::sandbox;

/// How many users may wait for a worker: beyond that, the job waits.
const QUEUE: usize = 1024;
/// How many users are visited at once.
const PARALLEL: usize = 1024;

pub(crate) async fn run(data: &Path, args: &Collect) -> Result<(), Error> {
    let store = Store { clock: clock(args.as_of.as_of), ..output::open_existing(data)? };
    let collector = collector(&store, &args.gateway, &args.age, &args.lock)?;
    let process = match args.process {
        ProcessArg::Initial => Process::Initial,
        ProcessArg::Retry => Process::Retry,
        ProcessArg::Pause => Process::Pause,
    };
    let bar = output::progress_of("members", 0);
    let shown = |job: Option<&Progress>, users| {
        if let Some(job) = job {
            bar.set_length(job.queued);
        }
        bar.set_position(users);
    };
    let waits = |members| args.lock.say(&format!("{members} members are"));
    let (collected, told) = collect_all(&collector, process, &args.lock, shown, waits).await?;
    bar.finish_and_clear();
    let reported = report(args, &collected, told.as_ref());
    catch_up(&store).await?;
    reported
}

/// A whole run: the made-up network's news first, where that collects; then the job and its workers; then whom others were working on, after saying
/// how many they are.
pub(crate) async fn collect_all(
    collector: &Collector<Embedded, AnyGateway>,
    process: Process,
    lock: &LockArgs,
    told: impl FnMut(Option<&Progress>, u64),
    waits: impl Fn(usize),
) -> Result<(Collected, Option<Counts>), Error> {
    let news = match &collector.gateway {
        AnyGateway::Http(_) => None,
        AnyGateway::Sandbox(network) => Some(sandbox::deliver(&collector.store, network).await?),
    };
    let mut collected = collect(collector, process, told).await?;
    wait_for_locked(collector, &mut collected, lock, waits).await;
    Ok((collected, news))
}

/// What a run came to.
#[derive(Default)]
pub(crate) struct Collected {
    pub(crate) progress: Progress,
    pub(crate) tally: Tally,
    locked: Vec<Task>,
    problems: Vec<String>,
}

impl Collected {
    /// Whether all visits went well.
    pub(crate) fn failed(&self) -> Result<(), Error> {
        match self.problems.first() {
            None => Ok(()),
            Some(first) => Err(Error::Said(format!("{} visits failed; run it again. The first: {first}", self.problems.len()))),
        }
    }

    fn count(&mut self, task: &Task, visit: &Result<Visit, dues_store::CommitError>) {
        self.tally.count(visit);
        match visit {
            Ok(Visit::Locked) => self.locked.push(task.clone()),
            Ok(Visit::Done(_)) => {}
            Err(error) => self.problems.push(format!("{}: {error}", task.user_id)),
        }
    }
}

/// Runs the job and its workers, telling how far the job has come, when it has, and how many users were visited.
pub(crate) async fn collect<G: Gateway>(
    collector: &Collector<Embedded, G>,
    process: Process,
    mut told: impl FnMut(Option<&Progress>, u64),
) -> Result<Collected, Error> {
    let (queue, mut tasks) = mpsc::channel(QUEUE);
    let (news, mut job_news) = mpsc::unbounded_channel();
    let job = async {
        let queue = queue;
        collections_job(&collector.store, &collector.rules, &queue, process, |progress| {
            let _ = news.send(progress.clone());
        })
        .await
    };
    let mut collected = Collected::default();
    let tasks = stream::poll_fn(move |cx| tasks.poll_recv(cx));
    let work = work_off(collector, tasks, PARALLEL, |task, visit| {
        collected.count(task, visit);
        let latest = std::iter::from_fn(|| job_news.try_recv().ok()).last();
        told(latest.as_ref(), collected.tally.users);
    });
    let (progress, ()) = tokio::join!(job, work);
    collected.progress = progress.map_err(|error| Error::Said(error.to_string()))?;
    Ok(collected)
}

/// Tries those again that another worker had, until it is done with them, or its lease has passed and it must be dead.
async fn wait_for_locked<G: Gateway>(
    collector: &Collector<Embedded, G>,
    collected: &mut Collected,
    args: &LockArgs,
    waits: impl Fn(usize),
) {
    for look in 0..args.looks() {
        let locked = std::mem::take(&mut collected.locked);
        if locked.is_empty() {
            return;
        }
        if look == 0 {
            waits(locked.len());
        }
        collector.store.clock.sleep(AGAIN).await;
        collected.tally.locked -= locked.len() as u64;
        work_off(collector, stream::iter(locked), PARALLEL, |task, visit| collected.count(task, visit)).await;
    }
}

/// What was left alone, by the job or by a worker.
fn left_alone(collected: &Collected) -> BTreeMap<&'static str, u64> {
    let mut left = collected.tally.left.clone();
    for (reason, count) in &collected.progress.left {
        *left.entry(reason).or_default() += count;
    }
    left
}

fn report(args: &Collect, collected: &Collected, told: Option<&Counts>) -> Result<(), Error> {
    let Collected { progress, tally, .. } = collected;
    if args.json {
        output::json(&json!({
            "read": progress.read, "queued": progress.queued, "unreadable": progress.unreadable,
            "closed": progress.closed.as_ref().map(ToString::to_string),
            "users": tally.users, "locked": tally.locked, "sent": tally.sent, "collected": tally.collected, "refused": tally.refused,
            "in_doubt": tally.in_doubt, "free": tally.free, "cancelled": tally.cancelled, "stale": tally.stale,
            "pause_expired": tally.pause_expired, "pause_ending": tally.pause_ending, "left": left_alone(collected), "failed": tally.failed,
            "sandbox": told.map(sandbox::as_json),
        }))?;
        return collected.failed();
    }
    if let Some(counts) = told
        && *counts != Counts::default()
    {
        output::text(&sandbox::in_words(counts))?;
    }
    if let Some(closed) = &progress.closed {
        return output::text(&format!("nothing is collected today: {closed}"));
    }
    let mut table = output::table(["", "records"]);
    let counts = [
        ("debits sent", tally.sent),
        ("collected at once", tally.collected),
        ("refused by the gateway", tally.refused),
        ("answer not known yet", tally.in_doubt),
        ("nothing to pay", tally.free),
        ("cancelled, as asked for", tally.cancelled),
        ("too old to collect", tally.stale),
        ("pauses that ran out", tally.pause_expired),
        ("pauses that end soon", tally.pause_ending),
        ("with another worker (members)", tally.locked),
        ("rows that cannot be read", progress.unreadable.len() as u64),
    ];
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        table.add_row([name.to_owned(), output::grouped(count)]);
    }
    for (reason, count) in &left_alone(collected) {
        table.add_row([format!("left alone: {}", reason.replace('_', " ")), output::grouped(*count)]);
    }
    if table.row_count() == 0 {
        output::text(&format!("nothing to do: {} records looked at", output::grouped(progress.read)))?;
    } else {
        output::text(&table.to_string())?;
    }
    collected.failed()
}
