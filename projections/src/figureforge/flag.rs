//! FeatureFlag: `FEATUREFLAG#global`, `<flag_name>`. One partition holds them all, so that one query reads them.

use dues_events::Item;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::kept::Kept;
use super::row::Row;
use super::words::Second;

/// Where the flags are.
pub const FLAGS: &str = "FEATUREFLAG#global";

/// What is told of a feature flag.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FeatureFlag {
    /// On or off.
    pub enabled: bool,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whatever else the application keeps with it.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub value: Json,
    /// When it was made, if it was not just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Second>,
}

pub(super) fn row(name: &str, kept: &Kept<FeatureFlag>) -> Option<Item> {
    let (flag, created_at) = kept.value()?;
    let row = Row::new(FLAGS.to_owned(), name.to_owned(), created_at, kept.deleted_at())
        .text("flag_name", name)
        .flag("enabled", flag.enabled)
        .maybe("description", flag.description.as_deref())
        .json("value", &flag.value);
    Some(row.item())
}
