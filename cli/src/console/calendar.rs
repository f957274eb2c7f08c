//! The collections calendar: what falls due in the coming weeks, on which day it is collected, and which days banks are closed.

use chrono::{Datelike as _, Days, NaiveDate, NaiveTime, TimeDelta};
use dues_events::calendar::{banking_day_from, holiday, is_banking_day};
use dues_events::record::{Record, Status};
use dues_events::{GoTime, Time};
use std::collections::BTreeMap;

use super::format::{chip, count, day, dollars, member_link, moment, record_link};
use super::html::Html;
use super::page::{Page, Place};
use super::query::Query;
use super::sums::Cell;
use super::{Answer, Console};
use crate::output::{Error, grouped};

/// How many weeks are shown.
const WEEKS: u64 = 6;
/// How many records of a day are listed, and how many scheduled ones are looked at to find them.
const LISTED: usize = 100;
const LOOKED_AT: usize = 50;

pub(super) async fn page(console: &Console, query: &Query) -> Result<Answer, Error> {
    let known = console.watch.look().await;
    let now = match query.time("at") {
        Ok(at) => at.unwrap_or_else(|| console.reference(&known)),
        Err(why) => return Ok(Answer::Page(super::page::missing(&why))),
    };
    let today = now.date_naive();
    let due: BTreeMap<NaiveDate, Cell> = known.sums.due.clone();
    let mut body = Html::of(
        "<div class=\"head\"><h1>Collections calendar</h1><p class=\"fresh\">from {}</p></div><p class=\"lead\">Scheduled records are debited at 08:00 on the day they fall due, or on the \
         next day on which banks are open; failed ones are presented again at 07:00.</p>",
        &[&day(now)],
    );
    if let Some(counted) = known.counting {
        body.put("<p class=\"note\">The records are being counted, {} so far: load this page again in a moment.</p>", &[&grouped(counted)]);
    }
    body.add(&next_runs(console, now, &due).await?);
    body.add(&grid(today, &due));
    if let Some(wanted) = query.get("day") {
        let Ok(wanted) = wanted.parse::<NaiveDate>() else {
            return Ok(Answer::Page(super::page::missing("day: not a day such as 2026-02-01")));
        };
        body.add(&list(console, wanted).await?);
    }
    Ok(Answer::Page(Page::new("Collections calendar", Place::Calendar, body)))
}

/// What the next runs do.
async fn next_runs(console: &Console, now: Time, due: &BTreeMap<NaiveDate, Cell>) -> Result<Html, Error> {
    let failed = console.failed(now).await?;
    let known = console.watch.latest();
    let overdue = due.range(..now.date_naive()).fold(Cell::default(), |sum, (_, cell)| sum.plus(*cell));
    let mut html = Html::of("<dl class=\"figures five\">", &[]);
    let mut figure = |class: &str, name: &str, cell: Cell, what: &str| {
        html.put(
            "<div class=\"figure s-{}\"><dt>{}</dt><dd><b>{}</b><small>{} {}</small></dd></div>",
            &[&class, &name, &dollars(cell.amount), &grouped(cell.count), &what],
        );
    };
    let more = if failed.more { ", of those that were asked about" } else { "" };
    figure("error", "Presented again", failed.again, &format!("on {}{more}", moment(failed.at)));
    figure("cancelled", "Left alone", failed.left, "failed, and may not be presented");
    figure("achsent", "In flight", known.sums.of(Status::AchSent), "settle or return within two banking days");
    figure("scheduled", "Overdue", overdue, "wait for the next run");
    figure("paused", "Paused", known.sums.of(Status::Paused), "rest");
    html.put("</dl>", &[]);
    Ok(html)
}

fn grid(today: NaiveDate, due: &BTreeMap<NaiveDate, Cell>) -> Html {
    let monday = today - Days::new(u64::from(today.weekday().num_days_from_monday()));
    let most = due.values().map(|cell| cell.count).max().unwrap_or(1).max(1);
    let mut html =
        Html::of("<div class=\"calendar\" role=\"table\" aria-label=\"What falls due\"><div class=\"week names\" role=\"row\">", &[]);
    for name in ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"] {
        html.put("<span role=\"columnheader\">{}</span>", &[&name]);
    }
    html.put("</div>", &[]);
    for week in 0..WEEKS {
        html.put("<div class=\"week\" role=\"row\">", &[]);
        let mut sum = Cell::default();
        for n in 0..7 {
            let date = monday + Days::new(week * 7 + n);
            let cell = due.get(&date).copied().unwrap_or_default();
            sum = sum.plus(cell);
            html.add(&square(date, today, cell, most));
        }
        if sum.count > 0 {
            html.put("<p class=\"sum\" role=\"cell\">{} · {}</p>", &[&count(sum.count, "record"), &dollars(sum.amount)]);
        }
        html.put("</div>", &[]);
    }
    html.put("</div>", &[]);
    html
}

/// One day.
fn square(date: NaiveDate, today: NaiveDate, cell: Cell, most: u64) -> Html {
    let mut class = vec!["day"];
    if date == today {
        class.push("today");
    }
    if date < today {
        class.push("past");
    }
    if !is_banking_day(date) {
        class.push("closed");
    }
    if date.day() == 1 {
        class.push("first");
    }
    let label = if date.day() == 1 || date == today { date.format("%-d %b").to_string() } else { date.day().to_string() };
    let mut html = Html::of("<div class=\"{}\" role=\"cell\"><time datetime=\"{}\">{}</time>", &[&class.join(" "), &date, &label]);
    if let Some(holiday) = holiday(date) {
        html.put("<em>{}</em>", &[&holiday.to_string()]);
    } else if !is_banking_day(date) {
        html.put("<em class=\"quiet\">banks closed</em>", &[]);
    }
    if cell.count > 0 {
        html.put(
            "<a href=\"/console/calendar?day={}#list\"><b>{}</b> <span>{}</span></a><svg class=\"bar\" viewBox=\"0 0 1000 4\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect width=\"{}\" height=\"4\"/></svg>",
            &[&date, &count(cell.count, "record"), &dollars(cell.amount), &(cell.count * 1000 / most)],
        );
        let collected = banking_day_from(date);
        if collected != date {
            html.put("<small>debited {}</small>", &[&collected.format("%a %-d").to_string()]);
        }
    }
    html.put("</div>", &[]);
    html
}

/// The records that fall due on a day.
async fn list(console: &Console, wanted: NaiveDate) -> Result<Html, Error> {
    let from = wanted.and_time(NaiveTime::MIN).and_utc();
    let (mut found, mut start, mut whole): (Vec<Record>, _, bool) = (Vec::new(), None, true);
    for page in 0..=LOOKED_AT {
        if page == LOOKED_AT || found.len() > LISTED {
            whole = false;
            break;
        }
        let page = console.store.notification_page(Status::Scheduled, from, from + TimeDelta::days(1), start).await?;
        found.extend(page.records);
        match page.next {
            Some(next) => start = Some(next),
            None => break,
        }
    }
    found.truncate(LISTED);
    found.sort_by(|a, b| (a.billing_date.at(), &a.user_id).cmp(&(b.billing_date.at(), &b.user_id)));
    let mut html =
        Html::of("<section class=\"card\" id=\"list\"><h2>Due on {} <small>debited {}</small></h2>", &[&wanted, &banking_day_from(wanted)]);
    if found.is_empty() {
        html.put("<p>Nothing that was looked at is due then.</p>", &[]);
    } else {
        html.put(
            "<div class=\"wide\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">Member</th><th scope=\"col\">Status</th><th scope=\"col\">Tier</th>\
             <th scope=\"col\" class=\"n\">Amount</th><th scope=\"col\">Cancels</th><th scope=\"col\">Record</th></tr></thead><tbody>",
            &[],
        );
        for record in &found {
            html.put(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td></tr>",
                &[
                    &member_link(&record.user_id),
                    &chip(record.status()),
                    &record.plan.tier.as_str(),
                    &dollars(record.plan.amount.decimal()),
                    &record.cancel_at.as_ref().map(|at| day(GoTime::at(at))),
                    &record_link(&record.user_id, &record.subscription_id),
                ],
            );
        }
        html.put("</tbody></table></div>", &[]);
    }
    if !whole {
        let thousands = LOOKED_AT as u64;
        html.put(
            "<p class=\"note\">The first {} of what was found among {},000 scheduled records; there may be more.</p>",
            &[&LISTED, &thousands],
        );
    }
    html.put("</section>", &[]);
    Ok(html)
}
