//! The state diagram of a billing record: ten states and their arrows, where one record stands and the way it went.

use dues_events::record::Status;
use std::collections::BTreeSet;

use super::format::{class, meaning};
use super::html::Html;

/// The size of a state.
const WIDTH: i32 = 118;
const TALL: i32 = 34;

/// Arrows from one state to another, and how they are drawn. Closing an unpaid record is one arrow for all: see [`OPEN`] and [`CLOSED`].
const ARROWS: [(Status, Status, &str); 15] = [
    (Status::Scheduled, Status::AchSent, "M179 62 C230 62 240 100 294 104"),
    (Status::Scheduled, Status::Completed, "M179 50 C330 14 500 20 566 88"),
    (Status::Scheduled, Status::Error, "M112 77 V147"),
    (Status::Scheduled, Status::Paused, "M61 66 C24 110 24 220 58 264"),
    (Status::AchSent, Status::Completed, "M413 108 H527"),
    (Status::AchSent, Status::Error, "M310 126 C290 150 240 158 184 160"),
    (Status::AchSent, Status::Refunded, "M354 91 C400 24 700 20 790 88"),
    (Status::Error, Status::AchSent, "M179 170 C270 172 320 160 342 130"),
    (Status::Error, Status::Completed, "M179 177 C340 200 480 190 562 130"),
    (Status::Error, Status::Refunded, "M179 181 C420 222 700 210 792 130"),
    (Status::Error, Status::Paused, "M112 181 V253"),
    (Status::Paused, Status::Scheduled, "M72 253 C40 210 40 120 76 82"),
    (Status::Paused, Status::PausedSkipped, "M179 271 H256"),
    (Status::Completed, Status::Error, "M584 126 C500 178 340 178 184 166"),
    (Status::Completed, Status::Refunded, "M649 108 H743"),
];

/// What is still to be collected can be forgiven, cancelled, or grow too old.
const OPEN: [Status; 3] = [Status::Scheduled, Status::Error, Status::Paused];
const CLOSED: [Status; 3] = [Status::Waived, Status::Cancelled, Status::Stale];
const CLOSING: &str = "M206 224 H676 V240";

/// Where the middle of a state is.
fn middle(status: Status) -> (i32, i32) {
    match status {
        Status::Scheduled => (120, 60),
        Status::Error => (120, 164),
        Status::Paused => (120, 271),
        Status::PausedSkipped => (320, 271),
        Status::AchSent => (354, 108),
        Status::Completed => (590, 108),
        Status::Refunded => (806, 108),
        Status::Waived => (536, 275),
        Status::Cancelled => (676, 275),
        Status::Stale => (806, 275),
    }
}

/// Draws the states, those that a record has been in and its way between them marked, the one that it is in lit.
pub(super) fn diagram(now: Status, way: &[(Option<Status>, Status)]) -> Html {
    let went: BTreeSet<(Status, Status)> = way.iter().filter_map(|(from, to)| Some(((*from)?, *to))).collect();
    let been: BTreeSet<Status> = way.iter().map(|(_, to)| *to).collect();
    let mut html = Html::of(
        "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"State diagram\"><svg class=\"states\" viewBox=\"0 0 880 316\" role=\"img\" aria-label=\"The record is {}: {}\"><defs>",
        &[&now.as_str(), &meaning(now)],
    );
    for (id, kind) in [("tip", ""), ("tip-went", "went")] {
        html.put(
            "<marker id=\"{}\" class=\"{}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/></marker>",
            &[&id, &kind],
        );
    }
    html.put("</defs><rect class=\"group\" x=\"34\" y=\"20\" width=\"172\" height=\"290\" rx=\"10\"/><text class=\"group\" x=\"44\" y=\"36\">to be collected</text>", &[]);
    html.put("<rect class=\"group\" x=\"462\" y=\"240\" width=\"410\" height=\"70\" rx=\"10\"/><text class=\"group\" x=\"472\" y=\"255\">closed, unpaid</text>", &[]);
    let closed = went.iter().any(|(from, to)| OPEN.contains(from) && CLOSED.contains(to));
    // The way that was taken is drawn last, over the others.
    let mut arrows: Vec<(bool, &'static str)> = ARROWS.iter().map(|(from, to, path)| (went.contains(&(*from, *to)), *path)).collect();
    arrows.push((closed, CLOSING));
    arrows.sort();
    for (went, path) in arrows {
        let (class, tip) = if went { ("arrow went", "url(#tip-went)") } else { ("arrow", "url(#tip)") };
        html.put("<path class=\"{}\" d=\"{}\" marker-end=\"{}\"/>", &[&class, &path, &tip]);
    }
    for status in Status::ALL {
        let (x, y) = middle(status);
        let how = if status == now {
            "now"
        } else if been.contains(&status) {
            "been"
        } else {
            "other"
        };
        html.put(
            "<g class=\"state {} s-{}\"><title>{}: {}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"7\"/><text x=\"{}\" y=\"{}\">{}</text></g>",
            &[
                &how,
                &class(status),
                &status.as_str(),
                &meaning(status),
                &(x - WIDTH / 2),
                &(y - TALL / 2),
                &WIDTH,
                &TALL,
                &x,
                &(y + 4),
                &status.as_str(),
            ],
        );
    }
    html.put("</svg></div>", &[]);
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of `decide` has the state table, which its own tests hold it to.
    #[test]
    fn the_arrows_are_those_of_the_state_table() {
        let mut expected = BTreeSet::new();
        for line in include_str!("../../../events/src/decide.rs").lines().filter_map(|line| line.strip_prefix("//! ")) {
            let mut words = line.split_whitespace();
            let Some(from) = words.next().and_then(Status::read) else { continue };
            expected
                .extend(words.filter_map(|word| Status::read(word.trim_end_matches("+bar"))).filter(|to| *to != from).map(|to| (from, to)));
        }
        assert!(expected.len() > 20, "the table is not there any more: {expected:?}");
        let mut drawn: BTreeSet<_> = ARROWS.iter().map(|(from, to, _)| (*from, *to)).collect();
        drawn.extend(OPEN.iter().flat_map(|from| CLOSED.iter().map(|to| (*from, *to))));
        assert_eq!(drawn, expected);
    }

    #[test]
    fn one_state_is_lit() {
        let drawn = diagram(Status::Error, &[(None, Status::Scheduled), (Some(Status::Scheduled), Status::Error)]).into_string();
        assert_eq!(drawn.matches("state now").count(), 1);
        assert_eq!(drawn.matches("state been").count(), 1);
        assert_eq!(drawn.matches("arrow went").count(), 1);
        assert!(drawn.contains("state now s-error"));
    }
}
