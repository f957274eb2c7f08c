//! The tables, declared once. The embedded schema is made from this, the deployed template is tested against it.

pub mod figureforge;
mod names;
pub mod serenya;
pub mod usage;

use dues_events::attr;

pub use names::TableNames;

/// A table.
#[derive(Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name, unless a deployment gives it another.
    pub name: &'static str,
    /// The partition key; it and the sort key are texts.
    pub partition: &'static str,
    /// The sort key.
    pub sort: Option<&'static str>,
    /// Its global secondary indexes, all of which project all attributes.
    pub indexes: &'static [Index],
    /// Whether its changes are streamed, with old and new image.
    pub stream: bool,
    /// The attribute that holds an item's expiry.
    pub ttl: Option<&'static str>,
}

/// A global secondary index.
#[derive(Debug, PartialEq, Eq)]
pub struct Index {
    /// Its name.
    pub name: &'static str,
    /// The partition key.
    pub partition: &'static str,
    /// The sort key. An item without it is not in the index.
    pub sort: Option<&'static str>,
    /// Whether the sort key is a whole number, and not a text.
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
pub const BY_SUBSCRIPTION: Index = Index::new("subscription_id-index", attr::SUBSCRIPTION_ID);
/// Finds all records in a status.
///
/// DynamoDB takes about 1,000 writes a second for one value of an index key: that is the ceiling for moves into one status. The remedy,
/// when it is reached, is a suffix on the key (`SCHEDULED#7`) and a query for each suffix.
pub const BY_STATUS: Index = Index::new("billing_status-index", attr::BILLING_STATUS);

/// One record for each billing period of a user.
pub const BILLING_ACTIVITY: Table = Table {
    name: "billing-activity",
    partition: attr::USER_ID,
    sort: Some(attr::BILLING_DATE),
    indexes: &[BY_SUBSCRIPTION, BY_STATUS],
    stream: true,
    ttl: None,
};

/// Every state that a record ever had, append-only.
pub const HISTORY: Table = Table {
    name: "billing-activity-history",
    partition: attr::USER_ID,
    sort: Some(attr::LAST_RUN_DATE),
    indexes: &[BY_SUBSCRIPTION],
    stream: false,
    ttl: None,
};

/// One lock for each user whose dues are being collected.
pub const LOCKS: Table = Table { name: "locks", partition: "PartitionKey", sort: None, indexes: &[], stream: false, ttl: Some("deleteOn") };

/// What could not be processed, with the reason: visible and redrivable.
pub const PARKED: Table =
    Table { name: "dues-parked", partition: "stream", sort: Some("parked_id"), indexes: &[], stream: false, ttl: None };

/// Finds the debits of the sandbox that there is still something to tell of.
pub const PENDING: Index = Index::new("pending-index", "pending");

/// The books of the sandbox gateway. No deployment has it.
pub const SANDBOX: Table = Table { name: "dues-sandbox", partition: "key", sort: None, indexes: &[PENDING], stream: false, ttl: None };

/// Who is in which group, where there is no Cognito. No deployment has it.
pub const GROUPS: Table =
    Table { name: "dues-groups", partition: attr::USER_ID, sort: Some("group"), indexes: &[], stream: false, ttl: None };

/// Everything about a user besides the billing records, one kind of row beside the other (seed 000): profile, subscriptions, passes, credits.
pub const GG_CORE: Table =
    Table { name: "gg_core", partition: attr::PK, sort: Some(attr::SK), indexes: &[], stream: true, ttl: Some(attr::EXPIRES_AT) };

/// What the rows of [`GG_CORE`] come from: each user's Stripe events and how far they have been told, whose a Stripe object is, and events that wait
/// until that is known.
pub const ENTITLEMENTS: Table =
    Table { name: "dues-entitlements", partition: attr::PK, sort: Some(attr::SK), indexes: &[], stream: true, ttl: None };

/// The journal of the read models: the facts of each aggregate, and its state.
pub const JOURNAL: Table =
    Table { name: "dues-journal", partition: attr::PK, sort: Some(attr::SK), indexes: &[], stream: false, ttl: None };

/// Every table that a deployment with all read models has.
pub const ALL: [&Table; 12] = [
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
];
/// Every table that the one-file engine has. A table's place is its number in the file: new ones go to the end.
pub const EMBEDDED: [&Table; 14] = [
    &BILLING_ACTIVITY,
    &HISTORY,
    &LOCKS,
    &PARKED,
    &SANDBOX,
    &GROUPS,
    &GG_CORE,
    &ENTITLEMENTS,
    &JOURNAL,
    &usage::USER_SUBSCRIPTIONS,
    &usage::USER_USAGE,
    &usage::ACTIONS_LOG,
    &figureforge::FIGUREFORGE,
    &serenya::SERENYA,
];

/// The tables whose rows can all be made again from those of the others.
pub const DERIVED: [&Table; 5] =
    [&BILLING_ACTIVITY, &usage::USER_SUBSCRIPTIONS, &usage::USER_USAGE, &figureforge::FIGUREFORGE, &serenya::SERENYA];

impl Table {
    /// Whether its rows can be made again from those of other tables.
    #[must_use]
    pub fn is_derived(&self) -> bool {
        DERIVED.iter().any(|derived| derived.name == self.name)
    }

    /// One of its indexes.
    #[must_use]
    pub fn index(&self, name: &str) -> Option<(usize, &'static Index)> {
        self.indexes.iter().enumerate().find(|(_, index)| index.name == name)
    }

    /// Whether a key attribute is a number, and not a text.
    #[must_use]
    pub fn is_numeric(&self, name: &str) -> bool {
        self.indexes.iter().any(|index| index.numeric && index.sort == Some(name))
    }

    /// All attributes that are part of some key, the table's own first.
    pub fn key_attributes(&self) -> impl Iterator<Item = &'static str> {
        let own = [Some(self.partition), self.sort];
        let indexed = self.indexes.iter().flat_map(|index| [Some(index.partition), index.sort]);
        own.into_iter().chain(indexed).flatten()
    }
}
