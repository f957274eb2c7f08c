//! Dues by ACH: a billing record that is paid, or whose money goes back, changes the same profile and the same credits as Stripe does.

use dues_events::credits::Movement;
use dues_events::{EventId, MovementKind, Record, UserId};
use dues_projections::dues::{Meaning, TierMap, meaning};
use dues_store::credits::{Booked, Booking, Terms};
use dues_store::entitlements::Head;
use dues_store::{Engine, Store, StoreError};

use super::TRIES;
use super::booking::{profile_op, read_standing, write_standing};

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DuesTold {
    /// It was booked.
    Applied,
    /// It had been booked, or something newer has.
    Duplicate,
    /// It means nothing for tier and credits.
    Nothing,
    /// The tier that was paid for is not in the map: nothing was booked.
    UnknownTier(String),
}

/// Books what a change of a billing record means for its user. Told again, it changes nothing.
///
/// # Errors
/// What the store could not do.
pub async fn dues<E: Engine>(store: &Store<E>, tiers: &TierMap, old: Option<&Record>, new: &Record) -> Result<DuesTold, StoreError> {
    let meaning = match meaning(old, new, tiers) {
        Ok(Some(meaning)) => meaning,
        Ok(None) => return Ok(DuesTold::Nothing),
        Err(unknown) => return Ok(DuesTold::UnknownTier(unknown.to_string())),
    };
    let user = &new.user_id;
    for _ in 0..TRIES {
        let head = store.entitlement_head(user).await?;
        if let Some(told) = book(store, user, new, &meaning, &head).await? {
            return Ok(told);
        }
    }
    Err(StoreError::Contended(TRIES))
}

/// Books it on top of that head; `None` when somebody else was faster.
async fn book<E: Engine>(
    store: &Store<E>,
    user: &UserId,
    record: &Record,
    meaning: &Meaning,
    head: &Head,
) -> Result<Option<DuesTold>, StoreError> {
    let before = read_standing(head)?;
    let mut standing = before.clone();
    if !standing.remember(meaning.note.clone()) {
        return Ok(Some(DuesTold::Duplicate));
    }
    let mut movements: Vec<Movement> = granted(record, meaning).into_iter().collect();
    movements.extend(taken_back(store, user, record, meaning).await?);
    let moved = Head { version: head.version + 1, standing: write_standing(&standing)?, ..head.clone() };
    let mut ops = vec![moved.op(user)];
    let shown = standing.shown();
    if head.version == 0 || shown != before.shown() {
        ops.push(profile_op(user, &shown, store.clock.now()));
    }
    loop {
        if movements.is_empty() && standing == before {
            return Ok(Some(DuesTold::Duplicate));
        }
        let terms = standing.next_grant.filter(|_| !movements.is_empty()).map(|next_grant| Terms::Lasting { next_grant });
        // What Stripe's events have brought is not looked at: who has a head may have a balance.
        let first = head.version == 0;
        match store.book(user, &Booking { ops: ops.clone(), movements: movements.clone(), first, terms }).await? {
            Booked::Done => return Ok(Some(DuesTold::Applied)),
            Booked::Stale => return Ok(None),
            // A record of long ago, which the head has forgotten: the ledger has not.
            Booked::Known(place) if place < movements.len() => drop(movements.remove(place)),
            Booked::Known(_) => return Ok(None),
        }
    }
}

/// What the settlement brings.
fn granted(record: &Record, meaning: &Meaning) -> Option<Movement> {
    let (settled, tier) = meaning.settled.as_ref()?;
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

/// What goes with the settlement that has gone: exactly what it brought, if it brought anything.
async fn taken_back<E: Engine>(
    store: &Store<E>,
    user: &UserId,
    record: &Record,
    meaning: &Meaning,
) -> Result<Option<Movement>, StoreError> {
    let Some(gone) = &meaning.gone else { return Ok(None) };
    let Some(grant) = store.movement(user, &gone.grant).await? else { return Ok(None) };
    let at = record.last_run_date.as_ref().unwrap_or(&gone.at).at();
    let cause = format!("v{}", record.version);
    Ok(Some(Movement { payment: grant.payment.clone(), ..Movement::take_back(&cause, &grant, at, source(record)) }))
}

/// The history row that tells of the event: its key.
fn source(record: &Record) -> EventId {
    let at = record.last_run_date.as_ref().map(|at| at.text()).unwrap_or_default();
    format!("history {at}").into()
}
