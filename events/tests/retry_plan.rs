//! When a returned debit is presented again, against paydays and banking days that are written down here:
//! nothing of the calendar under test is used to say what is right.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use chrono::{Datelike, Days, NaiveDate, Weekday};
use dues_events::billing::event::{AttemptName, Report, ReportKind};
use dues_events::billing::membership::{Change, ChangePlan, MembershipEvent, NewMembership, Step, plan};
use dues_events::billing::record::{Failure, Plan, TierName};
use dues_events::calendar::Term;
use dues_events::collections::ach::ReturnCode;
use dues_events::collections::eligibility::{
    CollectionRequest, Eligibility, Reason, Rules, Trigger, eligibility,
};
use dues_events::collections::incomes::{Income, Incomes};
use dues_events::collections::retry_plan::{PayPattern, RetryPlan, RetryReason, retry_plan};
use dues_events::{GoTime, IdempotencyToken, Money, ParkedEvents, Record, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// The holidays of the Federal Reserve from November 2025 to June 2027, as published.
const HOLIDAYS: [&str; 19] = [
    "2025-11-11",
    "2025-11-27",
    "2025-12-25",
    "2026-01-01",
    "2026-01-19",
    "2026-02-16",
    "2026-05-25",
    "2026-06-19",
    "2026-09-07",
    "2026-10-12",
    "2026-11-11",
    "2026-11-26",
    "2026-12-25",
    "2027-01-01",
    "2027-01-18",
    "2027-02-15",
    "2027-05-31",
    "2026-07-04",
    "2027-06-19",
];

fn d(day: &str) -> NaiveDate {
    day.parse().unwrap()
}

fn t(day: NaiveDate) -> Time {
    day.and_hms_opt(13, 0, 0).unwrap().and_utc()
}

fn is_open(day: NaiveDate) -> bool {
    static CLOSED: LazyLock<BTreeSet<NaiveDate>> = LazyLock::new(|| HOLIDAYS.into_iter().map(d).collect());
    !matches!(day.weekday(), Weekday::Sat | Weekday::Sun) && !CLOSED.contains(&day)
}

fn open_from(day: NaiveDate) -> NaiveDate {
    day.iter_days().find(|day| is_open(*day)).unwrap()
}

fn open_until(day: NaiveDate) -> NaiveDate {
    (0..9).map(|n| day - Days::new(n)).find(|day| is_open(*day)).unwrap()
}

/// The day on which that many banking days have begun since.
fn open_after(day: NaiveDate, count: usize) -> NaiveDate {
    day.iter_days().skip(1).filter(|day| is_open(*day)).nth(count - 1).unwrap()
}

fn incomes(days: &[NaiveDate]) -> Incomes {
    let mut incomes = Incomes::default();
    for day in days {
        incomes.take(Income {
            id: format!("i-{day}").into(),
            at: t(*day),
            amount: Money::from_cents(120_000),
        });
    }
    incomes
}

/// A record that was due on that day, with its attempts returned on these days.
fn returned(due: NaiveDate, returns: &[NaiveDate]) -> Record {
    let id = dues_events::EventId::from("mem-1");
    let membership = MembershipEvent {
        token: IdempotencyToken::new(&id, &[]),
        id,
        at: t(due - Days::new(30)),
        user_id: "u-1".into(),
        source: "test".into(),
        change: Change::Activate(NewMembership {
            plan: Plan { amount: "14.99".parse().unwrap(), tier: TierName::new("Plus", "v2") },
            term: Term::Monthly,
            billing_date: due.and_hms_opt(0, 0, 0).unwrap().and_utc(),
            billing_week: None,
            provider: None,
        }),
    };
    let ChangePlan::Next(Step::Create(mut record, _)) = plan(&[], &membership, ParkedEvents::Keep).unwrap()
    else {
        panic!("not a new record")
    };
    for (n, day) in (1..).zip(returns) {
        record.attempts.submit(n, t(*day));
        let attempt = AttemptName { transaction_id: Some(format!("c-{n}").into()), number: Some(n) };
        let kind = ReportKind::Returned(Failure::new(ReturnCode::read("R01"), Some("Insufficient funds")));
        assert!(record.attempts.take(&Report { attempt, kind }, t(*day), record.plan.amount));
        record.initial_run_date.get_or_insert(GoTime::trimmed(t(due)));
        record.last_run_date = Some(GoTime::nine_digits(t(*day)));
    }
    record.derive_state();
    *record
}

fn planned(record: &Record, incomes: &Incomes) -> RetryPlan {
    retry_plan(&Rules::default(), record, Some(incomes)).unwrap()
}

/// Incomes, the day of the return, and what follows: each worked out with a printed calendar.
#[test]
fn paydays_by_hand() {
    let cases: [(&str, &str, &str, PayPattern); 10] = [
        // Fridays. 6 February is the earliest day and a payday: the Monday after it.
        (
            "2026-01-02 2026-01-09 2026-01-16 2026-01-23 2026-01-30",
            "2026-02-04",
            "2026-02-09",
            PayPattern::Weekly,
        ),
        // Three are enough.
        ("2026-01-16 2026-01-23 2026-01-30", "2026-02-04", "2026-02-09", PayPattern::Weekly),
        // Every other Friday. 13 February, then the weekend, then Presidents' Day.
        ("2026-01-02 2026-01-16 2026-01-30", "2026-02-03", "2026-02-17", PayPattern::Biweekly),
        // Every other Thursday; Thanksgiving was paid on the Wednesday.
        ("2025-11-13 2025-11-26 2025-12-11 2025-12-24", "2025-12-29", "2026-01-09", PayPattern::Biweekly),
        // 1st and 15th: 1 January is a holiday and was paid after it, 1 February a Sunday and paid before it.
        (
            "2025-12-01 2025-12-15 2026-01-02 2026-01-15 2026-01-30",
            "2026-02-03",
            "2026-02-17",
            PayPattern::SemiMonthly,
        ),
        // 15th and last day: 15 November a Saturday, 30 November a Sunday, 31 January a Saturday.
        (
            "2025-11-14 2025-11-28 2025-12-15 2025-12-31 2026-01-15 2026-01-30",
            "2026-02-18",
            "2026-03-02",
            PayPattern::SemiMonthly,
        ),
        // The 3rd; 3 January is a Saturday.
        ("2025-11-03 2025-12-03 2026-01-02", "2026-02-03", "2026-03-04", PayPattern::Monthly),
        // The last day of the month.
        ("2025-10-31 2025-11-28 2025-12-31 2026-01-30", "2026-02-03", "2026-03-02", PayPattern::Monthly),
        // One income in four on another day does not hide the pattern, nor does one that was not detected.
        (
            "2026-01-02 2026-01-09 2026-01-20 2026-01-23 2026-01-30",
            "2026-02-04",
            "2026-02-09",
            PayPattern::Weekly,
        ),
        // Paid in two parts on one day: one payday.
        ("2026-01-02 2026-01-02 2026-01-16 2026-01-30", "2026-02-03", "2026-02-17", PayPattern::Biweekly),
    ];
    for (paid, back, expected, pattern) in cases {
        let days: Vec<NaiveDate> = paid.split(' ').map(d).collect();
        let plan =
            planned(&returned(d("2025-12-20").max(d(back) - Days::new(3)), &[d(back)]), &incomes(&days));
        assert_eq!(plan.at.date_naive(), d(expected), "{paid} returned {back}: {plan}");
        assert_eq!(plan.why, RetryReason::Payday(pattern), "{paid}");
    }
    let biweekly = incomes(&[d("2026-01-02"), d("2026-01-16"), d("2026-01-30")]);
    assert_eq!(
        planned(&returned(d("2026-02-01"), &[d("2026-02-03")]), &biweekly).to_string(),
        "on 2026-02-17: the day after the expected payday (biweekly)"
    );
}

#[test]
fn what_is_no_pattern() {
    for (paid, why) in [
        ("", "no income"),
        ("2026-01-16 2026-01-30", "two say nothing"),
        ("2026-01-02 2026-01-15 2026-01-30", "twice a month needs four"),
        ("2026-01-05 2026-01-13 2026-01-30 2026-02-02", "no rhythm"),
        ("2025-11-07 2025-11-14 2025-11-21 2025-11-28 2025-12-05", "not paid for two months"),
        ("2025-08-03 2025-09-03 2025-10-03", "not paid since October"),
    ] {
        let days: Vec<NaiveDate> = paid.split(' ').filter(|day| !day.is_empty()).map(d).collect();
        let plan = planned(&returned(d("2026-02-01"), &[d("2026-02-03")]), &incomes(&days));
        assert_eq!(plan.why, RetryReason::Spread, "{why}: {plan}");
    }
}

/// A way to be paid: which days are paydays, and whether a closed day is paid before or after it.
struct Payroll {
    pattern: PayPattern,
    is_payday: Box<dyn Fn(NaiveDate) -> bool>,
    before: bool,
}

fn payrolls() -> Vec<Payroll> {
    let mut all = Vec::new();
    for before in [true, false] {
        let mut add = |pattern, is_payday: Box<dyn Fn(NaiveDate) -> bool>| {
            all.push(Payroll { pattern, is_payday, before });
        };
        for weekday in [Weekday::Mon, Weekday::Wed, Weekday::Thu, Weekday::Fri] {
            add(PayPattern::Weekly, Box::new(move |day| day.weekday() == weekday));
        }
        for first in ["2025-01-02", "2025-01-03", "2025-01-10"] {
            add(PayPattern::Biweekly, Box::new(move |day| (day - d(first)).num_days() % 14 == 0));
        }
        let is_last = |day: NaiveDate| day.succ_opt().unwrap().day() == 1;
        add(PayPattern::SemiMonthly, Box::new(|day| matches!(day.day(), 1 | 15)));
        add(PayPattern::SemiMonthly, Box::new(move |day| day.day() == 15 || is_last(day)));
        for of_month in [1, 3, 10, 25, 28] {
            add(PayPattern::Monthly, Box::new(move |day| day.day() == of_month));
        }
        add(PayPattern::Monthly, Box::new(is_last));
    }
    all
}

/// Every return of a year, for every payroll: two banking days, a banking day, the first day after a payday,
/// and the same again however the incomes arrived.
#[test]
fn every_return_of_a_year_under_every_payroll() {
    let mut checked = 0;
    for payroll in payrolls() {
        let paid = |day: NaiveDate| if payroll.before { open_until(day) } else { open_from(day) };
        let all: Vec<NaiveDate> =
            d("2025-01-01").iter_days().take(760).filter(|day| (payroll.is_payday)(*day)).collect();
        let after_payday: BTreeSet<NaiveDate> =
            all.iter().map(|day| open_from(*day + Days::new(1))).collect();
        for back in d("2026-01-05").iter_days().take(360) {
            let known: Vec<NaiveDate> = all.iter().map(|day| paid(*day)).filter(|day| *day < back).collect();
            let newest = &known[known.len() - 12..];
            let record = returned(back - Days::new(2), &[back]);
            let plan = planned(&record, &incomes(newest));
            let shuffled: Vec<NaiveDate> = known.iter().rev().copied().collect();
            assert_eq!(planned(&record, &incomes(&shuffled)), plan, "the order of arrival does not matter");
            let day = plan.at.date_naive();
            let earliest = open_after(back, 2);
            assert!(day >= earliest && is_open(day), "returned {back}: {plan}");
            let expected = *after_payday.range(earliest..).next().unwrap();
            checked += 1;
            assert_eq!(plan.why, RetryReason::Payday(payroll.pattern), "returned {back}, paid {newest:?}");
            assert_eq!(
                day, expected,
                "{:?} before {}: returned {back}: {plan}",
                payroll.pattern, payroll.before
            );
        }
    }
    assert!(checked > 9_000, "{checked}");
}

/// Without a payday: between two and eleven banking days after the return, and not all on one day.
#[test]
fn without_a_payday_returns_are_spread() {
    let mut waits: BTreeSet<usize> = BTreeSet::new();
    for back in d("2026-01-05").iter_days().step_by(11).take(33) {
        let mut counts: BTreeMap<NaiveDate, u32> = BTreeMap::new();
        for n in 0..200 {
            let record =
                Record { subscription_id: format!("s-{n}").into(), ..returned(back - Days::new(2), &[back]) };
            let plan = planned(&record, &Incomes::default());
            assert_eq!(plan, planned(&record, &Incomes::default()));
            assert_eq!(plan.why, RetryReason::Spread);
            let day = plan.at.date_naive();
            assert!(is_open(day), "{plan}");
            let wait = (1..40).find(|n| open_after(back, *n) == day).unwrap();
            assert!((2..=11).contains(&wait), "returned {back}: {plan}, after {wait} banking days");
            waits.insert(wait);
            *counts.entry(day).or_default() += 1;
        }
        assert_eq!(counts.len(), 10, "{back}: every one of ten banking days is used");
        assert!(counts.values().all(|count| *count < 40), "{back}: {counts:?}");
    }
    assert_eq!(waits, (2..=11).collect());
}

#[test]
fn the_last_presentment_is_kept_for_a_signal_until_its_deadline() {
    let twice = returned(d("2026-02-02"), &[d("2026-02-04"), d("2026-02-11")]);
    // 45 days after the due date: 19 March, a Thursday.
    let spread = planned(&twice, &Incomes::default());
    assert_eq!(spread.why, RetryReason::LastSpread);
    let day = spread.at.date_naive();
    assert!(day >= d("2026-03-19") && day <= open_after(d("2026-03-19"), 9), "{spread}");
    let fridays: Vec<NaiveDate> = (0..6).map(|n| d("2026-01-02") + Days::new(7 * n)).collect();
    let payday = planned(&twice, &incomes(&fridays));
    assert_eq!(payday.why, RetryReason::LastAtPayday(PayPattern::Weekly));
    assert_eq!(payday.at.date_naive(), d("2026-03-23"), "the Monday after Friday, 20 March");
    assert!(payday.to_string().starts_with("on 2026-03-23: the last presentment was kept for a signal"));
    // A signal acts at once.
    let ask = |trigger| CollectionRequest {
        incomes: Some(Incomes::default()),
        ..CollectionRequest::triggered_by(trigger)
    };
    let judged = |trigger, day: &str| eligibility(&Rules::default(), &ask(trigger), &twice, &[], t(d(day)));
    for trigger in [Trigger::Income, Trigger::Balance, Trigger::Batch, Trigger::Manual] {
        assert!(matches!(judged(trigger, "2026-02-12"), Eligibility::Collect(_)), "{trigger:?}");
    }
    let before = judged(Trigger::Retry, "2026-03-18");
    assert_eq!(before, Eligibility::Skip(Reason::RetryPlanned(spread)));
    let on_the_day = eligibility(&Rules::default(), &ask(Trigger::Retry), &twice, &[], t(day));
    assert!(matches!(on_the_day, Eligibility::Collect(_)));
}

#[test]
fn no_plan_outlives_the_record_or_its_window() {
    // Due on 1 February, so STALE from 2 May on; a return of 24 April leaves one week.
    let monthly = incomes(&[d("2026-02-20"), d("2026-03-20"), d("2026-04-20")]);
    let late = returned(d("2026-02-01"), &[d("2026-04-24")]);
    let plan = planned(&late, &monthly);
    assert_eq!((plan.at.date_naive(), plan.why), (d("2026-05-01"), RetryReason::LastChance));
    assert!(matches!(
        eligibility(
            &Rules::default(),
            &CollectionRequest {
                incomes: Some(monthly.clone()),
                ..CollectionRequest::triggered_by(Trigger::Retry)
            },
            &late,
            &[],
            t(d("2026-05-01"))
        ),
        Eligibility::Collect(_)
    ));
    let too_late = returned(d("2026-02-01"), &[d("2026-04-30")]);
    assert_eq!(retry_plan(&Rules::default(), &too_late, Some(&monthly)), None, "no banking day is left");
    let spent = returned(d("2026-02-01"), &[d("2026-02-03"), d("2026-02-10"), d("2026-02-17")]);
    assert_eq!(retry_plan(&Rules::default(), &spent, Some(&monthly)), None, "three presentments are all");
    let never = returned(d("2026-02-01"), &[]);
    assert_eq!(retry_plan(&Rules::default(), &never, Some(&monthly)), None, "nothing was returned");
    let window = Rules { presentment_days: 30, ..Rules::default() };
    let plan = retry_plan(&window, &returned(d("2026-02-01"), &[d("2026-02-23")]), Some(&monthly)).unwrap();
    assert_eq!((plan.at.date_naive(), plan.why), (d("2026-03-02"), RetryReason::LastChance));
    // A deadline that lies beyond the age limit does not keep it for ever.
    let short = Rules { old_days: 30, ..Rules::default() };
    let twice = returned(d("2026-02-01"), &[d("2026-02-03"), d("2026-02-10")]);
    let plan = retry_plan(&short, &twice, Some(&Incomes::default())).unwrap();
    assert_eq!((plan.at.date_naive(), plan.why), (d("2026-03-02"), RetryReason::LastChance));
}

/// What a reader without the incomes skips is too early by every plan.
#[test]
fn the_earliest_day_is_never_later_than_the_plan() {
    let fridays: Vec<NaiveDate> = (0..6).map(|n| d("2026-01-02") + Days::new(7 * n)).collect();
    for back in d("2026-02-02").iter_days().take(100) {
        for returns in [vec![back], vec![back - Days::new(9), back]] {
            let record = returned(d("2026-02-01"), &returns);
            let plans = |incomes: Option<&Incomes>| retry_plan(&Rules::default(), &record, incomes);
            for known in [Incomes::default(), incomes(&fridays)] {
                match (plans(None), plans(Some(&known))) {
                    (Some(earliest), Some(plan)) => assert!(earliest.at <= plan.at, "{back}"),
                    (earliest, plan) => assert_eq!(earliest, plan, "{back}"),
                }
            }
        }
    }
}
