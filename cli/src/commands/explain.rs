//! `dues explain`: a member's timeline as of any time.

use dues_events::UserId;
use dues_events::collections::eligibility::Rules;
use dues_processors::operators::explain::{Explanation, explain};
use std::path::Path;

use crate::args::ExplainArgs;
use crate::local::settings;
use crate::output::{self, Error};

pub(crate) async fn run(data: &Path, args: &ExplainArgs) -> Result<(), Error> {
    let store = output::open_existing(data)?;
    let at = args.at.unwrap_or_else(|| store.clock.now());
    let rules = Rules { old_days: args.age.old_days, ..Rules::default() };
    let explained =
        explain(&store, &settings::tiers()?, &rules, &UserId::from(args.user.as_str()), at).await?;
    if explained.is_empty() {
        return Err(Error::Message(format!("unknown member {} in {}", args.user, data.display())));
    }
    if args.json { output::print_json(&explained.json()) } else { print_text(&explained) }
}

fn print_text(explained: &Explanation) -> Result<(), Error> {
    let day = |at: dues_events::Time| at.format("%Y-%m-%d %H:%M").to_string();
    output::print_line(&format!("{}, as of {} UTC\n", explained.user, day(explained.at)))?;
    for entry in &explained.story.entries {
        let moved = match entry.moved {
            Some(("", to)) => format!(" [{to}]"),
            Some((from, to)) => format!(" [{from} → {to}]"),
            None => String::new(),
        };
        output::print_line(&format!("{}  {}{moved}", day(entry.at), entry.sentence))?;
        for turn in explained.tier_changes_of(entry) {
            output::print_line(&format!("                  ↳ {}", turn.sentence()))?;
        }
        for followed in &entry.followed {
            output::print_line(&format!("                  ↳ {followed}"))?;
        }
        let record = entry.record.as_ref().map_or(String::new(), |id| format!(", record {id}"));
        let event = entry.event.as_ref().map_or(String::new(), |id| format!("event {id}, "));
        let actor = entry.actor.as_ref().map_or(String::new(), |actor| format!(", by {actor}"));
        output::print_line(&format!("                  {event}{}{actor}{record}", entry.source))?;
    }
    let access = &explained.access;
    output::print_line(&format!("\nAccess    {}: {}", access.tier, access.why))?;
    output::print_line(&format!("Credits   {}", explained.credits))?;
    for record in &explained.story.records {
        let due = record.billing_date.at().format("%Y-%m-%d");
        output::print_line(&format!(
            "Record    {} due {due}: {}",
            record.subscription_id,
            output::status_text(record)
        ))?;
    }
    for next in &explained.story.next {
        let at = next.at.map_or_else(|| "no date".to_owned(), day);
        output::print_line(&format!("Next      {at}: {} ({})", next.sentence, next.record))?;
    }
    for parked in &explained.parked {
        output::print_line(&format!("Parked    {} on {}: {}", parked.id, parked.stream, parked.reason))?;
    }
    Ok(())
}
