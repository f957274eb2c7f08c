//! A member's timeline: what happened, its cause and what followed from it, in plain sentences with ids; the
//! current records, and what comes next.
//!
//! It is derived from history alone, as of any time, so it is reproducible. Only the date of a planned
//! presentment also depends on the member's last incomes, of which no more than twelve are kept.

mod sentences;
mod upcoming;

use dues_events::attributes;
use dues_events::billing::record::{History, Record};
use dues_events::collections::eligibility::Rules;
use dues_events::collections::incomes::Incomes;
use dues_events::entitlements::credits::Movement;
use dues_events::entitlements::stripe::StripeEvent;
use dues_events::{EventId, MovementKind, SubscriptionId, Time};

pub use upcoming::{Upcoming, next};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineEntry {
    /// When.
    pub at: Time,
    /// The event that caused it; rows of older writers name none.
    pub event: Option<EventId>,
    /// The event's source and type.
    pub source: String,
    /// Who acted, where a person did.
    pub actor: Option<String>,
    /// The billing record, if the entry concerns one.
    pub record: Option<SubscriptionId>,
    /// The status before and after, if it changed.
    pub moved: Option<(&'static str, &'static str)>,
    /// What happened, in a sentence.
    pub sentence: String,
    /// What followed from it: credits granted or taken back.
    pub followed: Vec<String>,
}

/// A timeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline {
    /// What happened, in order.
    pub entries: Vec<TimelineEntry>,
    /// The billing records in their final state.
    pub records: Vec<Record>,
    /// What comes next, soonest first.
    pub next: Vec<Upcoming>,
}

/// What a timeline is built from.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// The history of the billing records, grouped by record, each in order.
    pub history: &'a [History],
    /// Stripe's events.
    pub stripe: &'a [StripeEvent],
    /// The movements of credits.
    pub ledger: &'a [Movement],
    /// The last incomes, for what comes next.
    pub incomes: &'a Incomes,
}

/// Builds a member's timeline up to a time.
#[must_use]
pub fn timeline(sources: &Sources<'_>, rules: &Rules, until: Time) -> Timeline {
    let Sources { history, stripe, ledger, incomes } = *sources;
    let mut story = Timeline::default();
    for rows in history.chunk_by(|a, b| a.record.subscription_id == b.record.subscription_id) {
        let mut before: Option<Record> = None;
        for row in rows.iter().filter(|row| when(row) <= until) {
            // Two workers may both have recorded the same event: take it once.
            if let (Some(before), Some(token)) = (&before, &row.token)
                && before.applied.contains(token)
            {
                continue;
            }
            let after = row.apply_to(before.as_ref());
            story.entries.push(of_record(row, before.as_ref(), &after));
            before = Some(after);
        }
        story.records.extend(before);
    }
    story.entries.extend(stripe.iter().filter(|event| event.created <= until).map(of_stripe));
    story.entries.sort_by(|a, b| (a.at, &a.record, &a.event).cmp(&(b.at, &b.record, &b.event)));
    for movement in ledger.iter().filter(|movement| movement.at <= until) {
        attach(&mut story.entries, movement);
    }
    story.entries.sort_by_key(|entry| entry.at);
    story.records.sort_by_key(|record| record.billing_date.at());
    story.next = next(&story.records, &incomes.until(until), rules, until);
    story
}

fn when(row: &History) -> Time {
    row.record.last_run_date.as_ref().unwrap_or(&row.record.billing_date).at()
}

fn of_record(row: &History, before: Option<&Record>, after: &Record) -> TimelineEntry {
    let was = before.map_or("", |before| before.status().as_str());
    let is = after.status().as_str();
    TimelineEntry {
        at: when(row),
        event: row.event_id.clone(),
        source: row.source.clone(),
        actor: row.record.data.text(attributes::DATA_ACTOR).map(str::to_owned),
        record: Some(after.subscription_id.clone()),
        moved: (was != is).then_some((was, is)),
        sentence: sentences::of_change(row, before, after),
        followed: Vec::new(),
    }
}

fn of_stripe(event: &StripeEvent) -> TimelineEntry {
    TimelineEntry {
        at: event.created,
        event: Some(event.id.clone()),
        source: format!("stripe {}", event.source),
        actor: None,
        record: None,
        moved: None,
        sentence: sentences::of_stripe(&event.fact),
        followed: Vec::new(),
    }
}

/// Attaches a movement of credits to the entry that caused it: its source names the event, or the history
/// row. Consumption, expiry and movements without such an entry become entries of their own.
fn attach(entries: &mut Vec<TimelineEntry>, movement: &Movement) {
    let sentence = sentences::of_movement(movement);
    let row =
        movement.source.as_str().strip_prefix("history ").and_then(|at| dues_events::time::parse(at).ok());
    let caused_it = |entry: &&mut TimelineEntry| match row {
        Some(at) => entry.record.is_some() && entry.at == at,
        None => entry.event.as_ref() == Some(&movement.source),
    };
    let by_itself = matches!(movement.kind, MovementKind::Consume | MovementKind::Expire);
    match entries.iter_mut().find(caused_it).filter(|_| !by_itself) {
        Some(entry) => entry.followed.push(sentence),
        None => entries.push(TimelineEntry {
            at: movement.at,
            event: Some(movement.source.clone()),
            source: format!("credits {}", movement.kind.as_str()),
            actor: None,
            record: None,
            moved: None,
            sentence,
            followed: Vec::new(),
        }),
    }
}
