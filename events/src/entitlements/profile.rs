//! The user's profile: the row of `gg_core` that shows the tier. Other services share it, so only the
//! attributes defined here are written.

use crate::attributes::*;
use crate::billing::record::Provider;
use crate::entitlements::tier::PlanTier;
use crate::ids::{SubscriptionId, UserId};
use crate::item::Item;
use crate::row::{ReadError, Reader};
use crate::time::GoTime;

/// Prefix of a profile's sort key.
pub const PROFILE_PREFIX: &str = "PROFILE#";

/// The sort key of a user's profile.
#[must_use]
pub fn profile_sort(user: &UserId) -> String {
    format!("{PROFILE_PREFIX}{user}")
}

/// The user of a `gg_core` partition key.
#[must_use]
pub fn user_of(partition: &str) -> Option<UserId> {
    partition.strip_prefix("USER#").filter(|user| !user.is_empty()).map(UserId::from)
}

/// ACH dues that have paid for a tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaidDues {
    /// The tier.
    pub tier: PlanTier,
    /// The next due date.
    pub until: GoTime,
    /// The billing record.
    pub record: SubscriptionId,
}

/// The attributes of a profile that this program owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The user.
    pub user: UserId,
    /// The tier.
    pub tier: PlanTier,
    /// Where the user signs in, if known.
    pub provider: Option<Provider>,
    /// The ACH dues that reach furthest, if any.
    pub dues: Option<PaidDues>,
    /// Time of the last change.
    pub updated_at: Option<GoTime>,
}

impl Profile {
    /// A profile of which only the user is known: tier free.
    #[must_use]
    pub fn new(user: UserId) -> Self {
        Self { user, tier: PlanTier::Free, provider: None, dues: None, updated_at: None }
    }

    /// Decodes a row.
    ///
    /// # Errors
    /// [`ReadError`] names the attribute and the row.
    pub fn from_item(item: Item) -> Result<Self, ReadError> {
        let mut row = Reader::new(item, [PK, SK]);
        let user = row.required(PK, "a user's partition", user_of)?;
        let dues = match (
            row.parsed(DUES_TIER, "a tier", PlanTier::read)?,
            row.time(DUES_UNTIL)?,
            row.optional_text(DUES_RECORD)?,
        ) {
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
