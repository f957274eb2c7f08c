//! The effective tier of a user, from Stripe's events and dues by ACH together. The profile is written from
//! it.

use dues_events::billing::record::Provider;
use dues_events::entitlements::profile::PaidDues;
use dues_events::{GoTime, PlanTier, Time};
use serde::{Deserialize, Serialize};

use crate::entitlements::dues::{DuesState as Dues, PaidPeriod};

/// How many billing records to keep. The newest decides; earlier ones matter as long as a debit can be
/// returned.
const REMEMBERED: usize = 4;

/// The effective tier of a user, and what it follows from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectiveTier {
    /// The tier of the subscriptions at Stripe.
    #[serde(default)]
    pub subscribed: PlanTier,
    /// The tier of the founder passes.
    #[serde(default)]
    pub passes: PlanTier,
    /// Where the user signs in, according to Stripe's events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// When a founder pass grants the next credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_grant: Option<Time>,
    /// The billing records that count, earliest due date first.
    #[serde(default, rename = "notes", skip_serializing_if = "Vec::is_empty")]
    pub paid_periods: Vec<PaidPeriod>,
}

/// What the profile shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileView {
    /// The tier.
    pub tier: PlanTier,
    /// Where the user signs in.
    pub provider: Option<Provider>,
    /// The paid dues that last longest.
    pub dues: Option<PaidDues>,
}

impl EffectiveTier {
    /// Records a billing record; `false` if this version or a newer one is known.
    pub fn record(&mut self, period: PaidPeriod) -> bool {
        match self.paid_periods.iter_mut().find(|known| known.record == period.record) {
            Some(known) if known.version >= period.version => return false,
            Some(known) => *known = period,
            None => self.paid_periods.push(period),
        }
        self.paid_periods.sort_by_key(|period| (when(&period.due), period.record.clone()));
        let many = self.paid_periods.len().saturating_sub(REMEMBERED);
        self.paid_periods.drain(..many);
        true
    }

    /// The tier that dues by ACH have paid for: that of the newest paid record, unless a newer one has ended
    /// it or its payment was reversed. A record that could not be collected yet takes nothing away.
    #[must_use]
    pub fn dues_tier(&self) -> PlanTier {
        let newest = self.paid_periods.iter().rev().find(|period| period.state != Dues::Open);
        match newest.map(|period| &period.state) {
            Some(Dues::Paid { tier, .. }) => *tier,
            Some(Dues::TakenBack | Dues::Ended | Dues::Open) | None => PlanTier::Free,
        }
    }

    /// What the profile shows: a founder pass first, then the higher of subscription and dues.
    #[must_use]
    pub fn view(&self) -> ProfileView {
        let tier =
            if self.passes > PlanTier::Free { self.passes } else { self.subscribed.max(self.dues_tier()) };
        let provider =
            self.provider.or_else(|| self.paid_periods.iter().rev().find_map(|period| period.provider));
        let paid = self.paid_periods.iter().filter_map(|period| match &period.state {
            Dues::Paid { tier, until } => Some(PaidDues {
                tier: *tier,
                until: GoTime::trimmed(when(until)),
                record: period.record.clone(),
            }),
            Dues::TakenBack | Dues::Ended | Dues::Open => None,
        });
        ProfileView { tier, provider, dues: paid.max_by_key(|dues| (dues.until.at(), dues.tier)) }
    }
}

/// Parses a time that this code wrote, or that was read from a table before.
fn when(text: &str) -> Time {
    dues_events::time::parse(text).unwrap_or_default()
}
