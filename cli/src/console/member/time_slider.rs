//! The time slider: one stop per moment of the timeline, and the present. Without JavaScript, links lead to
//! the previous and next stop.

use dues_events::Time;
use dues_events::billing::record::Status;
use dues_processors::operators::explain::Explanation;
use maud::{Markup, html};

use super::exact;
use crate::console::format::{date_time, status_class};
use crate::console::query::percent_encode;

/// The latest moments get a stop.
const MAX_STOPS: usize = 400;

/// The time that a page is about, and the other stops.
pub(super) struct TimeSlider {
    pub(super) at: Time,
    /// Oldest first, each with a colour class; the last is the present.
    stops: Vec<(Time, &'static str)>,
    /// The index of the last stop that is not after `at`.
    position: usize,
}

impl TimeSlider {
    pub(super) fn new(whole: &Explanation, wanted: Option<Time>, present: Time) -> Self {
        let entries = &whole.story.entries;
        let mut stops: Vec<(Time, &'static str)> = Vec::new();
        for entry in entries.iter().skip(entries.len().saturating_sub(MAX_STOPS)) {
            let class = entry.moved.and_then(|(_, to)| Status::read(to)).map_or("none", status_class);
            match stops.last_mut().filter(|(at, _)| *at == entry.at) {
                // Of several entries at one moment, a transition sets the colour.
                Some(stop) if class != "none" => stop.1 = class,
                Some(_) => {}
                None => stops.push((entry.at, class)),
            }
        }
        let end = stops.last().map_or(present, |(last, _)| present.max(*last));
        stops.push((end, "present"));
        let at = wanted.unwrap_or(end);
        let position = stops.iter().rposition(|(stop, _)| *stop <= at).unwrap_or(0);
        Self { at, stops, position }
    }

    pub(super) fn is_present(&self) -> bool {
        self.position + 1 == self.stops.len()
    }

    /// The slider, for the page at `path`.
    pub(super) fn form(&self, path: &str, record: Option<&str>) -> Markup {
        let last = self.stops.len() - 1;
        let record = record.map_or(String::new(), |record| format!("&record={}", percent_encode(record)));
        let link = |n: usize| match n == last {
            true => format!("{path}?{record}"),
            false => format!("{path}?at={}{record}", percent_encode(&exact(self.stops[n].0))),
        };
        let steps = [
            (self.position.checked_sub(1), "earlier", "←", "["),
            (Some(self.position + 1).filter(|n| *n <= last), "later", "→", "]"),
            ((self.position != last).then_some(last), "now", "⇥", ""),
        ];
        let stops: Vec<String> = self.stops.iter().map(|(at, _)| exact(*at)).collect();
        html! {
            form.asof action=(path) aria-label="As of" {
                div.asof-line {
                    label for="asof" { "As of" } " "
                    output id="asof-text" for="asof" { (self.label()) }
                    span.steps {
                        @for (stop, name, sign, key) in steps {
                            @if let Some(stop) = stop {
                                a.step data-step=(name) href=(link(stop)) aria-keyshortcuts=(key) {
                                    (sign) " " span { (name) }
                                }
                            } @else {
                                span.step.off data-step=(name) { (sign) " " span { (name) } }
                            }
                        }
                    }
                }
                svg.ticks viewBox={ "0 0 " ((last * 10).max(1)) " 10" } preserveAspectRatio="none"
                    aria-hidden="true" {
                    @for (n, (_, class)) in self.stops.iter().enumerate() {
                        line class={ "s-" (class) } x1=(n * 10) x2=(n * 10) y1="0" y2="10" {}
                    }
                }
                input id="asof" type="range" min="0" max=(last) value=(self.position) step="1"
                    aria-valuetext=(self.label()) data-stops=(stops.join(" ")) disabled;
                noscript {
                    p { label { "Time " input name="at" value=(exact(self.at)); } " " button { "Show" } }
                }
            }
        }
    }

    fn label(&self) -> String {
        let present = if self.is_present() { ", the present" } else { "" };
        format!("{}{present} ({} of {})", date_time(self.at), self.position + 1, self.stops.len())
    }
}
