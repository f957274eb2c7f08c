//! When a returned debit is presented again. Pure: from the rules, the banking calendar, the record and the
//! member's last incomes, so every reader comes to the same date.
//!
//! ACH allows three presentments. Presented again the next morning, an R01 spends all of them within a week,
//! on an account that is still empty. So the RETRY job waits for [`RetryPlan::at`]:
//!
//! 1. never earlier than `retry_banking_days` (two) after the return;
//! 2. the last presentment is kept for a signal (income, balance) until `last_presentment_days` (45) after
//!    the due date, and planned from there if none has come;
//! 3. from that day on, the first banking day after an expected payday, where the incomes show one
//!    ([`paydays`]);
//! 4. otherwise spread over `retry_spread_days` (10) banking days, by a hash of record and presentment:
//!    returns of one day do not all come back on one day;
//! 5. never so late that the record is STALE or its presentment window has passed: then on the last banking
//!    day before that.
//!
//! Signals, batches and `pay` act at once: only the RETRY job waits.

use chrono::{Datelike, Days, NaiveDate, NaiveTime, TimeDelta};
use sha2::{Digest, Sha256};
use std::fmt;

use crate::billing::record::Record;
use crate::calendar::{banking_day_from, banking_days_after, is_banking_day};
use crate::collections::eligibility::Rules;
use crate::collections::incomes::Incomes;
use crate::ids::SubscriptionId;
use crate::time::{GoTime, Time};

/// When a record is presented again, and why then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPlan {
    /// The start of that day (UTC); the first RETRY run from then on presents it.
    pub at: Time,
    /// Why then.
    pub why: RetryReason,
}

/// Why a record is presented again on that day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryReason {
    /// The earliest day; the incomes have not been looked at.
    Earliest,
    /// The day after an expected payday.
    Payday(PayPattern),
    /// No payday is known: spread over the following banking days.
    Spread,
    /// The last presentment: no signal has come until the deadline, and then an expected payday.
    LastAtPayday(PayPattern),
    /// The last presentment: no signal has come until the deadline, and no payday is known.
    LastSpread,
    /// The last banking day on which it may be presented.
    LastChance,
}

/// How often a member is paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PayPattern {
    /// Every week.
    Weekly,
    /// Every two weeks.
    Biweekly,
    /// Twice a month: on the 1st and the 15th, or on the 15th and the last day.
    SemiMonthly,
    /// Every month, on one day of the month.
    Monthly,
}

impl PayPattern {
    /// Paydays with an income that it takes to see the pattern. Three dates alone can be both biweekly and
    /// semi-monthly.
    #[must_use]
    pub fn fewest_incomes(self) -> usize {
        match self {
            Self::Weekly | Self::Biweekly | Self::Monthly => 3,
            Self::SemiMonthly => 4,
        }
    }

    /// The pattern as text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Weekly => "weekly",
            Self::Biweekly => "biweekly",
            Self::SemiMonthly => "twice a month",
            Self::Monthly => "monthly",
        }
    }
}

impl fmt::Display for RetryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "on {}: {}", self.at.format("%Y-%m-%d"), self.why)
    }
}

impl fmt::Display for RetryReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const KEPT: &str = "the last presentment was kept for a signal";
        match self {
            Self::Earliest => f.write_str("the earliest banking day after its return"),
            Self::Payday(pattern) => write!(f, "the day after the expected payday ({})", pattern.as_str()),
            Self::Spread => f.write_str("no payday is known, so returns are spread over banking days"),
            Self::LastAtPayday(pattern) => {
                write!(f, "{KEPT}, then the day after the expected payday ({})", pattern.as_str())
            }
            Self::LastSpread => write!(f, "{KEPT}, and no payday is known"),
            Self::LastChance => f.write_str("the last banking day on which it may be presented"),
        }
    }
}

/// Plans the next presentment of a failed record. Without `incomes`, the earliest day on which it may be: a
/// caller that has not read them skips what is too early by any plan.
///
/// `None` if nothing has failed, if all presentments are spent, or if no banking day is left.
#[must_use]
pub fn retry_plan(rules: &Rules, record: &Record, incomes: Option<&Incomes>) -> Option<RetryPlan> {
    let (_, failed) = record.attempts.latest_failure(record.plan.amount)?;
    let presentment = record.attempts.count().checked_add(1).filter(|next| *next <= rules.presentments)?;
    let returned = failed.at.date_naive();
    let earliest = banking_days_after(returned, rules.retry_banking_days);
    let latest = last_banking_day(rules, record)?;
    if earliest > latest {
        return None;
    }
    let is_last = presentment == rules.presentments && presentment > 1;
    let from = match is_last {
        true => {
            let deadline = record.billing_date.at() + TimeDelta::days(rules.last_presentment_days.into());
            earliest.max(banking_day_from(deadline.date_naive()))
        }
        false => earliest,
    };
    let (day, why) = match incomes {
        None => (from, RetryReason::Earliest),
        Some(incomes) => match paydays(incomes, returned).and_then(|paydays| {
            let day = paydays.first_day_after(from)?;
            Some((day, paydays.pattern()))
        }) {
            Some((day, pattern)) if is_last => (day, RetryReason::LastAtPayday(pattern)),
            Some((day, pattern)) => (day, RetryReason::Payday(pattern)),
            None => {
                let days = spread(rules, &record.subscription_id, presentment);
                let why = if is_last { RetryReason::LastSpread } else { RetryReason::Spread };
                (banking_days_after(from, days), why)
            }
        },
    };
    let (day, why) = if day > latest { (latest, RetryReason::LastChance) } else { (day, why) };
    Some(RetryPlan { at: start_of(day), why })
}

/// The last banking day that ends before the record is STALE and before its presentment window has passed.
fn last_banking_day(rules: &Rules, record: &Record) -> Option<NaiveDate> {
    let stale = record.billing_date.at() + TimeDelta::days(rules.old_days.into());
    let first = record.initial_run_date.as_ref().map(GoTime::at);
    let window = first.map(|first| first + TimeDelta::days(rules.presentment_days.into()));
    let end = window.into_iter().fold(stale, Ord::min).date_naive();
    (1..=7).filter_map(|n| end.checked_sub_days(Days::new(n))).find(|day| is_banking_day(*day))
}

/// How many banking days a presentment waits where no payday is known: 0 up to `retry_spread_days` less one.
fn spread(rules: &Rules, record: &SubscriptionId, presentment: u32) -> u32 {
    let hash = Sha256::digest(format!("{record}-{presentment}"));
    let number = hash.iter().take(4).fold(0_u32, |number, byte| (number << 8) | u32::from(*byte));
    number % rules.retry_spread_days.max(1)
}

fn start_of(day: NaiveDate) -> Time {
    day.and_time(NaiveTime::MIN).and_utc()
}

/// The paydays that a member's incomes show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paydays {
    /// Every so many days, from one of them.
    Every {
        /// One of them.
        from: NaiveDate,
        /// Days between two of them: 7 or 14.
        days: u32,
    },
    /// On these days of each month; a day that a month does not have is its last.
    OnDays(u32, Option<u32>),
}

/// A candidate with what speaks for and against it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fit {
    /// Paydays without an income, and incomes on other days.
    errors: usize,
    /// Incomes that were moved from a payday on which banks are closed.
    moved: usize,
    pattern: PayPattern,
}

/// At most one in so many may be missing, and at most one in so many incomes may fall on another day.
const ONE_IN: usize = 4;
/// The most days by which a weekend and a holiday move a payday.
const MAX_SHIFT_DAYS: u64 = 4;

/// Infers the paydays from the incomes.
///
/// A pattern needs at least [`PayPattern::fewest_incomes`] paydays with an income. A payday on a day without
/// banking may be paid on the banking day before it, on the one after it, or between. Of the paydays since
/// the first income, up to the return, at most one in four may lack its income: a member who is no longer
/// paid has no payday. At most one income in four may fall on another day. Of several patterns, the one
/// with the fewest such errors counts, then the one with the fewest moved paydays.
#[must_use]
pub fn paydays(incomes: &Incomes, returned: NaiveDate) -> Option<Paydays> {
    let days = incomes.days();
    let every = [7, 14]
        .into_iter()
        .flat_map(|interval| days.iter().map(move |from| Paydays::Every { from: *from, days: interval }));
    let twice = [Paydays::OnDays(1, Some(15)), Paydays::OnDays(15, Some(31))];
    let monthly = (1..=31).map(|day| Paydays::OnDays(day, None));
    every
        .chain(twice)
        .chain(monthly)
        .filter_map(|candidate| Some((candidate.fit(&days, returned)?, candidate)))
        .min_by(|(a, _), (b, _)| a.cmp(b))
        .map(|(_, candidate)| candidate)
}

impl Paydays {
    /// How often they come.
    #[must_use]
    pub fn pattern(self) -> PayPattern {
        match self {
            Self::Every { days: 7, .. } => PayPattern::Weekly,
            Self::Every { .. } => PayPattern::Biweekly,
            Self::OnDays(_, Some(_)) => PayPattern::SemiMonthly,
            Self::OnDays(_, None) => PayPattern::Monthly,
        }
    }

    /// Whether this day is one of them, before weekends and holidays move it.
    #[must_use]
    pub fn contains(self, day: NaiveDate) -> bool {
        match self {
            Self::Every { from, days } => (day - from).num_days().rem_euclid(days.into()) == 0,
            Self::OnDays(one, other) => {
                let last = u32::from(day.num_days_in_month());
                [Some(one), other].into_iter().flatten().any(|of_month| day.day() == of_month.min(last))
            }
        }
    }

    /// The first banking day after a payday that is not before `from`.
    fn first_day_after(self, from: NaiveDate) -> Option<NaiveDate> {
        let start = from.checked_sub_days(Days::new(MAX_SHIFT_DAYS + 1))?;
        start
            .iter_days()
            .take(SEARCH_DAYS)
            .filter(|day| self.contains(*day))
            .filter_map(|payday| payday.succ_opt().map(banking_day_from))
            .find(|day| *day >= from)
    }

    /// How well it explains the incomes; `None` if it does not.
    fn fit(self, incomes: &[NaiveDate], returned: NaiveDate) -> Option<Fit> {
        let (first, last) = (*incomes.first()?, *incomes.last()?);
        let from = first.checked_sub_days(Days::new(MAX_SHIFT_DAYS))?;
        let until = last.checked_add_days(Days::new(MAX_SHIFT_DAYS))?.max(returned);
        let (mut paid, mut missed, mut moved) = (0, 0, 0);
        let mut explained = vec![false; incomes.len()];
        for payday in from.iter_days().take_while(|day| *day <= until).filter(|day| self.contains(*day)) {
            let (earliest, latest) = pay_window(payday);
            match incomes.iter().position(|income| (earliest..=latest).contains(income)) {
                Some(n) => {
                    paid += 1;
                    moved += usize::from(incomes.get(n) != Some(&payday));
                    if let Some(explained) = explained.get_mut(n) {
                        *explained = true;
                    }
                }
                // At the ends it may have been paid before the first income, or may still come.
                None if earliest > first && (latest < last || latest < returned) => missed += 1,
                None => {}
            }
        }
        let strays = explained.iter().filter(|explained| !**explained).count();
        let fits = paid >= self.pattern().fewest_incomes()
            && missed * ONE_IN <= paid + missed
            && strays * ONE_IN <= incomes.len();
        fits.then_some(Fit { errors: missed + strays, moved, pattern: self.pattern() })
    }
}

/// How far ahead a payday is looked for: more than a month.
const SEARCH_DAYS: usize = 45;

/// The days on which a payday may be paid: itself, or around it where banks are closed.
fn pay_window(payday: NaiveDate) -> (NaiveDate, NaiveDate) {
    let before = (0..=MAX_SHIFT_DAYS)
        .filter_map(|n| payday.checked_sub_days(Days::new(n)))
        .find(|day| is_banking_day(*day));
    (before.unwrap_or(payday), banking_day_from(payday))
}
