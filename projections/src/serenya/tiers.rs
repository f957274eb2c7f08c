//! What each tier includes and costs: the default table, unless a deployment overrides it.

use dues_events::Money;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value as Json, json};
use std::collections::BTreeMap;

/// Settings that a deployment may override.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The tiers by name.
    pub tiers: BTreeMap<String, Tier>,
    /// The chat options for documents.
    pub chat_options: Json,
}

/// A tier. `None` means no limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// Display name.
    pub tier_name: String,
    /// Whether medical reports are processed.
    pub medical_reports: bool,
    /// Documents per period of thirty days.
    pub max_documents_per_month: Option<u32>,
    /// Whether its documents have priority.
    pub priority_processing: bool,
    /// Whether analytics are included.
    pub advanced_analytics: bool,
    /// Whether data can be exported.
    pub export_capabilities: bool,
    /// Chat questions per day.
    pub chat_interactions_per_day: Option<u32>,
    /// Storage, in GB.
    pub storage_gb: u32,
    /// Retention, in days.
    pub retention_days: u32,
    /// Level of support.
    pub support_level: String,
    /// Price per month.
    pub monthly_price_usd: Price,
    /// Price per year.
    pub yearly_price_usd: Price,
    /// Product id in Apple's store.
    pub apple_product_id: Option<String>,
    /// Product id in Google's store.
    pub google_product_id: Option<String>,
}

/// An amount that is a number in JSON, and never a float here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price(pub Money);

impl Serialize for Price {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number: Result<Number, _> = self.0.decimal().normalize().to_string().parse();
        number.map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match Json::deserialize(deserializer)? {
            Json::String(text) => text,
            Json::Number(number) => number.to_string(),
            Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => {
                return Err(D::Error::custom("is not an amount such as 9.99"));
            }
        };
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

impl Settings {
    /// The environment variable with the overrides.
    pub const VARIABLE: &'static str = "DUES_SERENYA";

    /// Parses `{"tiers":{"free":{…}},"chat_options":{…}}`; what is absent keeps its default.
    ///
    /// # Errors
    /// A message that names the variable and, where there is one, the field.
    pub fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Said {
            #[serde(default)]
            tiers: BTreeMap<String, Tier>,
            chat_options: Option<Json>,
        }
        let json: Json = serde_json::from_str(text)
            .map_err(|error| format!("{}: is not JSON: {error}", Self::VARIABLE))?;
        let said: Said =
            dues_events::wire::shape(&json).map_err(|error| format!("{}: {error}", Self::VARIABLE))?;
        let mut settings = Self::default();
        settings.tiers.extend(said.tiers);
        settings.chat_options = said.chat_options.unwrap_or(settings.chat_options);
        if !settings.chat_options.is_object() {
            return Err(format!("{}: chat_options: is not an object", Self::VARIABLE));
        }
        Ok(settings)
    }

    /// The tiers, as the endpoint returns them.
    #[must_use]
    pub fn tiers_json(&self) -> Json {
        json!(self.tiers)
    }
}

/// The built-in tiers and chat options.
impl Default for Settings {
    fn default() -> Self {
        let (cents, some) = (|cents| Price(Money::from_cents(cents)), |text: &str| Some(text.to_owned()));
        let free = Tier {
            tier_name: "Free".to_owned(),
            medical_reports: false,
            max_documents_per_month: Some(5),
            priority_processing: false,
            advanced_analytics: false,
            export_capabilities: false,
            chat_interactions_per_day: Some(10),
            storage_gb: 1,
            retention_days: 30,
            support_level: "community".to_owned(),
            monthly_price_usd: cents(0),
            yearly_price_usd: cents(0),
            apple_product_id: None,
            google_product_id: None,
        };
        let premium = Tier {
            tier_name: "Premium".to_owned(),
            medical_reports: true,
            max_documents_per_month: None,
            priority_processing: true,
            advanced_analytics: true,
            export_capabilities: true,
            chat_interactions_per_day: None,
            storage_gb: 10,
            retention_days: 365,
            support_level: "priority".to_owned(),
            monthly_price_usd: cents(999),
            yearly_price_usd: cents(9999),
            apple_product_id: some("com.serenya.premium.monthly"),
            google_product_id: some("serenya_premium_monthly"),
        };
        let tiers = [("free", free), ("premium", premium)]
            .map(|(name, tier)| (name.to_owned(), tier))
            .into_iter()
            .collect();
        Self { tiers, chat_options: super::chat::options() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_says_what_is_otherwise() {
        let mut free = serde_json::to_value(&Settings::default().tiers["free"]).unwrap();
        free["max_documents_per_month"] = 3.into();
        free["monthly_price_usd"] = "1.50".into();
        let settings = Settings::parse(&json!({"tiers": {"free": free}}).to_string()).unwrap();
        assert_eq!(settings.tiers["free"].max_documents_per_month, Some(3));
        assert_eq!(settings.tiers["free"].monthly_price_usd, Price(Money::from_cents(150)));
        assert_eq!(settings.tiers["premium"], Settings::default().tiers["premium"]);
        assert_eq!(
            Settings::parse("[").unwrap_err(),
            "DUES_SERENYA: is not JSON: EOF while parsing a list at line 1 column 1"
        );
        assert_eq!(
            Settings::parse(r#"{"chat_options":[]}"#).unwrap_err(),
            "DUES_SERENYA: chat_options: is not an object"
        );
        free["storage_gb"] = (-1).into();
        let wrong = Settings::parse(&json!({"tiers": {"free": free}}).to_string()).unwrap_err();
        assert!(wrong.starts_with("DUES_SERENYA: tiers.free"), "{wrong}");
    }

    #[test]
    fn prices_are_exact_numbers() {
        assert_eq!(json!(Price(Money::from_cents(999))).to_string(), "9.99");
        assert_eq!(json!(Price(Money::ZERO)).to_string(), "0");
        assert!(
            serde_json::from_str::<Price>("9.999").is_err() && serde_json::from_str::<Price>("-1").is_err()
        );
        assert_eq!(serde_json::from_str::<Price>("99.99").unwrap(), Price(Money::from_cents(9999)));
    }
}
