//! The auditors' own calendar and arithmetic: dates are text, days are numbers, money is cents. Nothing here
//! is shared with the system.

/// `14.99` as 1499.
pub(crate) fn cents(text: &str) -> i64 {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let part = format!("{part:0<2}");
    whole.parse::<i64>().unwrap() * 100 + part.parse::<i64>().unwrap()
}

/// 1499 as `14.99`.
pub(crate) fn amount(cents: i64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// Days on which banks were or will be closed, typed from the Federal Reserve's page (Saturdays and Sundays
/// apart). 1 January and 11 November 2028 are Saturdays: the Fridays before stay open.
const CLOSED: [&str; 19] = [
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
    "2028-01-17",
    "2028-02-21",
    "2028-05-29",
    "2028-06-19",
    "2028-07-04",
    "2028-09-04",
    "2028-10-09",
    "2028-11-23",
    "2028-12-25",
];

/// Whether banks are closed on that day.
pub(crate) fn is_closed(day: &str) -> bool {
    CLOSED.contains(&day) || weekday(day) >= 5
}

fn number(text: &str) -> i64 {
    text.parse().unwrap()
}

/// Months since the year 0.
pub(crate) fn month_number(date: &str) -> i64 {
    number(&date[..4]) * 12 + number(&date[5..7]) - 1
}

pub(crate) fn days_in(month: i64) -> i64 {
    let (year, month) = (month / 12, month % 12 + 1);
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1 January 2000.
pub(crate) fn day_number(date: &str) -> i64 {
    (2000 * 12..month_number(date)).map(days_in).sum::<i64>() + number(&date[8..10]) - 1
}

/// The date of a number of days since 1 January 2000.
pub(crate) fn date(mut days: i64) -> String {
    let mut month = 2000 * 12;
    while days >= days_in(month) {
        days -= days_in(month);
        month += 1;
    }
    format!("{:04}-{:02}-{:02}", month / 12, month % 12 + 1, days + 1)
}

/// Monday is 0. 1 January 2000 was a Saturday.
pub(crate) fn weekday(date: &str) -> i64 {
    (day_number(date) + 5).rem_euclid(7)
}

/// The same day some months later, or the last of a shorter month.
pub(crate) fn months_later(date: &str, months: i64) -> String {
    due_day(date, month_number(date) + months, None)
}

/// The due day in a month: the anchor's day, or the last of a shorter month; the n-th Friday, or the last.
pub(crate) fn due_day(anchor: &str, month: i64, week: Option<i64>) -> String {
    let first = format!("{:04}-{:02}-01", month / 12, month % 12 + 1);
    let day = match week {
        None => number(&anchor[8..10]).min(days_in(month)),
        Some(week) => {
            let friday = 1 + (4 - weekday(&first)).rem_euclid(7) + (week - 1) * 7;
            if friday > days_in(month) { friday - 7 } else { friday }
        }
    };
    format!("{}{day:02}", &first[..8])
}

/// The due dates of a membership.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    pub(crate) anchor: String,
    pub(crate) yearly: bool,
    pub(crate) week: Option<i64>,
}

impl Schedule {
    /// The first due date on or after a day, in a later month than that of another date.
    pub(crate) fn next(&self, from: &str, after_month_of: &str) -> String {
        let step = if self.yearly { 12 } else { 1 };
        let mut month = month_number(&self.anchor);
        loop {
            let due = due_day(&self.anchor, month, self.week);
            if due.as_str() >= &from[..10] && month > month_number(after_month_of) {
                return due;
            }
            month += step;
        }
    }
}

#[test]
fn the_calendar_knows_its_days() {
    assert_eq!(date(day_number("2028-02-29")), "2028-02-29");
    assert_eq!(date(day_number("2028-02-29") + 1), "2028-03-01");
    assert_eq!((weekday("2028-01-01"), weekday("2026-01-01")), (5, 3));
    assert_eq!(months_later("2028-01-31", 1), "2028-02-29");
    assert_eq!(months_later("2028-01-31", 2), "2028-03-31");
    assert_eq!(due_day("2028-01-31", month_number("2028-06-01"), Some(5)), "2028-06-30");
    assert_eq!(due_day("2028-01-31", month_number("2028-07-01"), Some(5)), "2028-07-28");
    let yearly = Schedule { anchor: "2028-02-29".into(), yearly: true, week: None };
    assert_eq!(yearly.next("2028-02-29", "2028-02-29"), "2029-02-28");
    // The Friday of the first date's own month is not a due date.
    let friday = Schedule { anchor: "2028-03-02".into(), yearly: false, week: Some(2) };
    assert_eq!(friday.next("2028-03-02", "2028-03-02"), "2028-04-14");
    assert!(is_closed("2028-07-04") && is_closed("2028-01-01") && !is_closed("2028-11-10"));
    assert_eq!((cents("14.9"), cents("14.99"), amount(1405)), (1490, 1499, "14.05".to_owned()));
}
