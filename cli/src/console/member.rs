//! A member's page: why they were charged, or not, or have this tier. Everything is as of the time that the
//! slider selects; what only the present knows is marked "as of today".

mod cards;
mod time_slider;
mod timeline;

use dues_events::billing::record::{History, Record, Status, membership_status};
use dues_events::{GoTime, SubscriptionId, Time, UserId};
use dues_processors::entitlements::groups::{Directory as _, LocalDirectory};
use dues_processors::operators::explain::{Explanation, explain};
use dues_processors::read_models::Section;
use dues_store::billing::money::{MoneyRow, MoneyStatus};
use maud::{Markup, html};

use super::format::{chip, count, day, dollars, member_path, named_chip, short, status_class};
use super::page::{MenuItem, Page, not_found};
use super::query::{Query, percent_decode, percent_encode};
use super::state_diagram::state_diagram;
use super::{Console, Reply};
use crate::output::Error;
use time_slider::TimeSlider;

/// The data of a member's page.
struct Member {
    explanation: Explanation,
    history: Vec<History>,
    groups: Vec<String>,
    read_models: Vec<Section>,
    /// Unapplied money that names this member and awaits a decision.
    money: Vec<MoneyRow>,
    is_present: bool,
}

pub(super) async fn page(console: &Console, user: &str, query: &Query) -> Result<Reply, Error> {
    let Some(user) = percent_decode(user).filter(|user| !user.is_empty()).map(UserId::from) else {
        return Ok(Reply::Page(not_found("Not a member id.")));
    };
    let present = console.reference_time(&*console.snapshots.current().await);
    let at = match query.time("at") {
        Ok(at) => at,
        Err(why) => return Ok(Reply::Page(not_found(&why))),
    };
    let explain_at = |at| explain(&console.store, &console.tiers, &console.rules, &user, at);
    let whole = explain_at(present.max(console.store.clock.now())).await?;
    if whole.is_empty() && console.store.profile(&user).await?.is_none() {
        return Ok(Reply::Page(not_found(&format!("There is no member {user}."))));
    }
    let slider = TimeSlider::new(&whole, at, present);
    let member = Member {
        explanation: explain_at(slider.at).await?,
        history: console.store.committed_history_of_user(&user).await?,
        groups: groups(console, &user).await?,
        read_models: console.read_models.show(&console.store, &user).await?,
        money: open_money(console, &user).await?,
        is_present: slider.is_present(),
    };
    let record = selected_record(&member.explanation, query.get("record"));
    let body = html! {
        div.head { h1.id { (user) } }
        (slider.form(&member_path(&user), query.get("record")))
        div id="view" { (member.view(record)) }
    };
    Ok(Reply::Page(Page::new(user.as_str(), MenuItem::None, body)))
}

async fn groups(console: &Console, user: &UserId) -> Result<Vec<String>, Error> {
    let groups = LocalDirectory::new(console.store.engine.clone()).groups_of(user, None).await;
    Ok(groups.map_err(|error| Error::Message(format!("groups of {user}: {error}")))?.groups)
}

async fn open_money(console: &Console, user: &UserId) -> Result<Vec<MoneyRow>, Error> {
    let rows = console.store.money_rows(MoneyStatus::Open).await?;
    Ok(rows.into_iter().filter(|row| row.user_id == *user).collect())
}

/// The record of the state diagram: the requested one, else the newest that has left `SCHEDULED`, else the
/// newest.
fn selected_record<'a>(explanation: &'a Explanation, wanted: Option<&str>) -> Option<&'a Record> {
    let records = &explanation.story.records;
    wanted
        .and_then(|wanted| records.iter().find(|record| record.subscription_id.as_str() == wanted))
        .or_else(|| records.iter().rev().find(|record| record.status() != Status::Scheduled))
        .or(records.last())
}

impl Member {
    fn view(&self, record: Option<&Record>) -> Markup {
        let story = &self.explanation.story;
        html! {
            p.state-line {
                span { "Membership" } " " (named_chip(membership_status(&story.records))) " "
                span { "tier" } " " span.chip.tier { (self.explanation.access.tier) } " "
                span {
                    @if let Some(since) = story.records.iter().filter_map(Record::since).min() {
                        "member since " (day(since))
                    }
                }
                " " span { (count(story.entries.len() as u64, "event")) }
            }
            div class="columns-2" {
                div {
                    @if let Some(record) = record { (self.record_card(record)) }
                    (self.timeline())
                }
                div.aside { (self.cards(record)) }
            }
        }
    }

    /// The state of one record, and the transitions that led there.
    fn record_card(&self, record: &Record) -> Markup {
        let transitions = self.transitions(&record.subscription_id);
        html! {
            section.card {
                h2 {
                    "Record " (short(record.subscription_id.as_str())) " "
                    small {
                        "due " (day(record.billing_date.at())) ", " (dollars(record.plan.amount.decimal()))
                        " for " (record.plan.tier.as_str())
                    }
                }
                ul.tabs aria-label="Records" {
                    @for other in &self.explanation.story.records {
                        @let is_selected = other.subscription_id == record.subscription_id;
                        li {
                            a href=(self.path(&other.subscription_id)) aria-current=(is_selected) {
                                i class={ "s-" (status_class(other.status())) } aria-hidden="true" {}
                                (other.period())
                            }
                        }
                    }
                }
                (state_diagram(record.status(), &transitions))
                p.way {
                    @for (n, (_, status)) in transitions.iter().enumerate() {
                        @if n > 0 { "→" }
                        " " (chip(*status)) " "
                    }
                }
            }
        }
    }

    /// The transitions of a record, in order.
    fn transitions(&self, id: &SubscriptionId) -> Vec<(Option<Status>, Status)> {
        let entries = self.explanation.story.entries.iter().filter(|entry| entry.record.as_ref() == Some(id));
        entries
            .filter_map(|entry| {
                let (from, to) = entry.moved?;
                Some((Status::read(from), Status::read(to)?))
            })
            .collect()
    }

    /// This page at the same time, for another record.
    fn path(&self, record: &SubscriptionId) -> String {
        let at = if self.is_present {
            String::new()
        } else {
            format!("&at={}", percent_encode(&exact(self.explanation.at)))
        };
        format!("{}?record={}{at}", member_path(&self.explanation.user), percent_encode(record.as_str()))
    }
}

/// A time in full precision, so that a reload shows the same events.
fn exact(at: Time) -> String {
    GoTime::trimmed(at).text()
}
