//! Small pieces that every page has: amounts, times, statuses, links.

use dues_events::record::Status;
use dues_events::{SubscriptionId, Time, UserId};

use super::html::{Html, segment};
pub(super) use crate::output::dollars;
use crate::output::grouped;

/// `2026-04-30 22:00`, in UTC like everything here.
pub(super) fn moment(at: Time) -> String {
    at.format("%Y-%m-%d %H:%M").to_string()
}

/// `2026-04-30`.
pub(super) fn day(at: Time) -> String {
    at.format("%Y-%m-%d").to_string()
}

/// A moment, with all its digits for whoever points at it.
pub(super) fn time(at: Time) -> Html {
    let exact = at.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true);
    Html::of("<time datetime=\"{}\" title=\"{}\">{}</time>", &[&exact, &exact, &moment(at)])
}

/// The colour of a status.
pub(super) fn class(status: Status) -> &'static str {
    match status {
        Status::Scheduled => "scheduled",
        Status::AchSent => "achsent",
        Status::Completed => "completed",
        Status::Error => "error",
        Status::Waived => "waived",
        Status::Cancelled => "cancelled",
        Status::Paused => "paused",
        Status::PausedSkipped => "skipped",
        Status::Refunded => "refunded",
        Status::Stale => "stale",
    }
}

/// What a status means, for whoever meets it first.
pub(super) fn meaning(status: Status) -> &'static str {
    match status {
        Status::Scheduled => "waits for its debit",
        Status::AchSent => "a debit is at the bank",
        Status::Completed => "paid",
        Status::Error => "the latest debit failed",
        Status::Waived => "forgiven",
        Status::Cancelled => "ended before it was paid",
        Status::Paused => "billing rests",
        Status::PausedSkipped => "the pause covered it",
        Status::Refunded => "paid, and paid back",
        Status::Stale => "too old to collect",
    }
}

/// A status as a mark in its colour.
pub(super) fn chip(status: Status) -> Html {
    Html::of("<span class=\"chip s-{}\" title=\"{}\">{}</span>", &[&class(status), &meaning(status), &status.as_str()])
}

/// A status by its name in the tables; what is none is shown as it is.
pub(super) fn named_chip(name: &str) -> Html {
    Status::read(name).map_or_else(|| Html::of("<span class=\"chip\">{}</span>", &[&name]), chip)
}

/// From one status to another.
pub(super) fn moved(from: Option<Status>, to: Status) -> Html {
    match from {
        Some(from) => Html::of("{}<span class=\"to\" aria-label=\"to\">→</span>{}", &[&chip(from), &chip(to)]),
        None => Html::of("<span class=\"new\">new</span>{}", &[&chip(to)]),
    }
}

/// Where a member's page is.
pub(super) fn member_path(user: &UserId) -> String {
    format!("/console/members/{}", segment(user.as_str()))
}

pub(super) fn member_link(user: &UserId) -> Html {
    Html::of("<a href=\"{}\">{}</a>", &[&member_path(user), user])
}

/// A record of a member: the start of its id, which is enough to tell a few apart and to search for.
pub(super) fn record_link(user: &UserId, id: &SubscriptionId) -> Html {
    let path = format!("{}?record={}", member_path(user), segment(id.as_str()));
    Html::of("<a class=\"id\" href=\"{}\" title=\"{}\">{}</a>", &[&path, id, &short(id.as_str())])
}

/// The first letters of a long id.
pub(super) fn short(id: &str) -> String {
    id.chars().take(8).collect()
}

/// A thing and its number: `1 record`, `2 records`.
pub(super) fn count(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_a_colour_of_its_own() {
        let colours: std::collections::BTreeSet<_> = Status::ALL.iter().map(|status| class(*status)).collect();
        assert_eq!(colours.len(), Status::ALL.len());
        let css = include_str!("assets/console.css");
        for colour in colours {
            assert!(css.contains(&format!(".s-{colour}")), "{colour} is not in the style sheet");
        }
    }
}
