//! Elements that every page uses: amounts, times, statuses, links.

use dues_events::billing::record::Status;
use dues_events::money::Currency;
use dues_events::{Money, SubscriptionId, Time, UserId};
use maud::{Markup, html};

use super::query::percent_encode;
pub(super) use crate::output::dollars;
use crate::output::grouped;

/// An amount in its currency: `$4.99`, or `2000.00 JPY`.
pub(super) fn amount(amount: Money, currency: Currency) -> String {
    match currency {
        Currency::USD => dollars(amount.decimal()),
        other => format!("{amount} {other}"),
    }
}

/// `2026-04-30 22:00`, in UTC.
pub(super) fn date_time(at: Time) -> String {
    at.format("%Y-%m-%d %H:%M").to_string()
}

/// `2026-04-30`.
pub(super) fn day(at: Time) -> String {
    at.format("%Y-%m-%d").to_string()
}

/// A `time` element; the tooltip has the full precision.
pub(super) fn time(at: Time) -> Markup {
    let exact = at.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true);
    html! { time datetime=(exact) title=(exact) { (date_time(at)) } }
}

/// The suffix of a status's CSS class.
pub(super) fn status_class(status: Status) -> &'static str {
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

/// A status in a few words, for operators who do not know it yet.
pub(super) fn describe(status: Status) -> &'static str {
    match status {
        Status::Scheduled => "waiting for its debit",
        Status::AchSent => "debit submitted to the bank",
        Status::Completed => "paid",
        Status::Error => "latest debit failed",
        Status::Waived => "waived",
        Status::Cancelled => "cancelled before payment",
        Status::Paused => "billing paused",
        Status::PausedSkipped => "skipped by a pause",
        Status::Refunded => "paid and refunded",
        Status::Stale => "too old to collect",
    }
}

/// A status as a coloured chip.
pub(super) fn chip(status: Status) -> Markup {
    html! { span class={ "chip s-" (status_class(status)) } title=(describe(status)) { (status.as_str()) } }
}

/// A chip for a stored status name; unknown names are shown verbatim.
pub(super) fn named_chip(name: &str) -> Markup {
    Status::read(name).map_or_else(|| html! { span.chip { (name) } }, chip)
}

/// From one status to another.
pub(super) fn transition(from: Option<Status>, to: Status) -> Markup {
    html! {
        @match from {
            Some(from) => { (chip(from)) span.to aria-label="to" { "→" } }
            None => span.new { "new" }
        }
        (chip(to))
    }
}

/// The path of a member's page.
pub(super) fn member_path(user: &UserId) -> String {
    format!("/console/members/{}", percent_encode(user.as_str()))
}

pub(super) fn member_link(user: &UserId) -> Markup {
    html! { a href=(member_path(user)) { (user) } }
}

/// A link to a member's record, labelled with the start of its id, which search accepts too.
pub(super) fn record_link(user: &UserId, id: &SubscriptionId) -> Markup {
    let path = format!("{}?record={}", member_path(user), percent_encode(id.as_str()));
    html! { a.id href=(path) title=(id) { (short(id.as_str())) } }
}

/// The first eight characters of an id.
pub(super) fn short(id: &str) -> String {
    id.chars().take(8).collect()
}

/// A counted noun: `1 record`, `2 records`.
pub(super) fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_own_colour() {
        let classes: std::collections::BTreeSet<_> =
            Status::ALL.iter().map(|status| status_class(*status)).collect();
        assert_eq!(classes.len(), Status::ALL.len());
        let css = include_str!("assets/console.css");
        for class in classes {
            assert!(css.contains(&format!(".s-{class}")), "{class} is not in the style sheet");
        }
    }
}
