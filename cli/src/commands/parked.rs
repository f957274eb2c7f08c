//! `dues parked`: lists, shows and redrives parked records.

use dues_processors::runtime::redrive::Handlers;
use dues_processors::{Context, Outcome, OutcomeCounts};
use dues_store::Store;
use dues_store::embedded::Embedded;
use dues_store::parked::Parked as Record;
use serde_json::{Value, json};
use std::path::Path;

use crate::args::{ParkedAction, ParkedArgs, ParkedSelection, RedriveArgs};
use crate::local::feeder::feeder;
use crate::local::followers::catch_up;
use crate::local::gateway::collector;
use crate::local::projector::projector;
use crate::local::settings;
use crate::output::{self, Error};

pub(crate) async fn run(data: &Path, args: &ParkedArgs) -> Result<(), Error> {
    let store = output::open_existing(data)?;
    let parked = store.parked().await?;
    match &args.action {
        None | Some(ParkedAction::List) => list(&parked, args.json),
        Some(ParkedAction::Show { id }) => show(find_by_prefix(&parked, id)?, args.json),
        Some(ParkedAction::Redrive(redrive_args)) => {
            redrive(store, redrive_args, select(&parked, &redrive_args.selection)?, args.json).await
        }
    }
}

fn list(parked: &[Record], as_json: bool) -> Result<(), Error> {
    if as_json {
        return output::print_json(&json!({ "parked": parked.iter().map(to_json).collect::<Vec<_>>() }));
    }
    if parked.is_empty() {
        return output::print_line("no parked records");
    }
    let mut table = output::table(["id", "stream", "position", "event", "user", "reason"]);
    for p in parked {
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        table.add_row([
            p.id.clone(),
            p.stream.clone(),
            p.sequence.clone(),
            or_dash(&p.event_id),
            or_dash(&p.user_id),
            p.reason.clone(),
        ]);
    }
    output::print_line(&table.to_string())?;
    output::print_line(&format!("{} parked", output::grouped(parked.len() as u64)))
}

fn to_json(parked: &Record) -> Value {
    json!({
        "parked_id": parked.id, "stream": parked.stream, "code": parked.code, "reason": parked.reason,
        "event_id": parked.event_id,
        "user_id": parked.user_id, "sequence": parked.sequence, "parked_at": parked.parked_at.to_rfc3339(),
        "bytes": parked.body.len(),
        "record": String::from_utf8_lossy(&parked.body),
    })
}

fn show(parked: &Record, as_json: bool) -> Result<(), Error> {
    if as_json {
        return output::print_json(&to_json(parked));
    }
    let fields = to_json(parked);
    for name in ["parked_id", "stream", "sequence", "parked_at", "event_id", "user_id", "code", "reason"] {
        let value = fields[name].as_str().unwrap_or("-");
        output::print_line(&format!("{name:<10} {value}"))?;
    }
    output::print_line(&format!("\n{}", String::from_utf8_lossy(&parked.body)))
}

/// The parked record with this id prefix.
fn find_by_prefix<'a>(parked: &'a [Record], id: &str) -> Result<&'a Record, Error> {
    let mut found = parked.iter().filter(|parked| parked.id.starts_with(id));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => {
            Err(Error::Message(format!("several parked records have an id starting with {id}")))
        }
        (None, _) => Err(Error::Message(format!("no parked record {id}"))),
    }
}

fn select(parked: &[Record], selection: &ParkedSelection) -> Result<Vec<Record>, Error> {
    if let Some(id) = &selection.id {
        return Ok(vec![find_by_prefix(parked, id)?.clone()]);
    }
    Ok(parked
        .iter()
        .filter(|parked| selection.stream.as_ref().is_none_or(|stream| parked.stream == *stream))
        .cloned()
        .collect())
}

/// Redrives records one by one and reports each outcome.
async fn redrive(
    store: Store<Embedded>,
    args: &RedriveArgs,
    selected: Vec<Record>,
    as_json: bool,
) -> Result<(), Error> {
    let handlers = Handlers {
        context: Context { read_models: settings::read_models()?, ..Context::new(store.clone()) },
        collector: collector(&store, &args.gateway, &args.age, &args.lock)?,
        projector: projector(&store)?,
        feeder: feeder(&store),
    };
    let (mut counts, mut results) = (OutcomeCounts::default(), Vec::new());
    let bar = output::progress_of("records", selected.len() as u64);
    for parked in &selected {
        let fate = handlers.redrive(parked).await?;
        counts.count(&fate);
        let reason = match &fate {
            Outcome::Failed(reason) => Some(reason.clone()),
            // The reason may have changed since it was parked.
            Outcome::Parked => {
                let now = store
                    .parked()
                    .await?
                    .into_iter()
                    .find(|now| now.id == parked.id && now.stream == parked.stream);
                Some(now.map_or_else(|| parked.reason.clone(), |now| now.reason))
            }
            Outcome::Applied | Outcome::Duplicate | Outcome::Ignored | Outcome::Skipped => None,
        };
        results.push((parked, outcome_name(&fate), reason));
        bar.inc(1);
    }
    bar.finish_and_clear();
    catch_up(&store).await?;
    if as_json {
        let records: Vec<Value> = results
            .iter()
            .map(|(parked, fate, reason)| {
                json!({"parked_id": parked.id, "stream": parked.stream,
                "fate": fate, "reason": reason})
            })
            .collect();
        return output::print_json(&json!({ "redriven": records }));
    }
    for (parked, fate, reason) in &results {
        let why = reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
        output::print_line(&format!("{} on {}: {fate}{why}", parked.id, parked.stream))?;
    }
    let still_parked = counts.parked + counts.failed;
    output::print_line(&format!(
        "{} redriven, {} still parked",
        output::grouped(results.len() as u64 - still_parked),
        output::grouped(still_parked)
    ))
}

fn outcome_name(fate: &Outcome) -> &'static str {
    match fate {
        Outcome::Applied => "applied",
        Outcome::Duplicate => "duplicate",
        Outcome::Ignored => "ignored",
        Outcome::Skipped => "skipped",
        Outcome::Parked => "stays parked",
        Outcome::Failed(_) => "failed",
    }
}
