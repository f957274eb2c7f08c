//! Notifications of change (C01 …): the bank asks for the account to be corrected.
//!
//! The payment stands, and no status changes; but until a new account is on file, the member's next debit
//! waits. [`Correction`] keeps the latest notification and the latest new account, by their own times, so
//! the order of arrival does not matter.

use chrono::NaiveDate;
use std::fmt;

use crate::billing::record::Record;
use crate::calendar::banking_days_after;
use crate::collections::ach::ReturnCode;
use crate::time::{GoTime, Time};

/// Banking days in which Nacha wants the account corrected.
pub const CORRECTION_BANKING_DAYS: u32 = 6;

/// A notification of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notice {
    /// When the bank sent it.
    pub at: Time,
    /// What is wrong with the account.
    pub code: ReturnCode,
}

/// What the bank said about a member's account, and when a new one was put on file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Correction {
    /// The latest notification, while no newer account is on file.
    awaited: Option<Notice>,
    /// When the latest account was put on file, where that is known.
    new_account_at: Option<Time>,
}

impl Correction {
    /// The notification that awaits a new account.
    #[must_use]
    pub fn awaited(&self) -> Option<Notice> {
        self.awaited
    }

    /// When the latest account was put on file.
    #[must_use]
    pub fn new_account_at(&self) -> Option<Time> {
        self.new_account_at
    }

    /// Takes a notification. Returns whether it is news: neither known, nor older than the account.
    pub fn notified(&mut self, notice: Notice) -> bool {
        let before = *self;
        *self = self.and(Self { awaited: Some(notice), new_account_at: None });
        *self != before
    }

    /// Takes that an account was put on file. Returns whether it is news.
    pub fn put_on_file(&mut self, at: Time) -> bool {
        let before = *self;
        *self = self.and(Self { awaited: None, new_account_at: Some(at) });
        *self != before
    }

    /// What two records of a member know, together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let new_account_at = self.new_account_at.max(other.new_account_at);
        let awaited = self.awaited.max(other.awaited);
        Self { awaited: awaited.filter(|notice| Some(notice.at) > new_account_at), new_account_at }
    }
}

impl Notice {
    /// The last day on which the account is to be corrected.
    #[must_use]
    pub fn correct_by(&self) -> NaiveDate {
        banking_days_after(self.at.date_naive(), CORRECTION_BANKING_DAYS)
    }

    /// The text in which it is stored: code and time.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!("{} {}", self.code, GoTime::trimmed(self.at).text())
    }

    /// Parses the text of [`Self::to_text`].
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (code, at) = text.split_once(' ')?;
        Some(Self { at: crate::time::parse(at).ok()?, code: ReturnCode::read(code)? })
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}, to correct by {}", self.code, self.at.format("%Y-%m-%d"), self.correct_by())
    }
}

/// The notification for which the next debit of a record waits. It concerns the member, so those of all of
/// the member's records count; a membership that began after it lifts it.
#[must_use]
pub fn awaited_correction(record: &Record, of_user: &[Record]) -> Option<Notice> {
    let known = of_user.iter().fold(record.correction, |known, other| known.and(other.correction));
    known.awaited().filter(|notice| record.since().is_none_or(|since| since <= notice.at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(day: u32) -> Time {
        crate::time::parse("2026-02-01T10:00:00Z").unwrap() + chrono::TimeDelta::days(day.into())
    }

    fn notice(day: u32, code: &str) -> Notice {
        Notice { at: at(day), code: ReturnCode::read(code).unwrap() }
    }

    #[test]
    fn a_notice_waits_for_an_account_that_is_newer_than_it() {
        let mut correction = Correction::default();
        assert!(correction.notified(notice(2, "C01")));
        assert!(!correction.notified(notice(2, "C01")), "known");
        assert!(!correction.notified(notice(1, "C05")), "older");
        assert_eq!(correction.awaited(), Some(notice(2, "C01")));
        assert!(correction.put_on_file(at(1)));
        assert_eq!(correction.awaited(), Some(notice(2, "C01")), "that account is the one that is wrong");
        assert!(correction.put_on_file(at(3)));
        assert_eq!(correction.awaited(), None);
        assert!(!correction.notified(notice(2, "C01")), "it was about the account before");
        assert!(correction.notified(notice(4, "C02")));
        assert_eq!(Notice::read(&notice(4, "C02").to_text()), Some(notice(4, "C02")));
        for text in ["", "C01", "C01 today", "C1 2026-02-01T10:00:00Z"] {
            assert_eq!(Notice::read(text), None, "{text}");
        }
    }

    /// Six banking days, counted by hand: 16 February is a holiday, the others skip weekends.
    #[test]
    fn the_account_is_to_be_corrected_within_six_banking_days() {
        for (from, by) in [(1, "2026-02-10"), (6, "2026-02-17"), (8, "2026-02-18"), (9, "2026-02-19")] {
            assert_eq!(notice(from, "C01").correct_by().to_string(), by, "{from}");
        }
        assert_eq!(notice(2, "C01").to_string(), "C01 of 2026-02-03, to correct by 2026-02-11");
    }

    proptest! {
        #[test]
        fn any_order_gives_the_same(
            (first, second) in prop::collection::vec((0..9_u32, 0..4_u32), 0..9)
                .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle()))
        ) {
            let taken = |all: &[(u32, u32)]| {
                let mut correction = Correction::default();
                for (day, code) in all {
                    let _ = match code {
                        0 => correction.put_on_file(at(*day)),
                        code => correction.notified(notice(*day, &format!("C0{code}"))),
                    };
                }
                correction
            };
            prop_assert_eq!(taken(&first), taken(&second));
        }
    }
}
