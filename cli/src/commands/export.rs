//! `dues export`: every table of source data as NDJSON; derived tables are rebuilt on import.
//!
//! The billing records are exported too: their `applied` lists and chain heads are the commit record, which
//! says what of history has happened. Import checks them against history.
//!
//! The first line names the format; every other line is one row in DynamoDB JSON, so that it can be loaded
//! into DynamoDB too.

use dues_processors::runtime::changes::write_item;
use dues_processors::{COLLECTION_STREAMS, Context, FACT_STREAMS};
use dues_store::Engine as _;
use dues_store::table::{BILLING_ACTIVITY, EMBEDDED, Table, TableId};
use serde_json::json;
use std::fs::File;
use std::io::{BufWriter, Write, stdout};
use std::path::Path;

use crate::args::ExportArgs;
use crate::local::followers::catch_up;
use crate::local::settings;
use crate::local::stream_runner::StreamRunner;
use crate::output::{self, Error};

/// Version of the format. Version 1 had no billing records: history alone said what had happened.
pub(super) const FORMAT_VERSION: u64 = 2;
/// Rows read or written at once.
pub(super) const PAGE_ROWS: u32 = 1000;

/// Unprocessed requests are counted up to this number.
const MAX_COUNTED: u64 = 1_000_000;

/// The exported tables: the billing records, and what is neither derived nor a lock. The records come first:
/// the history of every commit that they show was written before, so it is in the file.
pub(super) fn exported_tables() -> impl Iterator<Item = &'static Table> {
    let source = |table: &&Table| !table.is_derived() && table.id != TableId::Locks;
    std::iter::once(&BILLING_ACTIVITY).chain(EMBEDDED.into_iter().filter(source))
}

pub(crate) async fn run(data: &Path, args: &ExportArgs) -> Result<(), Error> {
    let store = output::open_existing(data)?;
    // Process the backlog first: unprocessed records are in no table yet.
    for stream in FACT_STREAMS {
        let context = Context { read_models: settings::read_models()?, ..Context::new(store.clone()) };
        let mut runner = StreamRunner::new(context, stream)?;
        while runner.step(|record| format!("seq {}", record.seq), |_, _| {}).await? {}
    }
    for stream in COLLECTION_STREAMS {
        let waiting = store.engine.backlog(stream, stream, MAX_COUNTED)?.records;
        if waiting > 0 {
            let waiting = output::grouped(waiting);
            output::notice(&format!(
                "{waiting} requests on {stream} are not exported: `dues serve` and `dues ingest` process them"
            ));
        }
    }
    // History rows that were never committed have not happened, and must not be imported as if they had.
    store.sweep(|_| {}).await?;
    catch_up(&store).await?;
    let to_stdout = args.file.as_os_str() == "-";
    let mut out: Box<dyn Write> = match to_stdout {
        true => Box::new(BufWriter::new(stdout().lock())),
        false => {
            let file = File::create_new(&args.file);
            Box::new(BufWriter::new(
                file.map_err(|cause| Error::Io { doing: format!("create {}", args.file.display()), cause })?,
            ))
        }
    };
    writeln!(out, "{}", json!({"dues_export": FORMAT_VERSION, "made_at": store.clock.now().to_rfc3339()}))?;
    let (mut rows, bar) = (0, output::spinner("rows"));
    for table in exported_tables() {
        let mut start = None;
        loop {
            let page = store.engine.scan(table, start, PAGE_ROWS).await?;
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
    let summary = format!("{} rows exported", output::grouped(rows));
    match (to_stdout, args.json) {
        (true, _) => output::notice(&summary),
        (false, true) => output::print_json(&json!({"rows": rows}))?,
        (false, false) => output::print_line(&summary)?,
    }
    Ok(())
}
