//! `dues replay`: makes rows again from history, compares them with the live ones, and puts those right.

use dues_processors::replay::{Part, compare, put_right, rebuild};
use serde_json::json;
use std::path::Path;

use crate::args::Replay;
use crate::follow::catch_up;
use crate::output::{self, Error};
use crate::scratch::Scratch;

/// How many differences are listed for people; programs get all of them.
const LISTED: usize = 20;

pub(crate) async fn run(data: &Path, args: &Replay) -> Result<(), Error> {
    let store = output::open_existing(data)?;
    // What is still to follow from changes that were made is no difference.
    catch_up(&store).await?;
    let parts: Vec<Part> = Part::ALL.into_iter().filter(|part| args.read_model.as_ref().is_none_or(|name| part.name() == name)).collect();
    let (mut told, mut total) = (Vec::new(), 0);
    for part in parts {
        let scratch = Scratch::new(data)?;
        let made = scratch.open(&store.clock)?;
        let bar = output::spinner(&format!("rows for {}", part.name()));
        let rows = rebuild(part, &store, &made, |rows| bar.set_position(rows)).await?;
        bar.finish_and_clear();
        let found = compare(part, &store, &made).await?;
        if !args.dry_run {
            put_right(&store, &found).await?;
        }
        total += found.len();
        let differences: Vec<_> = found
            .iter()
            .map(|found| {
                let key = format!("{}/{}", found.key.partition, found.key.sort.as_deref().unwrap_or_default());
                json!({"table": found.table.name, "key": key, "detail": found.detail()})
            })
            .collect();
        if !args.json {
            tell(part, rows, &differences, args.dry_run)?;
        }
        told.push(json!({"read_model": part.name(), "rows": rows, "differences": differences, "put_right": !args.dry_run}));
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

fn tell(part: Part, rows: u64, differences: &[serde_json::Value], dry_run: bool) -> Result<(), Error> {
    for difference in differences.iter().take(LISTED) {
        let text = |name: &str| difference[name].as_str().unwrap_or_default().to_owned();
        output::text(&format!("{} {}\n            {}", text("table"), text("key"), text("detail")))?;
    }
    let what = match (differences.len() as u64, dry_run) {
        (0, _) => "every row is as history makes it".to_owned(),
        (n, true) => format!("{} rows differ, nothing was written", output::grouped(n)),
        (n, false) => format!("{} rows differed and were put right", output::grouped(n)),
    };
    output::text(&format!("{:<12} {} rows: {what}", part.name(), output::grouped(rows)))
}

/// The names of what can be made again.
pub(crate) fn names() -> [&'static str; Part::ALL.len()] {
    Part::ALL.map(Part::name)
}
