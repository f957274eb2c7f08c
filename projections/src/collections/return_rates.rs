//! Return rates of debits over sixty days, against the limits that Nacha monitors.

use chrono::TimeDelta;
use dues_events::billing::record::{History, Status};
use dues_events::{GoTime, Time};
use rust_decimal::Decimal;

/// The window of the rates, in days.
pub const DAYS: i64 = 60;
/// Unauthorised returns: half a percent.
pub const UNAUTHORISED_LIMIT: Decimal = Decimal::from_parts(5, 0, 0, false, 1);
/// Administrative returns (R02, R03, R04): three percent.
pub const ADMINISTRATIVE_LIMIT: Decimal = Decimal::from_parts(3, 0, 0, false, 0);
/// All returns: fifteen percent.
pub const OVERALL_LIMIT: Decimal = Decimal::from_parts(15, 0, 0, false, 0);

/// Counts of debits sent and returned within the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReturnRates {
    /// The window's end.
    pub until: Time,
    attempts: u64,
    refused: u64,
    /// Unauthorised returns and chargebacks.
    pub unauthorised: u64,
    /// Administrative returns: R02, R03, R04.
    pub administrative: u64,
    /// All returns.
    pub overall: u64,
}

impl ReturnRates {
    /// Empty counts for the sixty days before that time.
    #[must_use]
    pub fn until(until: Time) -> Self {
        Self { until, attempts: 0, refused: 0, unauthorised: 0, administrative: 0, overall: 0 }
    }

    /// The window's start.
    #[must_use]
    pub fn from(&self) -> Time {
        self.until - TimeDelta::days(DAYS)
    }

    /// Folds a history row in. Rows may come in any order.
    pub fn add(&mut self, row: &History) {
        let in_window = |at: &GoTime| at.at() > self.from() && at.at() <= self.until;
        if !row.changed() || !row.record.last_run_date.as_ref().is_some_and(in_window) {
            return;
        }
        match (row.source.as_str(), row.record.status()) {
            ("dues attempt" | "site-payments SUBSCRIPTION_SUBMITTED", Status::AchSent) => self.attempts += 1,
            // Refused on submission: it never became a debit.
            ("dues gateway", Status::Error) => self.refused += 1,
            ("site-payments SUBSCRIPTION_RETURNED", Status::Error) => self.returned(row, false),
            ("site-payments SUBSCRIPTION_CHARGED_BACK", Status::Error) => self.returned(row, true),
            (_, _) => {}
        }
    }

    /// Adds counts taken from other rows.
    pub fn merge(&mut self, other: &Self) {
        self.attempts += other.attempts;
        self.refused += other.refused;
        self.unauthorised += other.unauthorised;
        self.administrative += other.administrative;
        self.overall += other.overall;
    }

    fn returned(&mut self, row: &History, charged_back: bool) {
        let code = row.record.state.last_failure().and_then(|failed| failed.failure.code());
        self.overall += 1;
        self.unauthorised += u64::from(charged_back || code.is_some_and(|code| code.is_unauthorised()));
        self.administrative += u64::from(!charged_back && code.is_some_and(|code| code.is_administrative()));
    }

    /// Debits sent.
    #[must_use]
    pub fn debits(&self) -> u64 {
        self.attempts.saturating_sub(self.refused)
    }

    /// Each class: its name, its count, its rate in percent, and the limit.
    #[must_use]
    pub fn classes(&self) -> [(&'static str, u64, Decimal, Decimal); 3] {
        [
            ("unauthorised", self.unauthorised, self.percent(self.unauthorised), UNAUTHORISED_LIMIT),
            ("administrative", self.administrative, self.percent(self.administrative), ADMINISTRATIVE_LIMIT),
            ("overall", self.overall, self.percent(self.overall), OVERALL_LIMIT),
        ]
    }

    /// In percent, to three places; 0 if no debits were sent.
    fn percent(&self, count: u64) -> Decimal {
        let share = Decimal::from(count * 100).checked_div(Decimal::from(self.debits()));
        share.unwrap_or_default().round_dp(3).normalize()
    }
}
