//! ACH dues: settlements and reversals of billing records change the same profile and credits as Stripe
//! events.

use dues_events::entitlements::credits::Movement;
use dues_events::{EventId, MovementId, MovementKind, Record, UserId};
use dues_projections::entitlements::dues::{
    DuesState, EntitlementChange, TierMap, entitlement_change, month_grant,
};
use dues_projections::entitlements::effective_tier::EffectiveTier;
use dues_store::entitlements::Head;
use dues_store::entitlements::credits::{Booked, Booking, Terms};
use dues_store::{Engine, Store, StoreError};

use super::MAX_COMMIT_ATTEMPTS;
use super::entitlement_commit::{decode_effective_tier, head_ops};

/// The outcome of a billing change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DuesOutcome {
    /// Committed now.
    Applied,
    /// Committed before, or superseded by a newer change.
    Duplicate,
    /// No effect on tier and credits.
    NoChange,
    /// The paid tier is not in the map: nothing was written.
    UnknownTier(String),
}

/// Applies a billing change to its user's tier and credits. Idempotent.
pub async fn apply_dues<E: Engine>(
    store: &Store<E>,
    tiers: &TierMap,
    old: Option<&Record>,
    new: &Record,
) -> Result<DuesOutcome, StoreError> {
    let change = match entitlement_change(old, new, tiers) {
        Ok(Some(change)) => change,
        Ok(None) => return Ok(DuesOutcome::NoChange),
        Err(unknown) => return Ok(DuesOutcome::UnknownTier(unknown.to_string())),
    };
    let user = &new.user_id;
    for _ in 0..MAX_COMMIT_ATTEMPTS {
        let head = store.entitlement_head(user).await?;
        if let Some(outcome) = commit_change(store, user, new, &change, &head).await? {
            return Ok(outcome);
        }
    }
    Err(StoreError::Contended(MAX_COMMIT_ATTEMPTS))
}

/// Commits on top of that head; `None` when the head has moved.
async fn commit_change<E: Engine>(
    store: &Store<E>,
    user: &UserId,
    record: &Record,
    change: &EntitlementChange,
    head: &Head,
) -> Result<Option<DuesOutcome>, StoreError> {
    let before = decode_effective_tier(head)?;
    let mut effective = before.clone();
    if !effective.record(change.paid_period.clone()) {
        return Ok(Some(DuesOutcome::Duplicate));
    }
    let mut movements: Vec<Movement> = grant_movement(record, change).into_iter().collect();
    movements.extend(reversals(store, user, record, change, &before).await?);
    let moved = Head { version: head.version + 1, ..head.clone() };
    let ops = head_ops(user, moved, &before, effective.clone(), store.clock.now())?;
    loop {
        if movements.is_empty() && effective == before {
            return Ok(Some(DuesOutcome::Duplicate));
        }
        let terms = effective
            .next_grant
            .filter(|_| !movements.is_empty())
            .map(|next_grant| Terms::Lasting { next_grant });
        // A user with a head may have a balance from Stripe events.
        let first = head.version == 0;
        match store
            .book(user, &Booking { ops: ops.clone(), movements: movements.clone(), first, terms })
            .await?
        {
            Booked::Done => return Ok(Some(DuesOutcome::Applied)),
            Booked::Stale => return Ok(None),
            // An old record that the head no longer lists: the ledger still has its movement.
            Booked::Known(place) if place < movements.len() => drop(movements.remove(place)),
            Booked::Known(_) => return Ok(None),
        }
    }
}

/// The credits that a settlement grants.
fn grant_movement(record: &Record, change: &EntitlementChange) -> Option<Movement> {
    let (settled, tier) = change.settled.as_ref()?;
    let credits = tier.monthly_credits();
    (credits > 0).then(|| Movement {
        id: settled.grant.clone(),
        kind: MovementKind::Grant,
        amount: credits.into(),
        at: settled.at.at(),
        source: source(record),
        payment: settled.payment.clone(),
        takes_back: None,
        feature: None,
    })
}

/// The reversals of a lost settlement: exactly what it granted, if anything.
async fn reversals<E: Engine>(
    store: &Store<E>,
    user: &UserId,
    record: &Record,
    change: &EntitlementChange,
    before: &EffectiveTier,
) -> Result<Vec<Movement>, StoreError> {
    let Some(gone) = &change.gone else { return Ok(Vec::new()) };
    let at = record.last_run_date.as_ref().unwrap_or(&gone.at).at();
    let cause = format!("v{}", record.version);
    let mut grants = vec![gone.grant.clone()];
    grants.extend(months_granted(before, record));
    let mut reversals = Vec::new();
    for grant in grants {
        reversals.extend(store.movement(user, &grant).await?.map(|grant| Movement {
            payment: grant.payment.clone(),
            ..Movement::take_back(&cause, &grant, at, source(record))
        }));
    }
    Ok(reversals)
}

/// The grants of the later months of a paid year.
fn months_granted(before: &EffectiveTier, record: &Record) -> Vec<MovementId> {
    let known = before.paid_periods.iter().find(|period| period.record == record.subscription_id);
    match known.map(|period| (&period.state, period.months)) {
        Some((DuesState::Paid { settled: Some(settled), .. }, months)) => {
            (1..=months).map(|month| month_grant(&record.subscription_id, settled, month)).collect()
        }
        Some((
            DuesState::Paid { settled: None, .. }
            | DuesState::Failed { .. }
            | DuesState::Retried
            | DuesState::TakenBack
            | DuesState::Ended
            | DuesState::Open,
            _,
        ))
        | None => Vec::new(),
    }
}

/// The key of the history row.
fn source(record: &Record) -> EventId {
    let at = record.last_run_date.as_ref().map(|at| at.text()).unwrap_or_default();
    format!("history {at}").into()
}
