//! Due dates and banking days.
//!
//! Every due date is counted from the anchor, never from the previous date: 31 January, 28 February, 31
//! March.

use chrono::{Datelike, Days, Months, NaiveDate, TimeDelta, Weekday};
use std::fmt;

use crate::time::Time;

/// Billing interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Term {
    /// Every month.
    Monthly,
    /// Every twelve months.
    Yearly,
}

impl Term {
    /// The spelling in tables and on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Monthly => "MONTHLY",
            Self::Yearly => "YEARLY",
        }
    }

    /// Parses the spelling of [`Term::as_str`].
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        [Self::Monthly, Self::Yearly].into_iter().find(|term| term.as_str() == text)
    }

    fn months(self) -> u32 {
        match self {
            Self::Monthly => 1,
            Self::Yearly => 12,
        }
    }
}

/// Which Friday of the month a Friday-billed user pays on: 1 to 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BillingWeek(u8);

impl BillingWeek {
    /// The n-th Friday; `None` unless n is 1 to 5.
    #[must_use]
    pub fn new(n: i64) -> Option<Self> {
        u8::try_from(n).ok().filter(|n| (1..=5).contains(n)).map(Self)
    }

    /// The week number, 1 to 5.
    #[must_use]
    pub fn get(self) -> u8 {
        self.0
    }
}

/// The due dates of one membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// The first due date; all others are counted from it.
    pub anchor: Time,
    /// The interval between due dates.
    pub term: Term,
    /// Set for Friday billing.
    pub week: Option<BillingWeek>,
}

impl Schedule {
    /// The n-th due date after the anchor; `None` beyond the end of the calendar.
    #[must_use]
    pub fn nth(&self, n: u32) -> Option<Time> {
        let months = Months::new(n.checked_mul(self.term.months())?);
        let day = match self.week {
            None => self.anchor.date_naive().checked_add_months(months)?,
            Some(week) => {
                let first = self.anchor.date_naive().with_day(1)?.checked_add_months(months)?;
                nth_friday(first.year(), first.month(), week)?
            }
        };
        Some(day.and_time(self.anchor.time()).and_utc())
    }

    /// The first due date later than `time`.
    #[must_use]
    pub fn after(&self, time: Time) -> Option<Time> {
        let months_between =
            |from: Time, to: Time| (to.year() - from.year()) * 12 + to.month0() as i32 - from.month0() as i32;
        let guess = months_between(self.anchor, time).max(0) as u32 / self.term.months();
        // A clipped day or a Friday can fall on either side of the nominal day: search around the guess.
        (guess.saturating_sub(1)..=guess + 2).find_map(|n| self.nth(n).filter(|due| *due > time))
    }
}

impl Schedule {
    /// The first due date at or after `time` that lies in a later period than `period`.
    ///
    /// A first date may lie before the Friday of its own month: that Friday is not a due date of its own.
    #[must_use]
    pub fn from_in_later_period(&self, time: Time, period: Time) -> Option<Time> {
        let later = |due: &Time| (due.year(), due.month()) > (period.year(), period.month());
        let mut due = self.after(time - TimeDelta::nanoseconds(1))?;
        while !later(&due) {
            due = self.after(due)?;
        }
        Some(due)
    }
}

/// The n-th Friday of a month; the last one if the month has no fifth Friday.
fn nth_friday(year: i32, month: u32, week: BillingWeek) -> Option<NaiveDate> {
    NaiveDate::from_weekday_of_month_opt(year, month, Weekday::Fri, week.get())
        .or_else(|| NaiveDate::from_weekday_of_month_opt(year, month, Weekday::Fri, 4))
}

/// `MM/YYYY` of a due date.
#[must_use]
pub fn billing_period(due: Time) -> String {
    format!("{:02}/{:04}", due.month(), due.year())
}

/// Whether banks settle on that day: weekdays, except holidays of the Federal Reserve.
#[must_use]
pub fn is_banking_day(day: NaiveDate) -> bool {
    !matches!(day.weekday(), Weekday::Sat | Weekday::Sun) && holiday(day).is_none()
}

/// The first banking day on or after `day`.
#[must_use]
pub fn banking_day_from(day: NaiveDate) -> NaiveDate {
    // The longest run of closed days is four (a weekend next to a holiday), so a week always has a banking
    // day.
    (0..7).filter_map(|n| day.checked_add_days(Days::new(n))).find(|d| is_banking_day(*d)).unwrap_or(day)
}

/// The n-th banking day after `day`.
#[must_use]
pub fn banking_days_after(day: NaiveDate, n: u32) -> NaiveDate {
    (0..n).fold(day, |day, _| day.succ_opt().map_or(day, banking_day_from))
}

/// A holiday of the Federal Reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holiday {
    /// 1 January.
    NewYear,
    /// Third Monday of January.
    MartinLutherKing,
    /// Third Monday of February.
    Presidents,
    /// Last Monday of May.
    Memorial,
    /// 19 June, since 2022.
    Juneteenth,
    /// 4 July.
    Independence,
    /// First Monday of September.
    Labor,
    /// Second Monday of October.
    Columbus,
    /// 11 November.
    Veterans,
    /// Fourth Thursday of November.
    Thanksgiving,
    /// 25 December.
    Christmas,
}

impl fmt::Display for Holiday {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NewYear => "New Year's Day",
            Self::MartinLutherKing => "Martin Luther King Jr. Day",
            Self::Presidents => "Presidents' Day",
            Self::Memorial => "Memorial Day",
            Self::Juneteenth => "Juneteenth",
            Self::Independence => "Independence Day",
            Self::Labor => "Labor Day",
            Self::Columbus => "Columbus Day",
            Self::Veterans => "Veterans Day",
            Self::Thanksgiving => "Thanksgiving",
            Self::Christmas => "Christmas Day",
        })
    }
}

/// The holiday observed on that day. A holiday on a Sunday is observed on Monday; one on a Saturday leaves
/// the Friday before open.
#[must_use]
pub fn holiday(day: NaiveDate) -> Option<Holiday> {
    if day.weekday() == Weekday::Mon
        && let Some(sunday) = day.pred_opt()
        && let Some(moved) = fixed_holiday(sunday)
    {
        return Some(moved);
    }
    fixed_holiday(day).or_else(|| floating_holiday(day))
}

fn fixed_holiday(day: NaiveDate) -> Option<Holiday> {
    match (day.month(), day.day()) {
        (1, 1) => Some(Holiday::NewYear),
        (6, 19) if day.year() >= 2022 => Some(Holiday::Juneteenth),
        (7, 4) => Some(Holiday::Independence),
        (11, 11) => Some(Holiday::Veterans),
        (12, 25) => Some(Holiday::Christmas),
        _ => None,
    }
}

fn floating_holiday(day: NaiveDate) -> Option<Holiday> {
    let nth = (day.day() - 1) / 7 + 1;
    let last = day.checked_add_signed(TimeDelta::days(7)).is_none_or(|d| d.month() != day.month());
    match (day.month(), day.weekday(), nth) {
        (1, Weekday::Mon, 3) => Some(Holiday::MartinLutherKing),
        (2, Weekday::Mon, 3) => Some(Holiday::Presidents),
        (5, Weekday::Mon, _) if last => Some(Holiday::Memorial),
        (9, Weekday::Mon, 1) => Some(Holiday::Labor),
        (10, Weekday::Mon, 2) => Some(Holiday::Columbus),
        (11, Weekday::Thu, 4) => Some(Holiday::Thanksgiving),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn t(day: &str) -> Time {
        crate::time::parse(&format!("{day}T00:00:00Z")).unwrap()
    }

    fn d(day: &str) -> NaiveDate {
        day.parse().unwrap()
    }

    fn dates(anchor: &str, term: Term, week: Option<i64>, n: u32) -> Vec<String> {
        let schedule = Schedule { anchor: t(anchor), term, week: week.and_then(BillingWeek::new) };
        (0..n).map(|n| schedule.nth(n).unwrap().date_naive().to_string()).collect()
    }

    #[test]
    fn months_are_counted_from_the_anchor() {
        assert_eq!(
            dates("2026-01-31", Term::Monthly, None, 5),
            ["2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30", "2026-05-31"]
        );
        assert_eq!(dates("2024-01-30", Term::Monthly, None, 3), ["2024-01-30", "2024-02-29", "2024-03-30"]);
    }

    #[test]
    fn years_from_29_february_come_back_to_it() {
        assert_eq!(
            dates("2024-02-29", Term::Yearly, None, 5),
            ["2024-02-29", "2025-02-28", "2026-02-28", "2027-02-28", "2028-02-29"]
        );
    }

    #[test]
    fn fridays_of_the_month_and_the_missing_fifth() {
        assert_eq!(
            dates("2026-01-30", Term::Monthly, Some(5), 4),
            ["2026-01-30", "2026-02-27", "2026-03-27", "2026-04-24"]
        );
        assert_eq!(
            dates("2026-01-09", Term::Monthly, Some(2), 3),
            ["2026-01-09", "2026-02-13", "2026-03-13"]
        );
        assert_eq!(BillingWeek::new(0), None);
        assert_eq!(BillingWeek::new(6), None);
    }

    #[test]
    fn the_date_after_any_moment_is_the_first_one_later_than_it() {
        for (anchor, term, week) in [
            ("2026-01-31", Term::Monthly, None),
            ("2024-02-29", Term::Yearly, None),
            ("2026-01-30", Term::Monthly, Some(5)),
            ("2025-12-05", Term::Monthly, Some(1)),
        ] {
            let schedule = Schedule { anchor: t(anchor), term, week: week.and_then(BillingWeek::new) };
            let all: Vec<Time> = (0..80).map(|n| schedule.nth(n).unwrap()).collect();
            for hours in (-400..40_000).step_by(7) {
                let moment = t(anchor) + TimeDelta::hours(hours);
                assert_eq!(
                    schedule.after(moment),
                    all.iter().copied().find(|due| *due > moment),
                    "{anchor} after {moment}"
                );
            }
            for pair in all.windows(2) {
                assert_eq!(schedule.after(pair[0]), Some(pair[1]));
            }
        }
    }

    #[test]
    fn the_end_of_the_calendar_is_no_panic() {
        let schedule = Schedule { anchor: Time::MAX_UTC, term: Term::Yearly, week: None };
        assert_eq!(schedule.nth(1), None);
        assert_eq!(schedule.nth(u32::MAX), None);
        assert_eq!(schedule.after(Time::MAX_UTC), None);
    }

    #[test]
    fn periods_are_month_slash_year() {
        assert_eq!(billing_period(t("2026-02-01")), "02/2026");
    }

    /// Holidays published by the Federal Reserve for 2026 and 2027.
    #[test]
    fn the_federal_reserves_own_list() {
        let closed = |year: i32| -> Vec<String> {
            let first = NaiveDate::from_ymd_opt(year, 1, 1).unwrap();
            first
                .iter_days()
                .take_while(|d| d.year() == year)
                .filter(|d| holiday(*d).is_some())
                .map(|d| d.to_string())
                .collect()
        };
        assert_eq!(
            closed(2026),
            [
                "2026-01-01",
                "2026-01-19",
                "2026-02-16",
                "2026-05-25",
                "2026-06-19",
                "2026-07-04",
                "2026-09-07",
                "2026-10-12",
                "2026-11-11",
                "2026-11-26",
                "2026-12-25"
            ]
        );
        // 4 July 2027 is a Sunday, so Monday is observed as well. 19 June and 25 December are Saturdays:
        // their Fridays stay open.
        assert!(is_banking_day(d("2027-06-18")) && is_banking_day(d("2027-12-24")));
        assert!(!is_banking_day(d("2027-07-05")) && is_banking_day(d("2027-07-02")));
        assert!(is_banking_day(d("2021-06-21")), "Juneteenth came to the list in 2022");
    }

    #[test]
    fn banking_days_are_counted_over_weekends_and_holidays() {
        assert_eq!(
            banking_day_from(d("2026-07-03")),
            d("2026-07-03"),
            "a Saturday holiday leaves Friday open"
        );
        assert_eq!(banking_day_from(d("2026-07-04")), d("2026-07-06"));
        assert_eq!(banking_days_after(d("2026-12-24"), 1), d("2026-12-28"));
        assert_eq!(banking_days_after(d("2026-12-24"), 2), d("2026-12-29"));
        assert_eq!(banking_days_after(d("2026-01-05"), 0), d("2026-01-05"));
    }
}
