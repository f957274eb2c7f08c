//! serenya: users with everything embedded, payments, and the configuration, in one table.

use super::{Index, Table, TableId};
use dues_events::attributes;

/// A user by the SHA-256 of the email: `USER_EMAIL#<hash>`.
pub const BY_EMAIL_HASH: Index = Index::sorted("GSI1-EmailLookup", "GSI1PK", "GSI1SK");
/// A user by the id at Google or Apple: `USER_EXTERNAL#<provider>#<id>`.
pub const BY_EXTERNAL_ID: Index = Index::sorted("GSI2-ExternalAuth", "GSI2PK", "GSI2SK");

/// The serenya table; `serenya-{environment}`. Its changes are streamed: the expiry of a session must not
/// delete the profile with it.
pub const SERENYA: Table = Table {
    id: TableId::Serenya,
    name: "serenya",
    partition: attributes::PK,
    sort: Some(attributes::SK),
    indexes: &[BY_EMAIL_HASH, BY_EXTERNAL_ID],
    stream: true,
    ttl: Some("ttl"),
};
