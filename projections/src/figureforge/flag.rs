//! FeatureFlag: `FEATUREFLAG#global`, `<flag_name>`. All flags share one partition, so that one query reads
//! them.

use dues_events::Item;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::row::Row;
use super::soft_delete::SoftDelete;
use super::validation::EpochSecond;

/// The partition of all flags.
pub const FLAGS: &str = "FEATUREFLAG#global";

/// A feature flag.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FeatureFlag {
    /// Whether the flag is on.
    pub enabled: bool,
    /// The flag's purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Any other data that the application stores with it.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub value: Json,
    /// When it was created; defaults to the event's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<EpochSecond>,
}

pub(super) fn row(name: &str, kept: &SoftDelete<FeatureFlag>) -> Option<Item> {
    let (flag, created_at) = kept.value()?;
    let row = Row::new(FLAGS.to_owned(), name.to_owned(), created_at, kept.deleted_at())
        .text("flag_name", name)
        .flag("enabled", flag.enabled)
        .maybe("description", flag.description.as_deref())
        .json("value", &flag.value);
    Some(row.item())
}
