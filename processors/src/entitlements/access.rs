//! Queries: effective access and credits.

use dues_events::{Balance, Feature, UserId};
use dues_projections::entitlements::access;
use dues_projections::entitlements::access::Access;
use dues_store::{Consumed, Engine, Store, StoreError};

use super::refresh;

/// The access of a user now, until when, and why.
pub async fn access<E: Engine>(store: &Store<E>, user: &UserId) -> Result<Access, StoreError> {
    let (passes, subscriptions, profile) =
        futures::try_join!(store.founder_passes(user), store.subscriptions(user), store.profile(user))?;
    Ok(access::access(store.clock.now(), &passes, &subscriptions, profile.as_ref()))
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
