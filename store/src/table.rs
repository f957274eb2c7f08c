//! The tables, declared once. The embedded schema is generated from them, and the deployment template is
//! tested against them.

pub mod figureforge;
pub mod serenya;
pub mod usage;

mod id;
mod names;

use dues_events::attributes;

pub use id::TableId;
pub use names::TableNames;

/// A table.
#[derive(Debug, PartialEq, Eq)]
pub struct Table {
    /// Identifies the table: code compares and maps by it.
    pub id: TableId,
    /// Its own name, unless a deployment overrides it.
    pub name: &'static str,
    /// The partition key attribute. Partition and sort keys are strings.
    pub partition: &'static str,
    /// The sort key attribute.
    pub sort: Option<&'static str>,
    /// Its global secondary indexes, all of which project all attributes.
    pub indexes: &'static [Index],
    /// Whether its changes are streamed, with old and new image.
    pub stream: bool,
    /// The TTL attribute.
    pub ttl: Option<&'static str>,
}

/// A global secondary index.
#[derive(Debug, PartialEq, Eq)]
pub struct Index {
    /// Its name.
    pub name: &'static str,
    /// The partition key attribute.
    pub partition: &'static str,
    /// The sort key attribute. An item without it is not in the index.
    pub sort: Option<&'static str>,
    /// Whether the sort key is an integer instead of a string.
    pub numeric: bool,
}

impl Index {
    const fn new(name: &'static str, partition: &'static str) -> Self {
        Self { name, partition, sort: None, numeric: false }
    }

    const fn sorted(name: &'static str, partition: &'static str, sort: &'static str) -> Self {
        Self { name, partition, sort: Some(sort), numeric: false }
    }

    const fn numbered(name: &'static str, partition: &'static str, sort: &'static str) -> Self {
        Self { name, partition, sort: Some(sort), numeric: true }
    }
}

/// Finds a record by its UUID.
pub const BY_SUBSCRIPTION: Index = Index::new("subscription_id-index", attributes::SUBSCRIPTION_ID);
/// Finds all records in a status.
///
/// DynamoDB takes about 1,000 writes a second for one value of an index key: that is the ceiling for moves
/// into one status. If it is reached, add a suffix to the key (`SCHEDULED#7`) and query each suffix.
pub const BY_STATUS: Index = Index::new("billing_status-index", attributes::BILLING_STATUS);

/// One record for each billing period of a user.
pub const BILLING_ACTIVITY: Table = Table {
    id: TableId::BillingActivity,
    name: "billing-activity",
    partition: attributes::USER_ID,
    sort: Some(attributes::BILLING_DATE),
    indexes: &[BY_SUBSCRIPTION, BY_STATUS],
    stream: true,
    ttl: None,
};

/// Every state of every billing record, append-only.
pub const HISTORY: Table = Table {
    id: TableId::History,
    name: "billing-activity-history",
    partition: attributes::USER_ID,
    sort: Some(attributes::LAST_RUN_DATE),
    indexes: &[BY_SUBSCRIPTION],
    stream: false,
    ttl: None,
};

/// One lock for each user under collection.
pub const LOCKS: Table = Table {
    id: TableId::Locks,
    name: "locks",
    partition: "PartitionKey",
    sort: None,
    indexes: &[],
    stream: false,
    ttl: Some("deleteOn"),
};

/// Records that could not be processed, with the reason; they can be inspected and redriven.
pub const PARKED: Table = Table {
    id: TableId::Parked,
    name: "dues-parked",
    partition: "stream",
    sort: Some("parked_id"),
    indexes: &[],
    stream: false,
    ttl: None,
};

/// Finds unapplied money by what became of it.
pub const BY_MONEY_STATUS: Index = Index::new("money_status-index", "money_status");

/// Money that arrived and pays for nothing, until an operator decides about it.
pub const UNAPPLIED_MONEY: Table = Table {
    id: TableId::UnappliedMoney,
    name: "dues-unapplied-money",
    partition: "money_id",
    sort: None,
    indexes: &[BY_MONEY_STATUS],
    stream: false,
    ttl: None,
};

/// Finds the sandbox's debits that have events yet to publish.
pub const PENDING: Index = Index::new("pending-index", "pending");

/// The records of the sandbox gateway. Not deployed.
pub const SANDBOX: Table = Table {
    id: TableId::Sandbox,
    name: "dues-sandbox",
    partition: "key",
    sort: None,
    indexes: &[PENDING],
    stream: false,
    ttl: None,
};

/// Group memberships, where there is no Cognito. Not deployed.
pub const GROUPS: Table = Table {
    id: TableId::Groups,
    name: "dues-groups",
    partition: attributes::USER_ID,
    sort: Some("group"),
    indexes: &[],
    stream: false,
    ttl: None,
};

/// A user's rows other than billing records (gg_core): profile, subscriptions, passes, credits.
pub const GG_CORE: Table = Table {
    id: TableId::GgCore,
    name: "gg_core",
    partition: attributes::PK,
    sort: Some(attributes::SK),
    indexes: &[],
    stream: true,
    ttl: Some(attributes::EXPIRES_AT),
};

/// Finds the heads that must be looked at again by a time. A head without a timer is not in it.
pub const BY_TIMER: Index = Index::sorted("timer-index", attributes::TIMER_BUCKET, attributes::TIMER_AT);

/// The source of the rows of [`GG_CORE`]: each user's Stripe events with their head, the owner links of
/// Stripe objects, and events that wait for an owner.
pub const ENTITLEMENTS: Table = Table {
    id: TableId::Entitlements,
    name: "dues-entitlements",
    partition: attributes::PK,
    sort: Some(attributes::SK),
    indexes: &[BY_TIMER],
    stream: true,
    ttl: None,
};

/// The journal of the read models: the facts of each aggregate, and its state. It also holds each member's
/// last incomes.
pub const JOURNAL: Table = Table {
    id: TableId::Journal,
    name: "dues-journal",
    partition: attributes::PK,
    sort: Some(attributes::SK),
    indexes: &[],
    stream: false,
    ttl: None,
};

/// Every table of a deployment with all read models.
pub const ALL: [&Table; 13] = [
    &BILLING_ACTIVITY,
    &HISTORY,
    &LOCKS,
    &PARKED,
    &GG_CORE,
    &ENTITLEMENTS,
    &JOURNAL,
    &usage::USER_SUBSCRIPTIONS,
    &usage::USER_USAGE,
    &usage::ACTIONS_LOG,
    &figureforge::FIGUREFORGE,
    &serenya::SERENYA,
    &UNAPPLIED_MONEY,
];
/// Every table of the embedded engine, in the order of [`TableId`].
pub const EMBEDDED: [&Table; TableId::ALL.len()] = {
    let mut tables = [&BILLING_ACTIVITY; TableId::ALL.len()];
    let mut n = 0;
    while n < tables.len() {
        tables[n] = TableId::ALL[n].definition();
        n += 1;
    }
    tables
};

/// The tables that can be rebuilt entirely from the others.
pub const DERIVED: [&Table; 5] = [
    &BILLING_ACTIVITY,
    &usage::USER_SUBSCRIPTIONS,
    &usage::USER_USAGE,
    &figureforge::FIGUREFORGE,
    &serenya::SERENYA,
];

impl Table {
    /// Whether its rows can be rebuilt from other tables.
    #[must_use]
    pub fn is_derived(&self) -> bool {
        DERIVED.iter().any(|derived| derived.id == self.id)
    }

    /// Finds one of its indexes, with its position.
    #[must_use]
    pub fn index(&self, name: &str) -> Option<(usize, &'static Index)> {
        self.indexes.iter().enumerate().find(|(_, index)| index.name == name)
    }

    /// Whether a key attribute is a number instead of a string.
    #[must_use]
    pub fn is_numeric(&self, name: &str) -> bool {
        self.indexes.iter().any(|index| index.numeric && index.sort == Some(name))
    }

    /// All attributes that are part of a key, the table's own first.
    pub fn key_attributes(&self) -> impl Iterator<Item = &'static str> {
        let own = [Some(self.partition), self.sort];
        let indexed = self.indexes.iter().flat_map(|index| [Some(index.partition), index.sort]);
        own.into_iter().chain(indexed).flatten()
    }
}
