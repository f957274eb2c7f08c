//! The facts of a profile.

use dues_events::entitlements::stripe;
use serde::{Deserialize, Serialize};

use crate::serenya::biometric::BiometricFact;
use crate::serenya::session::Summary;
use crate::serenya::subscription::{Dues, Subscription};

/// A fact about a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileFact {
    /// The user was created.
    Created(Created),
    /// Account data changed.
    Updated(Updated),
    /// Consent was given or withdrawn.
    Consent(Consent),
    /// A device was used.
    Device(Device),
    /// The latest summary of a session.
    Session(Box<Summary>),
    /// A fact about the biometric registration.
    Biometric(BiometricFact),
    /// A subscription, as an application reports it.
    Subscription(Subscription),
    /// A subscription, as Stripe reports it.
    Stripe(Box<stripe::Subscription>),
    /// Dues by ACH, as a billing record reports them.
    Dues(Dues),
    /// A document was processed.
    Counted,
    /// DynamoDB deleted the row that had this `ttl`.
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
    /// The email address as given.
    pub email: String,
    /// The user's name.
    pub name: String,
    /// The sign-in provider: `google`, `apple`.
    pub auth_provider: String,
    /// The provider's id of the user.
    pub external_id: String,
}

/// Changed account data; `None` leaves a field unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Updated {
    /// The email address as given.
    pub email: Option<String>,
    /// The user's name.
    pub name: Option<String>,
    /// Such as `active` or `suspended`.
    pub account_status: Option<String>,
}

/// Consents; `None` leaves a flag unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consent {
    /// The notice that the service does not replace a doctor.
    pub medical_disclaimers: Option<bool>,
    /// The terms of service.
    pub terms_of_service: Option<bool>,
    /// The privacy policy.
    pub privacy_policy: Option<bool>,
    /// The version of the texts.
    pub consent_version: Option<String>,
    /// The address of the client.
    pub ip_address: Option<String>,
    /// The client's user agent.
    pub user_agent: Option<String>,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Id of the device.
    pub device_id: String,
    /// The name that the owner gave it.
    pub device_name: Option<String>,
    /// Such as `ios`.
    pub platform: Option<String>,
    /// The platform's version.
    pub platform_version: Option<String>,
    /// The app's version.
    pub app_version: Option<String>,
    /// Such as `faceid`.
    pub biometric_type: Option<String>,
    /// Fingerprint that identifies the device.
    pub device_fingerprint: Option<String>,
    /// The device's time zone.
    pub timezone: Option<String>,
}
