//! Seed 004: a user with everything embedded, payments, and the configuration, in one table.

use super::{Index, Table};
use dues_events::attr;

/// A user by the SHA-256 of the email: `USER_EMAIL#<hash>`.
pub const BY_EMAIL_HASH: Index = Index::sorted("GSI1-EmailLookup", "GSI1PK", "GSI1SK");
/// A user by the id that Google or Apple gave: `USER_EXTERNAL#<provider>#<id>`.
pub const BY_EXTERNAL_ID: Index = Index::sorted("GSI2-ExternalAuth", "GSI2PK", "GSI2SK");

/// Everything of it; `serenya-{environment}`. Its changes are streamed: a session whose time is over must not take the profile with it.
pub const SERENYA: Table = Table {
    name: "serenya",
    partition: attr::PK,
    sort: Some(attr::SK),
    indexes: &[BY_EMAIL_HASH, BY_EXTERNAL_ID],
    stream: true,
    ttl: Some("ttl"),
};
