//! Seed 002: what users' plans are, how much of them they have used, and every action that was counted.

use super::{Index, Table};
use dues_events::attr;

/// Finds a subscription by its id.
pub const BY_SUBSCRIPTION_ID: Index = Index::new("SubscriptionIdIndex", attr::SUBSCRIPTION_ID);

/// The plans that users have subscribed to; `f1-user-subscriptions-{environment}`.
pub const USER_SUBSCRIPTIONS: Table = Table {
    name: "f1-user-subscriptions",
    partition: attr::USER_ID,
    sort: Some(attr::SUBSCRIPTION_ID),
    indexes: &[BY_SUBSCRIPTION_ID],
    stream: false,
    ttl: None,
};

/// Who has used a feature, by the day on which that is forgotten.
pub const BY_FEATURE_AND_DATE: Index = Index::sorted("FeatureDateIndex", "feature_name", "reset_date");
/// What is to be forgotten on a day.
pub const BY_RESET_DATE: Index = Index::sorted("ResetDateIndex", "reset_date", attr::USER_ID);

/// How often a user has used a feature on a day; `f1-user-usage-{environment}`.
pub const USER_USAGE: Table = Table {
    name: "f1-user-usage",
    partition: attr::USER_ID,
    sort: Some("feature_date_key"),
    indexes: &[BY_FEATURE_AND_DATE, BY_RESET_DATE],
    stream: true,
    ttl: None,
};

/// Actions of one type, by time.
pub const BY_ACTION_TYPE: Index = Index::sorted("ActionTypeIndex", "action_type", "timestamp");
/// Actions of one instant. DynamoDB takes no range on a partition key, so this one cannot answer for a span of time.
pub const BY_TIMESTAMP: Index = Index::sorted("TimestampIndex", "timestamp", attr::USER_ID);

/// Every action that was counted, append-only; `f1-user-actions-log-{environment}`.
pub const ACTIONS_LOG: Table = Table {
    name: "f1-user-actions-log",
    partition: attr::USER_ID,
    sort: Some("timestamp"),
    indexes: &[BY_ACTION_TYPE, BY_TIMESTAMP],
    stream: false,
    ttl: Some("expires_at"),
};

/// All of them.
pub const ALL: [&Table; 3] = [&USER_SUBSCRIPTIONS, &USER_USAGE, &ACTIONS_LOG];
