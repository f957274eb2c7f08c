//! Dollar amounts: exact, non-negative, whole cents, with checked arithmetic.

use rust_decimal::Decimal;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// An amount of money, such as `"14.99"`. Its text round-trips: `"5"` stays `"5"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Money(Decimal);

/// Why a text or a result is not a valid amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    /// Not a plain decimal number.
    #[error("{0:?} is not a decimal amount such as \"14.99\"")]
    NotDecimal(String),
    /// Below zero.
    #[error("{0} is negative")]
    Negative(Decimal),
    /// Finer than a cent.
    #[error("{0} has more than two decimals")]
    TooFine(Decimal),
    /// Larger than the maximum amount.
    #[error("{0} is larger than 999999999.99")]
    TooLarge(Decimal),
    /// A sum or difference is outside the range of amounts.
    #[error("the sum leaves the range of amounts")]
    OutOfRange,
}

/// The largest amount; leaves room for sums of billions of records in a `Decimal`.
const MAX: Decimal = Decimal::from_parts(1_215_752_191, 23, 0, false, 2);

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Money {
    /// Zero dollars.
    pub const ZERO: Self = Self(Decimal::ZERO);

    /// Converts whole cents.
    #[must_use]
    pub fn from_cents(cents: u32) -> Self {
        Self(Decimal::new(i64::from(cents), 2))
    }

    /// Converts signed cents from an external source.
    ///
    /// # Errors
    /// [`MoneyError`] when the amount is negative or above the maximum.
    pub fn from_minor_units(cents: i64) -> Result<Self, MoneyError> {
        Self::new(Decimal::new(cents, 2))
    }

    /// The amount in whole cents.
    #[must_use]
    pub fn cents(self) -> u64 {
        u64::try_from(self.0 * Decimal::ONE_HUNDRED).unwrap_or(u64::MAX)
    }

    /// The exact decimal value.
    #[must_use]
    pub fn decimal(self) -> Decimal {
        self.0
    }

    /// The sum of two amounts.
    ///
    /// # Errors
    /// [`MoneyError`] when the sum is above the maximum.
    pub fn checked_add(self, other: Self) -> Result<Self, MoneyError> {
        self.0.checked_add(other.0).ok_or(MoneyError::OutOfRange).and_then(Self::new)
    }

    /// The difference of two amounts.
    ///
    /// # Errors
    /// [`MoneyError`] when the difference is negative.
    pub fn checked_sub(self, other: Self) -> Result<Self, MoneyError> {
        self.0.checked_sub(other.0).ok_or(MoneyError::OutOfRange).and_then(Self::new)
    }

    fn new(value: Decimal) -> Result<Self, MoneyError> {
        if value.is_sign_negative() && !value.is_zero() {
            return Err(MoneyError::Negative(value));
        }
        if value.scale() > 2 {
            return Err(MoneyError::TooFine(value));
        }
        if value > MAX {
            return Err(MoneyError::TooLarge(value));
        }
        Ok(Self(value))
    }
}

/// A currency code of three letters, such as `USD`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

impl Currency {
    /// The US dollar: the currency of all dues.
    pub const USD: Self = Self(*b"USD");

    /// Parses a code of three letters, in any case; `None` for anything else.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        match text.as_bytes() {
            &[a, b, c] if [a, b, c].iter().all(u8::is_ascii_alphabetic) => {
                Some(Self([a, b, c].map(|letter| letter.to_ascii_uppercase())))
            }
            _ => None,
        }
    }

    /// The code in capitals.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // The bytes were checked to be ASCII when parsed.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Money {
    type Err = MoneyError;

    fn from_str(text: &str) -> Result<Self, MoneyError> {
        let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b'-')
            && text.bytes().any(|b| b.is_ascii_digit());
        let value = plain.then(|| Decimal::from_str_exact(text).ok()).flatten();
        value.ok_or_else(|| MoneyError::NotDecimal(text.chars().take(40).collect())).and_then(Self::new)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_keep_their_text() {
        for text in ["0", "0.00", "5", "4.9", "4.99", "39.99", "999999999.99"] {
            assert_eq!(text.parse::<Money>().unwrap().to_string(), text);
        }
        assert_eq!(MAX.to_string(), "999999999.99");
    }

    #[test]
    fn what_is_not_an_amount_is_refused_with_the_reason() {
        let reason = |text: &str| text.parse::<Money>().unwrap_err().to_string();
        assert_eq!(reason("-1.00"), "-1.00 is negative");
        assert_eq!(reason("1.999"), "1.999 has more than two decimals");
        assert_eq!(reason("1000000000"), "1000000000 is larger than 999999999.99");
        for text in ["", ".", "abc", "1e3", "1_000", "+1", " 1", "1.2.3", "NaN", "$5", "--1"] {
            assert_eq!(reason(text), format!("{text:?} is not a decimal amount such as \"14.99\""));
        }
    }

    #[test]
    fn sums_are_exact_and_checked() {
        let m = |text: &str| text.parse::<Money>().unwrap();
        assert_eq!(m("0.10").checked_add(m("0.20")).unwrap(), m("0.30"));
        assert_eq!(m("1.00").checked_sub(m("1.01")).unwrap_err().to_string(), "-0.01 is negative");
        assert!(m("999999999.99").checked_add(Money::from_cents(1)).is_err());
    }

    #[test]
    fn minor_units_are_cents_within_the_range() {
        let text =
            |cents| Money::from_minor_units(cents).map(|money| money.to_string()).map_err(|e| e.to_string());
        assert_eq!(text(1_499), Ok("14.99".to_owned()));
        assert_eq!(text(0), Ok("0.00".to_owned()));
        assert_eq!(text(99_999_999_999), Ok("999999999.99".to_owned()));
        assert_eq!(text(-5), Err("-0.05 is negative".to_owned()));
        assert_eq!(text(100_000_000_000), Err("1000000000.00 is larger than 999999999.99".to_owned()));
        assert!(Money::from_minor_units(i64::MIN).is_err() && Money::from_minor_units(i64::MAX).is_err());
    }
}
