//! `dues audit`: compares every row with the fold of its history.

use dues_processors::operators::audit::{Audit, audit};
use dues_store::Store;
use serde_json::json;
use std::path::Path;
use std::time::Instant;

use crate::args::AuditArgs;
use crate::local::clock::clock;
use crate::local::followers::catch_up;
use crate::local::settings;
use crate::output::{self, Error};

/// Findings listed in text output; JSON has all.
const MAX_LISTED: usize = 50;

pub(crate) async fn run(data: &Path, args: &AuditArgs) -> Result<(), Error> {
    let store = Store { clock: clock(args.as_of.as_of), ..output::open_existing(data)? };
    // Pending follow-ups are not findings.
    catch_up(&store).await?;
    let bar = output::spinner("events");
    let start = Instant::now();
    let audit =
        audit(&store, &settings::tiers()?, &settings::read_models()?, |events| bar.set_position(events))
            .await?;
    let millis = u64::try_from(start.elapsed().as_millis().max(1)).unwrap_or(u64::MAX);
    bar.finish_and_clear();
    if args.json {
        print_json(&audit, millis)?
    } else {
        print_text(&audit, millis)?
    }
    match audit.findings.len() as u64 {
        0 => Ok(()),
        found => Err(Error::Message(format!(
            "{} of {} rows do not match their history",
            output::grouped(found),
            output::grouped(audit.rows)
        ))),
    }
}

fn print_json(audit: &Audit, millis: u64) -> Result<(), Error> {
    let findings: Vec<_> = audit
        .findings
        .iter()
        .map(|finding| {
            json!({"table": finding.table, "key": finding.key, "kind": finding.kind.code(),
            "detail": finding.detail})
        })
        .collect();
    output::print_json(&json!({
        "events": audit.events, "rows": audit.rows, "millis": millis,
        "events_per_s": audit.events * 1000 / millis, "findings": findings,
        "overdue_timers": audit.overdue_timers,
    }))
}

fn print_text(audit: &Audit, millis: u64) -> Result<(), Error> {
    for finding in audit.findings.iter().take(MAX_LISTED) {
        output::print_line(&format!(
            "{:<11} {} {}\n            {}",
            finding.kind.code(),
            finding.table,
            finding.key,
            finding.detail
        ))?;
    }
    if let Some(more) = audit.findings.len().checked_sub(MAX_LISTED).filter(|more| *more > 0) {
        output::print_line(&format!("… and {} more; --json lists all", output::grouped(more as u64)))?;
    }
    let n = output::grouped;
    if audit.overdue_timers > 0 {
        output::notice(&format!(
            "{} timers are overdue: the entitlement clock does not run; `dues clock` books them",
            n(audit.overdue_timers)
        ));
    }
    output::print_line(&format!(
        "{} events folded, {} rows compared ({} events/s): {}",
        n(audit.events),
        n(audit.rows),
        n(audit.events * 1000 / millis),
        if audit.findings.is_empty() {
            "all match".to_owned()
        } else {
            format!("{} findings", n(audit.findings.len() as u64))
        }
    ))
}
