//! Entitlements: Stripe events and ACH dues are recorded together with the profile, subscriptions, passes
//! and credits that they grant, in one transaction.
//!
//! ```text
//! event ──► the user's journal (all events so far) ──fold──► before │ after
//!                                                                      └──► changed rows, credit movements,
//!                                                                           next head
//! ```
//!
//! The fold is over a set, so the order of delivery does not matter; the head's version makes each commit
//! conditional on what was read; an event in the journal is a duplicate. The commit is atomic: a crash
//! leaves nothing half done.

pub mod clock;
pub mod groups;
pub mod stripe_webhook;
pub mod stripe_worker;

mod access;
mod dues;
pub(crate) mod dues_changes;
mod entitlement_commit;
mod owner_links;

pub use access::{access, consume, credits};
pub use dues::{DuesOutcome, apply_dues};
pub(crate) use entitlement_commit::decode_effective_tier;

use dues_events::entitlements::stripe::StripeEvent;
use dues_events::{IdempotencyToken, UserId};
use dues_store::entitlements::Book;
use dues_store::{Engine, Store, StoreError};
use std::collections::HashMap;

use crate::outcome::FactOutcome;
use entitlement_commit::{CommitOutcome, commit};
use owner_links::{ReleasedEvent, link_owners};

/// Events per commit: with everything they can change, they fit into one transaction.
const MAX_EVENTS_PER_COMMIT: usize = 10;
/// Operations of a commit reserved for released events, together with new events or alone.
const MAX_RELEASED_OPS_WITH_EVENTS: usize = 40;
const MAX_RELEASED_OPS_ALONE: usize = 60;
/// Attempts before contention is an error.
const MAX_COMMIT_ATTEMPTS: u32 = 50;

/// Records Stripe events of a user and returns the outcome of each.
///
/// # Errors
/// Any [`StoreError`]. Some events may be recorded: a retry finds them as duplicates.
pub async fn record_stripe_events<E: Engine>(
    store: &Store<E>,
    user: &UserId,
    events: &[StripeEvent],
) -> Result<Vec<FactOutcome>, StoreError> {
    let mut outcomes = Vec::with_capacity(events.len());
    for chunk in events.chunks(MAX_EVENTS_PER_COMMIT) {
        outcomes.extend(record_batch(store, user, chunk).await?);
    }
    Ok(outcomes)
}

async fn record_batch<E: Engine>(
    store: &Store<E>,
    user: &UserId,
    events: &[StripeEvent],
) -> Result<Vec<FactOutcome>, StoreError> {
    for _ in 0..MAX_COMMIT_ATTEMPTS {
        let book = store.entitlement_book(user).await?;
        let outcomes = classify(&book, events);
        let new: Vec<StripeEvent> = events
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcomes)| **outcomes == FactOutcome::Applied)
            .map(|(event, _)| event.clone())
            .collect();
        if new.is_empty() {
            return Ok(outcomes);
        }
        let mut released = link_owners(store, user, &book, &new).await?;
        if op_count(&released) > MAX_RELEASED_OPS_WITH_EVENTS {
            // From the end of the chain: if a crash interrupts this, the events before them still lead
            // there.
            let mut cut = released.len();
            while cut > 0 && op_count(&released[cut - 1..]) <= MAX_RELEASED_OPS_ALONE {
                cut -= 1;
            }
            commit(store, user, &book, Vec::new(), &released.split_off(cut)).await?;
            continue;
        }
        match commit(store, user, &book, new, &released).await? {
            CommitOutcome::Complete => return Ok(outcomes),
            // The rest are monthly grants.
            CommitOutcome::Partial => return refresh(store, user).await.map(|()| outcomes),
            CommitOutcome::Stale => {}
        }
    }
    Err(StoreError::Contended(MAX_COMMIT_ATTEMPTS))
}

/// Grants the months of a founder pass that have begun since the last commit.
pub async fn refresh<E: Engine>(store: &Store<E>, user: &UserId) -> Result<(), StoreError> {
    for _ in 0..MAX_COMMIT_ATTEMPTS {
        let book = store.entitlement_book(user).await?;
        if entitlement_commit::is_up_to_date(&book, store.clock.now()) {
            return Ok(());
        }
        // Loop even after a success: there may be more months than fit into one transaction.
        commit(store, user, &book, Vec::new(), &[]).await?;
    }
    Err(StoreError::Contended(MAX_COMMIT_ATTEMPTS))
}

fn op_count(released: &[ReleasedEvent]) -> usize {
    released.iter().map(ReleasedEvent::op_count).sum()
}

/// Classifies each event by the journal and by the events before it.
fn classify(book: &Book, events: &[StripeEvent]) -> Vec<FactOutcome> {
    let mut known: HashMap<_, _> = book.facts.iter().map(|event| (&event.id, &event.token)).collect();
    let outcomes = |event: &StripeEvent, known: Option<&IdempotencyToken>| match known {
        None => FactOutcome::Applied,
        Some(token) if token.same_event(&event.token) => FactOutcome::Duplicate,
        Some(_) => FactOutcome::ConflictingContent,
    };
    let mut all = Vec::with_capacity(events.len());
    for event in events {
        all.push(outcomes(event, known.get(&event.id).copied()));
        known.entry(&event.id).or_insert(&event.token);
    }
    all
}
