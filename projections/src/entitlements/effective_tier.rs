//! The content of a user's entitlement head: all that [`access`] needs, from Stripe's events and dues by ACH
//! together. The profile is written from it.

use chrono::Months;
use dues_events::billing::record::Provider;
use dues_events::entitlements::profile::PaidDues;
use dues_events::entitlements::stripe::{Purchase, SubscriptionStatus};
use dues_events::ids::{PaymentIntentId, StripeSubscriptionId, SubscriptionId};
use dues_events::{GoTime, PlanTier, Time};
use serde::{Deserialize, Serialize};

use crate::entitlements::access::{AccessRules, access};
use crate::entitlements::dues::{DuesState as Dues, EntitlementChange, PaidPeriod};
use crate::entitlements::stripe::{Entitlement, tier_of_pass};

/// How many billing records to keep, the newest: the current one, its renewal, some that the bank may still
/// return, and room for a membership that is cancelled and begun again. By due date: the same records are
/// kept in any order of arrival, and no renewal is forgotten before the period that it renews. What is paid
/// beyond the newest due date is kept besides.
const REMEMBERED: usize = 6;
/// How many subscriptions at Stripe to keep, those that last longest.
const SUBSCRIPTIONS: usize = 4;
/// The months of a year after the first.
const LATER_MONTHS: u32 = 11;

/// The version of the content that this program writes. Heads of version 0 know neither periods of Stripe's
/// subscriptions nor renewals; the entitlement clock rebuilds them from their facts.
pub const SCHEMA: u32 = 1;

/// The content of a user's head.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectiveTier {
    /// The version of this content.
    #[serde(default)]
    pub schema: u32,
    /// Version 0: the tier of the subscriptions at Stripe.
    #[serde(default, skip_serializing_if = "is_free")]
    pub subscribed: PlanTier,
    /// Version 0: the tier of the founder passes.
    #[serde(default, skip_serializing_if = "is_free")]
    pub passes: PlanTier,
    /// Where the user signs in, according to Stripe's events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// When a founder pass grants the next credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_grant: Option<Time>,
    /// Whether Stripe's events say anything about the tier. A pass that was refunded still does.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stripe_known: bool,
    /// The founder passes that were not refunded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub founder_passes: Vec<HeldPass>,
    /// The subscriptions at Stripe, those that last longest at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subscriptions: Vec<HeldSubscription>,
    /// The billing records that count, earliest due date first.
    #[serde(default, rename = "notes", skip_serializing_if = "Vec::is_empty")]
    pub paid_periods: Vec<PaidPeriod>,
    /// The tier that the latest booking wrote to the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<PlanTier>,
}

/// A founder pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldPass {
    /// Its tier.
    pub tier: PlanTier,
    /// Its type.
    pub kind: Purchase,
    /// The payment for it.
    pub payment: PaymentIntentId,
    /// When it was bought.
    pub purchased_at: Time,
}

/// A subscription at Stripe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldSubscription {
    /// Its id.
    pub id: StripeSubscriptionId,
    /// Its tier.
    pub tier: PlanTier,
    /// Its status; a deleted subscription is canceled, whatever status it was deleted in.
    pub status: SubscriptionStatus,
    /// The end of its current period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_end: Option<Time>,
    /// Whether it ends with the current period.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cancel_at_period_end: bool,
    /// Whether it is listed for attention: its renewal is overdue.
    #[serde(default, skip_serializing_if = "is_false")]
    pub overdue: bool,
}

impl HeldSubscription {
    /// Whether Stripe bills it, or tries to. Only what does not may be forgotten.
    fn goes_on(&self) -> bool {
        match self.status {
            SubscriptionStatus::Active | SubscriptionStatus::Trialing | SubscriptionStatus::PastDue => true,
            SubscriptionStatus::Incomplete
            | SubscriptionStatus::Unpaid
            | SubscriptionStatus::Paused
            | SubscriptionStatus::IncompleteExpired
            | SubscriptionStatus::Canceled => false,
        }
    }
}

/// What the profile shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileView {
    /// The tier; `None` when no fact says anything about it, so that another writer's tier stays.
    pub tier: Option<PlanTier>,
    /// Where the user signs in.
    pub provider: Option<Provider>,
    /// The paid dues that last longest.
    pub dues: Option<PaidDues>,
}

/// Credits of a later month of a paid year.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonthOfYear {
    /// The billing record.
    pub record: SubscriptionId,
    /// When the record was settled.
    pub settled: Box<str>,
    /// The month, from 1: the first one came with the settlement.
    pub month: u32,
    /// When the month begins.
    pub at: Time,
    /// The tier that was paid for.
    pub tier: PlanTier,
}

impl EffectiveTier {
    /// The head of a user about whom nothing is known.
    #[must_use]
    pub fn new() -> Self {
        Self { schema: SCHEMA, ..Self::default() }
    }

    /// The head that follows from all facts of a user: Stripe's, and changes of billing records in order.
    #[must_use]
    pub fn of_facts<'a>(
        stripe: &Entitlement,
        changes: impl IntoIterator<Item = &'a EntitlementChange>,
    ) -> Self {
        let mut head = Self::new().with_stripe(stripe);
        for change in changes {
            head.record(change.paid_period.clone());
        }
        head
    }

    /// The same head with what Stripe's events fold to.
    #[must_use]
    pub fn with_stripe(mut self, stripe: &Entitlement) -> Self {
        let before = std::mem::take(&mut self.subscriptions);
        self.subscriptions = stripe.subscriptions.values().map(held).collect();
        self.subscriptions
            .sort_by(|a, b| (a.goes_on(), a.period_end, &a.id).cmp(&(b.goes_on(), b.period_end, &b.id)));
        let many = self.subscriptions.len().saturating_sub(SUBSCRIPTIONS);
        self.subscriptions.drain(..many);
        for held in &mut self.subscriptions {
            // Listed until an event brings news of it.
            let same = |known: &&HeldSubscription| {
                known.id == held.id && known.status == held.status && known.period_end == held.period_end
            };
            held.overdue = before.iter().find(same).is_some_and(|known| known.overdue);
        }
        self.founder_passes = stripe
            .passes
            .iter()
            .filter_map(|(kind, pass)| {
                let (payment, purchased_at) = (pass.payment.clone(), pass.purchased);
                Some(HeldPass { tier: tier_of_pass(*kind)?, kind: *kind, payment, purchased_at })
            })
            .collect();
        Self {
            stripe_known: stripe.says_a_tier,
            provider: stripe.provider,
            next_grant: stripe.next_grant,
            subscribed: PlanTier::Free,
            passes: PlanTier::Free,
            ..self
        }
    }

    /// Whether an earlier version of this program wrote it.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        self.schema < SCHEMA
    }

    /// Whether any fact says something about the tier.
    #[must_use]
    pub fn has_facts(&self) -> bool {
        let legacy = self.subscribed > PlanTier::Free || self.passes > PlanTier::Free;
        self.stripe_known || legacy || !self.paid_periods.is_empty()
    }

    /// Records a billing record; `false` if this version or a newer one is known.
    pub fn record(&mut self, mut period: PaidPeriod) -> bool {
        match self.paid_periods.iter_mut().find(|known| known.record == period.record) {
            Some(known) if known.version >= period.version => return false,
            Some(known) => {
                carry_months(known, &mut period);
                *known = period;
            }
            None => self.paid_periods.push(period),
        }
        self.paid_periods.sort_by_key(|period| (when(&period.due), period.record.clone()));
        self.forget_what_is_over();
        true
    }

    /// Keeps the newest records, and older ones that are paid beyond the newest due date: a year that was
    /// paid before a monthly membership began.
    fn forget_what_is_over(&mut self) {
        // A renewal that was cancelled lies ahead of all that is billed.
        let billed = self.paid_periods.iter().filter(|period| period.state != Dues::Ended);
        let newest = billed.map(|period| when(&period.due)).max().unwrap_or_default();
        let lasts = |period: &PaidPeriod| match &period.state {
            Dues::Paid { until, .. } => when(until) > newest,
            Dues::Failed { .. } | Dues::Retried | Dues::TakenBack | Dues::Ended | Dues::Open => false,
        };
        let mut older = self.paid_periods.len().saturating_sub(REMEMBERED);
        self.paid_periods.retain(|period| {
            let is_old = older > 0;
            older = older.saturating_sub(1);
            !is_old || lasts(period)
        });
    }

    /// What the profile shows at a time.
    #[must_use]
    pub fn view(&self, now: Time) -> ProfileView {
        let provider =
            self.provider.or_else(|| self.paid_periods.iter().rev().find_map(|period| period.provider));
        let paid = self.paid_periods.iter().filter_map(|period| match &period.state {
            Dues::Paid { tier, until, .. } => Some(PaidDues {
                tier: *tier,
                until: GoTime::trimmed(self.lasts_until(period, until)),
                record: period.record.clone(),
            }),
            Dues::Failed { .. } | Dues::Retried | Dues::TakenBack | Dues::Ended | Dues::Open => None,
        });
        ProfileView {
            tier: self.has_facts().then(|| access(self, now).tier),
            provider,
            dues: paid.max_by_key(|dues| (dues.until.at(), dues.tier)),
        }
    }

    /// The end of a paid period: the due date of its renewal, which may have been moved.
    pub(crate) fn lasts_until(&self, period: &PaidPeriod, until: &str) -> Time {
        let moved = self.renewal_of(period).map(|renewal| when(&renewal.due));
        when(until).max(moved.unwrap_or_default())
    }

    /// What is known of the record that renews a paid one.
    pub(crate) fn renewal_of(&self, period: &PaidPeriod) -> Option<&PaidPeriod> {
        let next = period.next.as_ref()?;
        self.paid_periods.iter().find(|other| other.record == *next)
    }

    /// The later months of paid years that have begun and have brought no credits yet.
    #[must_use]
    pub fn months_due(&self, now: Time) -> Vec<MonthOfYear> {
        let mut due = Vec::new();
        for period in &self.paid_periods {
            let later = (period.months + 1..=LATER_MONTHS).map_while(|month| month_of_year(period, month));
            due.extend(later.take_while(|month| month.at <= now));
        }
        due
    }

    /// Counts the months that [`Self::months_due`] returned as granted.
    pub fn count_months(&mut self, granted: &[MonthOfYear]) {
        for month in granted {
            if let Some(period) = self.paid_periods.iter_mut().find(|period| period.record == month.record) {
                period.months = period.months.max(month.month);
            }
        }
    }

    /// Marks the subscriptions at Stripe that are overdue at a time.
    pub fn mark_overdue(&mut self, now: Time) {
        let rules = AccessRules::default();
        for held in &mut self.subscriptions {
            held.overdue |= rules.overdue_from(held).is_some_and(|from| from <= now);
        }
    }

    /// When the head must be looked at again without an event: the answer changes, credits fall due, or a
    /// renewal is overdue.
    #[must_use]
    pub fn timer(&self, now: Time) -> Option<Time> {
        let answer = access(self, now).until.map(|until| until.at());
        let month = |period: &PaidPeriod| month_of_year(period, period.months + 1).map(|month| month.at);
        let months = self.paid_periods.iter().filter_map(month);
        let rules = AccessRules::default();
        let overdue = self.subscriptions.iter().filter(|held| !held.overdue);
        let overdue = overdue.filter_map(|held| rules.overdue_from(held));
        answer.into_iter().chain(self.next_grant).chain(months).chain(overdue).min()
    }
}

fn held(held: &crate::entitlements::stripe::HeldSubscription) -> HeldSubscription {
    let latest = &held.latest;
    HeldSubscription {
        id: latest.id.clone(),
        tier: held.tier,
        status: if latest.ended { SubscriptionStatus::Canceled } else { latest.status },
        period_end: latest.period.map(|period| period.end),
        cancel_at_period_end: latest.cancel_at_period_end,
        overdue: false,
    }
}

/// A later month of a paid year; `None` past its end, and for records that bring no monthly credits.
fn month_of_year(period: &PaidPeriod, month: u32) -> Option<MonthOfYear> {
    let Dues::Paid { tier, until, settled: Some(settled), waived: false } = &period.state else {
        return None;
    };
    let at = when(&period.due).checked_add_months(Months::new(month))?;
    (month <= LATER_MONTHS && at < when(until) && tier.monthly_credits() > 0).then(|| MonthOfYear {
        record: period.record.clone(),
        settled: settled.clone(),
        month,
        at,
        tier: *tier,
    })
}

/// A settlement that another one replaces is one payment: the months that it has brought stay counted.
fn carry_months(known: &PaidPeriod, period: &mut PaidPeriod) {
    if let (Dues::Paid { settled: Some(first), .. }, Dues::Paid { settled: Some(settled), .. }) =
        (&known.state, &mut period.state)
    {
        settled.clone_from(first);
        period.months = known.months;
    }
}

/// Parses a time that this code wrote, or that was read from a table before.
pub(crate) fn when(text: &str) -> Time {
    dues_events::time::parse(text).unwrap_or_default()
}

fn is_free(tier: &PlanTier) -> bool {
    *tier == PlanTier::Free
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paid(record: &str, due: &str, until: &str, tier: PlanTier) -> PaidPeriod {
        PaidPeriod {
            record: record.into(),
            due: format!("{due}T00:00:00Z").into(),
            version: 1,
            state: Dues::Paid {
                tier,
                until: format!("{until}T00:00:00Z").into(),
                settled: None,
                waived: false,
            },
            next: None,
            barred: false,
            months: 0,
            provider: None,
        }
    }

    /// A year that is paid outlasts any number of monthly records that began after it, in any order.
    #[test]
    fn a_paid_year_is_not_forgotten_behind_newer_months() {
        let months = (1..=9).map(|m| {
            let (due, until) = (format!("2026-{m:02}-18"), format!("2026-{:02}-18", m + 1));
            paid(&format!("month-{m}"), &due, &until, PlanTier::Initiate)
        });
        let mut periods: Vec<PaidPeriod> = months.collect();
        periods.insert(0, paid("year", "2026-01-04", "2027-01-04", PlanTier::Guildmaster));
        // Its renewal was cancelled when the monthly membership began.
        let renewal = paid("renewal", "2027-01-04", "2028-01-04", PlanTier::Guildmaster);
        periods.insert(1, PaidPeriod { state: Dues::Ended, ..renewal });
        for turned in 0..periods.len() {
            let mut head = EffectiveTier::new();
            periods.rotate_left(turned);
            assert!(periods.iter().cloned().all(|period| head.record(period)), "{turned}");
            let kept: Vec<&str> = head.paid_periods.iter().map(|period| period.record.as_str()).collect();
            assert_eq!(kept.len(), REMEMBERED + 1, "{turned}: {kept:?}");
            assert_eq!(kept[0], "year", "{turned}");
            let access = access(&head, when("2026-12-31T00:00:00Z"));
            assert_eq!(access.tier, PlanTier::Guildmaster, "{turned}");
        }
    }
}
