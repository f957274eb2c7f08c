//! A member's story: what happened, because of what, and what followed from it, in plain sentences with ids; how things stand, and what comes next.
//!
//! It is told from history alone, as of any time, so that it can be told again.

mod next;
mod sentences;

use dues_events::collect::Rules;
use dues_events::credits::Movement;
use dues_events::record::{History, Record};
use dues_events::stripe::StripeEvent;
use dues_events::{EventId, MovementKind, SubscriptionId, Time};

pub use next::{Next, next};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// When.
    pub at: Time,
    /// The event behind it; rows of older writers name none.
    pub event: Option<EventId>,
    /// Where the event came from and what it was.
    pub source: String,
    /// The billing record, if it is about one.
    pub record: Option<SubscriptionId>,
    /// The status before and after, where it is another.
    pub moved: Option<(&'static str, &'static str)>,
    /// What happened, in a sentence.
    pub sentence: String,
    /// What followed from it: credits that came or went.
    pub followed: Vec<String>,
}

/// A story.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Story {
    /// What happened, in order.
    pub beats: Vec<Beat>,
    /// The billing records as they stood in the end.
    pub records: Vec<Record>,
    /// What comes next, the soonest first.
    pub next: Vec<Next>,
}

/// Tells a member's story up to a time: from the history of the billing records (by record, each in order), from Stripe's events, and from the ledger.
#[must_use]
pub fn story(history: &[History], stripe: &[StripeEvent], ledger: &[Movement], rules: &Rules, until: Time) -> Story {
    let mut story = Story::default();
    for rows in history.chunk_by(|a, b| a.record.subscription_id == b.record.subscription_id) {
        let mut before: Option<Record> = None;
        for row in rows.iter().filter(|row| when(row) <= until) {
            // An event that two workers wrote down at once happened once.
            if let (Some(before), Some(stamp)) = (&before, &row.stamp)
                && before.applied.holds(stamp)
            {
                continue;
            }
            let after = row.onto(before.as_ref());
            story.beats.push(of_record(row, before.as_ref(), &after));
            before = Some(after);
        }
        story.records.extend(before);
    }
    story.beats.extend(stripe.iter().filter(|event| event.created <= until).map(of_stripe));
    story.beats.sort_by(|a, b| (a.at, &a.record, &a.event).cmp(&(b.at, &b.record, &b.event)));
    for movement in ledger.iter().filter(|movement| movement.at <= until) {
        attach(&mut story.beats, movement);
    }
    story.beats.sort_by_key(|beat| beat.at);
    story.records.sort_by_key(|record| record.billing_date.at());
    story.next = next(&story.records, rules, until);
    story
}

fn when(row: &History) -> Time {
    row.record.last_run_date.as_ref().unwrap_or(&row.record.billing_date).at()
}

fn of_record(row: &History, before: Option<&Record>, after: &Record) -> Beat {
    let was = before.map_or("", |before| before.status().as_str());
    let is = after.status().as_str();
    Beat {
        at: when(row),
        event: row.event_id.clone(),
        source: row.source.clone(),
        record: Some(after.subscription_id.clone()),
        moved: (was != is).then_some((was, is)),
        sentence: sentences::of_change(row, before, after),
        followed: Vec::new(),
    }
}

fn of_stripe(event: &StripeEvent) -> Beat {
    Beat {
        at: event.created,
        event: Some(event.id.clone()),
        source: format!("stripe {}", event.source),
        record: None,
        moved: None,
        sentence: sentences::of_stripe(&event.fact),
        followed: Vec::new(),
    }
}

/// Credits belong to what brought them: their source names the event, or the row of history. What nobody else tells of stands by itself.
fn attach(beats: &mut Vec<Beat>, movement: &Movement) {
    let told = sentences::of_movement(movement);
    let row = movement.source.as_str().strip_prefix("history ").and_then(|at| dues_events::time::parse(at).ok());
    let brought_it = |beat: &&mut Beat| match row {
        Some(at) => beat.record.is_some() && beat.at == at,
        None => beat.event.as_ref() == Some(&movement.source),
    };
    let by_itself = matches!(movement.kind, MovementKind::Consume | MovementKind::Expire);
    match beats.iter_mut().find(brought_it).filter(|_| !by_itself) {
        Some(beat) => beat.followed.push(told),
        None => beats.push(Beat {
            at: movement.at,
            event: Some(movement.source.clone()),
            source: format!("credits {}", movement.kind.as_str()),
            record: None,
            moved: None,
            sentence: told,
            followed: Vec::new(),
        }),
    }
}
