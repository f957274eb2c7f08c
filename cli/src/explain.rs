//! `dues explain`: a member's story, as of any time.

use dues_events::UserId;
use dues_events::collect::Rules;
use dues_processors::explain::{Explained, explain};
use std::path::Path;

use crate::args::Explain;
use crate::output::{self, Error};
use crate::settings;

pub(crate) async fn run(data: &Path, args: &Explain) -> Result<(), Error> {
    let store = output::open_existing(data)?;
    let at = args.at.unwrap_or_else(|| store.clock.now());
    let rules = Rules { old_days: args.age.old_days, ..Rules::default() };
    let explained = explain(&store, &settings::tiers()?, &rules, &UserId::from(args.user.as_str()), at).await?;
    if explained.is_empty() {
        return Err(Error::Said(format!("nothing is known of member {} in {}", args.user, data.display())));
    }
    if args.json { output::json(&explained.json()) } else { tell(&explained) }
}

fn tell(explained: &Explained) -> Result<(), Error> {
    let day = |at: dues_events::Time| at.format("%Y-%m-%d %H:%M").to_string();
    output::text(&format!("{}, as of {} UTC\n", explained.user, day(explained.at)))?;
    for beat in &explained.story.beats {
        let moved = match beat.moved {
            Some(("", to)) => format!(" [{to}]"),
            Some((from, to)) => format!(" [{from} → {to}]"),
            None => String::new(),
        };
        output::text(&format!("{}  {}{moved}", day(beat.at), beat.sentence))?;
        for followed in &beat.followed {
            output::text(&format!("                  ↳ {followed}"))?;
        }
        let record = beat.record.as_ref().map_or(String::new(), |id| format!(", record {id}"));
        let event = beat.event.as_ref().map_or(String::new(), |id| format!("event {id}, "));
        output::text(&format!("                  {event}{}{record}", beat.source))?;
    }
    let access = &explained.access;
    output::text(&format!("\nAccess    {}: {}", access.tier, access.why))?;
    output::text(&format!("Credits   {}", explained.credits))?;
    for record in &explained.story.records {
        let due = record.billing_date.at().format("%Y-%m-%d");
        output::text(&format!("Record    {} due {due}: {}", record.subscription_id, output::status_text(record)))?;
    }
    for next in &explained.story.next {
        let at = next.at.map_or_else(|| "until somebody acts".to_owned(), day);
        output::text(&format!("Next      {at}: {} ({})", next.sentence, next.record))?;
    }
    for parked in &explained.parked {
        output::text(&format!("Parked    {} on {}: {}", parked.id, parked.stream, parked.reason))?;
    }
    Ok(())
}
