//! Parameters, bodies and responses of `usage`. The structs only describe rows; their own codec writes them.

#![allow(dead_code, reason = "schemas of rows that the rows' codec writes")]

use chrono::{DateTime, NaiveDate, Utc};
use dues_events::entitlements::stripe::SubscriptionStatus;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{IntoParams, ToSchema};

use crate::api::document::one_of;
use crate::api::schema::Id;

/// A span of time.
#[derive(IntoParams)]
pub(super) struct TimeSpan {
    /// Not before that time.
    #[param(nullable = false)]
    from: Option<DateTime<Utc>>,
    /// Not after that time.
    #[param(nullable = false)]
    to: Option<DateTime<Utc>>,
    /// How many; 100 unless given.
    #[param(minimum = 1, maximum = 1000, nullable = false)]
    limit: Option<u32>,
}

/// A type of actions.
#[derive(IntoParams)]
pub(super) struct ActionType {
    /// Only actions of that type.
    #[param(min_length = 1, max_length = 256, nullable = false)]
    r#type: Option<String>,
}

/// A day of a feature.
#[derive(IntoParams)]
pub(super) struct Day {
    /// The day; today unless given.
    #[param(nullable = false)]
    date: Option<NaiveDate>,
    /// Only users with at least so many uses.
    #[param(nullable = false)]
    at_least: Option<u64>,
    /// How many; 100 unless given.
    #[param(minimum = 1, maximum = 1000, nullable = false)]
    limit: Option<u32>,
}

/// An action to count.
#[derive(ToSchema)]
#[schema(as = CountAction)]
pub(super) struct Action {
    #[schema(value_type = Id)]
    pub(super) action_type: String,
    /// Anything to remember of it, 8 KiB at the most.
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    pub(super) action_details: dues_events::Item,
    #[schema(value_type = Option<Id>)]
    pub(super) idempotency_key: Option<String>,
}

/// Actions, newest first.
#[derive(Serialize, ToSchema)]
#[schema(as = UsageActions)]
pub(super) struct Actions {
    #[schema(value_type = Vec<LoggedAction>)]
    pub(super) actions: Vec<Value>,
    /// Whether there are more.
    pub(super) more: bool,
}

/// A user's actions, newest first.
#[derive(Serialize, ToSchema)]
#[schema(as = UsageUserActions)]
pub(super) struct UserActions {
    pub(super) user_id: String,
    #[schema(value_type = Vec<LoggedAction>)]
    pub(super) actions: Vec<Value>,
    /// Whether there are more.
    pub(super) more: bool,
}

/// The users of a feature on a day.
#[derive(Serialize, ToSchema)]
#[schema(as = UsageOfDay)]
pub(super) struct UsageOfDay {
    pub(super) feature: String,
    pub(super) date: NaiveDate,
    pub(super) reset_date: NaiveDate,
    #[schema(value_type = Vec<UserOfDay>)]
    pub(super) usage: Vec<Value>,
    /// Whether there are more.
    pub(super) more: bool,
}

/// An action of the log.
#[derive(ToSchema)]
#[schema(as = UsageAction)]
struct LoggedAction {
    user_id: String,
    timestamp: DateTime<Utc>,
    action_id: String,
    action_type: String,
    action_details: BTreeMap<String, Value>,
    occurred_at: DateTime<Utc>,
    plan_id: String,
    feature: String,
    usage_before: u64,
    usage_after: u64,
    #[schema(nullable = false)]
    limit_value: Option<u64>,
    /// Unix seconds.
    #[schema(nullable = false)]
    expires_at: Option<i64>,
}

/// A user's use of a feature on a day.
#[derive(ToSchema)]
#[schema(as = UsageUserOfDay)]
struct UserOfDay {
    user_id: String,
    feature_date_key: String,
    feature_name: String,
    usage_count: u64,
    reset_date: NaiveDate,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    last_action: LastAction,
    #[schema(nullable = false)]
    limit_value: Option<u64>,
}

/// The latest action.
#[derive(ToSchema)]
#[schema(as = UsageLastAction)]
struct LastAction {
    action_id: String,
    action_type: String,
    action_details: BTreeMap<String, Value>,
    occurred_at: DateTime<Utc>,
    plan_id: String,
}

/// A user's plan, limits and usage.
#[derive(ToSchema)]
#[schema(as = UsageSummary)]
pub(super) struct Summary {
    user_id: String,
    plan_id: String,
    subscriptions: Vec<Subscription>,
    /// By feature.
    usage: BTreeMap<String, FeatureUse>,
    reset_at: DateTime<Utc>,
}

/// Today's usage of a feature.
#[derive(ToSchema)]
#[schema(as = UsageOfFeature)]
struct FeatureUse {
    used: u64,
    /// Null: no limit.
    #[schema(required)]
    limit: Option<u64>,
}

/// A Stripe subscription.
#[derive(ToSchema)]
#[schema(as = UsageSubscription)]
struct Subscription {
    user_id: String,
    subscription_id: String,
    plan_id: String,
    #[schema(schema_with = statuses)]
    status: String,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    #[schema(nullable = false)]
    stripe_subscription_id: Option<String>,
    #[schema(nullable = false)]
    current_period_start: Option<DateTime<Utc>>,
    #[schema(nullable = false)]
    current_period_end: Option<DateTime<Utc>>,
}

fn statuses() -> RefOr<Schema> {
    one_of(SubscriptionStatus::ALL.map(SubscriptionStatus::as_str))
}

/// An action that was counted.
#[derive(ToSchema)]
#[schema(as = UsageCounted)]
pub(super) struct Counted {
    user_id: String,
    feature: String,
    action_id: String,
    action_type: String,
    plan_id: String,
    occurred_at: DateTime<Utc>,
    usage_before: u64,
    usage_after: u64,
    /// Null: no limit.
    #[schema(required)]
    limit: Option<u64>,
    #[schema(required)]
    remaining: Option<u64>,
    reset_at: DateTime<Utc>,
}

/// The day's limit is reached.
#[derive(ToSchema)]
#[schema(as = UsageLimit)]
pub(super) struct LimitReached {
    error: LimitError,
    limit: u64,
    used: u64,
    reset_at: DateTime<Utc>,
}

/// Why it was not counted.
#[derive(ToSchema)]
#[schema(as = UsageLimitError)]
struct LimitError {
    #[schema(schema_with = limit_code)]
    code: String,
    message: String,
}

fn limit_code() -> RefOr<Schema> {
    one_of(["usage_limit_exceeded"])
}
