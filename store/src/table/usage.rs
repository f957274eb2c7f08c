//! usage: the users' plans, how much of them is used, and every counted action.

use super::{Index, Table, TableId};
use dues_events::attributes;

/// Finds a subscription by its id.
pub const BY_SUBSCRIPTION_ID: Index = Index::new("SubscriptionIdIndex", attributes::SUBSCRIPTION_ID);

/// The plans that users have subscribed to; `f1-user-subscriptions-{environment}`.
pub const USER_SUBSCRIPTIONS: Table = Table {
    id: TableId::UserSubscriptions,
    name: "f1-user-subscriptions",
    partition: attributes::USER_ID,
    sort: Some(attributes::SUBSCRIPTION_ID),
    indexes: &[BY_SUBSCRIPTION_ID],
    stream: false,
    ttl: None,
};

/// Usage of a feature, by reset day.
pub const BY_FEATURE_AND_DATE: Index = Index::sorted("FeatureDateIndex", "feature_name", "reset_date");
/// Usage by reset day.
pub const BY_RESET_DATE: Index = Index::sorted("ResetDateIndex", "reset_date", attributes::USER_ID);

/// How often a user has used a feature on a day; `f1-user-usage-{environment}`.
pub const USER_USAGE: Table = Table {
    id: TableId::UserUsage,
    name: "f1-user-usage",
    partition: attributes::USER_ID,
    sort: Some("feature_date_key"),
    indexes: &[BY_FEATURE_AND_DATE, BY_RESET_DATE],
    stream: true,
    ttl: None,
};

/// Actions of one type, by time.
pub const BY_ACTION_TYPE: Index = Index::sorted("ActionTypeIndex", "action_type", "timestamp");
/// Actions at one instant. DynamoDB accepts no range on a partition key, so this index cannot serve a time
/// range.
pub const BY_TIMESTAMP: Index = Index::sorted("TimestampIndex", "timestamp", attributes::USER_ID);

/// Every counted action, append-only; `f1-user-actions-log-{environment}`.
pub const ACTIONS_LOG: Table = Table {
    id: TableId::ActionsLog,
    name: "f1-user-actions-log",
    partition: attributes::USER_ID,
    sort: Some("timestamp"),
    indexes: &[BY_ACTION_TYPE, BY_TIMESTAMP],
    stream: false,
    ttl: Some("expires_at"),
};

/// The three usage tables.
pub const ALL: [&Table; 3] = [&USER_SUBSCRIPTIONS, &USER_USAGE, &ACTIONS_LOG];
