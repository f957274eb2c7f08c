//! What can be told of a profile.

use dues_events::stripe;
use serde::{Deserialize, Serialize};

use crate::serenya::biometric::BiometricFact;
use crate::serenya::session::Summary;
use crate::serenya::subscription::{Dues, Subscription};

/// What is told of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileFact {
    /// Somebody is new.
    Created(Created),
    /// Something of the account is another.
    Updated(Updated),
    /// Something was consented to, or no more.
    Consent(Consent),
    /// A device was seen.
    Device(Device),
    /// How a session stands.
    Session(Box<Summary>),
    /// Of the biometric registration.
    Biometric(BiometricFact),
    /// An application says what the subscription is.
    Subscription(Subscription),
    /// Stripe says how a subscription stands.
    Stripe(Box<stripe::Subscription>),
    /// How dues by ACH stand.
    Dues(Dues),
    /// A document was processed.
    Counted,
    /// DynamoDB has taken the row away whose `ttl` was this.
    Expired {
        /// In seconds of the Unix epoch.
        ttl: i64,
    },
    /// The account was closed.
    Closed,
}

/// A new user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    /// As it was given.
    pub email: String,
    /// What they are called.
    pub name: String,
    /// Where they sign in: `google`, `apple`.
    pub auth_provider: String,
    /// What they are called there.
    pub external_id: String,
}

/// What may become another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Updated {
    /// As it was given.
    pub email: Option<String>,
    /// What they are called.
    pub name: Option<String>,
    /// Such as `active` or `suspended`.
    pub account_status: Option<String>,
}

/// Consents; what is not said stays as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consent {
    /// That this is no doctor.
    pub medical_disclaimers: Option<bool>,
    /// The terms of service.
    pub terms_of_service: Option<bool>,
    /// The privacy policy.
    pub privacy_policy: Option<bool>,
    /// Of which version.
    pub consent_version: Option<String>,
    /// Where from.
    pub ip_address: Option<String>,
    /// With what.
    pub user_agent: Option<String>,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Which.
    pub device_id: String,
    /// What its owner calls it.
    pub device_name: Option<String>,
    /// Such as `ios`.
    pub platform: Option<String>,
    /// Of the platform.
    pub platform_version: Option<String>,
    /// Of the app.
    pub app_version: Option<String>,
    /// Such as `faceid`.
    pub biometric_type: Option<String>,
    /// By which it is known again.
    pub device_fingerprint: Option<String>,
    /// Where its clock is.
    pub timezone: Option<String>,
}
