//! The overview: money collected and at risk, records by status over the months, what the streams do now, and returns against Nacha's limits.

use dues_events::record::Status;
use dues_projections::return_rates::DAYS;
use dues_store::table::{BILLING_ACTIVITY, BY_STATUS};
use dues_store::{Engine as _, Query as Rows};

use super::chart::{self, Column, Piece};
use super::format::{chip, class, count, day, dollars, member_link, moment, moved};
use super::html::Html;
use super::live::oldest;
use super::page::{Page, Place};
use super::sums::{Cells, cell};
use super::watch::{Move, Snapshot};
use super::{Answer, Console};
use crate::output::{Error, grouped};
use dues_events::{Record, Time};

/// How many months a chart has at the most: the latest.
const MONTHS: usize = 14;
/// Statuses from the bottom of a column to its top: what is paid, what is under way, what went wrong, what has ended.
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

/// Members worth a look, by what their newest such record shows.
const EXAMPLES: [(Status, &str); 4] = [
    (Status::Error, "a debit came back"),
    (Status::Refunded, "paid, and paid back"),
    (Status::Paused, "billing rests"),
    (Status::Cancelled, "left"),
];

pub(super) async fn page(console: &Console) -> Result<Answer, Error> {
    let known = console.watch.look().await;
    let mut body = Html::of("<div class=\"head\"><h1>Overview</h1>{}</div>", &[&freshness(&known)]);
    if let Some(counted) = known.counting {
        body.put(
            "<section class=\"card\" data-reload=\"counted\"><h2>Counting</h2><p class=\"lead\"><b data-live=\"counting\">{}</b> billing records so far. All are counted once; \
             from then on only changes are.</p></section>",
            &[&grouped(counted)],
        );
        return Ok(Answer::Page(Page::new("Overview", Place::Overview, body)));
    }
    if known.sums.records() == 0 {
        body.add(&empty());
    } else {
        body.put(
            "<p class=\"lead\">Each member has one billing record a period. Facts stream in from banks, members and Stripe; each fact moves a record once; \
             tiers, credits and groups follow the money, and go back with it.</p>",
            &[],
        );
    }
    let reference = console.reference(&known);
    if reference != console.store.clock.now() && known.at - reference > super::SILENCE {
        body.put("<p class=\"note\">Nothing has happened since {}: rates and calendar are as of that day.</p>", &[&day(reference)]);
    }
    body.add(&figures(&known));
    body.put("<div class=\"grid\">{}{}</div>", &[&months(&known, reference), &money(&known, reference)]);
    let (left, right) = ([returns(&known, reference), transitions(&known)], [streams(&known), examples(console).await?]);
    body.put("<div class=\"grid stacks\"><div>{}{}</div><div>{}{}</div></div>", &[&left[0], &left[1], &right[0], &right[1]]);
    Ok(Answer::Page(Page::new("Overview", Place::Overview, body)))
}

fn freshness(known: &Snapshot) -> Html {
    Html::of(
        "<p class=\"fresh\"><span id=\"live\" class=\"dot\" aria-hidden=\"true\"></span><span>counted at <span data-live=\"at\">{}</span></span></p>",
        &[&known.at.format("%H:%M:%S").to_string()],
    )
}

fn empty() -> Html {
    Html::of(
        "<section class=\"card\"><h2>There are no billing records yet</h2><p>Make a company to look at with <code>dues demo</code>, or read your own facts: \
         <code>dues ingest --stream memberships members.ndjson</code>.</p></section>",
        &[],
    )
}

/// The figures that matter, each with what it stands for.
fn figures(known: &Snapshot) -> Html {
    let sums = &known.sums;
    let mut html = Html::of("<dl class=\"figures\">", &[]);
    for (name, key, status, word) in [
        ("Collected", "collected", Status::Completed, "paid"),
        ("In flight", "in_flight", Status::AchSent, "at the bank"),
        ("At risk", "at_risk", Status::Error, "failed"),
        ("To come", "waiting", Status::Scheduled, "scheduled"),
    ] {
        let sum = sums.of(status);
        html.put(
            "<div class=\"figure sum-of s-{}\"><dt>{}</dt><dd><b data-live=\"{}\">{}</b><small><span data-live=\"{}\">{}</span> {}</small></dd></div>",
            &[&class(status), &name, &key, &dollars(sum.amount), &format!("{key}_count"), &grouped(sum.count), &word],
        );
    }
    html.put(
        "<div class=\"figure\"><dt>Recovered</dt><dd><b data-live=\"recovered\">{}</b><small>paid later</small></dd></div>\
         <div class=\"figure\"><dt>Barred</dt><dd><b data-live=\"barred\">{}</b><small>no debits</small></dd></div>\
         <div class=\"figure\"><dt>Parked</dt><dd><b data-live=\"parked\">{}</b><small><a href=\"/console/parked\">see why</a></small></dd></div>\
         <div class=\"figure\"><dt>Events</dt><dd><b><span data-live=\"events_s\">{}</span>/s</b><small><span data-live=\"changes_s\">{}</span> changes/s</small></dd></div>",
        &[
            &grouped(sums.recovered.count),
            &grouped(sums.barred.count),
            &grouped(known.parked()),
            &grouped(known.events_a_second),
            &grouped(known.changes_a_second),
        ],
    );
    html.put("</dl>", &[]);
    html
}

/// The months of the charts, the latest ones.
fn latest(known: &Snapshot) -> Vec<((i32, u32), Cells)> {
    let months = &known.sums.months;
    months.iter().skip(months.len().saturating_sub(MONTHS)).map(|(month, cells)| (*month, *cells)).collect()
}

fn name((year, month): (i32, u32)) -> String {
    const NAMES: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let name = NAMES.get(month as usize - 1).copied().unwrap_or("?");
    if month == 1 { format!("{name} {year}") } else { name.to_owned() }
}

fn is_ahead(month: (i32, u32), now: Time) -> bool {
    use chrono::Datelike as _;
    month > (now.year(), now.month())
}

fn months(known: &Snapshot, now: Time) -> Html {
    let months = latest(known);
    let columns: Vec<Column> = months
        .iter()
        .map(|(month, cells)| Column {
            label: name(*month),
            total: grouped(cells.iter().map(|cell| cell.count).sum()),
            parts: STACK
                .iter()
                .map(|status| {
                    let cell = cell(cells, *status);
                    let title = format!("{}: {} {}", name(*month), grouped(cell.count), status.as_str());
                    Piece { class: class(*status), size: cell.count, title }
                })
                .collect(),
            ahead: is_ahead(*month, now),
        })
        .collect();
    let entries: Vec<_> = STACK
        .iter()
        .filter(|status| known.sums.of(**status).count > 0)
        .map(|status| (class(*status), status.as_str().to_owned(), grouped(known.sums.of(*status).count)))
        .collect();
    let mut html = Html::of(
        "<section class=\"card\" id=\"months\" data-refresh><h2>Records by status <small>by the month in which they fall due</small></h2>{}{}",
        &[&chart::columns("Records by status and month", &columns), &chart::legend(&entries)],
    );
    html.put(
        "<details><summary>As a table</summary><div class=\"wide\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">Month</th>",
        &[],
    );
    let used: Vec<Status> = STACK.into_iter().filter(|status| known.sums.of(*status).count > 0).collect();
    for status in &used {
        html.put("<th scope=\"col\" class=\"n\">{}</th>", &[&status.as_str()]);
    }
    html.put("</tr></thead><tbody>", &[]);
    for ((year, month), cells) in &months {
        html.put("<tr><th scope=\"row\">{}</th>", &[&format!("{year}-{month:02}")]);
        for status in &used {
            html.put("<td class=\"n\">{}</td>", &[&grouped(cell(cells, *status).count)]);
        }
        html.put("</tr>", &[]);
    }
    html.put("</tbody></table></div></details></section>", &[]);
    html
}

fn money(known: &Snapshot, now: Time) -> Html {
    const PARTS: [(Status, &str); 4] =
        [(Status::Completed, "collected"), (Status::AchSent, "in flight"), (Status::Error, "at risk"), (Status::Scheduled, "to come")];
    let cents = |amount: rust_decimal::Decimal| {
        use rust_decimal::prelude::ToPrimitive as _;
        (amount * rust_decimal::Decimal::ONE_HUNDRED).to_u64().unwrap_or(0)
    };
    let columns: Vec<Column> = latest(known)
        .iter()
        .map(|(month, cells)| Column {
            label: name(*month),
            total: thousands(cell(cells, if is_ahead(*month, now) { Status::Scheduled } else { Status::Completed }).amount),
            parts: PARTS
                .iter()
                .map(|(status, word)| {
                    let amount = cell(cells, *status).amount;
                    Piece { class: class(*status), size: cents(amount), title: format!("{}: {} {word}", name(*month), dollars(amount)) }
                })
                .collect(),
            ahead: is_ahead(*month, now),
        })
        .collect();
    let entries: Vec<_> =
        PARTS.iter().map(|(status, word)| (class(*status), (*word).to_owned(), dollars(known.sums.of(*status).amount))).collect();
    Html::of(
        "<section class=\"card\" id=\"money\" data-refresh><h2>Money <small>by the month in which it falls due</small></h2>{}{}</section>",
        &[&chart::columns("Money by month", &columns), &chart::legend(&entries)],
    )
}

/// `$9.4k`: as much as fits below a column.
fn thousands(amount: rust_decimal::Decimal) -> String {
    let thousand = rust_decimal::Decimal::ONE_THOUSAND;
    if amount < thousand { format!("${}", amount.round_dp(0)) } else { format!("${}k", (amount / thousand).round_dp(1)) }
}

fn returns(known: &Snapshot, now: Time) -> Html {
    let rates = known.rates(now.date_naive());
    let mut html = Html::of(
        "<section class=\"card\" id=\"returns\" data-refresh><h2>Returns <small>{} in the {} days to {}, against Nacha’s limits</small></h2><dl class=\"rates\">",
        &[&count(rates.debits(), "debit"), &DAYS, &day(now)],
    );
    for (name, returned, percent, limit) in rates.classes() {
        let (word, verdict) = if percent > limit { ("over", "over the limit") } else { ("within", "within the limit") };
        html.put(
            "<div><dt>{}</dt><dd><b>{} %</b> <span class=\"verdict {}\">{}</span>{}<small>{} returned, limit {} %</small></dd></div>",
            &[&name, &percent, &word, &verdict, &chart::gauge(percent, limit), &grouped(returned), &limit],
        );
    }
    html.put("</dl></section>", &[]);
    html
}

fn streams(known: &Snapshot) -> Html {
    let mut html = Html::of(
        "<section class=\"card\"><h2>Streams <small>what waits to be processed</small></h2>{}<table><thead><tr><th scope=\"col\">Stream</th>\
         <th scope=\"col\" class=\"n\">Waiting</th><th scope=\"col\" class=\"n\">Oldest</th></tr></thead><tbody>",
        &[&chart::pulse(&known.pulse)],
    );
    for stream in &known.streams {
        html.put(
            "<tr><th scope=\"row\">{}</th><td class=\"n\" data-live=\"{}\">{}</td><td class=\"n\" data-live=\"{}\">{}</td></tr>",
            &[
                &stream.name,
                &format!("lag_{}", stream.name),
                &grouped(stream.waiting),
                &format!("oldest_{}", stream.name),
                &oldest(stream.oldest),
            ],
        );
    }
    html.put("</tbody></table></section>", &[]);
    html
}

fn transitions(known: &Snapshot) -> Html {
    let mut html = Html::of("<section class=\"card\"><h2>Latest transitions</h2><ol class=\"moves\" id=\"moves\">", &[]);
    for Move { at, user, subscription: _, from, to, amount } in &known.moves {
        html.put(
            "<li><span class=\"when\">{}</span> {} <span class=\"way\">{}</span> <span class=\"n\">{}</span></li>",
            &[&at.map(moment), &member_link(user), &moved(*from, *to), &dollars(amount.decimal())],
        );
    }
    html.put("</ol></section>", &[]);
    html
}

/// The newest member in each of a few statuses, so that a newcomer has somewhere to begin.
async fn examples(console: &Console) -> Result<Html, Error> {
    let mut html = Html::of("<section class=\"card\"><h2>Worth a look</h2><ul class=\"plain\">", &[]);
    for (status, what) in EXAMPLES {
        let newest = Rows { forward: false, limit: Some(1), ..Rows::index(&BILLING_ACTIVITY, BY_STATUS.name, status.as_str()) };
        let page = console.store.engine.query(newest).await?;
        if let Some(record) = page.items.into_iter().find_map(|item| Record::from_item(item).ok()) {
            html.put("<li>{} {} <small>{}</small></li>", &[&chip(status), &member_link(&record.user_id), &what]);
        }
    }
    html.put(
        "</ul><p>A member’s page tells why: every event, what it changed, what followed, and what comes next, as of any time. \
         <a href=\"/console/calendar\">The calendar</a> has what falls due.</p></section>",
        &[],
    );
    Ok(html)
}
