//! What a change of a billing record means for its user: the tier that dues by ACH have paid for, and the credits that they bring.
//!
//! It is read off the two images of the change, without a look at other records or a clock, so that the change stream and the history tell the same.

use dues_events::ids::SubscriptionId;
use dues_events::record::{History, Provider};
use dues_events::{GoTime, MovementId, PlanTier, Record, State, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which tier a name on a receipt stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierMap(BTreeMap<String, PlanTier>);

impl TierMap {
    /// Names and their tiers. A name without a version stands for all versions of it; with one (`Plus:v2`), for that one.
    pub fn new<N: Into<String>>(names: impl IntoIterator<Item = (N, PlanTier)>) -> Self {
        Self(names.into_iter().map(|(name, tier)| (name.into(), tier)).collect())
    }

    /// Reads `Plus=JOURNEYMAN,Pro=SAGE`.
    ///
    /// # Errors
    /// Names the entry that cannot be read.
    pub fn parse(text: &str) -> Result<Self, String> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let read = |entry: &str| {
            let (name, tier) = entry.split_once('=').ok_or_else(|| format!("{entry:?} is not NAME=TIER"))?;
            let tier = PlanTier::read(tier.trim()).ok_or_else(|| format!("{entry:?}: {:?} is not a tier", tier.trim()))?;
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

/// The names that the demo's company and the examples use.
impl Default for TierMap {
    fn default() -> Self {
        let own = PlanTier::ALL.map(|tier| (tier.as_str(), tier));
        let names =
            [("Basic", PlanTier::Initiate), ("Plus", PlanTier::Journeyman), ("Pro", PlanTier::Sage), ("Founder", PlanTier::Guildmaster)];
        Self::new(own.into_iter().chain(names))
    }
}

/// How a billing record stands, as far as its user's tier goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Paid.
    Paid {
        /// For this tier.
        tier: PlanTier,
        /// Until the next one falls due.
        until: Box<str>,
    },
    /// Was paid, and the money went back.
    TakenBack,
    /// Will not be paid: cancelled, resting, or too old.
    Ended,
    /// Still to be paid, after it had rested.
    Open,
}

/// What is remembered of a billing record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Which.
    pub record: SubscriptionId,
    /// When it fell due.
    pub due: Box<str>,
    /// The version that said so.
    pub version: u64,
    /// How it stands.
    pub standing: Standing,
    /// Where the user signs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
}

/// Credits of a settled record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The name of the grant: a record that is paid again, after its money went back, brings its credits again.
    pub grant: MovementId,
    /// When it was settled.
    pub at: GoTime,
    /// The payment.
    pub payment: Option<String>,
}

/// What a change means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meaning {
    /// What is to be remembered of the record.
    pub note: Note,
    /// The settlement that has come, and the tier that it paid for.
    pub settled: Option<(Settled, PlanTier)>,
    /// The settlement that has gone.
    pub gone: Option<Settled>,
}

/// The name on a receipt stands for no tier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("receipt_tier_name: {name:?} stands for no tier: add it to the map of tiers")]
pub struct UnknownTier {
    /// The name.
    pub name: String,
}

/// Reads a change; `None` when it means nothing for the user's tier and credits.
///
/// # Errors
/// [`UnknownTier`] when dues were paid for a tier that is not in the map.
pub fn meaning(old: Option<&Record>, new: &Record, tiers: &TierMap) -> Result<Option<Meaning>, UnknownTier> {
    let (was, is) = (old.and_then(settlement), settlement(new));
    let Some(standing) = standing(old, new, tiers)? else { return Ok(None) };
    let tier = match (&standing, &was, &is) {
        (Standing::Paid { tier, .. }, None, Some(_)) => Some(*tier),
        (_, _, _) => None,
    };
    let note = Note {
        record: new.subscription_id.clone(),
        due: new.billing_date.text().into(),
        version: new.version,
        standing,
        provider: new.provider,
    };
    // Paid before and after is one settlement, told again.
    let gone = if is.is_some() { None } else { was };
    Ok(Some(Meaning { note, settled: is.zip(tier), gone }))
}

/// What a whole history of billing records means, up to a time: rows by record, each in order. A tier that is in no map is parked, and says nothing here.
#[must_use]
pub fn meanings(history: &[History], tiers: &TierMap, until: Option<Time>) -> Vec<Meaning> {
    let mut meanings = Vec::new();
    for rows in history.chunk_by(|a, b| a.record.subscription_id == b.record.subscription_id) {
        let mut before: Option<Record> = None;
        let in_time = |row: &&History| until.is_none_or(|until| row.record.last_run_date.as_ref().is_none_or(|run| run.at() <= until));
        for row in rows.iter().filter(in_time) {
            let after = row.onto(before.as_ref());
            meanings.extend(meaning(before.as_ref(), &after, tiers).ok().flatten());
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

/// How the record stands now, if it stands otherwise than before.
fn standing(old: Option<&Record>, new: &Record, tiers: &TierMap) -> Result<Option<Standing>, UnknownTier> {
    let was = old.map(|old| &old.state);
    Ok(match (was, &new.state) {
        (_, State::Completed(_)) => {
            let paid = paid(new, tiers)?;
            // Where it stood before has the tier of its own receipt, which may have been changed by hand.
            let before = match old {
                Some(old) if settlement(old).is_some() => paid_before(old, tiers),
                Some(_) | None => None,
            };
            (before.as_ref() != Some(&paid)).then_some(paid)
        }
        (Some(State::Refunded(_)), State::Refunded(_)) => None,
        (_, State::Refunded(_)) | (Some(State::Completed(_)), State::Error(_)) => Some(Standing::TakenBack),
        (Some(before), State::Cancelled(_) | State::Stale(_) | State::Paused(_) | State::PausedSkipped(..)) => {
            (!is_ended(before)).then_some(Standing::Ended)
        }
        (None, State::Cancelled(_) | State::Stale(_) | State::Paused(_) | State::PausedSkipped(..)) => Some(Standing::Ended),
        (Some(State::Paused(_)), State::Scheduled(_)) => Some(Standing::Open),
        (_, State::Scheduled(_) | State::AchSent(_) | State::Error(_) | State::Waived(_)) => None,
    })
}

fn is_ended(state: &State) -> bool {
    match state {
        State::Cancelled(_) | State::Stale(_) | State::Paused(_) | State::PausedSkipped(..) => true,
        State::Scheduled(_) | State::AchSent(_) | State::Completed(_) | State::Error(_) | State::Waived(_) | State::Refunded(_) => false,
    }
}

fn paid(record: &Record, tiers: &TierMap) -> Result<Standing, UnknownTier> {
    let tier = tiers.tier(record).ok_or_else(|| UnknownTier { name: record.plan.tier.as_str().to_owned() })?;
    let due = record.billing_date.at();
    let until = record.schedule().after(due).unwrap_or(due);
    Ok(Standing::Paid { tier, until: GoTime::trimmed(until).text().into() })
}

fn paid_before(record: &Record, tiers: &TierMap) -> Option<Standing> {
    paid(record, tiers).ok()
}
