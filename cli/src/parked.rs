//! `dues parked`: what could not be processed, and why; one whole; and driving them through again.

use chrono::TimeDelta;
use dues_processors::redrive::Handlers;
use dues_processors::{Context, Counts, Fate};
use dues_store::Store;
use dues_store::embedded::Embedded;
use dues_store::parked::Parked as Record;
use serde_json::{Value, json};
use std::path::Path;

use crate::args::{Parked, ParkedAction, Redrive, WhichParked};
use crate::feeder_run::feeder;
use crate::follow::catch_up;
use crate::gateway::collector;
use crate::output::{self, Error};
use crate::projector_run::projector;
use crate::settings;

pub(crate) async fn run(data: &Path, args: &Parked) -> Result<(), Error> {
    let store = output::open_existing(data)?;
    let parked = store.parked().await?;
    match &args.action {
        None | Some(ParkedAction::List) => list(&parked, args.json),
        Some(ParkedAction::Show { id }) => show(named(&parked, id)?, args.json),
        Some(ParkedAction::Redrive(wanted)) => redrive(store, wanted, chosen(&parked, &wanted.which)?, args.json).await,
    }
}

fn list(parked: &[Record], as_json: bool) -> Result<(), Error> {
    if as_json {
        return output::json(&json!({ "parked": parked.iter().map(to_json).collect::<Vec<_>>() }));
    }
    if parked.is_empty() {
        return output::text("nothing is parked");
    }
    let mut table = output::table(["id", "stream", "where", "event", "user", "reason"]);
    for p in parked {
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        table.add_row([p.id.clone(), p.stream.clone(), p.sequence.clone(), or_dash(&p.event_id), or_dash(&p.user_id), p.reason.clone()]);
    }
    output::text(&table.to_string())?;
    output::text(&format!("{} parked", output::grouped(parked.len() as u64)))
}

fn to_json(parked: &Record) -> Value {
    json!({
        "parked_id": parked.id, "stream": parked.stream, "code": parked.code, "reason": parked.reason, "event_id": parked.event_id,
        "user_id": parked.user_id, "sequence": parked.sequence, "parked_at": parked.parked_at.to_rfc3339(), "bytes": parked.body.len(),
        "record": String::from_utf8_lossy(&parked.body),
    })
}

fn show(parked: &Record, as_json: bool) -> Result<(), Error> {
    if as_json {
        return output::json(&to_json(parked));
    }
    let told = to_json(parked);
    for name in ["parked_id", "stream", "sequence", "parked_at", "event_id", "user_id", "code", "reason"] {
        let value = told[name].as_str().unwrap_or("-");
        output::text(&format!("{name:<10} {value}"))?;
    }
    output::text(&format!("\n{}", String::from_utf8_lossy(&parked.body)))
}

/// The one whose id starts like that.
fn named<'a>(parked: &'a [Record], id: &str) -> Result<&'a Record, Error> {
    let mut found = parked.iter().filter(|parked| parked.id.starts_with(id));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(Error::Said(format!("several parked records have an id that starts with {id}"))),
        (None, _) => Err(Error::Said(format!("there is no parked record {id}"))),
    }
}

fn chosen(parked: &[Record], wanted: &WhichParked) -> Result<Vec<Record>, Error> {
    if let Some(id) = &wanted.id {
        return Ok(vec![named(parked, id)?.clone()]);
    }
    Ok(parked.iter().filter(|parked| wanted.stream.as_ref().is_none_or(|stream| parked.stream == *stream)).cloned().collect())
}

/// Drives records through again, one by one, and tells what became of each.
async fn redrive(store: Store<Embedded>, args: &Redrive, chosen: Vec<Record>, as_json: bool) -> Result<(), Error> {
    let handlers = Handlers {
        context: Context { hold: TimeDelta::zero(), read_models: settings::read_models()?, ..Context::new(store.clone()) },
        collector: collector(&store, &args.gateway, &args.age, &args.lock)?,
        projector: projector(&store)?,
        feeder: feeder(&store),
    };
    let (mut counts, mut told) = (Counts::default(), Vec::new());
    let bar = output::progress_of("records", chosen.len() as u64);
    for parked in &chosen {
        let fate = handlers.redrive(parked).await?;
        counts.count(&fate);
        let reason = match &fate {
            Fate::Failed(reason) => Some(reason.clone()),
            // It may be another than when it was parked first.
            Fate::Parked => {
                let now = store.parked().await?.into_iter().find(|now| now.id == parked.id && now.stream == parked.stream);
                Some(now.map_or_else(|| parked.reason.clone(), |now| now.reason))
            }
            Fate::Applied | Fate::Duplicate | Fate::Ignored | Fate::Skipped => None,
        };
        told.push((parked, word(&fate), reason));
        bar.inc(1);
    }
    bar.finish_and_clear();
    catch_up(&store).await?;
    if as_json {
        let records: Vec<Value> = told
            .iter()
            .map(|(parked, fate, reason)| json!({"parked_id": parked.id, "stream": parked.stream, "fate": fate, "reason": reason}))
            .collect();
        return output::json(&json!({ "redriven": records }));
    }
    for (parked, fate, reason) in &told {
        let why = reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
        output::text(&format!("{} on {}: {fate}{why}", parked.id, parked.stream))?;
    }
    let stay = counts.parked + counts.failed;
    output::text(&format!("{} went through, {} stay parked", output::grouped(told.len() as u64 - stay), output::grouped(stay)))
}

fn word(fate: &Fate) -> &'static str {
    match fate {
        Fate::Applied => "applied",
        Fate::Duplicate => "duplicate",
        Fate::Ignored => "ignored",
        Fate::Skipped => "skipped",
        Fate::Parked => "stays parked",
        Fate::Failed(_) => "failed",
    }
}
