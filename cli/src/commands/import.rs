//! `dues import`: loads an export into an empty data directory, takes every decision in its history again,
//! and rebuilds the derived rows. A history with a wrong decision or a broken chain is refused.

use dues_processors::operators::replay::{ReplayTarget, compare, rebuild};
use dues_processors::runtime::changes::{STREAM as CHANGES, read_item};
use dues_store::embedded::Embedded;
use dues_store::table::EMBEDDED;
use dues_store::{Condition, Engine as _, Key, Store, TableId};
use futures::stream::{StreamExt as _, TryStreamExt as _, iter};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, stdin};
use std::path::Path;

use super::export::{FORMAT_VERSION, PAGE_ROWS, exported_tables};
use crate::args::ImportArgs;
use crate::local::followers::FOLLOWERS;
use crate::output::{self, Error};

/// Faults listed when an import is refused.
const MAX_LISTED: usize = 20;

pub(crate) async fn run(data: &Path, args: &ImportArgs) -> Result<(), Error> {
    let reader: Box<dyn BufRead> = match args.file.as_os_str() == "-" {
        true => Box::new(BufReader::new(stdin())),
        false => {
            let file = File::open(&args.file)
                .map_err(|cause| Error::Io { doing: format!("open {}", args.file.display()), cause })?;
            Box::new(BufReader::with_capacity(1 << 20, file))
        }
    };
    let store = output::open(data)?;
    ensure_empty(&store, data).await?;
    let (format, rows) = load_rows(&store, reader).await?;
    let faults = match format {
        // The file has the billing records.
        2.. => {
            // What was being committed while the file was written is completed or removed.
            store.sweep(|_| {}).await?;
            check_billing(&store).await?
        }
        _ => check_history(&store).await?,
    };
    if !faults.is_empty() && !args.force {
        remove_rows(&store).await?;
        return Err(refused(&faults));
    }
    faults.iter().for_each(|fault| output::notice(fault));
    let mut rebuilt = Vec::new();
    for part in ReplayTarget::ALL {
        // Records that the file has are those of the live store; faulty ones stay as they came.
        if part == ReplayTarget::Billing && (format >= 2 || !faults.is_empty()) {
            continue;
        }
        let bar = output::spinner(&format!("history rows for {}", part.name()));
        let history_rows = rebuild(part, &store, &store, |rows| bar.set_position(rows)).await?;
        bar.finish_and_clear();
        rebuilt.push((part.name(), history_rows));
    }
    // The followers handled these changes before the export.
    for follower in FOLLOWERS {
        store.engine.set_checkpoint(follower, CHANGES, store.engine.last_change()?).await?;
    }
    if args.json {
        let rebuilt: serde_json::Map<String, Value> =
            rebuilt.into_iter().map(|(name, rows)| (name.to_owned(), rows.into())).collect();
        return output::print_json(&json!({"rows": rows, "made_again_from": rebuilt}));
    }
    output::print_line(&format!(
        "{} rows imported, derived rows rebuilt; check with: dues --data {} audit",
        output::grouped(rows),
        data.display()
    ))
}

async fn ensure_empty(store: &Store<Embedded>, data: &Path) -> Result<(), Error> {
    for table in EMBEDDED {
        if !store.engine.scan(table, None, 1).await?.items.is_empty() {
            return Err(Error::Message(format!(
                "{} is not empty: table {} has rows; choose a new directory with --data",
                data.display(),
                table.name
            )));
        }
    }
    Ok(())
}

/// What does not match between the loaded records and their history.
async fn check_billing(store: &Store<Embedded>) -> Result<Vec<String>, Error> {
    let bar = output::spinner("history rows checked");
    let compared = compare(ReplayTarget::Billing, store, |events| bar.set_position(events)).await?;
    bar.finish_and_clear();
    let faulty: Vec<&str> = compared.unreadable.iter().map(|(_, key, _)| key.partition.as_str()).collect();
    let wrong = compared.unreadable.iter().map(|(_, key, why)| format!("member {}: {why}", key.partition));
    // The records of a faulty history are named with it.
    let differ = compared.differences.iter().filter(|found| !faulty.contains(&found.key.partition.as_str()));
    let differ = differ.map(|found| {
        let Key { partition, sort } = &found.key;
        format!("{} {partition}/{}: {}", found.table.name, sort.as_deref().unwrap_or(""), found.detail())
    });
    Ok(wrong.chain(differ).collect())
}

/// What is wrong in a history that came without its records.
async fn check_history(store: &Store<Embedded>) -> Result<Vec<String>, Error> {
    let compared = compare(ReplayTarget::Billing, store, |_| {}).await?;
    let wrong = compared.unreadable.iter().map(|(_, key, why)| format!("member {}: {why}", key.partition));
    Ok(wrong.collect())
}

fn refused(faults: &[String]) -> Error {
    let count = output::grouped(faults.len() as u64);
    let mut text = format!("the history in the file is wrong, nothing was imported; {count} found:");
    for fault in faults.iter().take(MAX_LISTED) {
        text.push_str("\n  ");
        text.push_str(fault);
    }
    text.push_str("\n--force imports it as it is; `dues audit` then names every row");
    Error::Message(text)
}

/// Empties the directory that was empty before.
async fn remove_rows(store: &Store<Embedded>) -> Result<(), Error> {
    for table in exported_tables() {
        loop {
            let page = store.engine.scan(table, None, PAGE_ROWS).await?;
            if page.items.is_empty() {
                break;
            }
            let keys = page.items.iter().map(|item| Key::of(table, item)).collect::<Result<Vec<_>, _>>()?;
            let deletes = keys.into_iter().map(|key| store.engine.delete(table, key, Condition::Always));
            iter(deletes).buffer_unordered(PAGE_ROWS as usize).try_for_each(async |_| Ok(())).await?;
        }
    }
    Ok(())
}

/// Loads the rows. Returns the format's version and how many there were.
async fn load_rows(store: &Store<Embedded>, reader: Box<dyn BufRead>) -> Result<(u64, u64), Error> {
    let invalid = |line: usize, reason: String| Error::Message(format!("line {line}: {reason}"));
    let mut lines = reader.lines().enumerate().map(|(n, line)| (n + 1, line));
    let header = lines.next().ok_or_else(|| Error::Message("the file is empty".into()))?.1?;
    let format =
        serde_json::from_str::<Value>(&header).ok().and_then(|header| header["dues_export"].as_u64());
    let Some(format) = format.filter(|format| (1..=FORMAT_VERSION).contains(format)) else {
        return Err(invalid(1, format!("not a dues export of format version 1 to {FORMAT_VERSION}")));
    };
    let (mut rows, bar) = (0, output::spinner("rows"));
    loop {
        let mut writes = Vec::new();
        for (number, line) in lines.by_ref().take(PAGE_ROWS as usize) {
            let line: Value = serde_json::from_str(&line?)
                .map_err(|error| invalid(number, format!("not valid JSON: {error}")))?;
            let name = line["table"].as_str().unwrap_or_default();
            let table = TableId::from_name(name)
                .and_then(|id| exported_tables().find(|table| table.id == id))
                .ok_or_else(|| invalid(number, format!("unknown table {name:?}")))?;
            let item =
                read_item(&line["item"], "item").map_err(|error| invalid(number, error.to_string()))?;
            writes.push(store.engine.put(table, item, Condition::Always));
        }
        if writes.is_empty() {
            bar.finish_and_clear();
            return Ok((format, rows));
        }
        rows += writes.len() as u64;
        iter(writes).buffer_unordered(PAGE_ROWS as usize).try_for_each(async |_| Ok(())).await?;
        bar.set_position(rows);
    }
}
