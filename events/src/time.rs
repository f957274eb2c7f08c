//! Timestamps in Go's format, because they are table keys.
//!
//! Go's `time.RFC3339Nano` trims trailing zeros of the fraction. Such texts do not sort by time, and a key
//! rendered differently addresses another item. A [`GoTime`] therefore keeps the text it was read from.

use chrono::{DateTime, Datelike, NaiveDate, NaiveTime, SecondsFormat, Timelike, Utc};
use std::fmt;

/// An instant in UTC.
pub type Time = DateTime<Utc>;

/// An instant together with its text in a table.
#[derive(Clone)]
pub struct GoTime {
    at: Time,
    form: Form,
}

#[derive(Clone)]
enum Form {
    /// Go's format: UTC, trailing zeros trimmed.
    Trimmed,
    /// Exactly nine digits, as in history keys, so that texts sort by time.
    Nine,
    /// Any other text that was read (an offset, `.10Z`), kept verbatim.
    Verbatim(Box<str>),
}

/// Parses an RFC 3339 time.
pub fn parse(text: &str) -> Result<Time, chrono::ParseError> {
    if let Some(at) = parse_usual(text.as_bytes()) {
        return Ok(at);
    }
    DateTime::parse_from_rfc3339(text).map(|at| at.with_timezone(&Utc))
}

/// Parses `2026-01-05T14:00:05.123Z` by hand, for speed: every row has half a dozen times. Everything else,
/// including error messages, is left to chrono.
fn parse_usual(text: &[u8]) -> Option<Time> {
    let [
        y1,
        y2,
        y3,
        y4,
        b'-',
        m1,
        m2,
        b'-',
        d1,
        d2,
        b'T',
        h1,
        h2,
        b':',
        n1,
        n2,
        b':',
        s1,
        s2,
        rest @ ..,
        b'Z',
    ] = text
    else {
        return None;
    };
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0_u32, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + u32::from(digit - b'0'))
        })
    };
    let nanos = match rest {
        [] => 0,
        [b'.', fraction @ ..] if (1..=9).contains(&fraction.len()) => {
            number(fraction)? * 10_u32.pow(9 - u32::try_from(fraction.len()).ok()?)
        }
        _ => return None,
    };
    let date = NaiveDate::from_ymd_opt(
        i32::try_from(number(&[*y1, *y2, *y3, *y4])?).ok()?,
        number(&[*m1, *m2])?,
        number(&[*d1, *d2])?,
    )?;
    // Leap seconds are left to chrono.
    let time = NaiveTime::from_hms_nano_opt(
        number(&[*h1, *h2])?,
        number(&[*n1, *n2])?,
        number(&[*s1, *s2])?,
        nanos,
    )?;
    Some(date.and_time(time).and_utc())
}

/// Parses user input: RFC 3339, or a day, which means its first moment in UTC. Years have four digits.
#[must_use]
pub fn parse_or_day(text: &str) -> Option<Time> {
    let day = || text.parse::<NaiveDate>().ok().map(|day| day.and_time(NaiveTime::MIN).and_utc());
    parse(text).ok().or_else(day).filter(|at| is_in_range(*at))
}

/// The years of facts, in words.
pub const RANGE: &str = "the years 1970 and 2199";

/// Whether a time can be that of a fact. Go's zero time means "not set", and a date near the end of the
/// calendar has no next due date: neither may get into a row.
#[must_use]
pub fn is_in_range(at: Time) -> bool {
    (1970..=2199).contains(&at.year())
}

impl GoTime {
    /// Go's format, as in `billing_date` keys, so that old and new writers address the same item.
    #[must_use]
    pub fn trimmed(at: Time) -> Self {
        Self { at, form: Form::Trimmed }
    }

    /// Exactly nine digits, as in `last_run_date` keys.
    #[must_use]
    pub fn nine_digits(at: Time) -> Self {
        Self { at, form: Form::Nine }
    }

    /// Parses a stored text and keeps it. Go's zero time (`0001-01-01T00:00:00Z`) means "not set".
    pub fn read(text: &str) -> Result<Option<Self>, chrono::ParseError> {
        let at = parse(text)?;
        if at.year() == 1 && at.ordinal() == 1 && at.num_seconds_from_midnight() == 0 && at.nanosecond() == 0
        {
            return Ok(None);
        }
        Ok(Some(Self { at, form: form_of(text) }))
    }

    /// The instant.
    #[must_use]
    pub fn at(&self) -> Time {
        self.at
    }

    /// The text in the table.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.form {
            Form::Trimmed => text_of(self.at, Digits::Trimmed),
            Form::Nine => text_of(self.at, Digits::Nine),
            Form::Verbatim(text) => text.to_string(),
        }
    }
}

/// The form of a text that parsed as a time.
fn form_of(text: &str) -> Form {
    let verbatim = || Form::Verbatim(text.into());
    let bytes = text.as_bytes();
    let utc_capital = bytes.last() == Some(&b'Z') && bytes.get(10) == Some(&b'T');
    // Keep leap seconds (`:60`) verbatim: chrono renders them by its own rules.
    if !utc_capital || bytes.get(17) == Some(&b'6') {
        return verbatim();
    }
    match bytes.len() {
        20 => Form::Trimmed,
        22..=30 if bytes[19] == b'.' && bytes[bytes.len() - 2] != b'0' => Form::Trimmed,
        30 if bytes[19] == b'.' => Form::Nine,
        _ => verbatim(),
    }
}

/// Formats by hand, because every row has half a dozen times and chrono's formatter took most of the time
/// of encoding a row. Years outside 0 to 9999, which RFC 3339 cannot express, are left to chrono.
fn text_of(at: Time, digits: Digits) -> String {
    let (date, time) = (at.date_naive(), at.time());
    // chrono represents a leap second with a billion nanoseconds or more.
    if !(0..=9999).contains(&date.year()) || time.nanosecond() >= 1_000_000_000 {
        return at.to_rfc3339_opts(SecondsFormat::Nanos, true);
    }
    let mut text = *b"0000-00-00T00:00:00.000000000Z";
    let mut put = |end: usize, width: usize, mut number: u32| {
        for place in (end - width..end).rev() {
            // One digit.
            text[place] = b'0' + (number % 10) as u8;
            number /= 10;
        }
    };
    put(4, 4, date.year().unsigned_abs());
    put(7, 2, date.month());
    put(10, 2, date.day());
    put(13, 2, time.hour());
    put(16, 2, time.minute());
    put(19, 2, time.second());
    put(29, 9, time.nanosecond());
    let kept = match digits {
        Digits::Nine => 29,
        Digits::Trimmed if time.nanosecond() == 0 => 19,
        Digits::Trimmed => 29 - text[..29].iter().rev().take_while(|digit| **digit == b'0').count(),
    };
    let mut out = String::with_capacity(30);
    out.extend(text[..kept].iter().map(|byte| char::from(*byte)));
    out.push('Z');
    out
}

#[derive(Clone, Copy)]
enum Digits {
    Trimmed,
    Nine,
}

/// Equality of texts: equal texts address the same item.
impl PartialEq for GoTime {
    fn eq(&self, other: &Self) -> bool {
        match (&self.form, &other.form) {
            (Form::Trimmed, Form::Trimmed) | (Form::Nine, Form::Nine) => self.at == other.at,
            (Form::Trimmed | Form::Nine | Form::Verbatim(_), _) => self.text() == other.text(),
        }
    }
}

impl Eq for GoTime {}

impl fmt::Display for GoTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl fmt::Debug for GoTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> GoTime {
        GoTime::read(text).unwrap().unwrap()
    }

    #[test]
    fn go_trims_trailing_zeros() {
        for (nanos, text) in [
            (0, "05Z"),
            (100_000_000, "05.1Z"),
            (150_000_000, "05.15Z"),
            (1, "05.000000001Z"),
            (123_456_780, "05.12345678Z"),
        ] {
            let at = parse("2026-01-05T14:00:05Z").unwrap().with_nanosecond(nanos).unwrap();
            assert_eq!(GoTime::trimmed(at).text(), format!("2026-01-05T14:00:{text}"));
        }
    }

    #[test]
    fn formats_as_chrono_does() {
        for (seconds, nanos) in [
            (0, 0),
            (1_767_621_605, 5),
            (253_402_300_799, 999_999_999),
            (-62_167_219_200, 120),
            (951_782_400, 1_000),
        ] {
            let at = Time::from_timestamp(seconds, nanos).unwrap();
            assert_eq!(GoTime::nine_digits(at).text(), at.to_rfc3339_opts(SecondsFormat::Nanos, true));
        }
        assert_eq!(
            GoTime::nine_digits(Time::MAX_UTC).text(),
            Time::MAX_UTC.to_rfc3339_opts(SecondsFormat::Nanos, true)
        );
    }

    #[test]
    fn reads_as_chrono_does() {
        let chrono = |text: &str| DateTime::parse_from_rfc3339(text).map(|at| at.with_timezone(&Utc)).ok();
        for text in [
            "2026-01-05T14:00:05Z",
            "2026-01-05T14:00:05.1Z",
            "2026-01-05T14:00:05.123456789Z",
            "2026-01-05T14:00:05.1234567891Z",
            "2026-01-05T14:00:05.Z",
            "2026-01-05T14:00:05.1x3Z",
            "2026-01-05T14:00:05+00:00",
            "2026-01-05t14:00:05z",
            "2016-12-31T23:59:60Z",
            "2026-02-29T00:00:00Z",
            "2024-02-29T23:59:59.999999999Z",
            "2026-13-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:61Z",
            "0000-01-01T00:00:00Z",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
            "2026-01-05 14:00:05Z",
            "+026-01-05T14:00:05Z",
            "",
            "Z",
        ] {
            assert_eq!(parse(text).ok(), chrono(text), "{text}");
        }
    }

    #[test]
    fn a_key_that_was_read_is_written_verbatim() {
        for text in [
            "2026-01-05T14:00:05Z",
            "2026-01-05T14:00:05.1Z",
            "2026-01-05T14:00:05.10Z",
            "2026-01-05T14:00:05.100Z",
            "2026-01-05T14:00:05.100000000Z",
            "2026-01-05T14:00:05.000000000Z",
            "2026-01-05T14:00:05.123456789Z",
            "2026-01-05T14:00:05.0Z",
            "2026-01-05t14:00:05z",
            "2026-01-05T16:00:05+02:00",
            "2026-01-05T14:00:05+00:00",
            "2016-12-31T23:59:60Z",
        ] {
            assert_eq!(read(text).text(), text);
        }
    }

    #[test]
    fn people_name_a_time_or_a_day() {
        let moment = |text: &str| parse_or_day(text).map(|at| at.to_rfc3339());
        assert_eq!(moment("2026-02-01").as_deref(), Some("2026-02-01T00:00:00+00:00"));
        assert_eq!(moment("2026-02-01T12:00:00+02:00").as_deref(), Some("2026-02-01T10:00:00+00:00"));
        for no in ["", "yesterday", "2026-02-30", "+12026-02-01", "-0001-02-01", "2026-02-01 12:00"] {
            assert_eq!(moment(no), None, "{no}");
        }
    }

    #[test]
    fn equal_means_the_same_key() {
        assert_eq!(read("2026-01-05T14:00:05Z"), GoTime::trimmed(parse("2026-01-05T14:00:05Z").unwrap()));
        assert_ne!(read("2026-01-05T14:00:05.1Z"), read("2026-01-05T14:00:05.10Z"));
        assert_eq!(read("2026-01-05T14:00:05.1Z").at(), read("2026-01-05T14:00:05.10Z").at());
        assert_eq!(
            read("2026-01-05T14:00:05.123456789Z"),
            GoTime::nine_digits(parse("2026-01-05T14:00:05.123456789Z").unwrap())
        );
    }

    #[test]
    fn nine_digits_sort_by_time_and_trimmed_ones_do_not() {
        let times = ["2026-01-05T14:00:05Z", "2026-01-05T14:00:05.1Z", "2026-01-05T14:00:05.15Z"]
            .map(|t| parse(t).unwrap());
        assert!(times.map(GoTime::nine_digits).map(|t| t.text()).is_sorted());
        assert!(!times.map(GoTime::trimmed).map(|t| t.text()).is_sorted());
    }

    #[test]
    fn gos_zero_time_is_not_set_and_rubbish_is_an_error() {
        assert!(GoTime::read("0001-01-01T00:00:00Z").unwrap().is_none());
        assert!(GoTime::read("0001-01-01T00:00:01Z").unwrap().is_some());
        for text in ["", "now", "2026-02-30T00:00:00Z", "2026-01-05 14:00"] {
            assert!(GoTime::read(text).is_err(), "{text}");
        }
    }
}
