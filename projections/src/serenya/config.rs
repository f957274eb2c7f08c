//! The configuration: one row for each key and version, as last saved.

use dues_events::{Item, Time, Value};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{Fact, rows};
use crate::model::{Latest, Recorded};

/// The partition of all configuration rows.
pub const CONFIG: &str = "SYSTEM#CONFIG";

/// A saved configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// The key, such as `app_settings`.
    pub config_key: String,
    /// The version, such as `v1`.
    pub version: String,
    /// Feature flags.
    #[serde(default)]
    pub features: Json,
    /// Limits.
    #[serde(default)]
    pub limits: Json,
    /// Settings of other services.
    #[serde(default)]
    pub services: Json,
}

/// State of one key and version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    saved: Option<Latest<Saved>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first: Option<Time>,
}

impl Config {
    pub(super) fn merge(&mut self, recorded: &Recorded<Fact>, saved: &Saved) {
        self.first = Some(self.first.map_or(recorded.at, |first| first.min(recorded.at)));
        Latest::update(&mut self.saved, recorded, saved.clone());
    }

    pub(super) fn row(&self) -> Option<Item> {
        let Latest { at, value: saved, .. } = self.saved.as_ref()?;
        let data = rows::map([
            ("config_key", Value::text(saved.config_key.as_str())),
            ("version", Value::text(saved.version.as_str())),
            ("features", rows::of_json(&saved.features)),
            ("limits", rows::of_json(&saved.limits)),
            ("services", rows::of_json(&saved.services)),
        ]);
        let sort = format!("{}{}", prefix(&saved.config_key), saved.version);
        Some(rows::row(
            CONFIG.to_owned(),
            sort,
            "system_config",
            Value::M(data),
            self.first.unwrap_or(*at),
            *at,
        ))
    }
}

/// The sort key prefix of all versions of a key.
#[must_use]
pub fn prefix(key: &str) -> String {
    format!("{}#", key.to_uppercase())
}
