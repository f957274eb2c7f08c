//! What stands beside the timeline: access, what comes next, credits, records, what Stripe and the read models know.

use dues_events::credits::Movement;
use dues_events::record::{Record, Status};
use dues_projections::access::Source;

use super::Member;
use crate::console::format::{chip, class, day, dollars, moment, short, time};
use crate::console::html::{Html, segment};
use crate::output;

/// How many movements of credits are listed: the newest.
const MOVEMENTS: usize = 40;

impl Member {
    pub(super) fn cards(&self, chosen: Option<&Record>) -> Html {
        let mut html = Html::new();
        html.add(&self.access());
        html.add(&self.next());
        html.add(&self.records(chosen));
        html.add(&self.credits());
        html.add(&self.stripe());
        html.add(&self.models());
        html.add(&self.parked());
        html
    }

    fn access(&self) -> Html {
        let access = &self.told.access;
        let until = match (&access.until, access.source) {
            (Some(until), _) => day(until.at()),
            (None, Source::FounderPass) => "for life".to_owned(),
            (None, Source::Subscription | Source::Dues | Source::Profile | Source::Default) => "–".to_owned(),
        };
        let groups = if self.groups.is_empty() { "none".to_owned() } else { self.groups.join(", ") };
        Html::of(
            "<section class=\"card\" id=\"access\"><h2>Access</h2><p class=\"big\"><span class=\"chip tier\">{}</span></p><p>{}</p>\
             <dl class=\"facts\"><div><dt>from</dt><dd>{}</dd></div><div><dt>until</dt><dd>{}</dd></div><div><dt>groups today</dt><dd>{}</dd></div></dl></section>",
            &[&access.tier, &sentence(&access.why), &access.source.as_str(), &until, &groups],
        )
    }

    fn next(&self) -> Html {
        let mut html = Html::of("<section class=\"card\" id=\"next\"><h2>What comes next</h2>", &[]);
        if self.told.story.next.is_empty() {
            html.put("<p>Nothing is to come by itself.</p></section>", &[]);
            return html;
        }
        html.put("<ol class=\"plain next\">", &[]);
        for next in &self.told.story.next {
            let at = next.at.map_or_else(|| "until somebody acts".to_owned(), moment);
            html.put(
                "<li><span class=\"when\">{}</span> {} <small class=\"id\">{}</small></li>",
                &[&at, &next.sentence, &short(next.record.as_str())],
            );
        }
        html.put("</ol></section>", &[]);
        html
    }

    fn records(&self, chosen: Option<&Record>) -> Html {
        let records = &self.told.story.records;
        let mut html = Html::of(
            "<section class=\"card\"><h2>Billing records <small>{}</small></h2><div class=\"wide\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">Due</th><th scope=\"col\">Status</th><th scope=\"col\" class=\"n\">Amount</th><th scope=\"col\">Record</th></tr></thead><tbody>",
            &[&records.len()],
        );
        for record in records.iter().rev() {
            let here = if chosen.is_some_and(|chosen| chosen.subscription_id == record.subscription_id) { "here" } else { "" };
            html.put(
                "<tr class=\"{}\"><td>{}</td><td>{}{}</td><td class=\"n\">{}</td><td><a class=\"id\" href=\"{}\" title=\"{}\">{}</a></td></tr>",
                &[
                    &here,
                    &day(record.billing_date.at()),
                    &chip(record.status()),
                    &beside(record),
                    &dollars(record.plan.amount.decimal()),
                    &self.path(Some(&record.subscription_id)),
                    &record.subscription_id,
                    &short(record.subscription_id.as_str()),
                ],
            );
        }
        html.put("</tbody></table></div></section>", &[]);
        html
    }

    fn credits(&self) -> Html {
        let mut html = Html::of(
            "<section class=\"card\" id=\"credits\"><h2>Credits <small>the balance is the sum of the ledger</small></h2><p class=\"big\">{}</p>",
            &[&self.told.credits],
        );
        let ledger = &self.told.ledger;
        if !ledger.is_empty() {
            html.put("<div class=\"wide\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">When</th><th scope=\"col\">What</th><th scope=\"col\" class=\"n\">Credits</th><th scope=\"col\" class=\"n\">Balance</th></tr></thead><tbody>", &[]);
            let mut rows: Vec<(&Movement, i64)> = Vec::new();
            for movement in ledger {
                let balance = rows.last().map_or(0, |(_, balance)| *balance) + movement.amount;
                rows.push((movement, balance));
            }
            for (movement, balance) in rows.iter().rev().take(MOVEMENTS) {
                let sign = if movement.amount < 0 { "less" } else { "more" };
                html.put(
                    "<tr><td>{}</td><td title=\"{}\">{}</td><td class=\"n {}\">{}</td><td class=\"n\">{}</td></tr>",
                    &[&time(movement.at), &movement.id, &movement.kind.as_str(), &sign, &format!("{:+}", movement.amount), balance],
                );
            }
            html.put("</tbody></table></div>", &[]);
        }
        html.put("</section>", &[]);
        html
    }

    fn stripe(&self) -> Html {
        if self.told.subscriptions.is_empty() && self.told.passes.is_empty() {
            return Html::new();
        }
        let mut html = Html::of("<section class=\"card\"><h2>Stripe</h2><ul class=\"plain\">", &[]);
        for pass in &self.told.passes {
            html.put(
                "<li><span class=\"chip tier\">{}</span> {}, bought {} <small class=\"id\">{}</small></li>",
                &[&pass.tier, &pass.kind.to_string(), &day(pass.purchased_at.at()), &pass.payment.as_str()],
            );
        }
        for subscription in &self.told.subscriptions {
            let end = subscription.period_end.as_ref().map_or(String::new(), |end| format!(", paid until {}", day(end.at())));
            html.put(
                "<li><span class=\"chip tier\">{}</span> {}{} <small class=\"id\">{}</small></li>",
                &[&subscription.tier, &subscription.status.to_string(), &end, &subscription.id.as_str()],
            );
        }
        html.put("</ul></section>", &[]);
        html
    }

    fn models(&self) -> Html {
        let mut html = Html::new();
        for section in self.read_models.iter().filter(|section| !section.lines.is_empty()) {
            html.put("<section class=\"card\"><h2>{} <small>as of today</small></h2><ul class=\"plain\">", &[&section.model.name()]);
            for line in &section.lines {
                html.put("<li>{}</li>", &[line]);
            }
            html.put("</ul></section>", &[]);
        }
        html
    }

    fn parked(&self) -> Html {
        if self.told.parked.is_empty() {
            return Html::new();
        }
        let mut html = Html::of("<section class=\"card\"><h2>Parked <small>as of today</small></h2><ul class=\"plain\">", &[]);
        for parked in &self.told.parked {
            html.put("<li><a href=\"/console/parked?stream={}#p-{}\">{}</a></li>", &[&segment(&parked.stream), &parked.id, &parked.reason]);
        }
        html.put("</ul></section>", &[]);
        html
    }
}

/// What else an operator has to know beside the status.
fn beside(record: &Record) -> Html {
    let text = output::status_text(record);
    let more = text.strip_prefix(record.status().as_str()).unwrap_or_default().trim();
    if more.is_empty() {
        return Html::new();
    }
    let colour = if record.bar.is_some() { class(Status::Error) } else { "none" };
    Html::of(" <small class=\"s-{}\">{}</small>", &[&colour, &more])
}

/// A reason as a sentence.
fn sentence(why: &str) -> String {
    let mut letters = why.chars();
    letters.next().map_or(String::new(), |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}
