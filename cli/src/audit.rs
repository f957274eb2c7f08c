//! `dues audit`: is every row what its history says?

use dues_processors::audit::{Audit, audit};
use serde_json::json;
use std::path::Path;
use std::time::Instant;

use crate::args::Audit as Args;
use crate::follow::catch_up;
use crate::output::{self, Error};
use crate::settings;

/// How many findings are listed for people; programs get all of them.
const LISTED: usize = 50;

pub(crate) async fn run(data: &Path, args: &Args) -> Result<(), Error> {
    let store = output::open_existing(data)?;
    // What follows from changes that were made is not missing as long as nobody has come to it.
    catch_up(&store).await?;
    let bar = output::spinner("events");
    let start = Instant::now();
    let audit = audit(&store, &settings::tiers()?, &settings::read_models()?, |events| bar.set_position(events)).await?;
    let millis = u64::try_from(start.elapsed().as_millis().max(1)).unwrap_or(u64::MAX);
    bar.finish_and_clear();
    if args.json {
        tell_programs(&audit, millis)?
    } else {
        tell_people(&audit, millis)?
    }
    match audit.findings.len() as u64 {
        0 => Ok(()),
        found => Err(Error::Said(format!("{} of {} rows do not agree", output::grouped(found), output::grouped(audit.rows)))),
    }
}

fn tell_programs(audit: &Audit, millis: u64) -> Result<(), Error> {
    let findings: Vec<_> = audit
        .findings
        .iter()
        .map(|finding| json!({"table": finding.table, "key": finding.key, "kind": finding.kind.code(), "detail": finding.detail}))
        .collect();
    output::json(&json!({
        "events": audit.events, "rows": audit.rows, "millis": millis, "events_per_s": audit.events * 1000 / millis, "findings": findings,
    }))
}

fn tell_people(audit: &Audit, millis: u64) -> Result<(), Error> {
    for finding in audit.findings.iter().take(LISTED) {
        output::text(&format!("{:<11} {} {}\n            {}", finding.kind.code(), finding.table, finding.key, finding.detail))?;
    }
    if let Some(more) = audit.findings.len().checked_sub(LISTED).filter(|more| *more > 0) {
        output::text(&format!("and {} more: --json lists all", output::grouped(more as u64)))?;
    }
    let n = output::grouped;
    output::text(&format!(
        "{} events folded again, {} rows compared ({} events/s): {}",
        n(audit.events),
        n(audit.rows),
        n(audit.events * 1000 / millis),
        if audit.findings.is_empty() { "all agree".to_owned() } else { format!("{} findings", n(audit.findings.len() as u64)) }
    ))
}
