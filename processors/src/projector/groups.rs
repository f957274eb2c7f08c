//! Groups follow the tier of a profile: the effect, and the row that remembers it.
//!
//! The image in the stream may be old by now, so the tier is read from the table, before the calls and again after them: whoever has made the groups
//! of a tier that is no longer the profile's makes those of the new one. So of several projectors each puts right what it has done itself, and
//! the last one to call leaves the groups of the last tier.
//!
//! Before the first call the delivery is noted in the effect's row, and taken out with the result. If a crash comes in between, the row does
//! not say what the groups are, and a redelivery looks at them again, even if others have written a result since. Every write of the row is
//! conditional on its version, so that no result of an older tier covers that of a newer one.

use dues_events::credits::partition;
use dues_events::effect::GROUPS_EFFECT_SORT;
use dues_events::profile::profile_sort;
use dues_events::record::Provider;
use dues_events::{GoTime, GroupsEffect, Item, PlanTier, Profile, UserId, Value, attr};
use dues_store::parked::Parked;
use dues_store::table::GG_CORE;
use dues_store::{Condition, Engine, Key, StoreError, Written};
use serde_json::json;

use super::Projector;
use crate::batch::Fate;
use crate::groups::{Changes, Directory, DirectoryError, make_equal};

/// The name of this effect among the parked records.
pub const GROUPS_STREAM: &str = "groups";
/// How often the groups are made again because the tier, or the row, has changed meanwhile.
const ROUNDS: u32 = 16;

/// What became of a write of the effect's row, with the row that is there now.
enum Noted {
    /// It is durable.
    Done(GroupsEffect),
    /// Somebody else was faster; nothing was written.
    Changed(GroupsEffect),
}

/// Runs a parked effect again. What goes through is taken out of the parked ones.
///
/// # Errors
/// What the store could not do, or a record that does not say whose it is.
pub async fn redrive_groups<E: Engine, D: Directory>(projector: &Projector<E, D>, parked: &Parked) -> Result<Fate, StoreError> {
    let user = parked.user_id.as_deref().filter(|_| parked.stream == GROUPS_STREAM);
    let user = user.ok_or_else(|| StoreError::Invalid(format!("parked record {} names no user whose groups to make", parked.id)))?;
    let fate = projector.groups(&user.into(), &parked.id).await?;
    match &fate {
        Fate::Applied | Fate::Duplicate | Fate::Ignored | Fate::Skipped => projector.store.unpark(parked).await?,
        Fate::Parked | Fate::Failed(_) => {}
    }
    Ok(fate)
}

impl<E: Engine, D: Directory> Projector<E, D> {
    /// Makes a user's groups equal to the tier that the profile has now, unless that is known to be so.
    pub(super) async fn groups(&self, user: &UserId, delivery: &str) -> Result<Fate, StoreError> {
        let Some(directory) = &self.directory else { return Ok(Fate::Skipped) };
        let Some(mut tier) = self.tier_in_cognito(user).await? else { return Ok(Fate::Skipped) };
        let there = self.store.engine.get(&GG_CORE, key(user, GROUPS_EFFECT_SORT)).await?;
        let mut row = read(user, there)?;
        if row.stands_for(tier) {
            return Ok(Fate::Duplicate);
        }
        // Whether there may be a parked record of this effect: nobody else has to look for one.
        let mut park_as = false;
        for _ in 0..ROUNDS {
            park_as |= row.parked.is_some() || !row.under_way.is_empty();
            match self.begin(row, delivery).await? {
                Noted::Done(begun) => row = begun,
                Noted::Changed(there) => {
                    row = there;
                    continue;
                }
            }
            let made = make_equal(directory, &self.limiter, &self.names, user, self.names.of_tier(tier.as_str())).await;
            if let Err(error) = &made
                && error.is_transient()
            {
                return Ok(Fate::Failed(error.to_string()));
            }
            if let Some(now) = self.tier_in_cognito(user).await?
                && now != tier
            {
                tier = now;
                continue;
            }
            let (ended, fate) = match made {
                Ok(changes) => {
                    if park_as {
                        self.store.unpark(&self.parked(user, tier, delivery, "", String::new())).await?;
                    }
                    (self.made(&row, tier, changes), Fate::Applied)
                }
                Err(error) => {
                    park_as = true;
                    (self.park_groups(&row, tier, delivery, &error).await?, Fate::Parked)
                }
            };
            let ended = GroupsEffect { under_way: row.under_way.into_iter().filter(|other| other != delivery).collect(), ..ended };
            match self.write(ended).await? {
                Noted::Done(_) => return Ok(fate),
                Noted::Changed(there) => row = there,
            }
        }
        Ok(Fate::Failed(format!("the tier of {user} kept changing")))
    }

    /// The tier of a user who signs in through Cognito. It is read where it is, not in the stream, which may be behind.
    async fn tier_in_cognito(&self, user: &UserId) -> Result<Option<PlanTier>, StoreError> {
        let Some(row) = self.store.engine.get(&GG_CORE, key(user, &profile_sort(user))).await? else { return Ok(None) };
        let profile = Profile::from_item(row)?;
        Ok(match profile.provider {
            Some(Provider::Cognito) => Some(profile.tier),
            Some(Provider::Local) | None => None,
        })
    }

    /// Notes that the groups are about to be changed; a delivery that has come before has noted that already.
    async fn begin(&self, mut row: GroupsEffect, delivery: &str) -> Result<Noted, StoreError> {
        if row.under_way.iter().any(|begun| begun == delivery) {
            return Ok(Noted::Done(row));
        }
        row.under_way.push(delivery.to_owned());
        self.write(row).await
    }

    /// Writes the row if it is as it was seen.
    async fn write(&self, mut row: GroupsEffect) -> Result<Noted, StoreError> {
        let seen = match row.version {
            0 => Condition::NoItem,
            version => Condition::Equals(attr::VERSION, Value::number(version)),
        };
        row.version += 1;
        Ok(match self.store.engine.put(&GG_CORE, row.to_item(), seen).await? {
            Written::Done => Noted::Done(row),
            Written::Refused(there) => Noted::Changed(read(&row.user, there.map(|there| *there))?),
        })
    }

    fn made(&self, row: &GroupsEffect, tier: PlanTier, changes: Changes) -> GroupsEffect {
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

    /// Puts the effect aside until somebody has put the directory right. A user has one such record, with the latest reason.
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
        // Some of the calls may have been made: the groups are nobody's until it goes through.
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

/// A short name of the reason, for programs.
fn code(error: &DirectoryError) -> &'static str {
    match error {
        DirectoryError::NoSuchUser => "no_such_user",
        DirectoryError::NoSuchGroup(_) => "no_such_group",
        DirectoryError::Refused(_) => "refused",
        DirectoryError::Throttled(_) | DirectoryError::Unavailable(_) => "unavailable",
    }
}
