//! Where a user stands: what Stripe's events and the dues by ACH come to, together. From this the profile is written.

use dues_events::profile::PaidDues;
use dues_events::record::Provider;
use dues_events::{GoTime, PlanTier, Time};
use serde::{Deserialize, Serialize};

use crate::dues::{Note, Standing as Dues};

/// How many billing records are remembered. The newest decides; those before it matter for as long as money can come back.
const REMEMBERED: usize = 4;

/// Where a user stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The tier of the subscriptions at Stripe.
    #[serde(default)]
    pub subscribed: PlanTier,
    /// The tier of the founder passes.
    #[serde(default)]
    pub passes: PlanTier,
    /// Where the user signs in, as Stripe's events say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// When a founder pass brings the next credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_grant: Option<Time>,
    /// The billing records that count, the one that falls due first in front.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

/// What the profile shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The tier.
    pub tier: PlanTier,
    /// Where the user signs in.
    pub provider: Option<Provider>,
    /// The dues that reach furthest.
    pub dues: Option<PaidDues>,
}

impl Standing {
    /// Remembers a billing record; `false` when this or something newer is known of it.
    pub fn remember(&mut self, note: Note) -> bool {
        match self.notes.iter_mut().find(|known| known.record == note.record) {
            Some(known) if known.version >= note.version => return false,
            Some(known) => *known = note,
            None => self.notes.push(note),
        }
        self.notes.sort_by_key(|note| (when(&note.due), note.record.clone()));
        let many = self.notes.len().saturating_sub(REMEMBERED);
        self.notes.drain(..many);
        true
    }

    /// The tier that dues by ACH have paid for: that of the newest record that was paid, unless a newer one has ended it or its money went back. A
    /// record that could not be collected yet takes nothing away.
    #[must_use]
    pub fn dues_tier(&self) -> PlanTier {
        let newest = self.notes.iter().rev().find(|note| note.standing != Dues::Open);
        match newest.map(|note| &note.standing) {
            Some(Dues::Paid { tier, .. }) => *tier,
            Some(Dues::TakenBack | Dues::Ended | Dues::Open) | None => PlanTier::Free,
        }
    }

    /// What the profile shows: a founder pass before everything else, then the higher of subscription and dues.
    #[must_use]
    pub fn shown(&self) -> Shown {
        let tier = if self.passes > PlanTier::Free { self.passes } else { self.subscribed.max(self.dues_tier()) };
        let provider = self.provider.or_else(|| self.notes.iter().rev().find_map(|note| note.provider));
        let paid = self.notes.iter().filter_map(|note| match &note.standing {
            Dues::Paid { tier, until } => Some(PaidDues { tier: *tier, until: GoTime::trimmed(when(until)), record: note.record.clone() }),
            Dues::TakenBack | Dues::Ended | Dues::Open => None,
        });
        Shown { tier, provider, dues: paid.max_by_key(|dues| (dues.until.at(), dues.tier)) }
    }
}

/// A time that was written here, or read from a table before.
fn when(text: &str) -> Time {
    dues_events::time::parse(text).unwrap_or_default()
}
