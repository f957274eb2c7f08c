//! Unapplied money: what arrived and pays for nothing, why, and forms to apply, refund or dismiss it.

use axum::http::StatusCode;
use dues_events::{Record, SubscriptionId};
use dues_processors::collections::money::MoneyError;
use dues_store::CommitError;
use dues_store::billing::money::{MoneyRow, MoneyStatus};
use maud::{Markup, html};

use super::format::{amount, count, day, dollars, member_link, record_link, time};
use super::page::{MenuItem, Page, not_found};
use super::query::{Query, percent_decode, percent_encode};
use super::{Console, Reply};
use crate::output::Error;

/// Who decides, in history: the console knows sessions, not names.
const ACTOR: &str = "console";
/// Amounts on a page.
const PAGE_SIZE: usize = 50;
/// The longest reason, which history keeps.
const MAX_REASON: usize = 256;

pub(super) async fn page(console: &Console, query: &Query) -> Result<Reply, Error> {
    let result = match query.get("decided") {
        Some(id) => console.store.money_row(id).await?.as_ref().map(decided),
        None => None,
    };
    list(console, query, result.unwrap_or_default()).await.map(Reply::Page)
}

async fn list(console: &Console, query: &Query, result: Markup) -> Result<Page, Error> {
    let status = match query.get("status").map(|status| (status, MoneyStatus::read(status))) {
        Some((unknown, None)) => return Ok(not_found(&format!("No money is {unknown}."))),
        Some((_, Some(status))) => status,
        None => MoneyStatus::Open,
    };
    let skipped = query.get("from").and_then(|from| from.parse().ok()).unwrap_or(0_usize);
    let rows = console.store.money_rows(status).await?;
    let mut cards = Vec::new();
    for row in rows.iter().skip(skipped).take(PAGE_SIZE) {
        cards.push(card(console, row).await?);
    }
    let shown = skipped.saturating_add(PAGE_SIZE);
    let body = html! {
        div.head { h1 { "Money" } p.fresh { (count(rows.len() as u64, "amount")) } }
        p.lead {
            "Money that arrived and pays for nothing. Apply it to a record, refund it, or dismiss it with a \
             reason; a record with open money of its own is not debited."
        }
        (result)
        ul.tabs aria-label="Status" {
            @for other in MoneyStatus::ALL {
                li { a href=(path_of(other)) aria-current=(other == status) { (name(other)) } }
            }
        }
        @if rows.is_empty() { p.note { (nothing(status)) } }
        @for card in &cards { (card) }
        @if shown < rows.len() {
            p { a rel="next" href={ "/console/money?status=" (status.as_str()) "&from=" (shown) } { "More" } }
        }
    };
    Ok(Page::new("Money", MenuItem::Money, body))
}

fn path_of(status: MoneyStatus) -> String {
    match status {
        MoneyStatus::Open => "/console/money".to_owned(),
        MoneyStatus::Applied | MoneyStatus::Refunding | MoneyStatus::Dismissed | MoneyStatus::Gone => {
            format!("/console/money?status={}", status.as_str())
        }
    }
}

fn name(status: MoneyStatus) -> &'static str {
    match status {
        MoneyStatus::Open => "to decide",
        MoneyStatus::Applied => "applied",
        MoneyStatus::Refunding => "refund requested",
        MoneyStatus::Dismissed => "dismissed",
        MoneyStatus::Gone => "resolved by the bank",
    }
}

fn nothing(status: MoneyStatus) -> &'static str {
    match status {
        MoneyStatus::Open => "No unapplied money: everything that arrived pays for something.",
        MoneyStatus::Applied => "No money was applied by hand.",
        MoneyStatus::Refunding => "No refund is under way.",
        MoneyStatus::Dismissed => "No money was dismissed.",
        MoneyStatus::Gone => "No money was returned or refunded, and none turned out to pay for a record.",
    }
}

/// The anchor of a card.
pub(super) fn anchor(row: &MoneyRow) -> String {
    format!("m-{}", percent_encode(&row.id))
}

async fn card(console: &Console, row: &MoneyRow) -> Result<Markup, Error> {
    let records = match row.status {
        MoneyStatus::Open => console.store.list_by_user_id(&row.user_id).await?,
        MoneyStatus::Applied | MoneyStatus::Refunding | MoneyStatus::Dismissed | MoneyStatus::Gone => {
            Vec::new()
        }
    };
    let has_record = row.reports.is_none();
    Ok(html! {
        article.card.parked id=(anchor(row)) {
            header { h2 { (amount(row.amount, row.currency)) ": " (row.reason.as_str()) } }
            dl.facts {
                div { dt { "member" } dd { (member_link(&row.user_id)) } }
                div {
                    dt { "record" }
                    dd {
                        @if has_record { (record_link(&row.user_id, &row.subscription_id)) }
                        @else { code { (row.subscription_id) } }
                    }
                }
                @if let Some(transaction) = &row.transaction_id {
                    div { dt { "transaction" } dd { code { (transaction) } } }
                }
                div { dt { "since" } dd { (time(row.settled_at)) } }
                div { dt { "status" } dd { (name(row.status)) } }
                @if let Some(decision) = &row.decision {
                    div { dt { "decided" } dd { (time(decision.at)) " by " (decision.actor) } }
                    div { dt { "decision" } dd { (decision.note) } }
                }
                div { dt { "id" } dd { code { (row.id) } } }
            }
            @match row.status {
                MoneyStatus::Open => (forms(row, &records)),
                MoneyStatus::Refunding => {
                    p { "The bank reports when the money has gone back. If the gateway's answer was lost:" }
                    div.decide { (refund_form(row, "Ask again")) }
                }
                MoneyStatus::Applied | MoneyStatus::Dismissed | MoneyStatus::Gone => {}
            }
        }
    })
}

fn forms(row: &MoneyRow, records: &[Record]) -> Markup {
    let list = format!("records-{}", percent_encode(&row.id));
    let is_payable = |record: &&Record| record.is_open() && record.plan.amount <= row.amount;
    html! {
        div.decide {
            form method="post" action=(path(row, "apply")) {
                input name="to" list=(list) required aria-label="Record id" placeholder="record id"
                    autocomplete="off";
                datalist id=(list) {
                    @for record in records.iter().filter(is_payable) {
                        option value=(record.subscription_id) { (label(record)) }
                    }
                }
                button { "Apply" }
            }
            (refund_form(row, "Refund"))
            form method="post" action=(path(row, "dismiss")) {
                input name="reason" required maxlength=(MAX_REASON) aria-label="Reason" placeholder="reason"
                    autocomplete="off";
                button { "Dismiss" }
            }
        }
    }
}

fn refund_form(row: &MoneyRow, label: &str) -> Markup {
    html! { form method="post" action=(path(row, "refund")) { button { (label) } } }
}

/// An open record in the list of those that the money could pay.
fn label(record: &Record) -> String {
    format!(
        "{}, {}, due {}",
        record.status().as_str(),
        dollars(record.plan.amount.decimal()),
        day(record.billing_date.at())
    )
}

fn path(row: &MoneyRow, decision: &str) -> String {
    format!("/console/money/{}/{decision}", percent_encode(&row.id))
}

/// Carries out `{id}/apply`, `{id}/refund` or `{id}/dismiss`, and redirects to the list. A decision that is
/// not possible is answered with the list and the reason.
pub(super) async fn decide(console: &Console, path: &str, form: &Query) -> Result<Reply, Error> {
    let missing = || Ok(Reply::Page(not_found("There is no such unapplied money.")));
    let Some((id, decision)) = path.rsplit_once('/') else { return missing() };
    let Some(id) = percent_decode(id) else { return missing() };
    let collector = &console.collector;
    let result = match (decision, form.get("to"), form.get("reason")) {
        ("apply", Some(to), _) => collector.apply_money(&id, &SubscriptionId::from(to), ACTOR).await,
        ("refund", ..) => collector.refund_money(&id, ACTOR).await,
        ("dismiss", _, Some(reason)) if reason.len() <= MAX_REASON => {
            collector.dismiss_money(&id, reason, ACTOR).await
        }
        ("apply", None, _) => Err(MoneyError::Impossible("Name the record to pay.".to_owned())),
        ("dismiss", ..) => {
            Err(MoneyError::Impossible(format!("Give a reason of at most {MAX_REASON} bytes.")))
        }
        _ => return missing(),
    };
    let error = match result {
        Ok(row) => {
            let status = row.status.as_str();
            tracing::info!(money = id, decision, status, "decided from the console");
            return Ok(Reply::Redirect(format!("/console/money?decided={}#result", percent_encode(&id))));
        }
        Err(error) => error,
    };
    let status = match error {
        MoneyError::Unknown(_) => return missing(),
        MoneyError::Commit(CommitError::Store(error)) => return Err(error.into()),
        MoneyError::Unknowable(_) => StatusCode::SERVICE_UNAVAILABLE,
        MoneyError::Decided { .. }
        | MoneyError::Impossible(_)
        | MoneyError::InvalidAmount(_)
        | MoneyError::Refused(_)
        | MoneyError::Commit(CommitError::Rejected(_)) => StatusCode::CONFLICT,
    };
    let result = html! { p.note.bad id="result" role="alert" { code { (id) } ": " (error) } };
    let page = list(console, &Query::parse(""), result).await?;
    Ok(Reply::Page(Page { status, ..page }))
}

/// The result of the decision that redirected here.
fn decided(row: &MoneyRow) -> Markup {
    let is_good = row.status != MoneyStatus::Open;
    html! {
        p.note.good[is_good].bad[!is_good] id="result" role="status" {
            code { (row.id) } ": " (amount(row.amount, row.currency)) ", " (name(row.status)) "."
        }
    }
}
