//! Groups follow the tier of a profile: the effect, and the row that records its state.
//!
//! The image in the stream may be outdated, so the tier is read from the table, before the directory calls
//! and again after them. If it has changed in between, the groups are synced again to the new tier. So each
//! of several concurrent projectors repairs its own result, and the last one to call leaves the groups of
//! the last tier.
//!
//! Before the first call the delivery is listed in the effect's row; the write of the result removes it.
//! After a crash in between, the row does not say what the groups are, and a redelivery checks them again,
//! even if others have written a result since. Every write of the row is conditional on its version, so
//! that no result of an older tier overwrites that of a newer one.

use dues_events::billing::record::Provider;
use dues_events::entitlements::credits::partition;
use dues_events::entitlements::group_effect::GROUPS_EFFECT_SORT;
use dues_events::entitlements::profile::profile_sort;
use dues_events::{GoTime, GroupsEffect, Item, PlanTier, Profile, UserId, Value, attributes};
use dues_store::parked::Parked;
use dues_store::table::GG_CORE;
use dues_store::{Condition, Engine, Key, StoreError, Written};
use serde_json::json;

use crate::entitlements::groups::{Directory, DirectoryError, GroupChanges, sync_groups};
use crate::projector::Projector;
use crate::runtime::lanes::Outcome;

/// The stream name of this effect's parked records.
pub const GROUPS_STREAM: &str = "groups";
/// Attempts to sync the groups while the tier or the row keeps changing.
const ROUNDS: u32 = 16;

/// The outcome of a write of the effect's row, with the current row.
enum Noted {
    /// Written.
    Done(GroupsEffect),
    /// Another writer was first; nothing was written.
    Changed(GroupsEffect),
}

/// Runs a parked effect again, and removes the parked record on success.
///
/// # Errors
/// [`StoreError::Invalid`] for a parked record of another stream or without a user; any error of the store.
pub async fn redrive_groups<E: Engine, D: Directory>(
    projector: &Projector<E, D>,
    parked: &Parked,
) -> Result<Outcome, StoreError> {
    let user = parked.user_id.as_deref().filter(|_| parked.stream == GROUPS_STREAM);
    let user = user.ok_or_else(|| {
        StoreError::Invalid(format!("parked record {} names no user to sync groups for", parked.id))
    })?;
    let outcome = projector.groups(&user.into(), &parked.id).await?;
    match &outcome {
        Outcome::Applied | Outcome::Duplicate | Outcome::Ignored | Outcome::Skipped => {
            projector.store.unpark(parked).await?
        }
        Outcome::Parked | Outcome::Failed(_) => {}
    }
    Ok(outcome)
}

impl<E: Engine, D: Directory> Projector<E, D> {
    /// Syncs a user's groups to the profile's current tier, unless the row says that this is done.
    pub(crate) async fn groups(&self, user: &UserId, delivery: &str) -> Result<Outcome, StoreError> {
        let Some(directory) = &self.directory else { return Ok(Outcome::Skipped) };
        let Some(mut tier) = self.tier_in_cognito(user).await? else { return Ok(Outcome::Skipped) };
        let there = self.store.engine.get(&GG_CORE, key(user, GROUPS_EFFECT_SORT)).await?;
        let mut row = read(user, there)?;
        if row.is_applied_for(tier) {
            return Ok(Outcome::Duplicate);
        }
        // Whether a parked record of this effect may exist; only then is one looked up.
        let mut may_be_parked = false;
        for _ in 0..ROUNDS {
            may_be_parked |= row.parked.is_some() || !row.under_way.is_empty();
            match self.begin(row, delivery).await? {
                Noted::Done(begun) => row = begun,
                Noted::Changed(there) => {
                    row = there;
                    continue;
                }
            }
            let made =
                sync_groups(directory, &self.limiter, &self.names, user, self.names.of_tier(tier.as_str()))
                    .await;
            if let Err(error) = &made
                && error.is_transient()
            {
                return Ok(Outcome::Failed(error.to_string()));
            }
            if let Some(now) = self.tier_in_cognito(user).await?
                && now != tier
            {
                tier = now;
                continue;
            }
            let (ended, outcome) = match made {
                Ok(changes) => {
                    if may_be_parked {
                        self.store.unpark(&self.parked(user, tier, delivery, "", String::new())).await?;
                    }
                    (self.made(&row, tier, changes), Outcome::Applied)
                }
                Err(error) => {
                    may_be_parked = true;
                    (self.park_groups(&row, tier, delivery, &error).await?, Outcome::Parked)
                }
            };
            let ended = GroupsEffect {
                under_way: row.under_way.into_iter().filter(|other| other != delivery).collect(),
                ..ended
            };
            match self.write(ended).await? {
                Noted::Done(_) => return Ok(outcome),
                Noted::Changed(there) => row = there,
            }
        }
        Ok(Outcome::Failed(format!("the tier of {user} kept changing")))
    }

    /// The tier of a user who signs in through Cognito, read from the table: the stream may be behind.
    async fn tier_in_cognito(&self, user: &UserId) -> Result<Option<PlanTier>, StoreError> {
        let Some(row) = self.store.engine.get(&GG_CORE, key(user, &profile_sort(user))).await? else {
            return Ok(None);
        };
        let profile = Profile::from_item(row)?;
        Ok(match profile.provider {
            Some(Provider::Cognito) => Some(profile.tier),
            Some(Provider::Local) | None => None,
        })
    }

    /// Lists the delivery as under way before the groups change; a redelivery may be listed already.
    async fn begin(&self, mut row: GroupsEffect, delivery: &str) -> Result<Noted, StoreError> {
        if row.under_way.iter().any(|begun| begun == delivery) {
            return Ok(Noted::Done(row));
        }
        row.under_way.push(delivery.to_owned());
        self.write(row).await
    }

    /// Writes the row if its version is unchanged.
    async fn write(&self, mut row: GroupsEffect) -> Result<Noted, StoreError> {
        let seen = match row.version {
            0 => Condition::NoItem,
            version => Condition::Equals(attributes::VERSION, Value::number(version)),
        };
        row.version += 1;
        Ok(match self.store.engine.put(&GG_CORE, row.to_item(), seen).await? {
            Written::Done => Noted::Done(row),
            Written::Refused(there) => Noted::Changed(read(&row.user, there.map(|there| *there))?),
        })
    }

    fn made(&self, row: &GroupsEffect, tier: PlanTier, changes: GroupChanges) -> GroupsEffect {
        GroupsEffect {
            tier: Some(tier),
            group: self.names.of_tier(tier.as_str()).map(str::to_owned),
            added: changes.added,
            removed: changes.removed,
            calls: changes.calls.into(),
            applied_at: Some(GoTime::trimmed(self.store.clock.now())),
            parked: None,
            ..row.clone()
        }
    }

    /// Parks the effect until the directory is repaired. A user has one such record, with the latest
    /// reason.
    async fn park_groups(
        &self,
        row: &GroupsEffect,
        tier: PlanTier,
        delivery: &str,
        error: &DirectoryError,
    ) -> Result<GroupsEffect, StoreError> {
        let code = code(error);
        let parked = self.parked(&row.user, tier, delivery, code, error.to_string());
        if row.parked.as_deref().is_some_and(|before| before != code) {
            self.store.unpark(&parked).await?;
        }
        self.store.park(&parked).await?;
        // Some calls may have succeeded: the groups are unknown until a later run completes.
        Ok(GroupsEffect { parked: Some(code.to_owned()), ..row.clone() })
    }

    fn parked(&self, user: &UserId, tier: PlanTier, delivery: &str, code: &str, reason: String) -> Parked {
        Parked {
            stream: GROUPS_STREAM.to_owned(),
            id: Parked::id_of(GROUPS_STREAM, user.as_str().as_bytes()),
            code: code.to_owned(),
            reason,
            event_id: None,
            user_id: Some(user.to_string()),
            sequence: delivery.to_owned(),
            parked_at: self.store.clock.now(),
            body: json!({"user_id": user.as_str(), "tier": tier.as_str()}).to_string().into_bytes(),
        }
    }
}

fn key(user: &UserId, sort: &str) -> Key {
    Key { partition: partition(user), sort: Some(sort.to_owned()) }
}

fn read(user: &UserId, there: Option<Item>) -> Result<GroupsEffect, StoreError> {
    Ok(there.map(GroupsEffect::from_item).transpose()?.unwrap_or_else(|| GroupsEffect::new(user.clone())))
}

/// The park code of an error.
fn code(error: &DirectoryError) -> &'static str {
    match error {
        DirectoryError::NoSuchUser => "no_such_user",
        DirectoryError::NoSuchGroup(_) => "no_such_group",
        DirectoryError::Refused(_) => "refused",
        DirectoryError::Throttled(_) | DirectoryError::Unavailable(_) => "unavailable",
    }
}
