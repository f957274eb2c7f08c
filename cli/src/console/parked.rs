//! Parked records: the reason, the record itself, and a button to redrive it.

use dues_events::{Item, UserId};
use dues_processors::runtime::redrive::Handlers;
use dues_processors::{Context, Outcome};
use dues_store::Cursor;
use dues_store::parked::Parked;
use dues_store::table::PARKED;
use maud::{Markup, html};

use super::format::{count, member_link, time};
use super::page::{MenuItem, Page, not_found};
use super::query::{Query, percent_decode, percent_encode};
use super::{Console, Reply};
use crate::local::feeder::feeder;
use crate::local::projector::projector;
use crate::output::{Error, grouped};

/// Records on a page.
const PAGE_SIZE: u32 = 50;
/// Characters of a record that are shown.
const MAX_SHOWN: usize = 20_000;

pub(super) async fn page(console: &Console, query: &Query) -> Result<Reply, Error> {
    let snapshot = console.snapshots.current().await;
    let (stream, after) = (query.get("stream"), query.get("after"));
    let (parked, next) =
        console.store.parked_page(stream, after.map(|after| cursor(stream, after)), PAGE_SIZE).await?;
    let last = next.and(parked.last());
    let body = html! {
        div.head { h1 { "Parked" } p.fresh { (count(snapshot.parked(), "record")) } }
        p.lead {
            "Records that could not be parsed or applied. They block nothing: each is stored here unchanged \
             with its reason. Redrive it once the cause is fixed."
        }
        (redrive_result(query))
        ul.tabs aria-label="Streams" {
            li { a href="/console/parked" aria-current=(stream.is_none()) { "all" } }
            @for (name, count) in &snapshot.parked {
                li {
                    @let is_selected = stream == Some(name);
                    a href={ "/console/parked?stream=" (percent_encode(name)) } aria-current=(is_selected) {
                        (name) " " b { (grouped(*count)) }
                    }
                }
            }
        }
        @if parked.is_empty() { p.note { "No parked records." } }
        @for parked in &parked { (card(parked)) }
        @if let Some(last) = last {
            @let after = percent_encode(&format!("{}/{}", last.stream, last.id));
            p {
                a rel="next" href={
                    "/console/parked?after=" (after)
                    @if let Some(stream) = stream { "&stream=" (percent_encode(stream)) }
                } { "More" }
            }
        }
    };
    Ok(Reply::Page(Page::new("Parked", MenuItem::Parked, body)))
}

/// The position after `{stream}/{id}`.
fn cursor(stream: Option<&str>, after: &str) -> Cursor {
    let (of, id) = after.rsplit_once('/').unwrap_or((after, ""));
    let mut key = Item::new();
    key.set_text(PARKED.partition, stream.unwrap_or(of));
    key.set_text("parked_id", id);
    Cursor(key)
}

fn card(parked: &Parked) -> Markup {
    let text = String::from_utf8_lossy(&parked.body);
    let shown: String = text.chars().take(MAX_SHOWN).collect();
    let path =
        format!("/console/parked/{}/{}/redrive", percent_encode(&parked.stream), percent_encode(&parked.id));
    html! {
        article.card.parked id={ "p-" (parked.id) } {
            header {
                h2 { (parked.reason) }
                form method="post" action=(path) { button { "Redrive" } }
            }
            dl.facts {
                div { dt { "stream" } dd { (parked.stream) } }
                div { dt { "code" } dd { (parked.code) } }
                div { dt { "parked" } dd { (time(parked.parked_at)) } }
                @if let Some(user) = &parked.user_id {
                    div { dt { "member" } dd { (member_link(&UserId::from(user.as_str()))) } }
                }
                @if let Some(event) = &parked.event_id {
                    div { dt { "event" } dd { code { (event) } } }
                }
                div { dt { "position" } dd { (parked.sequence) } }
                div { dt { "id" } dd { code { (parked.id) } } }
            }
            details {
                summary {
                    "Record, " (count(parked.body.len() as u64, "byte"))
                    @if shown.len() < text.len() { ", truncated" }
                }
                pre tabindex="0" { (shown) }
            }
        }
    }
}

/// Redrives `{stream}/{id}/redrive`, and redirects to the list with the outcome.
pub(super) async fn redrive(console: &Console, path: &str) -> Result<Reply, Error> {
    let gone = || Ok(Reply::Page(not_found("This record is no longer parked: it was redriven already.")));
    let Some((stream, id)) = path.strip_suffix("/redrive").and_then(|path| path.rsplit_once('/')) else {
        return gone();
    };
    let (Some(stream), Some(id)) = (percent_decode(stream), percent_decode(id)) else { return gone() };
    let Some(parked) = console.store.find_parked(&stream, &id).await? else { return gone() };
    let store = &console.store;
    let handlers = Handlers {
        context: Context { read_models: console.read_models.clone(), ..Context::new(store.clone()) },
        collector: console.collector.clone(),
        projector: projector(store)?,
        feeder: feeder(store),
    };
    let fate = outcome_name(&handlers.redrive(&parked).await?);
    tracing::info!(stream, parked = id, fate, "redriven from the console");
    Ok(Reply::Redirect(format!("/console/parked?redriven={}&fate={fate}#result", percent_encode(&id))))
}

fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Applied => "applied",
        Outcome::Duplicate => "duplicate",
        Outcome::Ignored => "ignored",
        Outcome::Skipped => "skipped",
        Outcome::Parked => "parked",
        Outcome::Failed(_) => "failed",
    }
}

/// The outcome of the redrive that redirected here.
fn redrive_result(query: &Query) -> Markup {
    let (Some(id), Some(fate)) = (query.get("redriven"), query.get("fate")) else { return html! {} };
    let (is_good, outcome) = match fate {
        "applied" => (true, "applied."),
        "duplicate" => (true, "was applied before; nothing changed."),
        "ignored" => (true, "processed; no change needed. History has the reason."),
        "skipped" => (true, "skipped: not addressed to this system."),
        "parked" => (false, "stays parked: the cause is not fixed."),
        _ => (false, "redrive failed; it stays parked. Try again later."),
    };
    html! {
        p.note.good[is_good].bad[!is_good] id="result" role="status" { code { (id) } " " (outcome) }
    }
}
