//! What a change of a billing record means for its user: the tier that dues by ACH have paid for, and the
//! credits that they grant.
//!
//! Derived from the two images of the change, without other records or a clock, so that change stream and
//! history give the same result.

use dues_events::billing::record::{History, Provider};
use dues_events::ids::SubscriptionId;
use dues_events::{GoTime, MovementId, PlanTier, Record, State, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maps names on receipts to tiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierMap(BTreeMap<String, PlanTier>);

impl TierMap {
    /// Builds the map. A name without a version covers all its versions; a name with one (`Plus:v2`) covers
    /// only that.
    pub fn new<N: Into<String>>(names: impl IntoIterator<Item = (N, PlanTier)>) -> Self {
        Self(names.into_iter().map(|(name, tier)| (name.into(), tier)).collect())
    }

    /// Parses `Plus=JOURNEYMAN,Pro=SAGE`.
    ///
    /// # Errors
    /// Names the entry that cannot be parsed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let read = |entry: &str| {
            let (name, tier) = entry.split_once('=').ok_or_else(|| format!("{entry:?} is not NAME=TIER"))?;
            let tier = PlanTier::read(tier.trim())
                .ok_or_else(|| format!("{entry:?}: {:?} is not a tier", tier.trim()))?;
            Ok((name.trim().to_owned(), tier))
        };
        entries.map(read).collect::<Result<BTreeMap<_, _>, String>>().map(Self)
    }

    /// The tier of a receipt.
    #[must_use]
    pub fn tier(&self, record: &Record) -> Option<PlanTier> {
        let name = &record.plan.tier;
        self.0.get(name.as_str()).or_else(|| self.0.get(name.tier())).copied()
    }
}

/// The names that the demo company and the examples use.
impl Default for TierMap {
    fn default() -> Self {
        let own = PlanTier::ALL.map(|tier| (tier.as_str(), tier));
        let names = [
            ("Basic", PlanTier::Initiate),
            ("Plus", PlanTier::Journeyman),
            ("Pro", PlanTier::Sage),
            ("Founder", PlanTier::Guildmaster),
        ];
        Self::new(own.into_iter().chain(names))
    }
}

/// The state of a billing record, as far as its user's tier depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DuesState {
    /// Paid.
    Paid {
        /// The tier that was paid for.
        tier: PlanTier,
        /// When the next record falls due.
        until: Box<str>,
    },
    /// Paid, then reversed.
    TakenBack,
    /// Will not be paid: cancelled, paused, or too old.
    Ended,
    /// Unpaid again after a pause.
    Open,
}

/// What is kept of a billing record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaidPeriod {
    /// The record.
    pub record: SubscriptionId,
    /// When it fell due.
    pub due: Box<str>,
    /// The version of the record in this state.
    pub version: u64,
    /// Its state.
    #[serde(rename = "standing")]
    pub state: DuesState,
    /// Where the user signs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
}

/// A settlement that grants credits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The name of the grant. It contains the time of settlement: a record that is paid again after a
    /// reversal grants its credits again.
    pub grant: MovementId,
    /// When it was settled.
    pub at: GoTime,
    /// The payment.
    pub payment: Option<String>,
}

/// What a change means for entitlements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntitlementChange {
    /// What to keep of the record.
    pub paid_period: PaidPeriod,
    /// A new settlement, and the tier that it paid for.
    pub settled: Option<(Settled, PlanTier)>,
    /// A settlement that was reversed.
    pub gone: Option<Settled>,
}

/// The name on a receipt maps to no tier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("receipt_tier_name: {name:?} stands for no tier: add it to the map of tiers")]
pub struct UnknownTier {
    /// The name.
    pub name: String,
}

/// Derives what a change means for entitlements; `None` if it does not affect the user's tier and credits.
///
/// # Errors
/// [`UnknownTier`] when dues were paid for a tier that is not in the map.
pub fn entitlement_change(
    old: Option<&Record>,
    new: &Record,
    tiers: &TierMap,
) -> Result<Option<EntitlementChange>, UnknownTier> {
    let (was, is) = (old.and_then(settlement), settlement(new));
    let Some(state) = state(old, new, tiers)? else { return Ok(None) };
    let tier = match (&state, &was, &is) {
        (DuesState::Paid { tier, .. }, None, Some(_)) => Some(*tier),
        (_, _, _) => None,
    };
    let period = PaidPeriod {
        record: new.subscription_id.clone(),
        due: new.billing_date.text().into(),
        version: new.version,
        state,
        provider: new.provider,
    };
    // Paid before and after is one settlement, repeated.
    let gone = if is.is_some() { None } else { was };
    Ok(Some(EntitlementChange { paid_period: period, settled: is.zip(tier), gone }))
}

/// What a whole history of billing records means, up to a time. Rows are grouped by record, each in order.
/// Changes to a tier that is not in the map are parked elsewhere, and skipped here.
#[must_use]
pub fn entitlement_changes(
    history: &[History],
    tiers: &TierMap,
    until: Option<Time>,
) -> Vec<EntitlementChange> {
    let mut meanings = Vec::new();
    for rows in history.chunk_by(|a, b| a.record.subscription_id == b.record.subscription_id) {
        let mut before: Option<Record> = None;
        let in_time = |row: &&History| {
            until.is_none_or(|until| row.record.last_run_date.as_ref().is_none_or(|run| run.at() <= until))
        };
        for row in rows.iter().filter(in_time) {
            let after = row.apply_to(before.as_ref());
            meanings.extend(entitlement_change(before.as_ref(), &after, tiers).ok().flatten());
            before = Some(after);
        }
    }
    meanings
}

fn settlement(record: &Record) -> Option<Settled> {
    let State::Completed(payment) = &record.state else { return None };
    let at = payment.at.clone().unwrap_or_else(|| record.billing_date.clone());
    Some(Settled {
        grant: format!("grant:{}:{}", record.subscription_id, at.text()).into(),
        at,
        payment: payment.transaction_id.as_ref().map(ToString::to_string),
    })
}

/// The new state of the record, if it differs from the old one.
fn state(old: Option<&Record>, new: &Record, tiers: &TierMap) -> Result<Option<DuesState>, UnknownTier> {
    let was = old.map(|old| &old.state);
    Ok(match (was, &new.state) {
        (_, State::Completed(_)) => {
            let paid = paid(new, tiers)?;
            // The old image has the tier of its own receipt, which may have been changed by hand.
            let before = match old {
                Some(old) if settlement(old).is_some() => paid_before(old, tiers),
                Some(_) | None => None,
            };
            (before.as_ref() != Some(&paid)).then_some(paid)
        }
        (Some(State::Refunded(_)), State::Refunded(_)) => None,
        (_, State::Refunded(_)) | (Some(State::Completed(_)), State::Error(_)) => Some(DuesState::TakenBack),
        (
            Some(before),
            State::Cancelled(_) | State::Stale(_) | State::Paused(_) | State::PausedSkipped(..),
        ) => (!is_ended(before)).then_some(DuesState::Ended),
        // A row that was moved to another due date is no news.
        (None, State::Cancelled(_) | State::Stale(_) | State::Paused(_) | State::PausedSkipped(..)) => {
            new.original_due_date.is_none().then_some(DuesState::Ended)
        }
        (Some(State::Paused(_)), State::Scheduled) => Some(DuesState::Open),
        (_, State::Scheduled | State::AchSent(_) | State::Error(_) | State::Waived(_)) => None,
    })
}

fn is_ended(state: &State) -> bool {
    match state {
        State::Cancelled(_) | State::Stale(_) | State::Paused(_) | State::PausedSkipped(..) => true,
        State::Scheduled
        | State::AchSent(_)
        | State::Completed(_)
        | State::Error(_)
        | State::Waived(_)
        | State::Refunded(_) => false,
    }
}

fn paid(record: &Record, tiers: &TierMap) -> Result<DuesState, UnknownTier> {
    let tier =
        tiers.tier(record).ok_or_else(|| UnknownTier { name: record.plan.tier.as_str().to_owned() })?;
    let due = record.billing_date.at();
    let until = record.schedule().after(due).unwrap_or(due);
    Ok(DuesState::Paid { tier, until: GoTime::trimmed(until).text().into() })
}

fn paid_before(record: &Record, tiers: &TierMap) -> Option<DuesState> {
    paid(record, tiers).ok()
}
