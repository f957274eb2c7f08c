//! `dues replay`: makes rows again from history, compares them with the live ones, and puts those right.

use dues_processors::replay::{Compared, Part, compare, put_right};
use serde_json::json;
use std::path::Path;

use crate::args::Replay;
use crate::follow::catch_up;
use crate::output::{self, Error};

/// How many differences are listed for people; programs get all of them.
const LISTED: usize = 20;

pub(crate) async fn run(data: &Path, args: &Replay) -> Result<(), Error> {
    let store = output::open_existing(data)?;
    // What is still to follow from changes that were made is no difference.
    catch_up(&store).await?;
    let parts: Vec<Part> = Part::ALL.into_iter().filter(|part| args.read_model.as_ref().is_none_or(|name| part.name() == name)).collect();
    let (mut told, mut total) = (Vec::new(), 0);
    for part in parts {
        let bar = output::spinner(&format!("rows of history for {}", part.name()));
        let Compared { events, differences: found, unreadable, .. } = compare(part, &store, |events| bar.set_position(events)).await?;
        bar.finish_and_clear();
        if let Some((table, key, why)) = unreadable.first() {
            let more = output::grouped(unreadable.len() as u64);
            return Err(Error::Said(format!(
                "{}: {more} parts of history cannot be read, so no row was touched; the first is {} {}: {why}",
                part.name(),
                table.name,
                key.partition
            )));
        }
        let moved = if args.dry_run { 0 } else { put_right(&store, &found).await? };
        total += found.len();
        let differences: Vec<_> = found
            .iter()
            .map(|found| {
                let key = format!("{}/{}", found.key.partition, found.key.sort.as_deref().unwrap_or_default());
                json!({"table": found.table.name, "key": key, "detail": found.detail()})
            })
            .collect();
        if !args.json {
            tell(part, events, &differences, args.dry_run)?;
            if moved > 0 {
                output::text(&format!("             {} of them have changed meanwhile: run it again", output::grouped(moved)))?;
            }
        }
        told.push(json!({"read_model": part.name(), "events": events, "differences": differences, "put_right": !args.dry_run, "changed_meanwhile": moved}));
    }
    // Whatever follows from the rows that were written.
    catch_up(&store).await?;
    if args.json {
        output::json(&json!({ "replayed": told }))?;
    }
    match (args.dry_run, total) {
        (true, 1..) => Err(Error::Said(format!("{} rows would change", output::grouped(total as u64)))),
        (_, _) => Ok(()),
    }
}

fn tell(part: Part, events: u64, differences: &[serde_json::Value], dry_run: bool) -> Result<(), Error> {
    for difference in differences.iter().take(LISTED) {
        let text = |name: &str| difference[name].as_str().unwrap_or_default().to_owned();
        output::text(&format!("{} {}\n            {}", text("table"), text("key"), text("detail")))?;
    }
    let what = match (differences.len() as u64, dry_run) {
        (0, _) => "every row is as history makes it".to_owned(),
        (n, true) => format!("{} rows differ, nothing was written", output::grouped(n)),
        (n, false) => format!("{} rows differed and were put right", output::grouped(n)),
    };
    output::text(&format!("{:<12} {} events folded again: {what}", part.name(), output::grouped(events)))
}

/// The names of what can be made again.
pub(crate) fn names() -> [&'static str; Part::ALL.len()] {
    Part::ALL.map(Part::name)
}
