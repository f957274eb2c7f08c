//! The cards next to the timeline: access, next steps, records, unapplied money, credits, Stripe, read
//! models, parked records.

use dues_events::billing::record::{Record, Status};
use dues_projections::entitlements::access::Source;
use maud::{Markup, html};

use super::Member;
use crate::console::format::{amount, chip, date_time, day, dollars, short, status_class, time};
use crate::console::money::anchor;
use crate::console::query::percent_encode;
use crate::output;

/// The newest credit movements are listed.
const MAX_MOVEMENTS: usize = 40;

impl Member {
    pub(super) fn cards(&self, selected: Option<&Record>) -> Markup {
        html! {
            (self.access())
            (self.next())
            (self.records(selected))
            (self.money())
            (self.credits())
            (self.stripe())
            (self.read_models())
            (self.parked())
        }
    }

    fn access(&self) -> Markup {
        let access = &self.explanation.access;
        let until = match (&access.until, access.source) {
            (Some(until), _) => day(until.at()),
            (None, Source::FounderPass) => "for life".to_owned(),
            (None, Source::Subscription | Source::Dues | Source::Profile | Source::Default) => "–".to_owned(),
        };
        let groups = if self.groups.is_empty() { "none".to_owned() } else { self.groups.join(", ") };
        html! {
            section.card id="access" {
                h2 { "Access" }
                p.big { span.chip.tier { (access.tier) } }
                p { (sentence(&access.why)) }
                dl.facts {
                    div { dt { "from" } dd { (access.source.as_str()) } }
                    div { dt { "until" } dd { (until) } }
                    div { dt { "groups today" } dd { (groups) } }
                }
            }
        }
    }

    fn next(&self) -> Markup {
        let upcoming = &self.explanation.story.next;
        html! {
            section.card id="next" {
                h2 { "What comes next" }
                @if upcoming.is_empty() {
                    p { "Nothing is scheduled for this member." }
                } @else {
                    ol.plain.next {
                        @for step in upcoming {
                            li {
                                span.when {
                                    (step.at.map_or_else(|| "needs action".to_owned(), date_time))
                                } " "
                                (step.sentence) " " small.id { (short(step.record.as_str())) }
                            }
                        }
                    }
                }
            }
        }
    }

    fn records(&self, selected: Option<&Record>) -> Markup {
        let records = &self.explanation.story.records;
        let selected = selected.map(|record| &record.subscription_id);
        html! {
            section.card {
                h2 { "Billing records " small { (records.len()) } }
                div.wide tabindex="0" {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Due" }
                                th scope="col" { "Status" }
                                th.n scope="col" { "Amount" }
                                th scope="col" { "Record" }
                            }
                        }
                        tbody {
                            @for record in records.iter().rev() {
                                @let id = &record.subscription_id;
                                tr.here[selected == Some(id)] {
                                    td { (day(record.billing_date.at())) }
                                    td { (chip(record.status())) (status_details(record)) }
                                    td.n { (dollars(record.plan.amount.decimal())) }
                                    td { a.id href=(self.path(id)) title=(id) { (short(id.as_str())) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn money(&self) -> Markup {
        html! {
            @if !self.money.is_empty() {
                section.card id="money" {
                    h2 { "Unapplied money " small { "as of today" } }
                    ul.plain {
                        @for row in &self.money {
                            li {
                                a href={ "/console/money#" (anchor(row)) } {
                                    (amount(row.amount, row.currency))
                                }
                                ", " (row.reason.as_str()) ", since " (day(row.settled_at)) " "
                                small.id { (short(row.subscription_id.as_str())) }
                            }
                        }
                    }
                }
            }
        }
    }

    fn credits(&self) -> Markup {
        let balances = self.explanation.ledger.iter().scan(0, |balance, movement| {
            *balance += movement.amount;
            Some((movement, *balance))
        });
        let rows: Vec<_> = balances.collect();
        html! {
            section.card id="credits" {
                h2 { "Credits " small { "the balance is the sum of the ledger" } }
                p.big { (self.explanation.credits) }
                @if !rows.is_empty() {
                    div.wide tabindex="0" {
                        table {
                            thead {
                                tr {
                                    th scope="col" { "When" }
                                    th scope="col" { "What" }
                                    th.n scope="col" { "Credits" }
                                    th.n scope="col" { "Balance" }
                                }
                            }
                            tbody {
                                @for (movement, balance) in rows.iter().rev().take(MAX_MOVEMENTS) {
                                    @let is_debit = movement.amount < 0;
                                    tr {
                                        td { (time(movement.at)) }
                                        td title=(movement.id) { (movement.kind.as_str()) }
                                        td.n.less[is_debit].more[!is_debit] {
                                            (format!("{:+}", movement.amount))
                                        }
                                        td.n { (balance) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn stripe(&self) -> Markup {
        let (passes, subscriptions) = (&self.explanation.passes, &self.explanation.subscriptions);
        html! {
            @if !(passes.is_empty() && subscriptions.is_empty()) {
                section.card {
                    h2 { "Stripe" }
                    ul.plain {
                        @for pass in passes {
                            li {
                                span.chip.tier { (pass.tier) } " " (pass.kind.to_string()) ", bought "
                                (day(pass.purchased_at.at())) " " small.id { (pass.payment.as_str()) }
                            }
                        }
                        @for subscription in subscriptions {
                            li {
                                span.chip.tier { (subscription.tier) } " " (subscription.status.to_string())
                                @if let Some(end) = &subscription.period_end {
                                    ", paid until " (day(end.at()))
                                }
                                " " small.id { (subscription.id.as_str()) }
                            }
                        }
                    }
                }
            }
        }
    }

    fn read_models(&self) -> Markup {
        html! {
            @for section in self.read_models.iter().filter(|section| !section.lines.is_empty()) {
                section.card {
                    h2 { (section.model.name()) " " small { "as of today" } }
                    ul.plain { @for line in &section.lines { li { (line) } } }
                }
            }
        }
    }

    fn parked(&self) -> Markup {
        let parked = &self.explanation.parked;
        html! {
            @if !parked.is_empty() {
                section.card {
                    h2 { "Parked " small { "as of today" } }
                    ul.plain {
                        @for parked in parked {
                            @let stream = percent_encode(&parked.stream);
                            @let path = format!("/console/parked?stream={stream}#p-{}", parked.id);
                            li { a href=(path) { (parked.reason) } }
                        }
                    }
                }
            }
        }
    }
}

/// What an operator has to know besides the status: bars, planned cancellation, refunds, unapplied money.
fn status_details(record: &Record) -> Markup {
    let text = output::status_text(record);
    let details = text.strip_prefix(record.status().as_str()).unwrap_or_default().trim();
    let class = if record.bar.is_some() { status_class(Status::Error) } else { "none" };
    html! {
        @if !details.is_empty() { " " small class={ "s-" (class) } { (details) } }
    }
}

/// A reason as a sentence.
fn sentence(why: &str) -> String {
    let mut chars = why.chars();
    chars.next().map_or(String::new(), |first| format!("{}{}.", first.to_uppercase(), chars.as_str()))
}
