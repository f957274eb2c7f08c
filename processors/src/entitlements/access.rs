//! Queries: effective access and credits.

use dues_events::{Balance, Feature, UserId};
use dues_projections::entitlements::access::{Access, access_or_profile};
use dues_store::{Consumed, Engine, Store, StoreError};

use super::entitlement_commit::decode_effective_tier;
use super::refresh;

/// The access of a user now, until when, and why.
pub async fn access<E: Engine>(store: &Store<E>, user: &UserId) -> Result<Access, StoreError> {
    let head = decode_effective_tier(&store.entitlement_head(user).await?)?;
    // The profile is another writer's answer: it counts only where no fact is known.
    let profile = if head.has_facts() { None } else { store.profile(user).await? };
    Ok(access_or_profile(&head, profile.map(|profile| profile.tier), store.clock.now()))
}

/// A user's credits, after granting the months of a founder pass that are due.
pub async fn credits<E: Engine>(store: &Store<E>, user: &UserId) -> Result<Balance, StoreError> {
    let balance = store.credits(user).await?;
    if !balance.has_more_to_come(store.clock.now()) {
        return Ok(balance);
    }
    refresh(store, user).await?;
    store.credits(user).await
}

/// Spends the cost of a feature once per key, if the balance allows.
///
/// # Errors
/// Any [`StoreError`]. The outcome may be unknown; a retry with the same key is safe.
pub async fn consume<E: Engine>(
    store: &Store<E>,
    user: &UserId,
    feature: Feature,
    key: &str,
) -> Result<Consumed, StoreError> {
    let consumed = store.consume(user, feature, key).await?;
    // Grant due months only when the balance is too low.
    if !matches!(consumed, Consumed::NotEnough(_))
        || !store.credits(user).await?.has_more_to_come(store.clock.now())
    {
        return Ok(consumed);
    }
    refresh(store, user).await?;
    store.consume(user, feature, key).await
}
