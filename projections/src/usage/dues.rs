//! Dues by ACH as a subscription: one row for each user, from the newest billing records.

use dues_events::stripe::{Period, SubscriptionStatus};
use dues_events::usage::{CREATED_AT, UPDATED_AT};
use dues_events::{Item, Record, State, SubscriptionId, Time};
use serde::{Deserialize, Serialize};

use super::{row, set_period, text};

/// How many billing records are remembered: the one that runs, the one before, and some to spare.
const REMEMBERED: usize = 6;

/// How a billing record stands, as far as the plan goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DuesStanding {
    /// Paid.
    Paid,
    /// A debit failed; or, if it had been paid before, came back late.
    Failed,
    /// Paid, and the money went back.
    Refunded,
    /// Cancelled, or too old to collect.
    Ended,
    /// Billing rests.
    Resting,
    /// Still to be paid, or forgiven: the record before it speaks.
    Open,
}

/// A billing record, and the plan that its tier stands for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dues {
    /// Which.
    pub record: SubscriptionId,
    /// When it was made; records of older writers do not say, and are older than all that do.
    pub created: Option<Time>,
    /// Its version: the latest counts.
    pub version: u64,
    /// When the membership began.
    pub since: Time,
    /// What it pays for.
    pub period: Period,
    /// The plan; until the configuration was asked, the name on the receipt.
    pub plan: Box<str>,
    /// How it stands.
    pub standing: DuesStanding,
}

impl Dues {
    /// What a record says; `None` for one that has only begun: what was before it goes on.
    #[must_use]
    pub fn of(record: &Record) -> Option<Self> {
        let standing = match &record.state {
            State::Scheduled(_) if record.version <= 1 => return None,
            State::AchSent(_) => return None,
            State::Scheduled(_) | State::Waived(_) => DuesStanding::Open,
            State::Completed(_) => DuesStanding::Paid,
            State::Error(_) => DuesStanding::Failed,
            State::Refunded(_) => DuesStanding::Refunded,
            State::Cancelled(_) | State::Stale(_) => DuesStanding::Ended,
            State::Paused(_) | State::PausedSkipped(..) => DuesStanding::Resting,
        };
        let start = record.billing_date.at();
        Some(Self {
            record: record.subscription_id.clone(),
            created: record.created_date.as_ref().map(|created| created.at()),
            version: record.version,
            since: record.since().unwrap_or(start),
            period: Period { start, end: record.schedule().after(start).unwrap_or(start) },
            plan: record.plan.tier.as_str().into(),
            standing,
        })
    }
}

/// What is remembered of a billing record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Note {
    at: Time,
    /// The latest version that was paid.
    paid: Option<u64>,
    dues: Dues,
}

/// The newest billing records of a user, oldest first. When a record was made never changes, so whichever comes first, the same ones stay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Records(Vec<Note>);

impl Records {
    pub(super) fn tell(&mut self, at: Time, dues: &Dues) {
        let paid = (dues.standing == DuesStanding::Paid).then_some(dues.version);
        match self.0.iter_mut().find(|note| note.dues.record == dues.record) {
            Some(note) => {
                note.paid = note.paid.max(paid);
                if note.dues.version < dues.version {
                    (note.at, note.dues) = (at, dues.clone());
                }
            }
            None => self.0.push(Note { at, paid, dues: dues.clone() }),
        }
        self.0.sort_by(|a, b| (a.dues.created, &a.dues.record).cmp(&(b.dues.created, &b.dues.record)));
        let forgotten = self.0.len().saturating_sub(REMEMBERED);
        self.0.drain(..forgotten);
    }

    /// The row. Its status is what the newest record that says something says; plan and period are those that were last paid for, if any were.
    pub(super) fn row(&self, user: &str) -> Option<Item> {
        let told = || self.0.iter().rev().filter(|note| note.dues.standing != DuesStanding::Open);
        let newest = told().next()?;
        let paid = told().find(|note| note.dues.standing == DuesStanding::Paid);
        let dues = &paid.unwrap_or(newest).dues;
        let mut item = row(user, &format!("dues-{user}"), &dues.plan, newest.status(paid.is_some()).as_str());
        set_period(&mut item, dues.period.start, dues.period.end);
        item.set_text(CREATED_AT, text(newest.dues.since));
        item.set_text(UPDATED_AT, text(told().map(|note| note.at).max().unwrap_or(newest.at)));
        Some(item)
    }
}

impl Note {
    /// In Stripe's words.
    fn status(&self, before: bool) -> SubscriptionStatus {
        match self.dues.standing {
            DuesStanding::Paid => SubscriptionStatus::Active,
            // Money that came back late was for the time that runs; a failed renewal follows a time that was paid for.
            DuesStanding::Failed if self.paid.is_some() => SubscriptionStatus::Unpaid,
            DuesStanding::Failed if before => SubscriptionStatus::PastDue,
            DuesStanding::Failed => SubscriptionStatus::Incomplete,
            DuesStanding::Refunded | DuesStanding::Ended => SubscriptionStatus::Canceled,
            DuesStanding::Resting => SubscriptionStatus::Paused,
            // The row is not asked about these.
            DuesStanding::Open => SubscriptionStatus::Active,
        }
    }
}
