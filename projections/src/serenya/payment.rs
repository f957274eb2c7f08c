//! One payment: what everybody says of it, joined, so that neither order nor repetition matters.
//!
//! An invoice, its payment intent and its charge are one payment with three names. Each name has an aggregate of its own. One that learns that it
//! belongs to another has no row, and passes on what it knows: the intent to its invoice, the charge to its intent. So there is one row, under the
//! invoice's id where there is one, whatever came first.

use dues_events::stripe::{Amount, DisputeState, RefundStatus};
use dues_events::{Money, Time};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::subscription::Dues;
use super::{Fact, ProfileFact, aggregate_of, user_aggregate};
use crate::model::Told;

mod back;
mod row;

/// What is known of a payment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    /// Whose.
    pub user: String,
    /// Its id, under this name.
    pub id: String,
    /// The id under which it has its row, if that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub belongs_to: Option<String>,
    /// What it is.
    pub parts: Parts,
    /// The dues that it pays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dues: Option<Dues>,
}

/// What is known of a payment under all of its names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// When it was first heard of. The row's key has that day, so the earliest counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Time>,
    /// When it was last heard of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touched: Option<Time>,
    /// What each source says.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub words: BTreeMap<Source, Word>,
    /// The payment intent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// The charge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge: Option<String>,
    /// Money given back, by its id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refunds: BTreeMap<String, Refund>,
    /// Disputes, by their id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub disputes: BTreeMap<String, Dispute>,
    /// When nothing was left of the charge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emptied: Option<Time>,
    /// The latest version of the billing record that says it was paid with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<u64>,
    /// The latest version of the billing record that says that this came back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<Returned>,
}

/// Who says something of a payment; of two, the later one knows better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Stripe's checkout page.
    Checkout,
    /// Stripe's payment intent.
    Intent,
    /// Stripe's invoice.
    Invoice,
    /// A billing record.
    Settlement,
    /// An application.
    Application,
}

/// Where a payment is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// On its way.
    Pending,
    /// Did not come.
    Failed,
    /// Came.
    Completed,
}

impl Status {
    /// As the row has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Failed => "failed",
            Self::Completed => "completed",
        }
    }
}

/// What one source says of a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// Where it is.
    pub status: Status,
    /// When that was.
    pub at: Time,
    /// How much.
    pub amount: Option<Amount>,
    /// What for.
    pub subscription: Option<String>,
    /// `ACH`, `stripe`, `apple_pay`.
    pub method: Option<String>,
    /// The provider's name for it.
    pub transaction: Option<String>,
    /// Of the provider's receipt only the SHA-256 is kept.
    pub receipt_sha256: Option<String>,
    /// Whether no money moved.
    pub sandbox: bool,
    /// Of the app.
    pub platform: Option<String>,
    /// Of the app.
    pub app_version: Option<String>,
}

/// Money given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// How it stands.
    pub status: RefundStatus,
    /// Since when.
    pub at: Time,
    /// How much; nothing said means all of it.
    pub amount: Option<Amount>,
    /// Why.
    pub reason: Option<String>,
}

/// A dispute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispute {
    /// How it stands.
    pub state: DisputeState,
    /// Since when.
    pub at: Time,
}

/// A debit that came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// The version of the billing record.
    pub version: u64,
    /// When.
    pub at: Time,
    /// Why.
    pub reason: String,
}

impl Payment {
    /// Adds what somebody else knows.
    pub(super) fn join(&mut self, other: &Self) {
        self.user.clone_from(&other.user);
        self.id.clone_from(&other.id);
        self.belongs_to = earliest(self.belongs_to.take(), other.belongs_to.clone());
        self.parts.join(&other.parts);
        if let Some(dues) = &other.dues {
            Dues::join(&mut self.dues, dues);
        }
    }

    /// Tells the names that it has learned where it belongs, and the one where it belongs what it knows.
    pub(super) fn follows(&self, version: u64) -> Vec<(String, Told<Fact>)> {
        let to = |id: &str| aggregate_of("payment", &self.user, id);
        let told = |id: String, at: Time, fact: Fact| Told { id: id.into(), at, fact };
        let other = |id: &str, belongs_to: Option<&str>, parts: Parts| {
            let belongs_to = belongs_to.map(str::to_owned);
            Fact::Payment(Box::new(Self { user: self.user.clone(), id: id.to_owned(), belongs_to, parts, dues: None }))
        };
        let last = self.parts.touched.unwrap_or(Time::UNIX_EPOCH);
        let home = self
            .belongs_to
            .as_deref()
            .map(|home| (to(home), told(format!("{}@{version}", self.id), last, other(home, None, self.parts.clone()))));
        let names = [&self.parts.intent, &self.parts.charge].into_iter().flatten();
        let names = names.filter(|name| **name != self.id && self.belongs_to.as_ref() != Some(*name)).map(|name| {
            // That they are one payment is true at all times.
            (to(name), told(format!("names:{}", self.id), Time::UNIX_EPOCH, other(name, Some(&self.id), Parts::default())))
        });
        // An attempt that failed at once has taken nothing from anybody.
        let was_paid = self.parts.words.values().any(|word| word.status == Status::Completed);
        let dues = self.dues.as_ref().filter(|_| was_paid).map(|dues| {
            let id = format!("dues:{}@{}", dues.record, dues.version);
            (user_aggregate(&self.user), told(id, dues.at, Fact::Profile(ProfileFact::Dues(dues.clone()))))
        });
        home.into_iter().chain(names).chain(dues).collect()
    }
}

impl Parts {
    /// Adds what somebody else knows. Of two words of one source the one that is further on counts, and of those the first.
    pub(super) fn join(&mut self, other: &Self) {
        self.begun = earliest(self.begun, other.begun);
        self.touched = self.touched.max(other.touched);
        self.intent = self.intent.take().max(other.intent.clone());
        self.charge = self.charge.take().max(other.charge.clone());
        self.emptied = earliest(self.emptied, other.emptied);
        self.settled = self.settled.max(other.settled);
        for (source, word) in &other.words {
            keep(&mut self.words, source, word, |word| (word.status, Reverse(word.at), text(word)));
        }
        for (id, refund) in &other.refunds {
            keep(&mut self.refunds, id, refund, |refund| (refund.status, Reverse(refund.at), text(refund)));
        }
        for (id, dispute) in &other.disputes {
            keep(&mut self.disputes, id, dispute, |dispute| (dispute.state, Reverse(dispute.at)));
        }
        let version = |returned: &Option<Returned>| returned.as_ref().map(|returned| returned.version);
        if version(&other.returned) > version(&self.returned) {
            self.returned.clone_from(&other.returned);
        }
    }
}

/// Of two that there are, the lesser one.
fn earliest<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// What decides when nothing else does, so that it is not the order.
fn text<T: Serialize>(part: &T) -> String {
    serde_json::to_string(part).unwrap_or_default()
}

fn keep<K: Ord + Clone, V: Clone, R: Ord>(places: &mut BTreeMap<K, V>, key: &K, value: &V, rank: impl Fn(&V) -> R) {
    if places.get(key).is_none_or(|known| rank(known) < rank(value)) {
        places.insert(key.clone(), value.clone());
    }
}

/// The sum of two amounts of one currency.
fn sum(one: &Amount, other: &Amount) -> Option<Amount> {
    match (one, other) {
        (Amount::Usd(one), Amount::Usd(other)) => one.checked_add(*other).ok().map(Amount::Usd),
        (Amount::Other { currency, minor_units }, Amount::Other { currency: same, minor_units: more }) if currency == same => {
            Some(Amount::Other { currency: currency.clone(), minor_units: minor_units.checked_add(*more)? })
        }
        (Amount::Usd(_) | Amount::Other { .. }, _) => None,
    }
}

/// Whether an amount is at least another one of its currency.
fn covers(one: &Amount, other: &Amount) -> bool {
    match (one, other) {
        (Amount::Usd(one), Amount::Usd(other)) => one >= other && *other > Money::ZERO,
        (Amount::Other { currency, minor_units }, Amount::Other { currency: same, minor_units: all }) => {
            currency == same && minor_units >= all && *all > 0
        }
        (Amount::Usd(_) | Amount::Other { .. }, _) => false,
    }
}
