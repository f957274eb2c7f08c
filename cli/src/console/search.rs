//! Search by the id of a member, a record, a transaction or an event. What a key leads to is found at once; for the rest history is looked through, newest
//! first, so many rows at a time.

use dues_events::attr::{EVENT_ID, SK, TRANSACTION_ID};
use dues_events::record::{History, Record};
use dues_events::{SubscriptionId, UserId, Value};
use dues_store::Condition;
use dues_store::embedded::Looked;
use dues_store::entitlements::EVENT_PREFIX;
use dues_store::table::{BILLING_ACTIVITY, BY_SUBSCRIPTION, ENTITLEMENTS, GG_CORE, HISTORY};
use std::collections::BTreeSet;

use super::format::{chip, count, day, dollars, member_link, member_path, named_chip, record_link, time};
use super::html::{Html, segment};
use super::page::{Page, Place};
use super::query::Query;
use super::{Answer, Console};
use crate::output::{Error, grouped};

/// How many of each kind are listed.
const LISTED: u32 = 20;
/// How many rows of history one request looks at.
const ROWS: u32 = 100_000;
/// How many parked records it looks at.
const PARKED: u32 = 1000;

pub(super) async fn page(console: &Console, query: &Query) -> Result<Answer, Error> {
    let Some(wanted) = query.get("q") else {
        let body = Html::of(
            "<h1>Search</h1><p class=\"lead\">By the id of a member, a record, a transaction or an event; the start of a member’s or a record’s id will do.</p>",
            &[],
        );
        return Ok(Answer::Page(Page::new("Search", Place::Other, body)));
    };
    let before = query.get("before").and_then(|place| place.parse().ok());
    if before.is_none()
        && let Some(path) = exact(console, wanted).await?
    {
        return Ok(Answer::Elsewhere(path));
    }
    let mut found = Html::new();
    if before.is_none() {
        found.add(&members(console, wanted)?);
        found.add(&records(console, wanted)?);
        found.add(&parked(console, wanted).await?);
    }
    // What starts like something that was found is hardly an id of an event.
    if found == Html::new() {
        match history(console, wanted, before).await? {
            Answer::Page(page) => return Ok(Answer::Page(page)),
            elsewhere @ Answer::Elsewhere(_) => return Ok(elsewhere),
        }
    }
    let deep = format!("/console/search?q={}&before={}", segment(wanted), u64::MAX);
    found.put("<p><a href=\"{}\">Look through history for a transaction or event with this id</a></p>", &[&deep]);
    Ok(Answer::Page(result(wanted, &found)))
}

fn result(wanted: &str, found: &Html) -> Page {
    let body = Html::of("<h1>Search</h1><p class=\"lead\">for <code>{}</code></p>{}", &[&wanted, found]);
    Page { searched: wanted.to_owned(), ..Page::new(format!("Search for {wanted}"), Place::Other, body) }
}

/// Where a key leads: a member, a record, an object of Stripe's, or an event of ours, whose id names its record.
async fn exact(console: &Console, wanted: &str) -> Result<Option<String>, Error> {
    let store = &console.store;
    let user = UserId::from(wanted);
    if !store.get_recent_subscriptions(&user, 1).await?.is_empty() || store.profile(&user).await?.is_some() {
        return Ok(Some(member_path(&user)));
    }
    if let Some(owner) = store.owner_of(wanted).await? {
        return Ok(Some(member_path(&owner)));
    }
    let Some(id) = uuid_in(wanted) else { return Ok(None) };
    let record = store.get_by_id(&SubscriptionId::from(id)).await?;
    Ok(record.map(|record| {
        let event = if id == wanted { String::new() } else { format!("#event-{}", segment(wanted)) };
        format!("{}?record={}{event}", member_path(&record.user_id), segment(id))
    }))
}

/// The first part of a text that is spelled like a UUID.
fn uuid_in(text: &str) -> Option<&str> {
    let is_uuid = |part: &&str| {
        let fits = |(n, letter): (usize, u8)| if matches!(n, 8 | 13 | 18 | 23) { letter == b'-' } else { letter.is_ascii_hexdigit() };
        part.bytes().enumerate().all(fits)
    };
    (0..text.len()).filter_map(|at| text.get(at..at + 36)).find(is_uuid)
}

/// Members whose ids start like that.
fn members(console: &Console, wanted: &str) -> Result<Html, Error> {
    let engine = &console.store.engine;
    let mut users: BTreeSet<String> = engine.partitions(&BILLING_ACTIVITY, wanted, LISTED)?.into_iter().collect();
    let profiles = engine.partitions(&GG_CORE, &format!("USER#{wanted}"), LISTED)?;
    users.extend(profiles.iter().filter_map(|name| name.strip_prefix("USER#").map(str::to_owned)));
    if users.is_empty() {
        return Ok(Html::new());
    }
    let mut html = Html::of("<section class=\"card\"><h2>Members</h2><ul class=\"plain cols\">", &[]);
    for user in users.iter().take(LISTED as usize) {
        html.put("<li>{}</li>", &[&member_link(&UserId::from(user.as_str()))]);
    }
    html.put("</ul>{}</section>", &[&at_most(users.len())]);
    Ok(html)
}

/// Records whose ids start like that.
fn records(console: &Console, wanted: &str) -> Result<Html, Error> {
    let items = console.store.engine.by_uuid_start(&BILLING_ACTIVITY, BY_SUBSCRIPTION.name, &wanted.to_ascii_lowercase(), LISTED)?;
    let records: Vec<Record> = items.into_iter().filter_map(|item| Record::from_item(item).ok()).collect();
    if records.is_empty() {
        return Ok(Html::new());
    }
    let mut html = Html::of("<section class=\"card\"><h2>Records</h2><div class=\"wide\" tabindex=\"0\"><table><tbody>", &[]);
    for record in &records {
        html.put(
            "<tr><td>{}</td><td>{}</td><td>due {}</td><td>{}</td><td class=\"n\">{}</td></tr>",
            &[
                &record_link(&record.user_id, &record.subscription_id),
                &member_link(&record.user_id),
                &day(record.billing_date.at()),
                &chip(record.status()),
                &dollars(record.plan.amount.decimal()),
            ],
        );
    }
    html.put("</tbody></table></div>{}</section>", &[&at_most(records.len())]);
    Ok(html)
}

fn at_most(found: usize) -> Option<Html> {
    (found >= LISTED as usize).then(|| Html::of("<p class=\"note\">The first {}; type more of it.</p>", &[&LISTED]))
}

/// Parked records with that id, event or member.
async fn parked(console: &Console, wanted: &str) -> Result<Html, Error> {
    let (parked, _) = console.store.parked_page(None, None, PARKED).await?;
    let is_it = |id: &Option<String>| id.as_deref() == Some(wanted);
    let mut html = Html::new();
    for parked in parked.iter().filter(|parked| parked.id.starts_with(wanted) || is_it(&parked.event_id) || is_it(&parked.user_id)) {
        html.put(
            "<li><a href=\"/console/parked?stream={}#p-{}\">{}</a> <small>{}</small></li>",
            &[&segment(&parked.stream), &parked.id, &parked.reason, &parked.stream],
        );
    }
    if html == Html::new() {
        return Ok(html);
    }
    Ok(Html::of("<section class=\"card\"><h2>Parked</h2><ul class=\"plain\">{}</ul></section>", &[&html]))
}

/// Transactions and events, in history and among what Stripe has told: no key leads to them, so the rows are looked through.
async fn history(console: &Console, wanted: &str, before: Option<u64>) -> Result<Answer, Error> {
    let (engine, text, start) = (console.store.engine.clone(), wanted.to_owned(), before.unwrap_or(u64::MAX));
    let looked = tokio::task::spawn_blocking(move || {
        let is = |name| Condition::Equals(name, Value::text(text.as_str()));
        let told = Condition::Equals(SK, Value::text(format!("{EVENT_PREFIX}{text}")));
        let rows = engine.written_before(&HISTORY, start, ROWS, &Condition::Any(vec![is(EVENT_ID), is(TRANSACTION_ID)]))?;
        let stripe = if before.is_none() { engine.written_before(&ENTITLEMENTS, u64::MAX, ROWS, &told)? } else { Looked::default() };
        Ok::<_, dues_store::StoreError>((rows, stripe))
    });
    let (rows, stripe) = looked.await.map_err(|_| Error::Said("the search was cut short".to_owned()))??;
    let found: Vec<History> = rows.items.into_iter().filter_map(|item| History::from_item(item).ok()).collect();
    let owner = stripe.items.iter().find_map(|item| item.text(dues_events::attr::PK)?.strip_prefix("USER#").map(UserId::from));
    if let Some(owner) = owner {
        return Ok(Answer::Elsewhere(format!("{}#event-{}", member_path(&owner), segment(wanted))));
    }
    let records: BTreeSet<&SubscriptionId> = found.iter().map(|row| &row.record.subscription_id).collect();
    if let (1, Some(row)) = (records.len(), found.last()) {
        let event = row.event_id.as_ref().map_or(String::new(), |event| format!("#event-{}", segment(event.as_str())));
        let record = segment(row.record.subscription_id.as_str());
        return Ok(Answer::Elsewhere(format!("{}?record={record}{event}", member_path(&row.record.user_id))));
    }
    let mut html = Html::new();
    if found.is_empty() {
        html.put("<p class=\"note\">Nothing was found.</p>", &[]);
    } else {
        html.put("<section class=\"card\"><h2>History</h2><div class=\"wide\" tabindex=\"0\"><table><tbody>", &[]);
        for row in found.iter().take(LISTED as usize) {
            html.put(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                &[
                    &row.record.last_run_date.as_ref().map(|run| time(run.at())),
                    &member_link(&row.record.user_id),
                    &record_link(&row.record.user_id, &row.record.subscription_id),
                    &named_chip(row.record.status().as_str()),
                    &row.source,
                ],
            );
        }
        html.put("</tbody></table></div></section>", &[]);
    }
    match rows.last.filter(|last| *last > 1) {
        Some(last) => {
            let older = format!("/console/search?q={}&before={last}", segment(wanted));
            html.put(
                "<p>The newest {} were looked through; about {} are older. <a href=\"{}\">Look further</a></p>",
                &[&count(u64::from(ROWS), "change"), &grouped(last - 1), &older],
            );
        }
        None => html.put("<p>All of history was looked through.</p>", &[]),
    }
    Ok(Answer::Page(result(wanted, &html)))
}

#[cfg(test)]
mod tests {
    use super::uuid_in;

    #[test]
    fn an_event_of_ours_names_its_record() {
        let id = "1b4e28ba-2fa1-51d2-883f-0016d3cca427";
        for text in [id.to_owned(), format!("attempt:{id}-1"), format!("due-soon:{id}:2026-02-09T00:00:00Z"), format!("ä{id}")] {
            assert_eq!(uuid_in(&text), Some(id), "{text}");
        }
        assert_eq!(uuid_in("mem-762"), None);
        assert_eq!(uuid_in("1b4e28ba-2fa1-51d2-883f-0016d3cca42"), None);
    }
}
