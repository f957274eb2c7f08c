//! `dues ingest`: appends records from a file or standard input to a durable stream and processes them.

use dues_processors::runtime::redrive::parked_id;
use dues_processors::{COLLECTION_STREAMS, Context, Outcome, OutcomeCounts};
use dues_store::Store;
use dues_store::embedded::{Embedded, StreamRecord};
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, stdin};
use std::path::Path;
use std::sync::Mutex;
use tokio::sync::mpsc;

use crate::args::IngestArgs;
use crate::local::clock::clock;
use crate::local::followers::catch_up;
use crate::local::gateway::collector;
use crate::local::settings;
use crate::local::stream_runner::{StreamRunner, key_of};
use crate::output::{self, Error};

/// Lines appended in one transaction.
const CHUNK_LINES: usize = 2000;
/// Larger than any valid record.
const MAX_LINE_BYTES: u64 = 10 * 1024 * 1024;

pub(crate) async fn run(data: &Path, args: &IngestArgs) -> Result<(), Error> {
    let source = open_source(&args.file)?;
    let store = Store { clock: clock(args.as_of.as_of), ..output::open(data)? };
    let bar = output::progress(source.length);
    let context =
        Context { parallel: CHUNK_LINES, read_models: settings::read_models()?, ..Context::new(store) };
    let left_over = finish_backlog(runner(&context, args)?).await?;
    if left_over > 0 {
        output::notice(&format!(
            "processed {} records left on {} by an earlier run",
            output::grouped(left_over),
            args.stream
        ));
    }
    let tally = Tally::default();
    let (chunks, queue) = mpsc::channel(4);
    let lines = tokio::task::spawn_blocking({
        let bar = bar.clone();
        move || read_chunks(source.reader, &chunks, &bar)
    });
    append_and_process(&context, args, queue, &tally, &bar).await?;
    lines.await.map_err(|e| Error::Message(format!("reading failed: {e}")))??;
    tally.recount(&context, &args.stream).await?;
    bar.finish_and_clear();
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
    let opened =
        File::open(file).map_err(|cause| Error::Io { doing: format!("open {}", file.display()), cause })?;
    let length = opened.metadata().ok().map(|m| m.len());
    Ok(Source { reader: Box::new(BufReader::with_capacity(1 << 20, opened)), length })
}

/// Numbered lines.
type Chunk = Vec<(u64, Vec<u8>)>;

fn read_chunks(
    mut reader: Box<dyn BufRead + Send>,
    chunks: &mpsc::Sender<Chunk>,
    bar: &indicatif::ProgressBar,
) -> Result<(), Error> {
    let mut chunk = Chunk::new();
    for number in 1.. {
        let mut line = Vec::new();
        let length = reader.by_ref().take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut line)? as u64;
        bar.inc(length);
        if length > MAX_LINE_BYTES {
            return Err(Error::Message(format!(
                "line {number} is longer than {MAX_LINE_BYTES} bytes; the lines before it were processed"
            )));
        }
        let ended = length == 0;
        line.truncate(line.trim_ascii_end().len());
        if !line.is_empty() {
            chunk.push((number, line));
        }
        if (chunk.len() == CHUNK_LINES || ended) && chunks.blocking_send(std::mem::take(&mut chunk)).is_err()
        {
            // The receiver has failed and reports the error.
            return Ok(());
        }
        if ended {
            break;
        }
    }
    Ok(())
}

/// Appends chunks and processes them; the next chunk is appended while one is processed.
async fn append_and_process(
    context: &Context<Embedded>,
    args: &IngestArgs,
    mut queue: mpsc::Receiver<Chunk>,
    tally: &Tally,
    bar: &indicatif::ProgressBar,
) -> Result<(), Error> {
    let (mut run, stream) = (runner(context, args)?, args.stream.as_str());
    let mut ended = false;
    while !ended {
        let next = async {
            match queue.recv().await {
                Some(chunk) => append(context, stream, chunk, tally).await.map(|()| false),
                None => Ok(true),
            }
        };
        let processed =
            run.step(|record| tally.name(record), |record, fate| tally.record(stream, record, fate));
        let (next, processed) = tokio::join!(next, processed);
        ended = next?;
        processed?;
        bar.set_message(format!("{} records", output::grouped(tally.read())));
    }
    while run.step(|record| tally.name(record), |record, fate| tally.record(stream, record, fate)).await? {}
    Ok(())
}

async fn append(context: &Context<Embedded>, stream: &str, chunk: Chunk, tally: &Tally) -> Result<(), Error> {
    if chunk.is_empty() {
        return Ok(());
    }
    let (numbers, records): (Vec<u64>, Vec<_>) =
        chunk.into_iter().map(|(number, line)| (number, (key_of(stream, &line), line))).unzip();
    let last = context.store.engine.append(stream, context.store.clock.now(), records).await?;
    // One transaction appended them all, so the sequence numbers are consecutive.
    let first = last + 1 - numbers.len() as u64;
    tally.add_lines((first..).zip(numbers));
    Ok(())
}

/// The runner of the stream; one that triggers collections gets the gateway, rules and locks of the command.
fn runner(context: &Context<Embedded>, args: &IngestArgs) -> Result<StreamRunner, Error> {
    let runner = StreamRunner::new(context.clone(), &args.stream)?;
    if !COLLECTION_STREAMS.contains(&args.stream.as_str()) {
        return Ok(runner);
    }
    let collector = collector(&context.store, &args.gateway, &args.age, &args.lock)?;
    Ok(runner.with_collector(collector, args.lock.no_wait))
}

async fn finish_backlog(mut run: StreamRunner) -> Result<u64, Error> {
    let mut count = 0;
    while run
        .step(
            |record| format!("seq {}", record.seq),
            |_, fate| count += u64::from(!matches!(fate, Outcome::Failed(_))),
        )
        .await?
    {}
    run.trim().await?;
    Ok(count)
}

/// Outcomes of this run's records.
#[derive(Default)]
struct Tally(Mutex<TallyState>);

#[derive(Default)]
struct TallyState {
    read: u64,
    /// Line number of each unfinished record, by sequence number.
    lines: HashMap<u64, u64>,
    counts: OutcomeCounts,
    parked: HashSet<String>,
}

impl Tally {
    fn with<T>(&self, work: impl FnOnce(&mut TallyState) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn read(&self) -> u64 {
        self.with(|t| t.read)
    }

    fn add_lines(&self, lines: impl Iterator<Item = (u64, u64)>) {
        self.with(|t| {
            for (seq, line) in lines {
                t.read += 1;
                t.lines.insert(seq, line);
            }
        });
    }

    fn name(&self, record: &StreamRecord) -> String {
        self.with(|t| {
            t.lines
                .get(&record.seq)
                .map_or_else(|| format!("seq {}", record.seq), |line| format!("line {line}"))
        })
    }

    /// Counts a record once, by its first outcome; redeliveries do not count.
    fn record(&self, stream: &str, record: &StreamRecord, fate: Outcome) {
        self.with(|t| {
            if matches!(fate, Outcome::Failed(_)) || t.lines.remove(&record.seq).is_none() {
                return;
            }
            t.counts.count(&fate);
            if fate == Outcome::Parked {
                t.parked.insert(parked_id(stream, &record.data));
            }
        });
    }

    /// Counts parked records that a later record of this run has released as applied.
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
}

fn report(args: &IngestArgs, tally: &Tally) -> Result<(), Error> {
    let (read, counts) = tally.with(|t| (t.read, t.counts));
    let OutcomeCounts { applied, duplicate, ignored, skipped, parked, failed: _ } = counts;
    if args.json {
        return output::print_json(&json!({
            "read": read, "applied": applied, "duplicate": duplicate, "ignored": ignored, "skipped": skipped,
            "parked": parked,
        }));
    }
    let mut table = output::table(["read", "applied", "duplicate", "ignored", "skipped", "parked"]);
    table.add_row([read, applied, duplicate, ignored, skipped, parked].map(output::grouped));
    output::print_line(&table.to_string())?;
    if parked > 0 {
        output::print_line("list parked records and their reasons with: dues parked")?;
    }
    Ok(())
}
