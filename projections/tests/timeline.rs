//! The sentences of a timeline for what happens to attempts and money, as a table of cases.

#![allow(clippy::unwrap_used)]

use dues_events::billing::attempts::Resolution;
use dues_events::billing::decide::{Outcome, decide};
use dues_events::billing::event::{AttemptName, Event, EventKind, Report, ReportKind};
use dues_events::billing::record::{Failure, History, Receipt, Record};
use dues_events::collections::ach::ReturnCode;
use dues_events::collections::eligibility::Rules;
use dues_events::collections::incomes::{Income, Incomes};
use dues_events::money::Currency;
use dues_events::{GoTime, Item, Money, Time, Value};
use dues_projections::timeline::{Sources, Timeline, timeline};

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
        let story = self.timeline("2026-12-31");
        story.entries.last().unwrap().sentence.clone()
    }

    fn timeline(&self, until: &str) -> Timeline {
        self.timeline_with(&Incomes::default(), until)
    }

    fn timeline_with(&self, incomes: &Incomes, until: &str) -> Timeline {
        let sources = Sources { history: &self.rows, stripe: &[], ledger: &[], incomes };
        timeline(&sources, &Rules::default(), t(until))
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

fn returned(transaction: &str, code: &str) -> EventKind {
    let kind = ReportKind::Returned(Failure::new(ReturnCode::read(code), Some("why")));
    EventKind::Reported(Report { attempt: named(transaction), kind })
}

/// Paid every other Friday, so 13 February is a payday; then come a weekend and Presidents' Day.
#[test]
fn a_planned_presentment_has_its_date_and_its_reason() {
    let mut story = Story::new();
    story.then("2026-02-03", returned("a", "R01"), &[]);
    let mut incomes = Incomes::default();
    for day in ["2026-01-02", "2026-01-16", "2026-01-30"] {
        incomes.take(Income { id: day.into(), at: t(day), amount: Money::from_cents(200_000) });
    }
    let next = |incomes: &Incomes, at: &str| {
        let next = story.timeline_with(incomes, at).next;
        let first = next.first().unwrap();
        (first.at.unwrap().to_rfc3339(), first.sentence.clone())
    };
    let payday = "$14.99 are presented to the bank again, for the second time, on 2026-02-17: the day \
                  after the expected payday (biweekly).";
    let at = "2026-02-17T07:00:00+00:00".to_owned();
    assert_eq!(next(&incomes, "2026-02-04"), (at, payday.to_owned()));
    // As of a time before the third income there was no pattern.
    let (_, spread) = next(&incomes.until(t("2026-01-20")), "2026-02-04");
    assert!(spread.ends_with("no payday is known, so returns are spread over banking days."), "{spread}");
    // The job did not run on the planned day: the next run presents it.
    let (at, late) = next(&incomes, "2026-02-18");
    assert_eq!(at, "2026-02-19T07:00:00+00:00");
    assert_eq!(late, "$14.99 are presented to the bank again, for the second time.");
}

#[test]
fn a_notification_of_change_is_shown_with_its_deadline() {
    let mut story = Story::new();
    assert_eq!(
        story.then("2026-02-03", returned("a", "C01"), &[]),
        "The bank asked for a correction of the account (C01 of 2026-02-03, to correct by 2026-02-11): the \
         next debit waits for a new one."
    );
    let next = story.timeline("2026-02-04").next;
    assert_eq!(
        next.iter().map(|next| next.sentence.as_str()).collect::<Vec<_>>(),
        ["It will not be collected: the bank asked for a correction of the account (C01 of 2026-02-03, to \
          correct by 2026-02-11), and no new one is on file."]
    );
    assert_eq!(story.then("2026-02-05", EventKind::NewAccount, &[]), "A new account was put on file.");
    assert_eq!(story.timeline("2026-02-06").next[0].sentence, "$14.99 for Plus:v2 are debited.");
}
