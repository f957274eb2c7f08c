//! The collections calendar: records by due date, the day they are debited, and bank holidays.

use chrono::{Datelike as _, Days, NaiveDate, NaiveTime, TimeDelta};
use dues_events::Time;
use dues_events::billing::record::{Record, Status};
use dues_events::calendar::{banking_day_from, holiday, is_banking_day};
use maud::{Markup, html};
use std::collections::BTreeMap;

use super::aggregates::Cell;
use super::format::{chip, count, date_time, day, dollars, member_link, record_link};
use super::page::{MenuItem, Page, not_found};
use super::query::Query;
use super::snapshots::Snapshot;
use super::{Console, Reply};
use crate::output::{Error, grouped};

/// Weeks shown.
const WEEKS: u64 = 6;
/// Records listed for a day, and index pages (of 1,000 scheduled records) read to find them.
const MAX_LISTED: usize = 100;
const MAX_PAGES: usize = 50;

pub(super) async fn page(console: &Console, query: &Query) -> Result<Reply, Error> {
    let snapshot = console.snapshots.current().await;
    let now = match query.time("at") {
        Ok(at) => at.unwrap_or_else(|| console.reference_time(&snapshot)),
        Err(why) => return Ok(Reply::Page(not_found(&why))),
    };
    let Ok(selected) = query.get("day").map(str::parse::<NaiveDate>).transpose() else {
        return Ok(Reply::Page(not_found("day: not a date such as 2026-02-01")));
    };
    let body = html! {
        div.head { h1 { "Collections calendar" } p.fresh { "from " (day(now)) } }
        p.lead {
            "Scheduled records are debited at 08:00 on their due date, or on the next banking day; failed \
             ones are retried at 07:00."
        }
        @if let Some(counted) = snapshot.counting {
            p.note { "Counting records, " (grouped(counted)) " so far: reload in a moment." }
        }
        (next_runs(console, &snapshot, now).await?)
        (grid(now.date_naive(), &snapshot.aggregates.due))
        @if let Some(selected) = selected { (due_on(console, selected).await?) }
    };
    Ok(Reply::Page(Page::new("Collections calendar", MenuItem::Calendar, body)))
}

/// What the next runs do.
async fn next_runs(console: &Console, snapshot: &Snapshot, now: Time) -> Result<Markup, Error> {
    let retry = console.next_retry(now).await?;
    let aggregates = &snapshot.aggregates;
    let overdue =
        aggregates.due.range(..now.date_naive()).fold(Cell::default(), |sum, (_, cell)| sum.plus(*cell));
    let sample = if retry.is_partial { ", of those checked" } else { "" };
    let later = match retry.planned.count {
        0 => String::new(),
        count => format!("; {} planned for later days", grouped(count)),
    };
    let figures = [
        ("error", "Retried", retry.collected, format!("on {}{sample}{later}", date_time(retry.at))),
        ("cancelled", "Not retried", retry.left, "failed, not eligible".to_owned()),
        (
            "achsent",
            "In flight",
            aggregates.of(Status::AchSent),
            "settle or return within two banking days".to_owned(),
        ),
        ("scheduled", "Overdue", overdue, "waiting for the next run".to_owned()),
        ("paused", "Paused", aggregates.of(Status::Paused), "not billed".to_owned()),
    ];
    Ok(html! {
        dl.figures.five {
            @for (class, name, cell, what) in &figures {
                div class={ "figure s-" (class) } {
                    dt { (name) }
                    dd { b { (dollars(cell.amount)) } small { (grouped(cell.count)) " " (what) } }
                }
            }
        }
    })
}

fn grid(today: NaiveDate, due: &BTreeMap<NaiveDate, Cell>) -> Markup {
    let monday = today - Days::new(u64::from(today.weekday().num_days_from_monday()));
    let highest = due.values().map(|cell| cell.count).max().unwrap_or(1).max(1);
    html! {
        div.calendar role="table" aria-label="Records by due date" {
            div.week.names role="row" {
                @for name in ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"] {
                    span role="columnheader" { (name) }
                }
            }
            @for week in 0..WEEKS {
                @let days = (0..7).map(|n| monday + Days::new(week * 7 + n));
                @let cells: Vec<(NaiveDate, Cell)> =
                    days.map(|date| (date, due.get(&date).copied().unwrap_or_default())).collect();
                @let total = cells.iter().fold(Cell::default(), |sum, (_, cell)| sum.plus(*cell));
                div.week role="row" {
                    @for (date, cell) in cells { (square(date, today, cell, highest)) }
                    @if total.count > 0 {
                        p.sum role="cell" { (count(total.count, "record")) " · " (dollars(total.amount)) }
                    }
                }
            }
        }
    }
}

/// One day of the grid.
fn square(date: NaiveDate, today: NaiveDate, cell: Cell, highest: u64) -> Markup {
    let (is_first, is_open) = (date.day() == 1, is_banking_day(date));
    let label = if is_first || date == today { "%-d %b" } else { "%-d" };
    let debited = banking_day_from(date);
    html! {
        div.day.today[date == today].past[date < today].closed[!is_open].first[is_first] role="cell" {
            time datetime=(date) { (date.format(label)) }
            @if let Some(holiday) = holiday(date) {
                em { (holiday) }
            } @else if !is_open {
                em.quiet { "banks closed" }
            }
            @if cell.count > 0 {
                a href={ "/console/calendar?day=" (date) "#list" } {
                    b { (count(cell.count, "record")) } " " span { (dollars(cell.amount)) }
                }
                svg.bar viewBox="0 0 1000 4" preserveAspectRatio="none" aria-hidden="true" {
                    rect width=(cell.count * 1000 / highest) height="4" {}
                }
                @if debited != date { small { "debited " (debited.format("%a %-d")) } }
            }
        }
    }
}

/// The scheduled records that are due on a day.
async fn due_on(console: &Console, date: NaiveDate) -> Result<Markup, Error> {
    let from = date.and_time(NaiveTime::MIN).and_utc();
    let (mut found, mut start, mut is_complete): (Vec<Record>, _, bool) = (Vec::new(), None, true);
    for page in 0..=MAX_PAGES {
        if page == MAX_PAGES || found.len() > MAX_LISTED {
            is_complete = false;
            break;
        }
        let page = console
            .store
            .notification_page(Status::Scheduled, from, from + TimeDelta::days(1), start)
            .await?;
        found.extend(page.records);
        match page.next {
            Some(next) => start = Some(next),
            None => break,
        }
    }
    found.truncate(MAX_LISTED);
    found.sort_by(|a, b| (a.billing_date.at(), &a.user_id).cmp(&(b.billing_date.at(), &b.user_id)));
    Ok(html! {
        section.card id="list" {
            h2 { "Due on " (date) " " small { "debited " (banking_day_from(date)) } }
            @if found.is_empty() {
                p { "No scheduled records are due on this day." }
            } @else {
                (table(&found))
            }
            @if !is_complete {
                p.note {
                    "The first " (MAX_LISTED) " matches among " (MAX_PAGES) ",000 scheduled records; \
                     there may be more."
                }
            }
        }
    })
}

fn table(records: &[Record]) -> Markup {
    html! {
        div.wide tabindex="0" {
            table {
                thead {
                    tr {
                        th scope="col" { "Member" }
                        th scope="col" { "Status" }
                        th scope="col" { "Tier" }
                        th.n scope="col" { "Amount" }
                        th scope="col" { "Cancels" }
                        th scope="col" { "Record" }
                    }
                }
                tbody {
                    @for record in records {
                        tr {
                            td { (member_link(&record.user_id)) }
                            td { (chip(record.status())) }
                            td { (record.plan.tier.as_str()) }
                            td.n { (dollars(record.plan.amount.decimal())) }
                            td { @if let Some(at) = &record.cancel_at { (day(at.at())) } }
                            td { (record_link(&record.user_id, &record.subscription_id)) }
                        }
                    }
                }
            }
        }
    }
}
