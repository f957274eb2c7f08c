//! `dues tail`: prints and follows a local stream.

use dues_events::Time;
use dues_store::embedded::{Embedded, StreamRecord};
use dues_store::{Clock as _, SystemClock};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

use crate::args::TailArgs;
use crate::local::shutdown::Signals;
use crate::output::{self, Error};

/// Records read at once.
const PAGE_RECORDS: usize = 1000;
/// Polling interval: appends by another process send no signal.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) async fn run(data: &Path, args: &TailArgs) -> Result<(), Error> {
    let mut signals = Signals::new()?;
    let engine = output::open_existing(data)?.engine;
    let mut at = match args.from {
        Some(from) => from.saturating_sub(1),
        None if args.all => 0,
        None => position_before_newest(&engine, args)?,
    };
    loop {
        at = print_after(&engine, args, at)?;
        if !args.follow {
            return Ok(());
        }
        tokio::select! {
            () = SystemClock.sleep(POLL_INTERVAL) => {}
            () = signals.any() => return Ok(()),
        }
    }
}

/// The position before the newest records.
fn position_before_newest(engine: &Embedded, args: &TailArgs) -> Result<u64, Error> {
    let newest = engine.newest_records(&args.stream, args.last)?;
    match newest.first() {
        Some(first) => Ok(first.seq - 1),
        None => Ok(engine.last_record(&args.stream)?),
    }
}

/// Prints all records after a position and returns the position of the last one.
fn print_after(engine: &Embedded, args: &TailArgs, mut at: u64) -> Result<u64, Error> {
    loop {
        let records = engine.records(&args.stream, at, PAGE_RECORDS)?;
        let Some(last) = records.last() else { return Ok(at) };
        at = last.seq;
        for record in &records {
            if args.json {
                output::print_json(&as_json(record))?
            } else {
                output::print_line(&as_text(record))?
            }
        }
    }
}

fn as_json(record: &StreamRecord) -> Value {
    json!({"seq": record.seq, "key": record.partition_key, "at": arrived(record), "data": data(record)})
}

fn as_text(record: &StreamRecord) -> String {
    let key = if record.partition_key.is_empty() { "-" } else { &record.partition_key };
    format!("{}  {}  {}  {}", record.seq, arrived(record), key.escape_debug(), data(record))
}

fn arrived(record: &StreamRecord) -> String {
    Time::from_timestamp_millis(record.at_millis)
        .unwrap_or_default()
        .to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

/// The record as JSON; anything else, such as a malformed line, as a string.
fn data(record: &StreamRecord) -> Value {
    serde_json::from_slice(&record.data).unwrap_or_else(|_| json!(String::from_utf8_lossy(&record.data)))
}
