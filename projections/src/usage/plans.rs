//! Plans and their limits, from configuration.

use dues_events::entitlements::stripe::SubscriptionStatus;
use std::collections::{BTreeMap, BTreeSet};

/// Wildcard: every feature, every tier, or no limit.
const ANY: &str = "*";
/// The tier of a subscription that names none.
pub(super) const NO_TIER: &str = "free";
/// The default plans of usage: three simulations a day for free, no limits for paying users.
const DEFAULT_PLANS: &str = "free:simulations=3,ai_recommendations=2,strategies=1;pro:*=*";

/// The plans, lowest first, and the tiers that map to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plans {
    plans: Vec<(String, Limits)>,
    tiers: BTreeMap<String, String>,
}

/// Uses per day of each feature; `None` means no limit.
type Limits = BTreeMap<String, Option<u64>>;

/// A tier maps to no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tier {0:?} stands for no plan: add it to the tiers of the plans")]
pub struct UnknownPlan(pub String);

impl Default for Plans {
    fn default() -> Self {
        // Cannot fail: the text is a constant, and a test parses it.
        let bare = || Self { plans: vec![(NO_TIER.to_owned(), Limits::new())], tiers: BTreeMap::new() };
        Self::configured(None, None).unwrap_or_else(|_| bare())
    }
}

impl Plans {
    /// Parses the plans, lowest first, `free:simulations=3,strategies=1;pro:*=*`, and the tiers that map to
    /// them, `free=free,SAGE=pro,*=pro`. A `*` means every other feature, no limit, or every other tier. A
    /// tier may be the name on a receipt, with its version (`Plus:v2`) or without.
    ///
    /// # Errors
    /// Names the entry that cannot be parsed.
    pub fn parse(plans: &str, tiers: &str) -> Result<Self, String> {
        Self::configured(Some(plans), Some(tiers))
    }

    /// Like [`Plans::parse`], with defaults. Without `plans`, the default plans apply. Without `tiers`,
    /// `free` maps to the first plan and every other tier to the last.
    ///
    /// # Errors
    /// Names the entry that cannot be parsed.
    pub fn configured(plans: Option<&str>, tiers: Option<&str>) -> Result<Self, String> {
        let plans =
            entries(plans.unwrap_or(DEFAULT_PLANS), ';').map(read_plan).collect::<Result<Vec<_>, _>>()?;
        if plans.is_empty() {
            return Err("there are no plans".to_owned());
        }
        let mut seen = BTreeSet::new();
        if let Some((twice, _)) = plans.iter().find(|(id, _)| !seen.insert(id.as_str())) {
            return Err(format!("plan {twice:?} is there twice"));
        }
        let read = |entry: &str| {
            let (tier, plan) = entry.split_once('=').ok_or_else(|| format!("{entry:?} is not TIER=PLAN"))?;
            let (tier, plan) = (tier.trim(), plan.trim());
            if plans.iter().any(|(id, _)| id == plan) {
                Ok((tier.to_owned(), plan.to_owned()))
            } else {
                Err(format!("{entry:?}: there is no plan {plan:?}"))
            }
        };
        let tiers = match (tiers, plans.first(), plans.last()) {
            (None, Some((lowest, _)), Some((highest, _))) => [(NO_TIER, lowest), (ANY, highest)]
                .into_iter()
                .map(|(tier, plan)| (tier.to_owned(), plan.clone()))
                .collect(),
            (tiers, _, _) => {
                entries(tiers.unwrap_or_default(), ',').map(read).collect::<Result<_, String>>()?
            }
        };
        Ok(Self { plans, tiers })
    }

    /// The plan of a tier.
    ///
    /// # Errors
    /// [`UnknownPlan`] when there is none.
    pub fn of_tier(&self, tier: &str) -> Result<&str, UnknownPlan> {
        let bare = tier.split_once(':').map_or(tier, |(name, _)| name);
        let plan = [tier, bare, ANY].into_iter().find_map(|name| self.tiers.get(name));
        plan.map(String::as_str).ok_or_else(|| UnknownPlan(tier.to_owned()))
    }

    /// The plan of a user with these subscriptions, given as plan and status: the highest that runs, or the
    /// lowest plan if none does. Plans that are no longer configured do not count.
    pub fn of_user<'a>(&self, subscriptions: impl IntoIterator<Item = (&'a str, &'a str)>) -> &str {
        let running = subscriptions
            .into_iter()
            .filter(|(_, status)| runs(status))
            .filter_map(|(plan, _)| self.place(plan));
        let place = running.max().unwrap_or(0);
        self.plans.get(place).map_or(NO_TIER, |(id, _)| id)
    }

    /// The lowest plan.
    #[must_use]
    pub fn lowest(&self) -> &str {
        self.plans.first().map_or(NO_TIER, |(id, _)| id)
    }

    /// The plan with that name, if it is configured.
    #[must_use]
    pub fn configured_name(&self, plan: &str) -> Option<&str> {
        self.place(plan).and_then(|place| self.plans.get(place)).map(|(id, _)| id.as_str())
    }

    /// Uses per day of a feature on a plan; `None` means no limit. A feature that the plan does not list has
    /// a limit of 0.
    #[must_use]
    pub fn limit(&self, plan: &str, feature: &str) -> Option<u64> {
        let limits = self.place(plan).and_then(|place| self.plans.get(place)).map(|(_, limits)| limits);
        limits.and_then(|limits| limits.get(feature).or_else(|| limits.get(ANY))).copied().unwrap_or(Some(0))
    }

    /// All features that any plan names.
    #[must_use]
    pub fn features(&self) -> BTreeSet<&str> {
        self.plans
            .iter()
            .flat_map(|(_, limits)| limits.keys())
            .map(String::as_str)
            .filter(|feature| *feature != ANY)
            .collect()
    }

    fn place(&self, plan: &str) -> Option<usize> {
        self.plans.iter().position(|(id, _)| id == plan)
    }
}

/// Whether a subscription in this status entitles to its plan. A renewal that is still being retried does.
fn runs(status: &str) -> bool {
    match SubscriptionStatus::read(status) {
        Some(SubscriptionStatus::Trialing | SubscriptionStatus::Active | SubscriptionStatus::PastDue) => true,
        Some(
            SubscriptionStatus::Incomplete
            | SubscriptionStatus::Unpaid
            | SubscriptionStatus::Paused
            | SubscriptionStatus::IncompleteExpired
            | SubscriptionStatus::Canceled,
        )
        | None => false,
    }
}

fn entries(text: &str, between: char) -> impl Iterator<Item = &str> {
    text.split(between).map(str::trim).filter(|entry| !entry.is_empty())
}

fn read_plan(entry: &str) -> Result<(String, Limits), String> {
    let (id, limits) =
        entry.split_once(':').ok_or_else(|| format!("{entry:?} is not PLAN:FEATURE=LIMIT,…"))?;
    let id = id.trim();
    if id.is_empty() {
        return Err(format!("{entry:?}: the plan has no name"));
    }
    let read = |limit: &str| {
        let wrong =
            || format!("plan {id:?}: {limit:?} is not FEATURE=LIMIT, with a whole number or * for no limit");
        let (feature, number) = limit.split_once('=').ok_or_else(wrong)?;
        let (feature, number) = (feature.trim(), number.trim());
        if feature.is_empty() {
            return Err(wrong());
        }
        let number = if number == ANY { None } else { Some(number.parse().map_err(|_| wrong())?) };
        Ok((feature.to_owned(), number))
    };
    Ok((id.to_owned(), entries(limits, ',').map(read).collect::<Result<_, String>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_plans_are_the_seeds() {
        let plans = Plans::default();
        assert_eq!(plans, Plans::parse(DEFAULT_PLANS, "free=free,*=pro").unwrap());
        assert_eq!(Plans::configured(Some("a:x=1;b:x=2;c:x=3"), None).unwrap().of_tier("SAGE"), Ok("c"));
        let limits = |plan| {
            ["simulations", "ai_recommendations", "strategies", "racing"]
                .map(|feature| plans.limit(plan, feature))
        };
        assert_eq!(limits("free"), [Some(3), Some(2), Some(1), Some(0)]);
        assert_eq!(limits("pro"), [None; 4]);
        assert_eq!(
            plans.features().into_iter().collect::<Vec<_>>(),
            ["ai_recommendations", "simulations", "strategies"]
        );
    }

    #[test]
    fn the_highest_plan_that_runs_counts() {
        let plans = Plans::parse("free:a=1;plus:a=5;pro:a=*", "*=plus,SAGE=pro,Plus:v2=pro").unwrap();
        assert_eq!(plans.of_user([]), "free");
        assert_eq!(plans.of_user([("pro", "canceled"), ("plus", "past_due"), ("free", "active")]), "plus");
        assert_eq!(plans.of_user([("pro", "trialing"), ("plus", "active")]), "pro");
        assert_eq!(plans.of_user([("gone", "active"), ("pro", "unpaid"), ("pro", "so")]), "free");
        assert_eq!(
            ["SAGE", "Plus:v2", "Plus:v1", "x"].map(|tier| plans.of_tier(tier).unwrap()),
            ["pro", "pro", "plus", "plus"]
        );
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (plans, tiers, wrong) in [
            ("", "", "there are no plans"),
            ("free", "", "\"free\" is not PLAN:FEATURE=LIMIT,…"),
            (":a=1", "", "\":a=1\": the plan has no name"),
            (
                "free:a=x",
                "",
                "plan \"free\": \"a=x\" is not FEATURE=LIMIT, with a whole number or * for no limit",
            ),
            (
                "free:=1",
                "",
                "plan \"free\": \"=1\" is not FEATURE=LIMIT, with a whole number or * for no limit",
            ),
            ("free:a=1;free:a=2", "", "plan \"free\" is there twice"),
            ("free:a=1", "SAGE", "\"SAGE\" is not TIER=PLAN"),
            ("free:a=1", "SAGE=pro", "\"SAGE=pro\": there is no plan \"pro\""),
        ] {
            assert_eq!(Plans::parse(plans, tiers).unwrap_err(), wrong);
        }
        let none = Plans::parse("free:a=1", "SAGE=free").unwrap();
        assert_eq!(
            none.of_tier("x").unwrap_err().to_string(),
            "tier \"x\" stands for no plan: add it to the tiers of the plans"
        );
    }
}
