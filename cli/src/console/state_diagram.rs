//! The state diagram of a billing record: ten states, their transitions, and the path one record took.

use dues_events::billing::record::Status;
use maud::{Markup, html};
use std::collections::BTreeSet;

use super::format::{describe, status_class};

/// The size of a state, in SVG units.
const WIDTH: i32 = 118;
const HEIGHT: i32 = 34;

/// Transitions and their SVG paths. Closing an unpaid record is one arrow from [`OPEN`] to [`CLOSED`].
const ARROWS: [(Status, Status, &str); 14] = [
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
    (Status::Paused, Status::Scheduled, "M72 253 C40 210 40 120 76 82"),
    (Status::Paused, Status::PausedSkipped, "M179 271 H256"),
    (Status::Completed, Status::Error, "M584 126 C500 178 340 178 184 166"),
    (Status::Completed, Status::Refunded, "M649 108 H743"),
];

/// Records that are still to be collected can be waived, cancelled, or become stale.
const OPEN: [Status; 3] = [Status::Scheduled, Status::Error, Status::Paused];
const CLOSED: [Status; 3] = [Status::Waived, Status::Cancelled, Status::Stale];
const CLOSING: &str = "M206 224 H676 V240";

/// The centre of a state.
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

/// Draws all states and transitions: the current state highlighted, past ones and the transitions between
/// them marked.
pub(super) fn state_diagram(current: Status, transitions: &[(Option<Status>, Status)]) -> Markup {
    let taken: BTreeSet<(Status, Status)> =
        transitions.iter().filter_map(|(from, to)| Some(((*from)?, *to))).collect();
    let past: BTreeSet<Status> = transitions.iter().map(|(_, to)| *to).collect();
    let is_closed = taken.iter().any(|(from, to)| OPEN.contains(from) && CLOSED.contains(to));
    let mut arrows: Vec<(bool, &'static str)> =
        ARROWS.iter().map(|(from, to, path)| (taken.contains(&(*from, *to)), *path)).collect();
    arrows.push((is_closed, CLOSING));
    // Taken transitions are drawn last, over the others.
    arrows.sort();
    html! {
        div.wide tabindex="0" role="group" aria-label="State diagram" {
            svg.states viewBox="0 0 880 316" role="img"
                aria-label={ "The record is " (current.as_str()) ": " (describe(current)) } {
                defs {
                    @for (id, is_taken) in [("tip", false), ("tip-went", true)] {
                        marker.went[is_taken] id=(id) viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"
                            markerHeight="7" orient="auto" { path d="M0 0L8 4L0 8z" {} }
                    }
                }
                rect.group x="34" y="20" width="172" height="290" rx="10" {}
                text.group x="44" y="36" { "to be collected" }
                rect.group x="462" y="240" width="410" height="70" rx="10" {}
                text.group x="472" y="255" { "closed, unpaid" }
                @for (is_taken, path) in arrows {
                    path.arrow.went[is_taken] d=(path)
                        marker-end=(if is_taken { "url(#tip-went)" } else { "url(#tip)" }) {}
                }
                @for status in Status::ALL {
                    @let (x, y) = middle(status);
                    @let phase = if status == current {
                        "now"
                    } else if past.contains(&status) {
                        "been"
                    } else {
                        "other"
                    };
                    g class={ "state " (phase) " s-" (status_class(status)) } {
                        title { (status.as_str()) ": " (describe(status)) }
                        rect x=(x - WIDTH / 2) y=(y - HEIGHT / 2) width=(WIDTH) height=(HEIGHT) rx="7" {}
                        text x=(x) y=(y + 4) { (status.as_str()) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The module documentation of `decide` has the table of changes; its own tests verify it. What the bank
    /// reports follows from the attempts together: the diagram draws the usual ways.
    #[test]
    fn arrows_match_the_state_table() {
        let mut expected = BTreeSet::new();
        for line in include_str!("../../../events/src/billing/decide.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("//! "))
        {
            // The statuses of a line stand together, separated by commas.
            let words: Vec<&str> = line.split_whitespace().collect();
            let of_line = words.iter().take_while(|word| word.ends_with(',')).count() + 1;
            let status = |word: &&str| Status::read(word.trim_end_matches(','));
            for from in words.iter().take(of_line).filter_map(status) {
                let to = words.iter().skip(of_line).filter_map(status).filter(|to| *to != from);
                expected.extend(to.map(|to| (from, to)));
            }
        }
        assert_eq!(expected.len(), 14, "the table of changes: {expected:?}");
        expected.extend([
            (Status::Scheduled, Status::Completed),
            (Status::Scheduled, Status::Error),
            (Status::AchSent, Status::Completed),
            (Status::AchSent, Status::Error),
            (Status::AchSent, Status::Refunded),
            (Status::Error, Status::Completed),
            (Status::Error, Status::Refunded),
            (Status::Completed, Status::Error),
            (Status::Completed, Status::Refunded),
        ]);
        let mut drawn: BTreeSet<_> = ARROWS.iter().map(|(from, to, _)| (*from, *to)).collect();
        drawn.extend(OPEN.iter().flat_map(|from| CLOSED.iter().map(|to| (*from, *to))));
        assert_eq!(drawn, expected);
    }

    #[test]
    fn one_state_is_current() {
        let drawn = state_diagram(
            Status::Error,
            &[(None, Status::Scheduled), (Some(Status::Scheduled), Status::Error)],
        )
        .into_string();
        assert_eq!(drawn.matches("state now").count(), 1);
        assert_eq!(drawn.matches("state been").count(), 1);
        assert_eq!(drawn.matches("arrow went").count(), 1);
        assert!(drawn.contains("state now s-error"));
    }
}
