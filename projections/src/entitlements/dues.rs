//! What a change of a billing record means for its user: the tier that dues by ACH have paid for, and the
//! credits that they grant.
//!
//! Derived from the two images of the change, without other records or a clock, so that change stream and
//! history give the same result.

use dues_events::billing::record::{History, Provider};
use dues_events::calendar::Term;
use dues_events::collections::ach::Consequence;
use dues_events::collections::eligibility::Rules;
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
///
/// A record that waits for its first attempt, or has its first attempt under way, has none: the renewal that
/// the paid record before it promises is expected, and a member who simply pays costs one booking a period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DuesState {
    /// Paid or waived: its tier from the due date to the next one.
    Paid {
        /// The tier that was paid for.
        tier: PlanTier,
        /// When the next record falls due.
        until: Box<str>,
        /// When a yearly record was settled: its later months bring credits of their own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        settled: Option<Box<str>>,
        /// Waived, so it brings no credits.
        #[serde(default, skip_serializing_if = "is_false")]
        waived: bool,
    },
    /// The latest attempt failed, before or after it had settled.
    Failed {
        /// When it failed.
        at: Box<str>,
        /// Whether it may be presented again.
        again: bool,
        /// When a requested cancellation ends it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cancel_at: Option<Box<str>>,
    },
    /// Presented again after a failure.
    Retried,
    /// Refunded; in heads of older versions, also returned late.
    TakenBack,
    /// Will not be paid: cancelled, paused, or too old.
    Ended,
    /// To be collected: after a pause, a cancellation that was withdrawn, or a move to another due date.
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
    /// The record that renews a paid one, unless the membership ends with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<SubscriptionId>,
    /// Whether it bars the member from collection.
    #[serde(default, skip_serializing_if = "is_false")]
    pub barred: bool,
    /// How many later months of a paid year have brought their credits.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub months: u32,
    /// Where the user signs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

fn is_zero(count: &u32) -> bool {
    *count == 0
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
    // On its way to another due date: the row at its destination says what changed.
    if new.moved_to.is_some() {
        return Ok(None);
    }
    let (was, is) = (old.and_then(settlement), settlement(new));
    // Another transaction pays it now: its grant takes the place of the one before.
    let is_repaid = was.as_ref().zip(is.as_ref()).is_some_and(|(was, is)| was.grant != is.grant);
    // The old image has the tier of its own receipt, which may have been changed by hand.
    let before = old.and_then(|old| period_of(old, tiers).ok().flatten());
    let period = match (before, period_of(new, tiers)?) {
        (None, None) => return Ok(None),
        (Some(before), Some(after)) if before.says_the_same(&after) && !is_repaid => return Ok(None),
        (_, Some(after)) => after,
        (Some(_), None) => kept(new, DuesState::Open),
    };
    let is_new = is.is_some() && (was.is_none() || is_repaid);
    let tier = match &period.state {
        DuesState::Paid { tier, .. } if is_new => Some(*tier),
        DuesState::Paid { .. }
        | DuesState::Failed { .. }
        | DuesState::Retried
        | DuesState::TakenBack
        | DuesState::Ended
        | DuesState::Open => None,
    };
    // Paid by the same settlement before and after: nothing is gone.
    let gone = was.filter(|_| is.is_none() || is_repaid);
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
    let settled_then = record.attempts.as_slice().iter().filter_map(|attempt| attempt.settled.as_ref());
    let name = format!("grant:{}:{}", record.subscription_id, at.text());
    let grant = match &payment.transaction_id {
        // The bank settles in batches: two transactions of one record can have the same time.
        Some(id) if settled_then.filter(|settled| settled.at == at.at()).count() > 1 => {
            format!("{name}:{id}")
        }
        Some(_) | None => name,
    };
    Some(Settled {
        grant: grant.into(),
        at,
        payment: payment.transaction_id.as_ref().map(ToString::to_string),
    })
}

/// What to keep of a record: a function of one image, so that change stream and history agree.
fn period_of(record: &Record, tiers: &TierMap) -> Result<Option<PaidPeriod>, UnknownTier> {
    let state = match &record.state {
        State::Completed(_) => paid(record, tiers, false)?,
        State::Waived(_) => paid(record, tiers, true)?,
        State::Error(_) => failed(record),
        State::AchSent(_) if latest_failure(record).is_some() => DuesState::Retried,
        State::Refunded(_) => DuesState::TakenBack,
        State::Cancelled(_) | State::Stale(_) | State::Paused(_) | State::PausedSkipped(..) => {
            DuesState::Ended
        }
        // The cancellation takes effect before the first attempt.
        State::Scheduled
            if record.cancel_at.as_ref().is_some_and(|at| at.at() <= record.billing_date.at()) =>
        {
            DuesState::Ended
        }
        // The paid period before it lasts until the new due date.
        State::Scheduled | State::AchSent(_) if record.original_due_date.is_some() => DuesState::Open,
        State::Scheduled | State::AchSent(_) => return Ok(None),
    };
    Ok(Some(kept(record, state)))
}

fn kept(record: &Record, state: DuesState) -> PaidPeriod {
    let next = match &state {
        DuesState::Paid { until, .. } => renewal(record, until),
        DuesState::Failed { .. }
        | DuesState::Retried
        | DuesState::TakenBack
        | DuesState::Ended
        | DuesState::Open => None,
    };
    PaidPeriod {
        record: record.subscription_id.clone(),
        due: record.billing_date.text().into(),
        version: record.version,
        state,
        next,
        barred: record.bar.is_some(),
        months: 0,
        provider: record.provider,
    }
}

impl PaidPeriod {
    /// Whether a change between the two means nothing for the tier.
    fn says_the_same(&self, other: &Self) -> bool {
        self.state == other.state
            && self.due == other.due
            && self.next == other.next
            && self.barred == other.barred
    }
}

fn paid(record: &Record, tiers: &TierMap, waived: bool) -> Result<DuesState, UnknownTier> {
    let tier =
        tiers.tier(record).ok_or_else(|| UnknownTier { name: record.plan.tier.as_str().to_owned() })?;
    let (due, period) = (record.billing_date.at(), record.scheduled_date().at());
    let until = record.schedule().from_in_later_period(period.max(due), period).unwrap_or(due);
    let settled = match record.term {
        Term::Yearly => settlement(record).map(|settled| settled.at.text().into()),
        Term::Monthly => None,
    };
    Ok(DuesState::Paid { tier, until: GoTime::trimmed(until).text().into(), settled, waived })
}

/// The record that renews a paid one; `None` when the membership ends first.
fn renewal(record: &Record, until: &str) -> Option<SubscriptionId> {
    let until = dues_events::time::parse(until).ok()?;
    let ends_first = record.cancel_at.as_ref().is_some_and(|at| at.at() <= until);
    let goes_on = record.superseded_by.is_none() && record.bar.is_none() && !ends_first;
    record.next.clone().filter(|_| goes_on)
}

fn failed(record: &Record) -> DuesState {
    let at = latest_failure(record)
        .or(record.last_run_date.as_ref().map(GoTime::at))
        .unwrap_or_else(|| record.billing_date.at());
    DuesState::Failed {
        at: GoTime::trimmed(at).text().into(),
        again: may_be_presented_again(record),
        cancel_at: record.cancel_at.as_ref().map(|at| at.text().into()),
    }
}

fn latest_failure(record: &Record) -> Option<Time> {
    record.attempts.latest_failure(record.plan.amount).map(|(_, failed)| failed.at)
}

/// Whether collection goes on after a failure without anything that the member or an operator must do.
fn may_be_presented_again(record: &Record) -> bool {
    let failure = record.state.last_failure().and_then(|failed| failed.failure.consequence());
    let code_allows = match failure {
        None | Some(Consequence::Retry | Consequence::Notice) => true,
        Some(
            Consequence::NewAccount
            | Consequence::NewAuthorisation
            | Consequence::Correction
            | Consequence::Stop
            | Consequence::Bar,
        ) => false,
    };
    code_allows
        && record.bar.is_none()
        && record.superseded_by.is_none()
        && record.attempts.count() < Rules::default().presentments
}

/// The name of the credits of a later month of a paid year. It contains the settlement, as that of the first
/// month does: a year that is paid again after a reversal grants its months again.
#[must_use]
pub fn month_grant(record: &SubscriptionId, settled: &str, month: u32) -> MovementId {
    format!("grant:{record}:{settled}:month-{month}").into()
}
