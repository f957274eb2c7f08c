//! A user's profile: the row of `gg_core` that shows the tier. Other services keep their own attributes in it, so only ours are ever written.

use crate::attr::*;
use crate::ids::{SubscriptionId, UserId};
use crate::item::Item;
use crate::record::Provider;
use crate::row::{ReadError, Reader};
use crate::tier::PlanTier;
use crate::time::GoTime;

/// What starts the sort key of a profile.
pub const PROFILE_PREFIX: &str = "PROFILE#";

/// The sort key of a user's profile.
#[must_use]
pub fn profile_sort(user: &UserId) -> String {
    format!("{PROFILE_PREFIX}{user}")
}

/// The user of a partition of `gg_core`.
#[must_use]
pub fn user_of(partition: &str) -> Option<UserId> {
    partition.strip_prefix("USER#").filter(|user| !user.is_empty()).map(UserId::from)
}

/// Dues by ACH that have paid for a tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaidDues {
    /// The tier.
    pub tier: PlanTier,
    /// When the next dues fall due.
    pub until: GoTime,
    /// The billing record.
    pub record: SubscriptionId,
}

/// A profile, as far as it is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Whose.
    pub user: UserId,
    /// The tier.
    pub tier: PlanTier,
    /// Where the user signs in, if anybody has said so.
    pub provider: Option<Provider>,
    /// The dues by ACH that reach furthest, if there are any.
    pub dues: Option<PaidDues>,
    /// When it last changed.
    pub updated_at: Option<GoTime>,
}

impl Profile {
    /// The profile of somebody of whom nothing is known.
    #[must_use]
    pub fn new(user: UserId) -> Self {
        Self { user, tier: PlanTier::Free, provider: None, dues: None, updated_at: None }
    }

    /// Reads a row.
    ///
    /// # Errors
    /// [`ReadError`] names the attribute and the row.
    pub fn from_item(item: Item) -> Result<Self, ReadError> {
        let mut row = Reader::new(item, [PK, SK]);
        let user = row.required(PK, "a user's partition", user_of)?;
        let dues = match (row.parsed(DUES_TIER, "a tier", PlanTier::read)?, row.time(DUES_UNTIL)?, row.optional_text(DUES_RECORD)?) {
            (Some(tier), Some(until), Some(record)) => Some(PaidDues { tier, until, record: record.into() }),
            (_, _, _) => None,
        };
        Ok(Self {
            user,
            tier: row.parsed(TIER, "a tier", PlanTier::read)?.unwrap_or_default(),
            provider: row.parsed(PROVIDER, "a provider", Provider::read)?,
            dues,
            updated_at: row.time(UPDATED_AT)?,
        })
    }
}
