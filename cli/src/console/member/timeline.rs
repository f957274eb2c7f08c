//! The timeline: event, transition, effects on tier and credits; newest first.

use dues_events::GoTime;
use dues_events::billing::record::{History, Status};
use dues_projections::timeline::TimelineEntry;
use maud::{Markup, html};

use super::{Member, exact};
use crate::console::format::{member_path, record_link, status_class, time, transition};
use crate::console::query::percent_encode;

/// The newest entries are shown.
const MAX_ENTRIES: usize = 300;

impl Member {
    pub(super) fn timeline(&self) -> Markup {
        let entries = &self.explanation.story.entries;
        html! {
            section.card {
                h2 { "What happened " small { "newest first" } }
                @if entries.is_empty() { p.note { "No events at that time." } }
                ol.story {
                    @for entry in entries.iter().rev().take(MAX_ENTRIES) { (self.entry(entry)) }
                }
                @if entries.len() > MAX_ENTRIES {
                    p.note {
                        "The newest " (MAX_ENTRIES) " of " (entries.len()) "; move the slider for older ones."
                    }
                }
            }
        }
    }

    fn entry(&self, entry: &TimelineEntry) -> Markup {
        let moved = entry.moved.and_then(|(from, to)| Some((Status::read(from), Status::read(to)?)));
        let class = moved.map_or("none", |(_, to)| status_class(to));
        let at = percent_encode(&exact(entry.at));
        html! {
            li class={ "entry s-" (class) } id=[entry.event.as_ref().map(|event| format!("event-{event}"))] {
                p.when {
                    (time(entry.at))
                    @if let Some((from, to)) = moved { " " (transition(from, to)) }
                }
                p.what { (entry.sentence) }
                ul.then {
                    @for change in self.explanation.tier_changes_of(entry) { li.tier { (change.sentence()) } }
                    @for effect in &entry.followed { li.credits { (effect) } }
                }
                p.ids {
                    @if let Some(event) = &entry.event { "event " code { (event) } " " }
                    span { (entry.source) }
                    @if let Some(actor) = &entry.actor { " by " span { (actor) } }
                    @if let Some(record) = &entry.record {
                        " record " (record_link(&self.explanation.user, record))
                    }
                    @if let Some(row) = self.history_row(entry) {
                        " " span title={ "history row " (row_key(row)) } {
                            "row v" (row.previous_version) " → v" (row.record.version)
                        }
                    }
                    " " a.then-link href={ (member_path(&self.explanation.user)) "?at=" (at) } {
                        "as of then"
                    }
                }
            }
        }
    }

    /// The history row of an entry.
    fn history_row(&self, entry: &TimelineEntry) -> Option<&History> {
        let record = entry.record.as_ref()?;
        self.history.iter().find(|row| {
            row.record.subscription_id == *record
                && row.event_id == entry.event
                && row.record.last_run_date.as_ref().is_some_and(|run| run.at() == entry.at)
        })
    }
}

fn row_key(row: &History) -> String {
    row.record.last_run_date.as_ref().map(GoTime::text).unwrap_or_default()
}
