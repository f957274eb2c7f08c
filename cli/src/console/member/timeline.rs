//! The causal timeline: event, transition, rows, grants, groups; newest first.

use dues_events::GoTime;
use dues_events::record::{History, Status};
use dues_projections::story::Beat;

use super::{Member, exact};
use crate::console::format::{class, member_path, moved, record_link, time};
use crate::console::html::{Html, segment};

/// How many beats are shown: the newest.
const SHOWN: usize = 300;

impl Member {
    pub(super) fn timeline(&self) -> Html {
        let beats = &self.told.story.beats;
        let mut html = Html::of("<section class=\"card\"><h2>What happened <small>newest first</small></h2>", &[]);
        if beats.is_empty() {
            html.put("<p class=\"note\">Nothing had happened by then.</p>", &[]);
        }
        html.put("<ol class=\"story\">", &[]);
        for beat in beats.iter().rev().take(SHOWN) {
            html.add(&self.beat(beat));
        }
        html.put("</ol>", &[]);
        if beats.len() > SHOWN {
            html.put("<p class=\"note\">The newest {} of {}: move the slider for those before.</p>", &[&SHOWN, &beats.len()]);
        }
        html.put("</section>", &[]);
        html
    }

    fn beat(&self, beat: &Beat) -> Html {
        let colour = beat.moved.and_then(|(_, to)| Status::read(to)).map_or("none", class);
        let mut html = Html::of("<li class=\"beat s-{}\"", &[&colour]);
        if let Some(event) = &beat.event {
            html.put(" id=\"event-{}\"", &[event]);
        }
        html.put("><p class=\"when\">{}", &[&time(beat.at)]);
        if let Some((from, to)) = beat.moved
            && let Some(to) = Status::read(to)
        {
            html.put(" {}", &[&moved(Status::read(from), to)]);
        }
        html.put("</p><p class=\"what\">{}</p><ul class=\"then\">", &[&beat.sentence]);
        for turn in self.told.turns_of(beat) {
            html.put("<li class=\"tier\">{}</li>", &[&turn.sentence()]);
        }
        for followed in &beat.followed {
            html.put("<li class=\"credits\">{}</li>", &[followed]);
        }
        html.put("</ul><p class=\"ids\">", &[]);
        if let Some(event) = &beat.event {
            html.put("event <code>{}</code> ", &[event]);
        }
        html.put("<span>{}</span>", &[&beat.source]);
        if let Some(record) = &beat.record {
            html.put(" record {}", &[&record_link(&self.told.user, record)]);
        }
        if let Some(row) = self.row(beat) {
            html.put(" <span title=\"history row {}\">row v{} → v{}</span>", &[&key(row), &row.previous_version, &row.record.version]);
        }
        let then = format!("{}?at={}", member_path(&self.told.user), segment(&exact(beat.at)));
        html.put(" <a class=\"then-link\" href=\"{}\">as of then</a></p></li>", &[&then]);
        html
    }

    /// The row of history behind a beat.
    fn row(&self, beat: &Beat) -> Option<&History> {
        let record = beat.record.as_ref()?;
        self.history.iter().find(|row| {
            row.record.subscription_id == *record
                && row.event_id == beat.event
                && row.record.last_run_date.as_ref().is_some_and(|run| run.at() == beat.at)
        })
    }
}

fn key(row: &History) -> String {
    row.record.last_run_date.as_ref().map(GoTime::text).unwrap_or_default()
}
