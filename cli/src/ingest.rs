//! `dues ingest`: records from a file or standard input onto a durable stream, and through its handler.

use chrono::TimeDelta;
use dues_processors::redrive::{parked_id, release_waiting};
use dues_processors::{Context, Counts, Fate};
use dues_store::embedded::{Embedded, StreamRecord};
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, stdin};
use std::path::Path;
use std::sync::Mutex;
use tokio::sync::mpsc;

use crate::args::Ingest;
use crate::follow::catch_up;
use crate::output::{self, Error};
use crate::settings;
use crate::stream_run::{StreamRun, key_of};

/// How many lines are made durable at once.
const CHUNK: usize = 2000;
/// No record of any stream is longer.
const LONGEST_LINE: u64 = 10 * 1024 * 1024;

pub(crate) async fn run(data: &Path, args: &Ingest) -> Result<(), Error> {
    let source = open_source(&args.file)?;
    let store = output::open(data)?;
    let bar = output::progress(source.length);
    // A file has no other shard that a missing record could still come from: what came too early waits among the parked ones until the end.
    let context = Context { hold: TimeDelta::zero(), parallel: CHUNK, read_models: settings::read_models()?, ..Context::new(store) };
    let left_over = finish_backlog(&context, &args.stream).await?;
    if left_over > 0 {
        output::say(&format!("finished {} records that an earlier run had left on {}", output::grouped(left_over), args.stream));
    }
    let tally = Tally::default();
    let (chunks, queue) = mpsc::channel(4);
    let lines = tokio::task::spawn_blocking({
        let bar = bar.clone();
        move || read_chunks(source.reader, &chunks, &bar)
    });
    drive(&context, &args.stream, queue, &tally, &bar).await?;
    lines.await.map_err(|e| Error::Said(format!("reading stopped: {e}")))??;
    let released = tally.release(&context, &args.stream).await?;
    bar.finish_and_clear();
    if released > 0 {
        output::say(&format!("{} records of earlier runs had waited for these, and went through", output::grouped(released)));
    }
    let reported = report(args, &tally);
    catch_up(&context.store).await?;
    reported
}

struct Source {
    reader: Box<dyn BufRead + Send>,
    length: Option<u64>,
}

fn open_source(file: &Path) -> Result<Source, Error> {
    if file.as_os_str() == "-" {
        return Ok(Source { reader: Box::new(BufReader::new(stdin())), length: None });
    }
    let opened = File::open(file).map_err(|cause| Error::Io { doing: format!("open {}", file.display()), cause })?;
    let length = opened.metadata().ok().map(|m| m.len());
    Ok(Source { reader: Box::new(BufReader::with_capacity(1 << 20, opened)), length })
}

/// Numbered lines.
type Chunk = Vec<(u64, Vec<u8>)>;

fn read_chunks(mut reader: Box<dyn BufRead + Send>, chunks: &mpsc::Sender<Chunk>, bar: &indicatif::ProgressBar) -> Result<(), Error> {
    let mut chunk = Chunk::new();
    for number in 1.. {
        let mut line = Vec::new();
        let length = reader.by_ref().take(LONGEST_LINE + 1).read_until(b'\n', &mut line)? as u64;
        bar.inc(length);
        if length > LONGEST_LINE {
            return Err(Error::Said(format!("line {number} is longer than {LONGEST_LINE} bytes; the lines before it were processed")));
        }
        let ended = length == 0;
        line.truncate(line.trim_ascii_end().len());
        if !line.is_empty() {
            chunk.push((number, line));
        }
        if (chunk.len() == CHUNK || ended) && chunks.blocking_send(std::mem::take(&mut chunk)).is_err() {
            // The other side has failed, and tells why.
            return Ok(());
        }
        if ended {
            break;
        }
    }
    Ok(())
}

/// Makes chunks durable and processes them, the next chunk being written while one is processed.
async fn drive(
    context: &Context<Embedded>,
    stream: &str,
    mut queue: mpsc::Receiver<Chunk>,
    tally: &Tally,
    bar: &indicatif::ProgressBar,
) -> Result<(), Error> {
    let mut run = StreamRun::new(context.clone(), stream)?;
    let mut ended = false;
    while !ended {
        let next = async {
            match queue.recv().await {
                Some(chunk) => append(context, stream, chunk, tally).await.map(|()| false),
                None => Ok(true),
            }
        };
        let processed = run.step(|record| tally.name(record), |record, fate| tally.tell(stream, record, fate));
        let (next, processed) = tokio::join!(next, processed);
        ended = next?;
        processed?;
        bar.set_message(format!("{} records", output::grouped(tally.read())));
    }
    while run.step(|record| tally.name(record), |record, fate| tally.tell(stream, record, fate)).await? {}
    Ok(())
}

async fn append(context: &Context<Embedded>, stream: &str, chunk: Chunk, tally: &Tally) -> Result<(), Error> {
    if chunk.is_empty() {
        return Ok(());
    }
    let (numbers, records): (Vec<u64>, Vec<_>) = chunk.into_iter().map(|(number, line)| (number, (key_of(stream, &line), line))).unzip();
    let last = context.store.engine.append(stream, context.store.clock.now(), records).await?;
    // One transaction wrote them all, so their places follow one another.
    let first = last + 1 - numbers.len() as u64;
    tally.own((first..).zip(numbers));
    Ok(())
}

async fn finish_backlog(context: &Context<Embedded>, stream: &str) -> Result<u64, Error> {
    let mut run = StreamRun::new(context.clone(), stream)?;
    let mut count = 0;
    while run.step(|record| format!("seq {}", record.seq), |_, fate| count += u64::from(!matches!(fate, Fate::Failed(_)))).await? {}
    run.tidy().await?;
    Ok(count)
}

/// What became of this run's records.
#[derive(Default)]
struct Tally(Mutex<Tallied>);

#[derive(Default)]
struct Tallied {
    read: u64,
    /// The line of each record that is on its way, by its place on the stream.
    lines: HashMap<u64, u64>,
    counts: Counts,
    parked: HashSet<String>,
}

impl Tally {
    fn with<T>(&self, work: impl FnOnce(&mut Tallied) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn read(&self) -> u64 {
        self.with(|t| t.read)
    }

    fn own(&self, places: impl Iterator<Item = (u64, u64)>) {
        self.with(|t| {
            for (seq, line) in places {
                t.read += 1;
                t.lines.insert(seq, line);
            }
        });
    }

    fn name(&self, record: &StreamRecord) -> String {
        self.with(|t| t.lines.get(&record.seq).map_or_else(|| format!("seq {}", record.seq), |line| format!("line {line}")))
    }

    /// Counts a record once: its first fate is what became of it, a redelivery after it is none of its own.
    fn tell(&self, stream: &str, record: &StreamRecord, fate: Fate) {
        self.with(|t| {
            if matches!(fate, Fate::Failed(_)) || t.lines.remove(&record.seq).is_none() {
                return;
            }
            t.counts.count(&fate);
            if fate == Fate::Parked {
                t.parked.insert(parked_id(stream, &record.data));
            }
        });
    }

    /// Counts those as applied that had waited for others of this run, which have let them through.
    async fn recount(&self, context: &Context<Embedded>, stream: &str) -> Result<(), Error> {
        for id in self.with(|t| t.parked.iter().cloned().collect::<Vec<_>>()) {
            if !context.store.is_parked(stream, &id).await? {
                self.with(|t| {
                    t.parked.remove(&id);
                    t.counts.parked -= 1;
                    t.counts.applied += 1;
                });
            }
        }
        Ok(())
    }

    /// Lets those through that had only come too early. Gives how many of them were not of this run.
    async fn release(&self, context: &Context<Embedded>, stream: &str) -> Result<u64, Error> {
        self.recount(context, stream).await?;
        let released = release_waiting(context, stream).await?;
        Ok(self.with(|t| {
            let mut earlier = 0;
            for (parked, fate) in released {
                if t.parked.remove(&parked.id) {
                    t.counts.parked -= 1;
                    t.counts.count(&fate);
                } else {
                    earlier += 1;
                }
            }
            earlier
        }))
    }
}

fn report(args: &Ingest, tally: &Tally) -> Result<(), Error> {
    let (read, counts) = tally.with(|t| (t.read, t.counts));
    let Counts { applied, duplicate, ignored, skipped, parked, failed: _ } = counts;
    if args.json {
        return output::json(&json!({
            "read": read, "applied": applied, "duplicate": duplicate, "ignored": ignored, "skipped": skipped, "parked": parked,
        }));
    }
    let mut table = output::table(["read", "applied", "duplicate", "ignored", "skipped", "parked"]);
    table.add_row([read, applied, duplicate, ignored, skipped, parked].map(output::grouped));
    output::text(&table.to_string())?;
    if parked > 0 {
        output::text("parked records are listed, with their reasons, by: dues parked")?;
    }
    Ok(())
}
