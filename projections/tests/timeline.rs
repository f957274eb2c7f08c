//! The sentences of a timeline for what happens to attempts and money, as a table of cases.

#![allow(clippy::unwrap_used)]

use dues_events::billing::attempts::Resolution;
use dues_events::billing::decide::{Outcome, decide};
use dues_events::billing::event::{AttemptName, Event, EventKind, Report, ReportKind};
use dues_events::billing::record::{History, Receipt, Record};
use dues_events::collections::eligibility::Rules;
use dues_events::money::Currency;
use dues_events::{GoTime, Item, Time, Value};
use dues_projections::timeline::timeline;

fn t(day: &str) -> Time {
    dues_events::time::parse(&format!("{day}T12:00:00Z")).unwrap()
}

/// A record of 14.99, due on 1 February, and its history.
struct Story {
    record: Record,
    rows: Vec<History>,
}

impl Story {
    fn new() -> Self {
        let attributes = [
            ("user_id", "u-1"),
            ("billing_date", "2026-02-01T00:00:00Z"),
            ("subscription_id", "s-1"),
            ("billing_amount", "14.99"),
            ("billing_status", "SCHEDULED"),
            ("billing_period", "02/2026"),
            ("process", "INITIAL"),
            ("term", "MONTHLY"),
            ("receipt_tier_name", "Plus:v2"),
            ("last_run_date", "2026-01-05T00:00:00.000000000Z"),
        ];
        let row: Item =
            attributes.iter().map(|(name, value)| ((*name).to_owned().into(), Value::text(*value))).collect();
        let record = Record::from_item(row).unwrap();
        let first = History {
            record: record.clone(),
            event_id: Some("m-1".into()),
            source: "memberships ACTIVATE".to_owned(),
            previous_version: 0,
            outcome: "applied".to_owned(),
            token: None,
            chain: None,
        };
        Self { record, rows: vec![first] }
    }

    /// Applies an event with these `data_` fields; returns the sentence for it.
    fn then(&mut self, day: &str, kind: EventKind, data: &[(&'static str, &str)]) -> String {
        let mut event = Event::internal(format!("e-{}", self.rows.len()).into(), t(day), "test", kind);
        for (name, value) in data {
            event.data.set(*name, Value::text(*value));
        }
        let transition = decide(&self.record, &event).unwrap();
        let outcome = match transition.outcome {
            Outcome::Applied => "applied".to_owned(),
            Outcome::Ignored(reason) => format!("ignored: {}", reason.as_str()),
        };
        let mut record = transition.record;
        let previous_version = self.record.version;
        record.version = previous_version + 1;
        record.last_run_date = Some(GoTime::nine_digits(t(day)));
        self.record = record.clone();
        record.data = event.data.clone();
        let (event_id, source) = (Some(event.id.clone()), event.source.to_string());
        self.rows.push(History {
            record,
            event_id,
            source,
            previous_version,
            outcome,
            token: Some(event.token),
            chain: None,
        });
        let story = timeline(&self.rows, &[], &[], &Rules::default(), t("2026-12-31"));
        story.entries.last().unwrap().sentence.clone()
    }

    fn settles(&mut self, day: &str, transaction: &str, amount: &str, currency: &str) -> String {
        let kind = ReportKind::Settled {
            amount: amount.parse().unwrap(),
            currency: Currency::read(currency).unwrap(),
            receipt: Receipt::default(),
        };
        self.then(day, EventKind::Reported(Report { attempt: named(transaction), kind }), &[])
    }

    fn goes_back(&mut self, day: &str, transaction: &str, amount: &str) -> String {
        let kind = ReportKind::Refunded { amount: amount.parse().unwrap(), currency: Currency::USD };
        self.then(day, EventKind::Reported(Report { attempt: named(transaction), kind }), &[])
    }
}

fn named(transaction: &str) -> AttemptName {
    AttemptName { transaction_id: Some(transaction.into()), number: None }
}

#[test]
fn a_withdrawn_debit_says_why() {
    let mut story = Story::new();
    let sent = story.then("2026-02-02", EventKind::Intended { number: 1 }, &[]);
    assert!(sent.starts_with("A debit of $14.99 is to be submitted"), "{sent}");
    let reason = [("data_reason", "never submitted: the membership was cancelled")];
    assert_eq!(
        story.then("2026-02-03", EventKind::Withdrawn { number: 1 }, &reason),
        "The debit was withdrawn before it was sent: the membership was cancelled."
    );
}

#[test]
fn money_that_pays_for_nothing_says_why() {
    let mut story = Story::new();
    assert_eq!(
        story.settles("2026-02-03", "c-1", "10.00", "USD"),
        "$10.00 arrived that pays for nothing: less than the amount due."
    );
    assert_eq!(
        story.settles("2026-02-04", "c-2", "900.00", "JPY"),
        "900.00 JPY arrived that pays for nothing: not in US dollars."
    );
    assert_eq!(
        story.settles("2026-02-05", "c-3", "20.00", "USD"),
        "The money arrived: $14.99 (transaction c-3). \
         $5.01 arrived that pays for nothing: more than the amount due."
    );
    assert_eq!(
        story.settles("2026-02-06", "c-4", "20.00", "USD"),
        "$20.00 arrived that pays for nothing: the period was paid by another transaction."
    );
    assert_eq!(story.goes_back("2026-02-07", "c-4", "20.00"), "$20.00 of unapplied money went back.");
}

#[test]
fn refunds_say_what_stays_paid() {
    let mut story = Story::new();
    story.settles("2026-02-03", "c-1", "14.99", "USD");
    assert_eq!(
        story.goes_back("2026-02-04", "c-1", "1.00"),
        "$1.00 went back to the member; $13.99 stay paid."
    );
    assert_eq!(
        story.goes_back("2026-02-05", "c-1", "2.99"),
        "$2.99 went back to the member; $11.00 stay paid."
    );
    assert_eq!(
        story.goes_back("2026-02-06", "c-1", "11.00"),
        "The payment was refunded: $14.99 (transaction c-1)."
    );
}

#[test]
fn decisions_name_their_actor() {
    let mut story = Story::new();
    story.settles("2026-02-03", "c-1", "14.99", "USD");
    story.settles("2026-02-04", "c-2", "14.99", "USD");
    let kind = EventKind::MoneyResolved { attempt: named("c-2"), resolution: Resolution::Dismissed };
    let data = [("data_actor", "ada"), ("data_reason", "dismissed: a test transfer")];
    assert_eq!(
        story.then("2026-02-05", kind, &data),
        "ada decided about $14.99 of unapplied money: dismissed: a test transfer."
    );
}

#[test]
fn a_moved_due_date_names_both_days() {
    let mut story = Story::new();
    let to = dues_events::time::parse("2026-02-10T00:00:00Z").unwrap();
    assert_eq!(
        story.then("2026-01-20", EventKind::Moved { to }, &[]),
        "The due date moved from 2026-02-01 to 2026-02-10."
    );
    let to = dues_events::time::parse("2026-02-10T01:00:00Z").unwrap();
    assert_eq!(
        story.then("2026-01-21", EventKind::Moved { to }, &[]),
        "The due date moved from 00:00 to 01:00 on 2026-02-10."
    );
}
