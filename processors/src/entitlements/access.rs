//! The answers: what a user may use now, and how many credits there are.

use dues_events::{Balance, Feature, UserId};
use dues_projections::access::{self, Access};
use dues_store::{Consumed, Engine, Store, StoreError};

use super::refresh;

/// What a user may use now, until when, and why.
///
/// # Errors
/// What the store could not do, or a row that cannot be read.
pub async fn access<E: Engine>(store: &Store<E>, user: &UserId) -> Result<Access, StoreError> {
    let (passes, subscriptions, profile) = futures::try_join!(store.founder_passes(user), store.subscriptions(user), store.profile(user))?;
    Ok(access::access(store.clock.now(), &passes, &subscriptions, profile.as_ref()))
}

/// A user's credits, with those that a founder pass has brought since somebody last looked.
///
/// # Errors
/// What the store could not do, or a row that cannot be read.
pub async fn credits<E: Engine>(store: &Store<E>, user: &UserId) -> Result<Balance, StoreError> {
    let balance = store.credits(user).await?;
    if !balance.has_more_to_come(store.clock.now()) {
        return Ok(balance);
    }
    refresh(store, user).await?;
    store.credits(user).await
}

/// Spends what a feature costs, once for each key, if there is enough.
///
/// # Errors
/// What the store could not do. Whether it happened may then be unknown; the same key can be tried again.
pub async fn consume<E: Engine>(store: &Store<E>, user: &UserId, feature: Feature, key: &str) -> Result<Consumed, StoreError> {
    let consumed = store.consume(user, feature, key).await?;
    // Only who has not enough has to know whether there is more to come.
    if !matches!(consumed, Consumed::NotEnough(_)) || !store.credits(user).await?.has_more_to_come(store.clock.now()) {
        return Ok(consumed);
    }
    refresh(store, user).await?;
    store.consume(user, feature, key).await
}
