//! Parked records: what could not be processed, with the reason and the record itself, and a button that drives one through again.

use chrono::TimeDelta;
use dues_events::{Item, UserId};
use dues_processors::api::decoded_text;
use dues_processors::redrive::Handlers;
use dues_processors::{Context, Fate};
use dues_store::Cursor;
use dues_store::parked::Parked;
use dues_store::table::PARKED;

use super::format::{count, member_link, time};
use super::html::{Html, segment};
use super::page::{Page, Place, missing};
use super::query::Query;
use super::{Answer, Console};
use crate::feeder_run::feeder;
use crate::output::{Error, grouped};
use crate::projector_run::projector;

/// How many are on a page.
const PAGE: u32 = 50;
/// How much of a record is shown.
const SHOWN: usize = 20_000;

/// A page of them.
pub(super) async fn page(console: &Console, query: &Query) -> Result<Answer, Error> {
    let known = console.watch.look().await;
    let (stream, after) = (query.get("stream"), query.get("after"));
    let (parked, next) = console.store.parked_page(stream, after.map(|after| cursor(stream, after)), PAGE).await?;
    let mut body = Html::of("<div class=\"head\"><h1>Parked</h1><p class=\"fresh\">{}</p></div>", &[&count(known.parked(), "record")]);
    body.put(
        "<p class=\"lead\">A record that cannot be understood, or that cannot happen, stops nobody: it waits here, whole, with its reason. \
         Drive it through again when the reason is gone.</p>",
        &[],
    );
    body.add(&told(query));
    body.put(
        "<ul class=\"tabs\" aria-label=\"Streams\"><li><a href=\"/console/parked\" aria-current=\"{}\">all</a></li>",
        &[&here(stream.is_none())],
    );
    for (name, count) in &known.parked {
        body.put(
            "<li><a href=\"/console/parked?stream={}\" aria-current=\"{}\">{} <b>{}</b></a></li>",
            &[&segment(name), &here(stream == Some(name)), name, &grouped(*count)],
        );
    }
    body.put("</ul>", &[]);
    if parked.is_empty() {
        body.put("<p class=\"note\">Nothing is parked here.</p>", &[]);
    }
    for parked in &parked {
        body.add(&card(parked));
    }
    if let (Some(_), Some(last)) = (next, parked.last()) {
        let stream = stream.map_or(String::new(), |stream| format!("&stream={}", segment(stream)));
        let after = segment(&format!("{}/{}", last.stream, last.id));
        body.put("<p><a rel=\"next\" href=\"/console/parked?after={}{}\">More</a></p>", &[&after, &stream]);
    }
    Ok(Answer::Page(Page::new("Parked", Place::Parked, body)))
}

fn here(is: bool) -> &'static str {
    if is { "true" } else { "false" }
}

/// Where a page goes on.
fn cursor(stream: Option<&str>, after: &str) -> Cursor {
    let (of, id) = after.rsplit_once('/').unwrap_or((after, ""));
    let mut place = Item::new();
    place.set_text(PARKED.partition, stream.unwrap_or(of));
    place.set_text("parked_id", id);
    Cursor(place)
}

fn card(parked: &Parked) -> Html {
    let mut html = Html::of(
        "<article class=\"card parked\" id=\"p-{}\"><header><h2>{}</h2><form method=\"post\" action=\"{}\"><button>Redrive</button></form></header><dl class=\"facts\">",
        &[&parked.id, &parked.reason, &format!("/console/parked/{}/{}/redrive", segment(&parked.stream), segment(&parked.id))],
    );
    let mut fact = |name: &str, value: &Html| html.put("<div><dt>{}</dt><dd>{}</dd></div>", &[&name, value]);
    fact("stream", &Html::of("{}", &[&parked.stream]));
    fact("code", &Html::of("{}", &[&parked.code]));
    fact("parked", &time(parked.parked_at));
    if let Some(user) = &parked.user_id {
        fact("member", &member_link(&UserId::from(user.as_str())));
    }
    if let Some(event) = &parked.event_id {
        fact("event", &Html::of("<code>{}</code>", &[event]));
    }
    fact("where", &Html::of("{}", &[&parked.sequence]));
    fact("id", &Html::of("<code>{}</code>", &[&parked.id]));
    let text = String::from_utf8_lossy(&parked.body);
    let shown: String = text.chars().take(SHOWN).collect();
    let cut = if shown.len() < text.len() { "shown in part" } else { "" };
    html.put(
        "</dl><details><summary>The record, {} {}</summary><pre tabindex=\"0\">{}</pre></details></article>",
        &[&count(parked.body.len() as u64, "byte"), &cut, &shown],
    );
    html
}

/// Drives one through, `{stream}/{id}/redrive`, and sends the browser back to the list, which says what became of it.
pub(super) async fn redrive(console: &Console, way: &str) -> Result<Answer, Error> {
    let no_such = || Ok(Answer::Page(missing("This record is not parked any more: somebody else has driven it through.")));
    let Some((stream, id)) = way.strip_suffix("/redrive").and_then(|way| way.rsplit_once('/')) else { return no_such() };
    let (Some(stream), Some(id)) = (decoded_text(stream), decoded_text(id)) else { return no_such() };
    let Some(parked) = console.store.find_parked(&stream, &id).await? else { return no_such() };
    let store = &console.store;
    let handlers = Handlers {
        context: Context { hold: TimeDelta::zero(), read_models: console.read_models.clone(), ..Context::new(store.clone()) },
        collector: console.collector.clone(),
        projector: projector(store)?,
        feeder: feeder(store),
    };
    let fate = handlers.redrive(&parked).await?;
    tracing::info!(stream, parked = id, fate = word(&fate), "redriven from the console");
    Ok(Answer::Elsewhere(format!("/console/parked?redriven={}&fate={}#told", segment(&id), word(&fate))))
}

fn word(fate: &Fate) -> &'static str {
    match fate {
        Fate::Applied => "applied",
        Fate::Duplicate => "duplicate",
        Fate::Ignored => "ignored",
        Fate::Skipped => "skipped",
        Fate::Parked => "parked",
        Fate::Failed(_) => "failed",
    }
}

/// What became of the one that was just driven through.
fn told(query: &Query) -> Html {
    let (Some(id), Some(fate)) = (query.get("redriven"), query.get("fate")) else { return Html::new() };
    let (good, sentence) = match fate {
        "applied" => (true, "went through, and changed what it is about."),
        "duplicate" => (true, "went through: it had been applied before, so nothing happened twice."),
        "ignored" => (true, "went through, and changes nothing; history says why."),
        "skipped" => (true, "went through: it is not for us."),
        "parked" => (false, "stays parked: the reason is still there."),
        _ => (false, "could not be driven through just now; it stays parked."),
    };
    let class = if good { "note good" } else { "note bad" };
    Html::of("<p class=\"{}\" id=\"told\" role=\"status\"><code>{}</code> {}</p>", &[&class, &id, &sentence])
}
