//! `dues export` and `dues import`: everything that cannot be made again, as NDJSON; the rest is made again from it.
//!
//! The first line says what the file is; each of the others is one row, in DynamoDB's JSON, so that it can be loaded there too.

use dues_processors::changes::{read_item, write_item};
use dues_processors::replay::{Part, rebuild};
use dues_processors::{Context, STREAMS};
use dues_store::embedded::Embedded;
use dues_store::table::{EMBEDDED, LOCKS, Table};
use dues_store::{Condition, Engine as _, Store};
use futures::stream::{StreamExt as _, TryStreamExt as _, iter};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write, stdin, stdout};
use std::path::Path;

use crate::args::{Export, Import};
use crate::follow::{FOLLOWERS, catch_up};
use crate::output::{self, Error};
use crate::settings;
use crate::stream_run::StreamRun;

/// The number of the format.
const FORMAT: u64 = 1;
/// How many rows are read or written at once.
const PAGE: u32 = 1000;

/// The tables that are exported. Locks mean nothing elsewhere.
fn exported() -> impl Iterator<Item = &'static Table> {
    EMBEDDED.into_iter().filter(|table| !table.is_derived() && table.name != LOCKS.name)
}

pub(crate) async fn export(data: &Path, args: &Export) -> Result<(), Error> {
    let store = output::open_existing(data)?;
    // What waits on a stream is not in any table yet.
    for stream in STREAMS {
        let context = Context { read_models: settings::read_models()?, ..Context::new(store.clone()) };
        let mut run = StreamRun::new(context, stream)?;
        while run.step(|record| format!("seq {}", record.seq), |_, _| {}).await? {}
    }
    catch_up(&store).await?;
    let to_stdout = args.file.as_os_str() == "-";
    let mut out: Box<dyn Write> = match to_stdout {
        true => Box::new(BufWriter::new(stdout().lock())),
        false => {
            let file = File::create_new(&args.file);
            Box::new(BufWriter::new(file.map_err(|cause| Error::Io { doing: format!("make {}", args.file.display()), cause })?))
        }
    };
    writeln!(out, "{}", json!({"dues_export": FORMAT, "made_at": store.clock.now().to_rfc3339()}))?;
    let (mut rows, bar) = (0, output::spinner("rows"));
    for table in exported() {
        let mut start = None;
        loop {
            let page = store.engine.scan(table, start, PAGE).await?;
            for item in &page.items {
                writeln!(out, "{}", json!({"table": table.name, "item": write_item(item)}))?;
            }
            rows += page.items.len() as u64;
            bar.set_position(rows);
            match page.next {
                Some(next) => start = Some(next),
                None => break,
            }
        }
    }
    out.flush()?;
    bar.finish_and_clear();
    let told = format!("{} rows exported", output::grouped(rows));
    match (to_stdout, args.json) {
        (true, _) => output::say(&told),
        (false, true) => output::json(&json!({"rows": rows}))?,
        (false, false) => output::text(&told)?,
    }
    Ok(())
}

pub(crate) async fn import(data: &Path, args: &Import) -> Result<(), Error> {
    let reader: Box<dyn BufRead> = match args.file.as_os_str() == "-" {
        true => Box::new(BufReader::new(stdin())),
        false => {
            let file = File::open(&args.file).map_err(|cause| Error::Io { doing: format!("open {}", args.file.display()), cause })?;
            Box::new(BufReader::with_capacity(1 << 20, file))
        }
    };
    let store = output::open(data)?;
    must_be_empty(&store, data).await?;
    let rows = read(&store, reader).await?;
    let mut made = Vec::new();
    for part in Part::ALL {
        let bar = output::spinner(&format!("rows of history for {}", part.name()));
        let from = rebuild(part, &store, &store, |rows| bar.set_position(rows)).await?;
        bar.finish_and_clear();
        made.push((part.name(), from));
    }
    // What follows from these rows has followed where they come from.
    for follower in FOLLOWERS {
        store.engine.set_checkpoint(follower, dues_processors::changes::STREAM, store.engine.last_change()?).await?;
    }
    if args.json {
        let made: serde_json::Map<String, Value> = made.into_iter().map(|(name, rows)| (name.to_owned(), rows.into())).collect();
        return output::json(&json!({"rows": rows, "made_again_from": made}));
    }
    output::text(&format!("{} rows imported, the rest was made again from them; dues audit compares", output::grouped(rows)))
}

async fn must_be_empty(store: &Store<Embedded>, data: &Path) -> Result<(), Error> {
    for table in EMBEDDED {
        if !store.engine.scan(table, None, 1).await?.items.is_empty() {
            return Err(Error::Said(format!("{} is not empty: {} has rows; name a new folder with --data", data.display(), table.name)));
        }
    }
    Ok(())
}

async fn read(store: &Store<Embedded>, reader: Box<dyn BufRead>) -> Result<u64, Error> {
    let wrong = |line: usize, why: String| Error::Said(format!("line {line}: {why}"));
    let mut lines = reader.lines().enumerate().map(|(n, line)| (n + 1, line));
    let header = lines.next().ok_or_else(|| Error::Said("the file is empty".into()))?.1?;
    let format = serde_json::from_str::<Value>(&header).ok().and_then(|header| header["dues_export"].as_u64());
    if format != Some(FORMAT) {
        return Err(wrong(1, format!("this is no export of dues, or of another version than {FORMAT}")));
    }
    let (mut rows, bar) = (0, output::spinner("rows"));
    loop {
        let mut writes = Vec::new();
        for (number, line) in lines.by_ref().take(PAGE as usize) {
            let line: Value = serde_json::from_str(&line?).map_err(|e| wrong(number, format!("is not JSON: {e}")))?;
            let name = line["table"].as_str().unwrap_or_default();
            let table =
                exported().find(|table| table.name == name).ok_or_else(|| wrong(number, format!("table: there is no table {name:?}")))?;
            let item = read_item(&line["item"], "item").map_err(|e| wrong(number, e.to_string()))?;
            writes.push(store.engine.put(table, item, Condition::Always));
        }
        if writes.is_empty() {
            bar.finish_and_clear();
            return Ok(rows);
        }
        rows += writes.len() as u64;
        iter(writes).buffer_unordered(PAGE as usize).try_for_each(async |_| Ok(())).await?;
        bar.set_position(rows);
    }
}
