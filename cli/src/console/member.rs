//! A member's page: why were they charged, or not, or given this tier? Everything on it is as of one time, which the slider chooses, except what only
//! the present knows, and that says so.

mod asof;
mod cards;
mod timeline;

use dues_events::record::{History, Record, Status, membership_status};
use dues_events::{GoTime, SubscriptionId, Time, UserId};
use dues_processors::api::decoded_text;
use dues_processors::explain::{Explained, explain};
use dues_processors::groups::{Directory as _, LocalDirectory};
use dues_processors::read_models::Section;

use super::format::{chip, count, day, dollars, member_path, named_chip, short};
use super::html::{Html, segment};
use super::page::{Page, Place, missing};
use super::query::Query;
use super::states;
use super::{Answer, Console};
use crate::output::Error;
use asof::AsOf;

/// What a page is made of.
struct Member {
    told: Explained,
    history: Vec<History>,
    groups: Vec<String>,
    read_models: Vec<Section>,
    /// Whether it is about the present, as far as the console knows it.
    present: bool,
}

pub(super) async fn page(console: &Console, user: &str, query: &Query) -> Result<Answer, Error> {
    let Some(user) = decoded_text(user).filter(|user| !user.is_empty()).map(UserId::from) else {
        return Ok(Answer::Page(missing("That is not a member’s id.")));
    };
    let end = console.reference(&*console.watch.look().await);
    let at = match query.time("at") {
        Ok(at) => at,
        Err(why) => return Ok(Answer::Page(missing(&why))),
    };
    let whole = explain(&console.store, &console.tiers, &console.rules, &user, end.max(console.store.clock.now())).await?;
    if whole.is_empty() && console.store.profile(&user).await?.is_none() {
        return Ok(Answer::Page(missing(&format!("Nothing is known of a member {user}."))));
    }
    let asof = AsOf::new(&whole, at, end);
    let member = Member {
        told: explain(&console.store, &console.tiers, &console.rules, &user, asof.at).await?,
        history: console.store.history_of_user(&user).await?,
        groups: groups(console, &user).await?,
        read_models: console.read_models.show(&console.store, &user).await?,
        present: asof.is_present(),
    };
    let record = chosen(&member.told, query.get("record"));
    let mut body = Html::of("<div class=\"head\"><h1 class=\"id\">{}</h1></div>", &[&user]);
    body.add(&asof.bar(&member_path(&user), query.get("record")));
    body.put("<div id=\"view\">{}</div>", &[&member.view(record)]);
    Ok(Answer::Page(Page::new(user.as_str(), Place::Other, body)))
}

async fn groups(console: &Console, user: &UserId) -> Result<Vec<String>, Error> {
    let groups = LocalDirectory::new(console.store.engine.clone()).groups_of(user, None).await;
    Ok(groups.map_err(|error| Error::Said(format!("groups of {user}: {error}")))?.groups)
}

/// The record that the diagram shows: the one that was asked for, else the newest that something has happened to, else the newest.
fn chosen<'a>(told: &'a Explained, wanted: Option<&str>) -> Option<&'a Record> {
    let records = &told.story.records;
    let wanted = wanted.and_then(|wanted| records.iter().find(|record| record.subscription_id.as_str() == wanted));
    wanted.or_else(|| records.iter().rev().find(|record| record.status() != Status::Scheduled)).or(records.last())
}

impl Member {
    fn view(&self, record: Option<&Record>) -> Html {
        let story = &self.told.story;
        let since =
            story.records.iter().filter_map(Record::since).min().map_or(String::new(), |since| format!("member since {}", day(since)));
        let mut html = Html::of(
            "<p class=\"state-line\"><span>Membership</span> {} <span>tier</span> <span class=\"chip tier\">{}</span> <span>{}</span> <span>{}</span></p>",
            &[&named_chip(membership_status(&story.records)), &self.told.access.tier, &since, &count(story.beats.len() as u64, "event")],
        );
        html.put("<div class=\"columns-2\"><div>", &[]);
        if let Some(record) = record {
            html.add(&self.diagram(record));
        }
        html.add(&self.timeline());
        html.put("</div><div class=\"aside\">{}</div></div>", &[&self.cards(record)]);
        html
    }

    /// Where one record stands, and how it came there.
    fn diagram(&self, record: &Record) -> Html {
        let way = self.way(&record.subscription_id);
        let mut html = Html::of(
            "<section class=\"card\"><h2>Record {} <small>due {}, {} for {}</small></h2>",
            &[
                &short(record.subscription_id.as_str()),
                &day(record.billing_date.at()),
                &dollars(record.plan.amount.decimal()),
                &record.plan.tier.as_str(),
            ],
        );
        html.put("<ul class=\"tabs\" aria-label=\"Records\">", &[]);
        for other in &self.told.story.records {
            let here = if other.subscription_id == record.subscription_id { "true" } else { "false" };
            html.put(
                "<li><a href=\"{}\" aria-current=\"{}\"><i class=\"s-{}\" aria-hidden=\"true\"></i>{}</a></li>",
                &[&self.path(Some(&other.subscription_id)), &here, &super::format::class(other.status()), &other.period()],
            );
        }
        html.put("</ul>{}<p class=\"way\">", &[&states::diagram(record.status(), &way)]);
        for (n, (_, status)) in way.iter().enumerate() {
            let arrow = if n == 0 { "" } else { "→" };
            html.put("{} {} ", &[&arrow, &chip(*status)]);
        }
        html.put("</p></section>", &[]);
        html
    }

    /// The statuses that a record went through until then, in order.
    fn way(&self, id: &SubscriptionId) -> Vec<(Option<Status>, Status)> {
        let mut way: Vec<(Option<Status>, Status)> = Vec::new();
        for beat in self.told.story.beats.iter().filter(|beat| beat.record.as_ref() == Some(id)) {
            if let Some((from, to)) = beat.moved
                && let Some(to) = Status::read(to)
            {
                way.push((Status::read(from), to));
            }
        }
        way
    }

    /// This page at the same time, for another record.
    fn path(&self, record: Option<&SubscriptionId>) -> String {
        let at = if self.present { String::new() } else { format!("&at={}", segment(&exact(self.told.at))) };
        let record = record.map_or("", SubscriptionId::as_str);
        format!("{}?record={}{at}", member_path(&self.told.user), segment(record))
    }
}

/// A time with all its digits, so that a page asked for again has the same events on it.
fn exact(at: Time) -> String {
    GoTime::trimmed(at).text()
}
