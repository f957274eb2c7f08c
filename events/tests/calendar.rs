//! Every way to start a membership: one record a period, never silent, on the days that the specification
//! says. The calendar here is the test's own: plain numbers, counted from a known day.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dues_events::billing::decide::{Followup, followups};
use dues_events::billing::event::{AttemptName, Report, ReportKind};
use dues_events::billing::idempotency::IdempotencyToken;
use dues_events::billing::membership::{Change, ChangePlan, MembershipEvent, NewMembership, Step, plan};
use dues_events::billing::record::{Plan, TierName, UpdatedEvent};
use dues_events::calendar::{BillingWeek, Term};
use dues_events::{Event, EventId, EventKind, ParkedEvents, Record, Status, SubscriptionId, Time, decide};
use std::collections::BTreeSet;

/// Year, month, day.
type Day = (i64, i64, i64);

fn is_leap(year: i64) -> bool {
    (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
}

fn month_length(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// 0 is Monday. 1 January 2024 was one.
fn weekday((year, month, day): Day) -> i64 {
    assert!(year >= 2024);
    let years: i64 = (2024..year).map(|year| 365 + i64::from(is_leap(year))).sum();
    let months: i64 = (1..month).map(|month| month_length(year, month)).sum();
    (years + months + day - 1) % 7
}

/// The n-th Friday of a month, or its last one.
fn friday(year: i64, month: i64, n: i64) -> Day {
    let fridays: Vec<i64> =
        (1..=month_length(year, month)).filter(|day| weekday((year, month, *day)) == 4).collect();
    let n = usize::try_from(n - 1).unwrap();
    (year, month, *fridays.get(n).unwrap_or_else(|| fridays.last().unwrap()))
}

/// The due date of the n-th period after the first date.
fn due(first: Day, week: Option<i64>, months_a_term: i64, n: i64) -> Day {
    if n == 0 {
        return first;
    }
    let months = first.0 * 12 + first.1 - 1 + n * months_a_term;
    let (year, month) = (months / 12, months % 12 + 1);
    match week {
        None => (year, month, first.2.min(month_length(year, month))),
        Some(week) => friday(year, month, week),
    }
}

fn text((year, month, day): Day) -> String {
    format!("{year}-{month:02}-{day:02}T00:00:00Z")
}

fn time(day: Day) -> Time {
    dues_events::time::parse(&text(day)).unwrap()
}

/// All first dates, in three years with a leap year among them.
fn first_dates() -> impl Iterator<Item = Day> {
    (2026..=2028).flat_map(|year| {
        (1..=12).flat_map(move |month| (1..=month_length(year, month)).map(move |day| (year, month, day)))
    })
}

fn weeks() -> [Option<i64>; 6] {
    [None, Some(1), Some(2), Some(3), Some(4), Some(5)]
}

fn terms() -> [(Term, i64); 2] {
    [(Term::Monthly, 1), (Term::Yearly, 12)]
}

/// The first record of a membership that was activated at noon of the day before New Year 2026.
fn first_record(first: Day, week: Option<i64>, term: Term) -> Record {
    let id = EventId::from("mem-1");
    let membership = MembershipEvent {
        token: IdempotencyToken::new(&id, &[]),
        id,
        at: dues_events::time::parse("2025-12-31T12:00:00Z").unwrap(),
        user_id: "u-1".into(),
        source: "test".into(),
        change: Change::Activate(NewMembership {
            plan: Plan { amount: "14.99".parse().unwrap(), tier: TierName::new("Plus", "v2") },
            term,
            billing_date: time(first),
            billing_week: week.map(|week| BillingWeek::new(week).unwrap()),
            provider: None,
        }),
    };
    let first = plan(&[], &membership, ParkedEvents::Keep).unwrap();
    let ChangePlan::Next(Step::Create(record, _)) = first else { panic!("not a new record: {first:?}") };
    *record
}

fn apply(record: &Record, at: Time, kind: EventKind) -> Record {
    decide(record, &Event::internal("e".into(), at, "test", kind)).unwrap().record
}

/// The record that follows, as the store would create it.
fn following(record: &Record, what: &str) -> Record {
    let next = followups(record).into_iter().find_map(|followup| match followup {
        Followup::CreateNext(next, _) => Some(*next),
        Followup::Apply(_) => None,
    });
    let next = next.unwrap_or_else(|| panic!("{what}: silent after {}", record.billing_date.text()));
    assert_eq!(record.next.as_ref(), Some(&next.subscription_id), "{what}");
    assert_eq!(next.status(), Status::Scheduled, "{what}");
    next
}

/// How a period may end, each in the way that a membership goes on after it.
const ENDS: [&str; 4] = ["intended", "sent", "settled", "waived"];

fn end_of(end: &str) -> EventKind {
    let attempt = AttemptName { transaction_id: Some("c-1".into()), number: None };
    match end {
        "intended" => EventKind::Intended { number: 1 },
        "sent" => EventKind::Reported(Report { attempt, kind: ReportKind::Sent }),
        "settled" => EventKind::Reported(Report {
            attempt,
            kind: ReportKind::Settled {
                amount: "14.99".parse().unwrap(),
                currency: dues_events::money::Currency::USD,
                receipt: Default::default(),
            },
        }),
        "waived" => EventKind::Waived,
        other => panic!("no end {other}"),
    }
}

#[test]
fn the_tests_own_calendar_knows_some_days() {
    assert_eq!(weekday((2024, 1, 1)), 0);
    assert_eq!(weekday((2026, 11, 18)), 2, "a Wednesday");
    assert_eq!(weekday((2028, 2, 29)), 1, "a Tuesday");
    assert_eq!(friday(2026, 1, 5), (2026, 1, 30));
    assert_eq!(friday(2026, 2, 5), (2026, 2, 27), "no fifth Friday: the last one");
    assert_eq!(due((2026, 1, 31), None, 1, 1), (2026, 2, 28));
    assert_eq!(due((2028, 2, 29), None, 12, 1), (2029, 2, 28));
    assert_eq!(due((2028, 2, 29), None, 12, 4), (2032, 2, 29));
    assert_eq!(first_dates().count(), 365 + 365 + 366);
}

#[test]
fn every_first_date_on_every_plan_has_one_record_a_period() {
    let mut walked = 0;
    for first in first_dates() {
        for week in weeks() {
            for (term, months) in terms() {
                let mut record = first_record(first, week, term);
                let mut ids: BTreeSet<SubscriptionId> = BTreeSet::new();
                for n in 0..if months == 1 { 15 } else { 5 } {
                    let what = format!("{first:?} {week:?} {term:?}, period {n}");
                    let expected = due(first, week, months, n);
                    assert_eq!(record.billing_date.text(), text(expected), "{what}");
                    assert_eq!(record.period(), format!("{:02}/{}", expected.1, expected.0), "{what}");
                    assert!(ids.insert(record.subscription_id.clone()), "{what}: the id of another period");
                    let end = ENDS[usize::try_from(n).unwrap() % ENDS.len()];
                    // Collected a day late, on a Saturday's Monday, or whenever.
                    let at = time(expected) + chrono::TimeDelta::hours(30);
                    record = following(&apply(&record, at, end_of(end)), &what);
                    walked += 1;
                }
            }
        }
    }
    assert_eq!(walked, 1096 * 6 * (15 + 5));
}

/// STALE after 91 days: the next due date from then on, in a later period; never silent.
#[test]
fn every_stale_record_is_followed_by_the_first_due_date_from_then_on() {
    for first in first_dates() {
        for week in weeks() {
            for (term, months) in terms() {
                let what = format!("{first:?} {week:?} {term:?}");
                let record = first_record(first, week, term);
                let at = time(first) + chrono::TimeDelta::hours(91 * 24 + 7);
                let next = following(&apply(&record, at, EventKind::TooOld), &what);
                let expected =
                    (1..).map(|n| due(first, week, months, n)).find(|day| time(*day) >= at).unwrap();
                assert_eq!(next.billing_date.text(), text(expected), "{what}");
                assert_ne!(next.subscription_id, record.subscription_id, "{what}");
            }
        }
    }
}

/// A monthly pause of one to twelve months, resumed after the due date: the first due date on or after the
/// day of resuming, and no month of the pause.
#[test]
fn every_resumed_pause_goes_on_at_the_first_due_date_from_that_day_on() {
    for first in first_dates().step_by(3) {
        for week in weeks() {
            for (months, resumed_after) in [(1, 0), (1, 1), (2, 17), (3, 31), (3, 60), (12, 200), (12, 364)] {
                let what = format!("{first:?} {week:?} paused {months}, resumed after {resumed_after} days");
                let record = first_record(first, week, Term::Monthly);
                let before = time(first) - chrono::TimeDelta::hours(5);
                let paused = apply(&record, before, EventKind::Paused { months });
                let resumed = time(first) + chrono::TimeDelta::hours(resumed_after * 24 + 9);
                let done = apply(&paused, resumed, EventKind::Unpaused);
                assert_eq!(
                    (done.status(), &done.updated_event),
                    (Status::PausedSkipped, &Some(UpdatedEvent::PauseResume)),
                    "{what}"
                );
                let next = following(&done, &what);
                // Due dates and the day of resuming are midnights: on that day counts.
                let from = time(first) + chrono::TimeDelta::hours(resumed_after * 24);
                let expected = (1..).map(|n| due(first, week, 1, n)).find(|day| time(*day) >= from).unwrap();
                assert_eq!(next.billing_date.text(), text(expected), "{what}");
            }
        }
    }
}
