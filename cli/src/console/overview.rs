//! The overview: money collected and at risk, records by status and month, stream lag, and return rates
//! against Nacha's limits.

use chrono::Datelike as _;
use dues_events::billing::record::Status;
use dues_events::{Record, Time};
use dues_projections::collections::return_rates::DAYS;
use dues_store::table::{BILLING_ACTIVITY, BY_STATUS};
use dues_store::{Engine as _, Order, Query as Rows};
use maud::{Markup, html};
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive as _;

use super::aggregates::{Cells, cell};
use super::chart::{self, Column, Part};
use super::format::{chip, count, date_time, day, dollars, member_link, status_class, transition};
use super::live_updates::waiting_time;
use super::page::{MenuItem, Page};
use super::snapshots::Snapshot;
use super::{Console, Reply};
use crate::output::{Error, grouped};

/// Charts show the latest months.
const MAX_MONTHS: usize = 14;
/// Statuses of a column from bottom to top: paid, in progress, failed, ended.
const STACK: [Status; 10] = [
    Status::Completed,
    Status::Refunded,
    Status::Waived,
    Status::AchSent,
    Status::Scheduled,
    Status::Paused,
    Status::Error,
    Status::PausedSkipped,
    Status::Stale,
    Status::Cancelled,
];

/// Statuses for which the overview links an example.
const EXAMPLES: [(Status, &str); 4] = [
    (Status::Error, "a debit was returned"),
    (Status::Refunded, "paid and refunded"),
    (Status::Paused, "billing paused"),
    (Status::Cancelled, "cancelled"),
];

pub(super) async fn page(console: &Console) -> Result<Reply, Error> {
    let snapshot = console.snapshots.current().await;
    let reference = console.reference_time(&snapshot);
    let body = html! {
        div.head {
            h1 { "Overview" }
            p.fresh {
                span.dot id="live" aria-hidden="true" {}
                span { "counted at " span data-live="at" { (snapshot.at.format("%H:%M:%S")) } }
            }
        }
        @if let Some(counted) = snapshot.counting {
            section.card data-reload="counted" {
                h2 { "Counting" }
                p.lead {
                    b data-live="counting" { (grouped(counted)) }
                    " billing records so far. This runs once; afterwards only changes are counted."
                }
            }
        } @else {
            @if snapshot.aggregates.records() == 0 {
                (getting_started())
            } @else {
                p.lead {
                    "One billing record per member and period. Events from banks, members and Stripe each \
                     move a record once; tiers, credits and groups follow the payments, and are reversed \
                     with them."
                }
            }
            @if reference != console.store.clock.now() && snapshot.at - reference > super::SILENCE {
                p.note {
                    "No activity since " (day(reference)) ": return rates and calendar are as of that day."
                }
            }
            @if snapshot.unapplied_money > 0 {
                p.note.bad {
                    "Money arrived that pays for nothing: "
                    a href="/console/money" { (count(snapshot.unapplied_money, "decision")) } " to make."
                }
            }
            (figures(&snapshot))
            div.grid { (months(&snapshot, reference)) (money(&snapshot, reference)) }
            div.grid.stacks {
                div { (returns(&snapshot, reference)) (transitions(&snapshot)) }
                div { (streams(&snapshot)) (examples(console).await?) }
            }
        }
    };
    Ok(Reply::Page(Page::new("Overview", MenuItem::Overview, body)))
}

fn getting_started() -> Markup {
    html! {
        section.card {
            h2 { "There are no billing records yet" }
            p {
                "Generate a sample company with " code { "dues demo" } ", or ingest your own events: "
                code { "dues ingest --stream memberships members.ndjson" } "."
            }
        }
    }
}

/// The key figures, each with its unit.
fn figures(snapshot: &Snapshot) -> Markup {
    let aggregates = &snapshot.aggregates;
    let amounts = [
        ("Collected", "collected", Status::Completed, "paid"),
        ("In flight", "in_flight", Status::AchSent, "at the bank"),
        ("At risk", "at_risk", Status::Error, "failed"),
        ("Upcoming", "waiting", Status::Scheduled, "scheduled"),
    ];
    let counts = [
        ("Recovered", "recovered", aggregates.recovered.count, html! { "paid after a retry" }),
        ("Barred", "barred", aggregates.barred.count, html! { "no debits" }),
        ("Parked", "parked", snapshot.parked(), html! { a href="/console/parked" { "see why" } }),
    ];
    html! {
        dl.figures {
            @for (name, key, status, unit) in amounts {
                @let cell = aggregates.of(status);
                div class={ "figure sum-of s-" (status_class(status)) } {
                    dt { (name) }
                    dd {
                        b data-live=(key) { (dollars(cell.amount)) }
                        small { span data-live={ (key) "_count" } { (grouped(cell.count)) } " " (unit) }
                    }
                }
            }
            @for (name, key, number, unit) in counts {
                div.figure { dt { (name) } dd { b data-live=(key) { (grouped(number)) } small { (unit) } } }
            }
            div.figure {
                dt { "Events" }
                dd {
                    b { span data-live="events_s" { (grouped(snapshot.events_per_second)) } "/s" }
                    small {
                        span data-live="changes_s" { (grouped(snapshot.changes_per_second)) } " changes/s"
                    }
                }
            }
        }
    }
}

/// The months of the charts.
fn latest_months(snapshot: &Snapshot) -> Vec<((i32, u32), Cells)> {
    let months = &snapshot.aggregates.months;
    let first = months.len().saturating_sub(MAX_MONTHS);
    months.iter().skip(first).map(|(month, cells)| (*month, *cells)).collect()
}

fn month_name((year, month): (i32, u32)) -> String {
    const NAMES: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let name = NAMES.get(month as usize - 1).copied().unwrap_or("?");
    if month == 1 { format!("{name} {year}") } else { name.to_owned() }
}

fn is_ahead(month: (i32, u32), now: Time) -> bool {
    month > (now.year(), now.month())
}

fn months(snapshot: &Snapshot, now: Time) -> Markup {
    let months = latest_months(snapshot);
    let part = |month, cells, status: Status| {
        let cell = cell(cells, status);
        let title = format!("{}: {} {}", month_name(month), grouped(cell.count), status.as_str());
        Part { class: status_class(status), size: cell.count, title }
    };
    let columns: Vec<Column> = months
        .iter()
        .map(|(month, cells)| Column {
            label: month_name(*month),
            total: grouped(cells.iter().map(|cell| cell.count).sum()),
            parts: STACK.iter().map(|status| part(*month, cells, *status)).collect(),
            ahead: is_ahead(*month, now),
        })
        .collect();
    let total = |status| snapshot.aggregates.of(status).count;
    let used: Vec<Status> = STACK.into_iter().filter(|status| total(*status) > 0).collect();
    let entries: Vec<_> =
        used.iter().map(|status| (status_class(*status), status.as_str(), grouped(total(*status)))).collect();
    html! {
        section.card id="months" data-refresh {
            h2 { "Records by status " small { "by due month" } }
            (chart::columns("Records by status and month", &columns))
            (chart::legend(&entries))
            details {
                summary { "As a table" }
                div.wide tabindex="0" {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Month" }
                                @for status in &used { th.n scope="col" { (status.as_str()) } }
                            }
                        }
                        tbody {
                            @for ((year, month), cells) in &months {
                                tr {
                                    th scope="row" { (format!("{year}-{month:02}")) }
                                    @for status in &used { td.n { (grouped(cell(cells, *status).count)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn money(snapshot: &Snapshot, now: Time) -> Markup {
    const PARTS: [(Status, &str); 4] = [
        (Status::Completed, "collected"),
        (Status::AchSent, "in flight"),
        (Status::Error, "at risk"),
        (Status::Scheduled, "upcoming"),
    ];
    let part = |month, cells, (status, label): (Status, &str)| {
        let amount = cell(cells, status).amount;
        Part {
            class: status_class(status),
            size: (amount * Decimal::ONE_HUNDRED).to_u64().unwrap_or(0),
            title: format!("{}: {} {label}", month_name(month), dollars(amount)),
        }
    };
    let columns: Vec<Column> = latest_months(snapshot)
        .iter()
        .map(|(month, cells)| {
            let ahead = is_ahead(*month, now);
            let status = if ahead { Status::Scheduled } else { Status::Completed };
            Column {
                label: month_name(*month),
                total: thousands(cell(cells, status).amount),
                parts: PARTS.iter().map(|entry| part(*month, cells, *entry)).collect(),
                ahead,
            }
        })
        .collect();
    let entries = PARTS
        .map(|(status, label)| (status_class(status), label, dollars(snapshot.aggregates.of(status).amount)));
    html! {
        section.card id="money" data-refresh {
            h2 { "Money " small { "by due month" } }
            (chart::columns("Money by month", &columns))
            (chart::legend(&entries))
        }
    }
}

/// `$9.4k`, short enough for a column.
fn thousands(amount: Decimal) -> String {
    if amount < Decimal::ONE_THOUSAND {
        format!("${}", amount.round_dp(0))
    } else {
        format!("${}k", (amount / Decimal::ONE_THOUSAND).round_dp(1))
    }
}

fn returns(snapshot: &Snapshot, now: Time) -> Markup {
    let rates = snapshot.return_rates(now.date_naive());
    html! {
        section.card id="returns" data-refresh {
            h2 {
                "Returns "
                small {
                    (count(rates.debits(), "debit")) " in the " (DAYS) " days to " (day(now))
                    ", against Nacha’s limits"
                }
            }
            dl.rates {
                @for (name, returned, percent, limit) in rates.classes() {
                    @let verdict = if percent > limit { "over" } else { "within" };
                    div {
                        dt { (name) }
                        dd {
                            b { (percent) " %" } " "
                            span class={ "verdict " (verdict) } { (verdict) " the limit" }
                            (chart::gauge(percent, limit))
                            small { (grouped(returned)) " returned, limit " (limit) " %" }
                        }
                    }
                }
            }
        }
    }
}

fn streams(snapshot: &Snapshot) -> Markup {
    html! {
        section.card {
            h2 { "Streams " small { "records waiting to be processed" } }
            (chart::sparkline(&snapshot.events_history))
            table {
                thead {
                    tr {
                        th scope="col" { "Stream" }
                        th.n scope="col" { "Waiting" }
                        th.n scope="col" { "Oldest" }
                    }
                }
                tbody {
                    @for stream in &snapshot.streams {
                        tr {
                            th scope="row" { (stream.name) }
                            td.n data-live={ "lag_" (stream.name) } { (grouped(stream.waiting)) }
                            td.n data-live={ "oldest_" (stream.name) } {
                                (waiting_time(stream.oldest_millis))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn transitions(snapshot: &Snapshot) -> Markup {
    html! {
        section.card {
            h2 { "Latest transitions" }
            ol.moves id="moves" {
                @for change in &snapshot.transitions {
                    li {
                        span.when { @if let Some(at) = change.at { (date_time(at)) } } " "
                        (member_link(&change.user)) " "
                        span.way { (transition(change.from, change.to)) } " "
                        span.n { (dollars(change.amount.decimal())) }
                    }
                }
            }
        }
    }
}

/// The newest member in each of [`EXAMPLES`].
async fn examples(console: &Console) -> Result<Markup, Error> {
    let mut examples = Vec::new();
    for (status, what) in EXAMPLES {
        let newest = Rows {
            order: Order::Descending,
            limit: Some(1),
            ..Rows::index(&BILLING_ACTIVITY, BY_STATUS.name, status.as_str())
        };
        let page = console.store.engine.query(newest).await?;
        let record = page.items.into_iter().find_map(|item| Record::from_item(item).ok());
        examples.extend(record.map(|record| (status, record.user_id, what)));
    }
    Ok(html! {
        section.card {
            h2 { "Examples" }
            ul.plain {
                @for (status, user, what) in &examples {
                    li { (chip(*status)) " " (member_link(user)) " " small { (what) } }
                }
            }
            p {
                "A member’s page lists every event, what it changed, its effects and what comes next, as of \
                 any time. The "
                a href="/console/calendar" { "calendar" } " lists upcoming due dates."
            }
        }
    })
}
