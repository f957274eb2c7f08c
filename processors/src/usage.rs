//! Queries of the read model `usage`: a user's plan, whether an action is allowed, and what was used.

pub mod reset;

pub(crate) mod action_log;
mod rebuild;

use chrono::{NaiveDate, TimeDelta};
use dues_events::entitlements::stripe::StripeEvent;
use dues_events::usage::{CountedAction, DailyUsage, reset_at, subscription_plan};
use dues_events::{GoTime, Item, PlanTier, Record, Time, UserId};
use dues_projections::entitlements::access::Source;
use dues_projections::model::Model as _;
use dues_projections::usage::{Fact, Plans, Usage, dues_plan_id};
use dues_store::usage::count::{ActionRequest, CountOutcome};
use dues_store::{Engine, Store, StoreError};
use serde_json::{Value as Json, json};

use crate::entitlements::access;
use crate::outcome::FactOutcome;
use crate::read_models::{billed_at, billing_fact, record_fact};
pub(crate) use rebuild::rows;

/// Settings of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The plans, and the tiers that map to them.
    pub plans: Plans,
    /// For how many days the log keeps an action; `None` for no limit.
    pub log_days: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { plans: Plans::default(), log_days: Some(90) }
    }
}

impl Settings {
    /// The environment variable with the plans.
    pub const PLANS: &'static str = "DUES_PLANS";
    /// The environment variable with the tiers of the plans.
    pub const TIERS: &'static str = "DUES_PLAN_TIERS";
    /// The environment variable with the days that the log keeps an action; 0 for no limit.
    pub const LOG_DAYS: &'static str = "DUES_ACTION_LOG_DAYS";

    /// Reads the settings from variables; unset ones keep their defaults.
    ///
    /// # Errors
    /// Names the variable and the invalid entry.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let (plans, tiers) = (variable(Self::PLANS), variable(Self::TIERS));
        let plans = Plans::configured(plans.as_deref(), tiers.as_deref());
        let plans = plans.map_err(|why| format!("{} and {}: {why}", Self::PLANS, Self::TIERS))?;
        let log_days = match variable(Self::LOG_DAYS) {
            None => Self::default().log_days,
            Some(days) => Some(
                days.trim()
                    .parse()
                    .map_err(|_| format!("{}: {days:?} is not a number of days", Self::LOG_DAYS))?,
            ),
        };
        Ok(Self { plans, log_days: log_days.filter(|days| *days > 0) })
    }

    /// When a log entry of that time expires, in seconds since the Unix epoch.
    #[must_use]
    pub fn expires_at(&self, time: Time) -> Option<i64> {
        let days = TimeDelta::days(i64::from(self.log_days?));
        Some(time.checked_add_signed(days).unwrap_or(Time::MAX_UTC).timestamp())
    }
}

/// Records what a Stripe event states about a user's plan.
pub(super) async fn stripe<E: Engine>(
    store: &Store<E>,
    settings: &Settings,
    user: &UserId,
    event: &StripeEvent,
) -> Result<Option<FactOutcome>, StoreError> {
    let Some((aggregate, fact)) = Usage::stripe(user, event) else { return Ok(None) };
    record_fact::<Usage, E>(store, &aggregate, event.id.clone(), event.created, planned(fact, settings)?)
        .await
        .map(Some)
}

/// Records what a billing record states about a user's plan.
pub(super) async fn billing<E: Engine>(
    store: &Store<E>,
    settings: &Settings,
    record: &Record,
) -> Result<Option<FactOutcome>, StoreError> {
    let Some((aggregate, fact)) = Usage::billing(record) else { return Ok(None) };
    record_fact::<Usage, E>(
        store,
        &aggregate,
        billing_fact(record),
        billed_at(record),
        planned(fact, settings)?,
    )
    .await
    .map(Some)
}

/// Resolves the plan of a fact. A tier without a plan is an error that an operator has to resolve: nothing
/// is booked.
fn planned(fact: Fact, settings: &Settings) -> Result<Fact, StoreError> {
    fact.with_plan(&settings.plans).map_err(|unknown| StoreError::Invalid(unknown.to_string()))
}

/// A user's current plan.
pub async fn plan_of<'a, E: Engine>(
    store: &Store<E>,
    settings: &'a Settings,
    user: &UserId,
) -> Result<&'a str, StoreError> {
    Ok(plan_and_rows(store, settings, user).await?.0)
}

/// The plan follows the user's access: that of the subscription that gives it, as its fact was recorded, else
/// that of the tier. Where no entitlements of the user are known, the subscriptions that run count.
async fn plan_and_rows<'a, E: Engine>(
    store: &Store<E>,
    settings: &'a Settings,
    user: &UserId,
) -> Result<(&'a str, Vec<Item>), StoreError> {
    let (rows, access) = futures::try_join!(store.plan_subscriptions(user), access(store, user))?;
    let subscriptions = || rows.iter().filter_map(subscription_plan);
    let held = match access.source {
        Source::Default if access.is_known => Some(settings.plans.lowest()),
        Source::Default => None,
        Source::Subscription => access.id.as_deref().and_then(|id| recorded(subscriptions(), id)),
        Source::Dues => recorded(subscriptions(), &dues_plan_id(user)),
        Source::FounderPass | Source::Profile => None,
    };
    let of_tier = |tier: PlanTier| match access.source {
        Source::Default => None,
        Source::FounderPass | Source::Subscription | Source::Dues | Source::Profile => {
            settings.plans.of_tier(tier.as_str()).ok()
        }
    };
    let plan = held.and_then(|plan| settings.plans.configured_name(plan)).or_else(|| of_tier(access.tier));
    let running = || settings.plans.of_user(subscriptions().map(|(_, plan, status)| (plan, status)));
    let plan = plan.unwrap_or_else(running);
    Ok((plan, rows))
}

/// The plan that was recorded for a subscription.
fn recorded<'r>(
    mut subscriptions: impl Iterator<Item = (&'r str, &'r str, &'r str)>,
    id: &str,
) -> Option<&'r str> {
    subscriptions.find(|(known, ..)| *known == id).map(|(_, plan, _)| plan)
}

/// Counts an action if the user's plan allows one more today.
///
/// # Errors
/// Any [`StoreError`]. The outcome may be unknown; a retry with the same key is safe.
pub async fn count<E: Engine>(
    store: &Store<E>,
    settings: &Settings,
    asked: &ActionRequest,
) -> Result<CountOutcome, StoreError> {
    let plan = plan_of(store, settings, &asked.user).await?;
    store.count_action(asked, plan, settings.plans.limit(plan, &asked.feature)).await
}

/// The response to a counted action.
#[must_use]
pub fn count_json(user: &UserId, count: &CountedAction) -> Json {
    json!({
        "user_id": user.as_str(), "feature": count.feature, "action_id": count.action.id.as_str(),
        "action_type": count.action.kind,
        "plan_id": count.action.plan, "occurred_at": GoTime::trimmed(count.action.at).text(),
        "usage_before": count.before,
        "usage_after": count.after, "limit": count.limit,
        "remaining": count.limit.map(|limit| limit.saturating_sub(count.after)),
        "reset_at": GoTime::trimmed(reset_at(count.action.at)).text(),
    })
}

/// A user's plan, subscriptions and usage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The plan.
    pub plan: String,
    /// All subscriptions, including ended ones.
    pub subscriptions: Vec<Item>,
    /// Today's usage of each feature.
    pub features: Vec<FeatureUse>,
    /// When today's usage is reset.
    pub reset_at: Time,
}

/// Usage and limit of one feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureUse {
    /// The feature.
    pub feature: String,
    /// Uses so far.
    pub used: u64,
    /// The most uses; `None` for no limit.
    pub limit: Option<u64>,
}

/// A user's usage today, of every feature, with the limits of the plan.
pub async fn summary<E: Engine>(
    store: &Store<E>,
    settings: &Settings,
    user: &UserId,
) -> Result<Summary, StoreError> {
    let now = store.clock.now();
    let (plan, subscriptions) = plan_and_rows(store, settings, user).await?;
    let used = store.usage_of(user).await?;
    let features = settings.plans.features().into_iter().map(|feature| FeatureUse {
        feature: feature.to_owned(),
        used: used_on(&used, feature, now.date_naive()),
        limit: settings.plans.limit(plan, feature),
    });
    Ok(Summary {
        plan: plan.to_owned(),
        features: features.collect(),
        subscriptions,
        reset_at: reset_at(now),
    })
}

fn used_on(used: &[DailyUsage], feature: &str, day: NaiveDate) -> u64 {
    used.iter().find(|used| used.feature == feature && used.day == day).map_or(0, |used| used.count)
}

impl Summary {
    /// The summary as JSON.
    #[must_use]
    pub fn json(&self) -> Json {
        let feature =
            |used: &FeatureUse| (used.feature.clone(), json!({"used": used.used, "limit": used.limit}));
        json!({
            "plan_id": self.plan,
            "subscriptions": self.subscriptions.iter().map(Item::to_json).collect::<Vec<_>>(),
            "usage": self.features.iter().map(feature).collect::<serde_json::Map<_, _>>(),
            "reset_at": GoTime::trimmed(self.reset_at).text(),
        })
    }
}

/// A user's plan and usage: as JSON, and as lines of text.
pub async fn show<E: Engine>(
    store: &Store<E>,
    settings: &Settings,
    user: &UserId,
) -> Result<(Json, Vec<String>), StoreError> {
    let summary = summary(store, settings, user).await?;
    let today = summary.features.iter().map(|used| match used.limit {
        Some(limit) => format!("{} {} of {limit}", used.feature, used.used),
        None => format!("{} {}", used.feature, used.used),
    });
    let mut lines = vec![format!("plan {}; today: {}", summary.plan, today.collect::<Vec<_>>().join(", "))];
    lines.extend(
        summary
            .subscriptions
            .iter()
            .filter_map(subscription_plan)
            .map(|(id, plan, status)| format!("{id} {plan} {status}")),
    );
    let mut json = summary.json();
    if let Some(fields) = json.as_object_mut() {
        // Show recorded facts only: the reset time depends on when the query runs.
        fields.remove("reset_at");
    }
    Ok((json, lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_from_variables_and_errors_name_them() {
        let read =
            |name: &str, value: &str| Settings::read(|variable| (variable == name).then(|| value.to_owned()));
        assert_eq!(Settings::read(|_| None), Ok(Settings::default()));
        assert_eq!(read(Settings::LOG_DAYS, "0").unwrap().log_days, None);
        assert_eq!(read(Settings::LOG_DAYS, " 7 ").unwrap().log_days, Some(7));
        assert_eq!(read(Settings::PLANS, "free:a=1;pro:a=9").unwrap().plans.limit("pro", "a"), Some(9));
        assert_eq!(
            read(Settings::LOG_DAYS, "x").unwrap_err(),
            "DUES_ACTION_LOG_DAYS: \"x\" is not a number of days"
        );
        assert_eq!(
            read(Settings::TIERS, "SAGE=gold").unwrap_err(),
            "DUES_PLANS and DUES_PLAN_TIERS: \"SAGE=gold\": there is no plan \"gold\""
        );
    }
}
