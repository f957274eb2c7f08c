//! One payment: the reports of all sources, merged independently of order and repetition.
//!
//! An invoice, its payment intent and its charge are one payment under three ids. Each id has its own
//! aggregate. An aggregate that learns that it belongs to another has no row and forwards its facts: the
//! intent to its invoice, the charge to its intent. So there is one row, under the invoice's id if there is
//! one, in any order of arrival.

mod reversals;
mod row;

use dues_events::entitlements::stripe::{Amount, DisputeState, RefundStatus};
use dues_events::{Money, Time};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::subscription::Dues;
use super::{Fact, ProfileFact, aggregate_of, user_aggregate};
use crate::model::Recorded;

/// State of a payment under one of its ids.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    /// The payer's user id.
    pub user: String,
    /// The id of this aggregate: invoice, payment intent or charge.
    pub id: String,
    /// The id that holds the row, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub belongs_to: Option<String>,
    /// The merged reports.
    pub parts: Parts,
    /// The dues that this payment pays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dues: Option<Dues>,
}

/// The facts of a payment, merged over all of its ids.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// When the payment began, by the earliest report. The row's key contains this day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Time>,
    /// Time of the latest report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touched: Option<Time>,
    /// The report of each source.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub words: BTreeMap<Source, PaymentReport>,
    /// Id of the payment intent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// Id of the charge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge: Option<String>,
    /// Refunds by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refunds: BTreeMap<String, Refund>,
    /// Disputes by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub disputes: BTreeMap<String, Dispute>,
    /// When the charge was refunded in full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emptied: Option<Time>,
    /// The latest version of the billing record that reports this payment as settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<u64>,
    /// The latest version of the billing record that reports the debit as failed or returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<Returned>,
}

/// The source of a report. Later variants take precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A Stripe checkout session.
    Checkout,
    /// A Stripe payment intent.
    Intent,
    /// A Stripe invoice.
    Invoice,
    /// A billing record.
    Settlement,
    /// An application.
    Application,
}

/// Status of a payment, in order of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Not settled yet.
    Pending,
    /// The payment failed.
    Failed,
    /// The payment succeeded.
    Completed,
}

impl Status {
    /// The value of the row's `payment_status`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Failed => "failed",
            Self::Completed => "completed",
        }
    }
}

/// One source's report of a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentReport {
    /// The reported status.
    pub status: Status,
    /// When it was reported.
    pub at: Time,
    /// The amount.
    pub amount: Option<Amount>,
    /// Id of the subscription that it pays for.
    pub subscription: Option<String>,
    /// `ACH`, `stripe`, `apple_pay`.
    pub method: Option<String>,
    /// The provider's transaction id.
    pub transaction: Option<String>,
    /// SHA-256 of the provider's receipt; the receipt itself is not stored.
    pub receipt_sha256: Option<String>,
    /// Whether this is a test payment: no money moved.
    pub sandbox: bool,
    /// The app's platform.
    pub platform: Option<String>,
    /// The app's version.
    pub app_version: Option<String>,
}

/// A refund.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// Status of the refund.
    pub status: RefundStatus,
    /// When it reached that status.
    pub at: Time,
    /// The refunded amount; `None` means all of it.
    pub amount: Option<Amount>,
    /// The reason, if given.
    pub reason: Option<String>,
}

/// A dispute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispute {
    /// State of the dispute.
    pub state: DisputeState,
    /// When it reached that state.
    pub at: Time,
}

/// A failed or returned debit. It counts as a reversal only if it follows a settlement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// The version of the billing record.
    pub version: u64,
    /// When the record reported it.
    pub at: Time,
    /// The failure's text.
    pub reason: String,
}

impl Payment {
    /// Merges another state of the same payment.
    pub(super) fn join(&mut self, other: &Self) {
        self.user.clone_from(&other.user);
        self.id.clone_from(&other.id);
        self.belongs_to = earliest(self.belongs_to.take(), other.belongs_to.clone());
        self.parts.join(&other.parts);
        if let Some(dues) = &other.dues {
            Dues::join(&mut self.dues, dues);
        }
    }

    /// Facts for other aggregates: links to its other ids, its reports to the payment it belongs to, its
    /// dues to the profile.
    pub(super) fn follows(&self, version: u64) -> Vec<(String, Recorded<Fact>)> {
        let to = |id: &str| aggregate_of("payment", &self.user, id);
        let recorded = |id: String, at: Time, fact: Fact| Recorded { id: id.into(), at, fact };
        let other = |id: &str, belongs_to: Option<&str>, parts: Parts| {
            let belongs_to = belongs_to.map(str::to_owned);
            Fact::Payment(Box::new(Self {
                user: self.user.clone(),
                id: id.to_owned(),
                belongs_to,
                parts,
                dues: None,
            }))
        };
        let last = self.parts.touched.unwrap_or(Time::UNIX_EPOCH);
        let home = self.belongs_to.as_deref().map(|home| {
            (
                to(home),
                recorded(format!("{}@{version}", self.id), last, other(home, None, self.parts.clone())),
            )
        });
        let names = [&self.parts.intent, &self.parts.charge].into_iter().flatten();
        let names =
            names.filter(|name| **name != self.id && self.belongs_to.as_ref() != Some(*name)).map(|name| {
                // Epoch: the link has no time of its own.
                (
                    to(name),
                    recorded(
                        format!("names:{}", self.id),
                        Time::UNIX_EPOCH,
                        other(name, Some(&self.id), Parts::default()),
                    ),
                )
            });
        // Dues reach the profile only once something was paid: an attempt that failed at once revokes
        // nothing.
        let was_paid = self.parts.words.values().any(|word| word.status == Status::Completed);
        let dues = self.dues.as_ref().filter(|_| was_paid).map(|dues| {
            let id = format!("dues:{}@{}", dues.record, dues.version);
            (
                user_aggregate(&self.user),
                recorded(id, dues.at, Fact::Profile(ProfileFact::Dues(dues.clone()))),
            )
        });
        home.into_iter().chain(names).chain(dues).collect()
    }
}

impl Parts {
    /// Merges other reports. Per source the most advanced status wins, then the earliest report.
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

/// The lesser of those present.
fn earliest<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Deterministic tie-break that does not depend on the order of arrival.
fn text<T: Serialize>(part: &T) -> String {
    serde_json::to_string(part).unwrap_or_default()
}

fn keep<K: Ord + Clone, V: Clone, R: Ord>(
    places: &mut BTreeMap<K, V>,
    key: &K,
    value: &V,
    rank: impl Fn(&V) -> R,
) {
    if places.get(key).is_none_or(|known| rank(known) < rank(value)) {
        places.insert(key.clone(), value.clone());
    }
}

/// The sum of two amounts in one currency.
fn sum(one: &Amount, other: &Amount) -> Option<Amount> {
    match (one, other) {
        (Amount::Usd(one), Amount::Usd(other)) => one.checked_add(*other).ok().map(Amount::Usd),
        (Amount::Other { currency, minor_units }, Amount::Other { currency: same, minor_units: more })
            if currency == same =>
        {
            Some(Amount::Other { currency: currency.clone(), minor_units: minor_units.checked_add(*more)? })
        }
        (Amount::Usd(_) | Amount::Other { .. }, _) => None,
    }
}

/// Whether `one` is at least `other`, in one currency.
fn covers(one: &Amount, other: &Amount) -> bool {
    match (one, other) {
        (Amount::Usd(one), Amount::Usd(other)) => one >= other && *other > Money::ZERO,
        (Amount::Other { currency, minor_units }, Amount::Other { currency: same, minor_units: all }) => {
            currency == same && minor_units >= all && *all > 0
        }
        (Amount::Usd(_) | Amount::Other { .. }, _) => false,
    }
}
