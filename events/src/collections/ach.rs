//! ACH return codes and what they allow next.

use std::fmt;

/// A return (`R01`) or notification-of-change (`C01`) code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReturnCode([u8; 3]);

/// What may follow a return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Consequence {
    /// May be presented again: at most twice within 180 days of the original, for the same amount.
    Retry,
    /// No debit until the member provides a new account.
    NewAccount,
    /// No debit until the member authorises again.
    NewAuthorisation,
    /// No further debit, unless an operator corrects it: once, within 60 days.
    Correction,
    /// No further debit.
    Stop,
    /// No further debit, and the user is barred from collection.
    Bar,
    /// A notice only: the payment remains valid, and the next debit waits for a new account.
    Notice,
}

impl ReturnCode {
    /// Insufficient funds.
    pub const R01: Self = Self(*b"R01");

    /// Parses a code such as `R01` or `C05`; `None` for anything else.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        match text.as_bytes() {
            &[letter @ (b'R' | b'C'), tens, ones] if tens.is_ascii_digit() && ones.is_ascii_digit() => {
                Some(Self([letter, tens, ones]))
            }
            _ => None,
        }
    }

    /// The code as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // The bytes were checked to be ASCII when parsed.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// What the code allows next, by Nacha's rules. An unlisted code stops: a wrong guess would debit.
    #[must_use]
    pub fn consequence(self) -> Consequence {
        match self.as_str() {
            "R01" | "R09" => Consequence::Retry,
            "R02" | "R03" | "R04" => Consequence::NewAccount,
            "R05" | "R07" | "R10" | "R29" => Consequence::Bar,
            "R11" => Consequence::Correction,
            "R08" => Consequence::NewAuthorisation,
            code if code.starts_with('C') => Consequence::Notice,
            _ => Consequence::Stop,
        }
    }

    /// Whether it counts against the 0.5 % threshold of unauthorised debits.
    #[must_use]
    pub fn is_unauthorised(self) -> bool {
        matches!(self.consequence(), Consequence::Bar | Consequence::Correction)
    }

    /// Whether it counts against the 3 % threshold of administrative returns.
    #[must_use]
    pub fn is_administrative(self) -> bool {
        self.consequence() == Consequence::NewAccount
    }
}

impl fmt::Display for ReturnCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ReturnCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_code_has_its_consequence() {
        for (codes, consequence) in [
            ("R01 R09", Consequence::Retry),
            ("R02 R03 R04", Consequence::NewAccount),
            ("R05 R07 R10 R29", Consequence::Bar),
            ("R11", Consequence::Correction),
            ("R08", Consequence::NewAuthorisation),
            ("R16 R20 R99", Consequence::Stop),
            ("C01 C02 C03 C04 C05", Consequence::Notice),
        ] {
            for code in codes.split(' ') {
                assert_eq!(ReturnCode::read(code).unwrap().consequence(), consequence, "{code}");
            }
        }
        for text in ["", "R1", "R001", "X01", "r01", "R0x"] {
            assert_eq!(ReturnCode::read(text), None);
        }
    }
}
