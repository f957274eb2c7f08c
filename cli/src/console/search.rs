//! Search by member, record, transaction or event id. Keys are looked up directly; other ids are searched in
//! history, newest first, in bounded steps.

use dues_events::attributes::{EVENT_ID, PK, SK, TRANSACTION_ID};
use dues_events::billing::record::{History, Record};
use dues_events::{SubscriptionId, UserId, Value};
use dues_store::Condition;
use dues_store::embedded::ScanPage;
use dues_store::entitlements::EVENT_PREFIX;
use dues_store::table::{BILLING_ACTIVITY, BY_SUBSCRIPTION, ENTITLEMENTS, GG_CORE, HISTORY};
use maud::{Markup, html};
use std::collections::BTreeSet;

use super::format::{chip, count, day, dollars, member_link, member_path, named_chip, record_link, time};
use super::page::{MenuItem, Page};
use super::query::{Query, percent_encode};
use super::{Console, Reply};
use crate::output::{Error, grouped};

/// Results listed of each kind.
const MAX_LISTED: u32 = 20;
/// History rows scanned per request.
const MAX_ROWS: u32 = 100_000;
/// Parked records scanned per request.
const MAX_PARKED: u32 = 1000;

pub(super) async fn page(console: &Console, query: &Query) -> Result<Reply, Error> {
    let Some(wanted) = query.get("q") else {
        let body = html! {
            h1 { "Search" }
            p.lead { "By member, record, transaction or event id. Member and record ids may be shortened." }
        };
        return Ok(Reply::Page(Page::new("Search", MenuItem::None, body)));
    };
    if let Some(before) = query.get("before").and_then(|position| position.parse().ok()) {
        return search_history(console, wanted, Some(before)).await;
    }
    if let Some(path) = find_by_key(console, wanted).await? {
        return Ok(Reply::Redirect(path));
    }
    let sections = [members(console, wanted)?, records(console, wanted)?, parked(console, wanted).await?];
    // A prefix of a known id is hardly an event id.
    if sections.iter().all(Option::is_none) {
        return search_history(console, wanted, None).await;
    }
    let found = html! {
        @for section in sections.iter().flatten() { (section) }
        p {
            a href={ "/console/search?q=" (percent_encode(wanted)) "&before=" (u64::MAX) } {
                "Search history for a transaction or event with this id"
            }
        }
    };
    Ok(Reply::Page(results(wanted, &found)))
}

fn results(wanted: &str, found: &Markup) -> Page {
    let body = html! { h1 { "Search" } p.lead { "for " code { (wanted) } } (found) };
    Page { query: wanted.to_owned(), ..Page::new(format!("Search for {wanted}"), MenuItem::None, body) }
}

/// The page of a member, a record, a Stripe object, or an event with its record's id in its own.
async fn find_by_key(console: &Console, wanted: &str) -> Result<Option<String>, Error> {
    let store = &console.store;
    let user = UserId::from(wanted);
    if !store.get_recent_subscriptions(&user, 1).await?.is_empty() || store.profile(&user).await?.is_some() {
        return Ok(Some(member_path(&user)));
    }
    if let Some(owner) = store.owner_of(wanted).await? {
        return Ok(Some(member_path(&owner)));
    }
    let Some(id) = find_uuid(wanted) else { return Ok(None) };
    let record = store.get_by_id(&SubscriptionId::from(id)).await?;
    Ok(record.map(|record| {
        let event = if id == wanted { String::new() } else { format!("#event-{}", percent_encode(wanted)) };
        format!("{}?record={}{event}", member_path(&record.user_id), percent_encode(id))
    }))
}

/// The first UUID in a text.
fn find_uuid(text: &str) -> Option<&str> {
    let is_uuid = |part: &&str| {
        let fits = |(n, byte): (usize, u8)| {
            if matches!(n, 8 | 13 | 18 | 23) { byte == b'-' } else { byte.is_ascii_hexdigit() }
        };
        part.bytes().enumerate().all(fits)
    };
    (0..text.len()).filter_map(|at| text.get(at..at + 36)).find(is_uuid)
}

/// Members by the start of their id.
fn members(console: &Console, wanted: &str) -> Result<Option<Markup>, Error> {
    let engine = &console.store.engine;
    let mut users: BTreeSet<String> =
        engine.partitions(&BILLING_ACTIVITY, wanted, MAX_LISTED)?.into_iter().collect();
    let profiles = engine.partitions(&GG_CORE, &format!("USER#{wanted}"), MAX_LISTED)?;
    users.extend(profiles.iter().filter_map(|name| name.strip_prefix("USER#").map(str::to_owned)));
    Ok((!users.is_empty()).then(|| {
        html! {
            section.card {
                h2 { "Members" }
                ul.plain.cols {
                    @for user in users.iter().take(MAX_LISTED as usize) {
                        li { (member_link(&UserId::from(user.as_str()))) }
                    }
                }
                (truncation_note(users.len()))
            }
        }
    }))
}

/// Records by the start of their id.
fn records(console: &Console, wanted: &str) -> Result<Option<Markup>, Error> {
    let items = console.store.engine.by_uuid_start(
        &BILLING_ACTIVITY,
        BY_SUBSCRIPTION.name,
        &wanted.to_ascii_lowercase(),
        MAX_LISTED,
    )?;
    let records: Vec<Record> = items.into_iter().filter_map(|item| Record::from_item(item).ok()).collect();
    Ok((!records.is_empty()).then(|| {
        html! {
            section.card {
                h2 { "Records" }
                div.wide tabindex="0" {
                    table {
                        tbody {
                            @for record in &records {
                                tr {
                                    td { (record_link(&record.user_id, &record.subscription_id)) }
                                    td { (member_link(&record.user_id)) }
                                    td { "due " (day(record.billing_date.at())) }
                                    td { (chip(record.status())) }
                                    td.n { (dollars(record.plan.amount.decimal())) }
                                }
                            }
                        }
                    }
                }
                (truncation_note(records.len()))
            }
        }
    }))
}

fn truncation_note(found: usize) -> Markup {
    html! {
        @if found >= MAX_LISTED as usize {
            p.note { "The first " (MAX_LISTED) " matches; type more of the id." }
        }
    }
}

/// Parked records by their id, event or member.
async fn parked(console: &Console, wanted: &str) -> Result<Option<Markup>, Error> {
    let (mut parked, _) = console.store.parked_page(None, None, MAX_PARKED).await?;
    let is_wanted = |id: &Option<String>| id.as_deref() == Some(wanted);
    parked.retain(|parked| {
        parked.id.starts_with(wanted) || is_wanted(&parked.event_id) || is_wanted(&parked.user_id)
    });
    Ok((!parked.is_empty()).then(|| {
        html! {
            section.card {
                h2 { "Parked" }
                ul.plain {
                    @for parked in &parked {
                        @let stream = percent_encode(&parked.stream);
                        li {
                            a href={ "/console/parked?stream=" (stream) "#p-" (parked.id) } {
                                (parked.reason)
                            }
                            " " small { (parked.stream) }
                        }
                    }
                }
            }
        }
    }))
}

/// Transactions and events in history, and Stripe events. They have no index, so rows are scanned.
async fn search_history(console: &Console, wanted: &str, before: Option<u64>) -> Result<Reply, Error> {
    let (engine, text, start) = (console.store.engine.clone(), wanted.to_owned(), before.unwrap_or(u64::MAX));
    let scan = tokio::task::spawn_blocking(move || {
        let equals = |name| Condition::Equals(name, Value::text(text.as_str()));
        let filter = Condition::Any(vec![equals(EVENT_ID), equals(TRANSACTION_ID)]);
        let rows = engine.written_before(&HISTORY, start, MAX_ROWS, &filter)?;
        let stripe = if before.is_none() {
            let filter = Condition::Equals(SK, Value::text(format!("{EVENT_PREFIX}{text}")));
            engine.written_before(&ENTITLEMENTS, u64::MAX, MAX_ROWS, &filter)?
        } else {
            ScanPage::default()
        };
        Ok::<_, dues_store::StoreError>((rows, stripe))
    });
    let (rows, stripe) =
        scan.await.map_err(|_| Error::Message("the search was interrupted".to_owned()))??;
    let found: Vec<History> =
        rows.items.into_iter().filter_map(|item| History::from_item(item).ok()).collect();
    let owner = stripe.items.iter().find_map(|item| item.text(PK)?.strip_prefix("USER#").map(UserId::from));
    if let Some(owner) = owner {
        return Ok(Reply::Redirect(format!("{}#event-{}", member_path(&owner), percent_encode(wanted))));
    }
    let records: BTreeSet<&SubscriptionId> = found.iter().map(|row| &row.record.subscription_id).collect();
    if let (1, Some(row)) = (records.len(), found.last()) {
        let event = row
            .event_id
            .as_ref()
            .map_or(String::new(), |event| format!("#event-{}", percent_encode(event.as_str())));
        let record = percent_encode(row.record.subscription_id.as_str());
        return Ok(Reply::Redirect(format!("{}?record={record}{event}", member_path(&row.record.user_id))));
    }
    let body = html! {
        (history_table(&found))
        @match rows.last.filter(|last| *last > 1) {
            Some(last) => p {
                "Searched the newest " (count(u64::from(MAX_ROWS), "change")) "; about " (grouped(last - 1))
                " are older. "
                a href={ "/console/search?q=" (percent_encode(wanted)) "&before=" (last) } { "Continue" }
            }
            None => p { "All of history was searched." }
        }
    };
    Ok(Reply::Page(results(wanted, &body)))
}

fn history_table(rows: &[History]) -> Markup {
    if rows.is_empty() {
        return html! { p.note { "No matches." } };
    }
    html! {
        section.card {
            h2 { "History" }
            div.wide tabindex="0" {
                table {
                    tbody {
                        @for row in rows.iter().take(MAX_LISTED as usize) {
                            tr {
                                td { @if let Some(run) = &row.record.last_run_date { (time(run.at())) } }
                                td { (member_link(&row.record.user_id)) }
                                td { (record_link(&row.record.user_id, &row.record.subscription_id)) }
                                td { (named_chip(row.record.status().as_str())) }
                                td { (row.source) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::find_uuid;

    #[test]
    fn internal_event_ids_contain_their_record_id() {
        let id = "1b4e28ba-2fa1-51d2-883f-0016d3cca427";
        for text in [
            id.to_owned(),
            format!("attempt:{id}-1"),
            format!("due-soon:{id}:2026-02-09T00:00:00Z"),
            format!("ä{id}"),
        ] {
            assert_eq!(find_uuid(&text), Some(id), "{text}");
        }
        assert_eq!(find_uuid("mem-762"), None);
        assert_eq!(find_uuid("1b4e28ba-2fa1-51d2-883f-0016d3cca42"), None);
    }
}
