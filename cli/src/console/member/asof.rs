//! The time slider: its stops are the moments of the member's story, and the present. Without JavaScript there are links to the moments before and after.

use dues_events::Time;
use dues_events::record::Status;
use dues_processors::explain::Explained;

use super::exact;
use crate::console::format::{class, moment};
use crate::console::html::{Html, segment};

/// How many stops there are at the most: the latest moments.
const STOPS: usize = 400;

/// Which time a page is about, and which others it could be about.
pub(super) struct AsOf {
    pub(super) at: Time,
    /// The moments of the story, oldest first, each with the colour of what happened; the present is the last.
    stops: Vec<(Time, &'static str)>,
    /// The stop at or before that time.
    here: usize,
}

impl AsOf {
    /// With the whole story, the time that was asked for, and the present.
    pub(super) fn new(whole: &Explained, wanted: Option<Time>, present: Time) -> Self {
        let beats = &whole.story.beats;
        let mut stops: Vec<(Time, &'static str)> = Vec::new();
        for beat in beats.iter().skip(beats.len().saturating_sub(STOPS)) {
            let colour = beat.moved.and_then(|(_, to)| Status::read(to)).map_or("none", class);
            match stops.last_mut().filter(|(at, _)| *at == beat.at) {
                // Of several things at one moment, the one that moved a record has the colour.
                Some(stop) if colour != "none" => stop.1 = colour,
                Some(_) => {}
                None => stops.push((beat.at, colour)),
            }
        }
        let end = stops.last().map_or(present, |(last, _)| present.max(*last));
        stops.push((end, "present"));
        let at = wanted.unwrap_or(end);
        let here = stops.iter().rposition(|(stop, _)| *stop <= at).unwrap_or(0);
        Self { at, stops, here }
    }

    /// Whether the page is about the present.
    pub(super) fn is_present(&self) -> bool {
        self.here + 1 == self.stops.len()
    }

    /// The slider, for a page at that path.
    pub(super) fn bar(&self, path: &str, record: Option<&str>) -> Html {
        let last = self.stops.len() - 1;
        let record = record.map_or(String::new(), |record| format!("&record={}", segment(record)));
        let link = |n: usize| {
            let at = if n == last { String::new() } else { format!("at={}", segment(&exact(self.stops[n].0))) };
            format!("{path}?{at}{record}")
        };
        let mut html = Html::of("<form class=\"asof\" action=\"{}\" aria-label=\"As of\">", &[&path]);
        html.put(
            "<div class=\"asof-line\"><label for=\"asof\">As of</label> <output id=\"asof-text\" for=\"asof\">{}</output>",
            &[&self.text()],
        );
        html.put("<span class=\"steps\">", &[]);
        let step = |html: &mut Html, n: Option<usize>, word: &'static str, sign: &'static str, keys: &'static str| match n {
            Some(n) => html.put(
                "<a class=\"step\" data-step=\"{}\" href=\"{}\" aria-keyshortcuts=\"{}\">{} <span>{}</span></a>",
                &[&word, &link(n), &keys, &sign, &word],
            ),
            None => html.put("<span class=\"step off\" data-step=\"{}\">{} <span>{}</span></span>", &[&word, &sign, &word]),
        };
        step(&mut html, self.here.checked_sub(1), "earlier", "←", "[");
        step(&mut html, Some(self.here + 1).filter(|n| *n <= last), "later", "→", "]");
        step(&mut html, (self.here != last).then_some(last), "now", "⇥", "");
        html.put(
            "</span></div><svg class=\"ticks\" viewBox=\"0 0 {} 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
            &[&(last * 10).max(1)],
        );
        for (n, (_, colour)) in self.stops.iter().enumerate() {
            html.put("<line class=\"s-{}\" x1=\"{}\" x2=\"{}\" y1=\"0\" y2=\"10\"/>", &[colour, &(n * 10), &(n * 10)]);
        }
        let stops: Vec<String> = self.stops.iter().map(|(at, _)| exact(*at)).collect();
        html.put(
            "</svg><input id=\"asof\" type=\"range\" min=\"0\" max=\"{}\" value=\"{}\" step=\"1\" aria-valuetext=\"{}\" data-stops=\"{}\" disabled>\
             <noscript><p><label>Time <input name=\"at\" value=\"{}\"></label> <button>Show</button></p></noscript></form>",
            &[&last, &self.here, &self.text(), &stops.join(" "), &exact(self.at)],
        );
        html
    }

    fn text(&self) -> String {
        let place = format!("{} of {}", self.here + 1, self.stops.len());
        if self.is_present() { format!("{}, the present ({place})", moment(self.at)) } else { format!("{} ({place})", moment(self.at)) }
    }
}
