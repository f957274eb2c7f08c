//! Dues by ACH as a subscription: one row per user, derived from the newest billing records.

use dues_events::entitlements::stripe::{Period, SubscriptionStatus};
use dues_events::usage::{CREATED_AT, UPDATED_AT};
use dues_events::{Item, Record, State, SubscriptionId, Time, UserId};
use serde::{Deserialize, Serialize};

use super::{row, set_period, text};

/// How many billing records to keep: the current one, the one before, and some to spare.
const REMEMBERED: usize = 6;

/// The subscription id of a user's dues.
#[must_use]
pub fn dues_plan_id(user: &UserId) -> String {
    format!("dues-{user}")
}

/// The state of a billing record, as far as the plan depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DuesPlanState {
    /// Paid.
    Paid,
    /// A debit failed, or was returned late after the record had been paid.
    Failed,
    /// Paid, then refunded.
    Refunded,
    /// Cancelled, or too old to collect.
    Ended,
    /// Paused.
    Resting,
    /// Unpaid or waived: the record before it decides.
    Open,
}

/// A billing record, and the plan of its tier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dues {
    /// The record.
    pub record: SubscriptionId,
    /// When it was created. Records of older writers lack this, and sort before all that have it.
    pub created: Option<Time>,
    /// Its version; the latest wins.
    pub version: u64,
    /// When the membership began.
    pub since: Time,
    /// The period that it pays for.
    pub period: Period,
    /// The plan; before [`super::Fact::with_plan`], the name on the receipt.
    pub plan: Box<str>,
    /// Its state.
    #[serde(rename = "standing")]
    pub state: DuesPlanState,
}

impl Dues {
    /// The fact of a record; `None` for one that has only begun: the records before it still decide.
    #[must_use]
    pub fn of(record: &Record) -> Option<Self> {
        let state = match &record.state {
            State::Scheduled if record.version <= 1 => return None,
            State::AchSent(_) => return None,
            State::Scheduled | State::Waived(_) => DuesPlanState::Open,
            State::Completed(_) => DuesPlanState::Paid,
            State::Error(_) => DuesPlanState::Failed,
            State::Refunded(_) => DuesPlanState::Refunded,
            State::Cancelled(_) | State::Stale(_) => DuesPlanState::Ended,
            State::Paused(_) | State::PausedSkipped(..) => DuesPlanState::Resting,
        };
        let start = record.billing_date.at();
        Some(Self {
            record: record.subscription_id.clone(),
            created: record.created_date.as_ref().map(|created| created.at()),
            version: record.version,
            since: record.since().unwrap_or(start),
            period: Period { start, end: record.schedule().after(start).unwrap_or(start) },
            plan: record.plan.tier.as_str().into(),
            state,
        })
    }
}

/// What is kept of a billing record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct KnownRecord {
    at: Time,
    /// The latest version that was paid.
    paid: Option<u64>,
    dues: Dues,
}

/// The newest billing records of a user, oldest first. A record's creation time never changes, so the same
/// records are kept in any order of arrival.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Records(Vec<KnownRecord>);

impl Records {
    pub(super) fn update(&mut self, at: Time, dues: &Dues) {
        let paid = (dues.state == DuesPlanState::Paid).then_some(dues.version);
        match self.0.iter_mut().find(|known| known.dues.record == dues.record) {
            Some(known) => {
                known.paid = known.paid.max(paid);
                if known.dues.version < dues.version {
                    (known.at, known.dues) = (at, dues.clone());
                }
            }
            None => self.0.push(KnownRecord { at, paid, dues: dues.clone() }),
        }
        self.0.sort_by(|a, b| (a.dues.created, &a.dues.record).cmp(&(b.dues.created, &b.dues.record)));
        let forgotten = self.0.len().saturating_sub(REMEMBERED);
        self.0.drain(..forgotten);
    }

    /// The row. The newest record that is not open gives the status; the newest paid record, if there is
    /// one, gives plan and period.
    pub(super) fn row(&self, user: &str) -> Option<Item> {
        let closed = || self.0.iter().rev().filter(|known| known.dues.state != DuesPlanState::Open);
        let newest = closed().next()?;
        let paid = closed().find(|known| known.dues.state == DuesPlanState::Paid);
        let dues = &paid.unwrap_or(newest).dues;
        let id = dues_plan_id(&user.into());
        let mut item = row(user, &id, &dues.plan, newest.status(paid.is_some()).as_str());
        set_period(&mut item, dues.period.start, dues.period.end);
        item.set_text(CREATED_AT, text(newest.dues.since));
        item.set_text(UPDATED_AT, text(closed().map(|known| known.at).max().unwrap_or(newest.at)));
        Some(item)
    }
}

impl KnownRecord {
    /// The status as Stripe names it.
    fn status(&self, before: bool) -> SubscriptionStatus {
        match self.dues.state {
            DuesPlanState::Paid => SubscriptionStatus::Active,
            // A late return takes back the current period. A failed renewal follows a paid period.
            DuesPlanState::Failed if self.paid.is_some() => SubscriptionStatus::Unpaid,
            DuesPlanState::Failed if before => SubscriptionStatus::PastDue,
            DuesPlanState::Failed => SubscriptionStatus::Incomplete,
            DuesPlanState::Refunded | DuesPlanState::Ended => SubscriptionStatus::Canceled,
            DuesPlanState::Resting => SubscriptionStatus::Paused,
            // Unreachable: `row` filters out open records.
            DuesPlanState::Open => SubscriptionStatus::Active,
        }
    }
}
