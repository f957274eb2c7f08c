//! `dues replay`: rebuilds rows from history, compares them with the live rows, and repairs those.

use dues_processors::operators::replay::{Comparison, ReplayTarget, compare, repair};
use serde_json::json;
use std::path::Path;

use crate::args::ReplayArgs;
use crate::local::followers::catch_up;
use crate::output::{self, Error};

/// Differences listed in text output; JSON has all.
const MAX_LISTED: usize = 20;

pub(crate) async fn run(data: &Path, args: &ReplayArgs) -> Result<(), Error> {
    let store = output::open_existing(data)?;
    // Pending follow-ups are not differences.
    catch_up(&store).await?;
    let parts: Vec<ReplayTarget> = ReplayTarget::ALL
        .into_iter()
        .filter(|part| args.read_model.as_ref().is_none_or(|name| part.name() == name))
        .collect();
    let (mut replayed, mut total) = (Vec::new(), 0);
    for part in parts {
        let bar = output::spinner(&format!("history rows for {}", part.name()));
        let Comparison { events, differences: found, unreadable, .. } =
            compare(part, &store, |events| bar.set_position(events)).await?;
        bar.finish_and_clear();
        if let Some((table, key, why)) = unreadable.first() {
            let count = output::grouped(unreadable.len() as u64);
            return Err(Error::Message(format!(
                "{}: {count} histories cannot be read, no row was changed; the first is {} {}: {why}",
                part.name(),
                table.name,
                key.partition
            )));
        }
        let moved = if args.dry_run { 0 } else { repair(&store, &found).await? };
        total += found.len();
        let differences: Vec<_> = found
            .iter()
            .map(|found| {
                let key =
                    format!("{}/{}", found.key.partition, found.key.sort.as_deref().unwrap_or_default());
                json!({"table": found.table.name, "key": key, "detail": found.detail()})
            })
            .collect();
        if !args.json {
            print_text(part, events, &differences, args.dry_run)?;
            if moved > 0 {
                output::print_line(&format!(
                    "             {} of them changed during the replay: run it again",
                    output::grouped(moved)
                ))?;
            }
        }
        replayed.push(json!({"read_model": part.name(), "events": events, "differences": differences,
            "put_right": !args.dry_run, "changed_meanwhile": moved}));
    }
    // Follow-ups of the repaired rows.
    catch_up(&store).await?;
    if args.json {
        output::print_json(&json!({ "replayed": replayed }))?;
    }
    match (args.dry_run, total) {
        (true, 1..) => Err(Error::Message(format!("{} rows would change", output::grouped(total as u64)))),
        (_, _) => Ok(()),
    }
}

fn print_text(
    part: ReplayTarget,
    events: u64,
    differences: &[serde_json::Value],
    dry_run: bool,
) -> Result<(), Error> {
    for difference in differences.iter().take(MAX_LISTED) {
        let text = |name: &str| difference[name].as_str().unwrap_or_default().to_owned();
        output::print_line(&format!("{} {}\n            {}", text("table"), text("key"), text("detail")))?;
    }
    let result = match (differences.len() as u64, dry_run) {
        (0, _) => "every row matches".to_owned(),
        (n, true) => format!("{} rows differ; nothing was written", output::grouped(n)),
        (n, false) => format!("{} rows differed and were repaired", output::grouped(n)),
    };
    output::print_line(&format!("{:<12} {} events folded: {result}", part.name(), output::grouped(events)))
}

/// Names of the read models that can be rebuilt.
pub(crate) fn read_model_names() -> [&'static str; ReplayTarget::ALL.len()] {
    ReplayTarget::ALL.map(ReplayTarget::name)
}
