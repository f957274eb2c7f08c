//! A user's biometric registration: the latest registration, its last verification, and the failures since.

use dues_events::{EventId, Time, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

use super::{Fact, rows};
use crate::model::{Latest, Recorded};

/// How many failures are kept; older ones are not counted.
const FAILURES: usize = 32;

/// A fact about a biometric registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BiometricFact {
    /// A face or a fingerprint was registered.
    Registered(Registration),
    /// A verification succeeded.
    Verified,
    /// A verification failed.
    Failed {
        /// No verification is accepted before this time.
        locked_until: Option<Time>,
    },
}

/// A biometric registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// Id of the registration.
    pub registration_id: String,
    /// Such as `faceid`.
    pub biometric_type: String,
    /// Such as `high`.
    pub verification_level: Option<String>,
    /// The challenge, encrypted by its issuer.
    pub challenge_data: Option<String>,
    /// When the challenge expires.
    pub challenge_expires_at: Option<Time>,
}

/// State of the registration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Biometric {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    registered: Option<Latest<Registration>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verified: Option<Time>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    failed: BTreeSet<(Time, EventId)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    locked: Option<Latest<Option<Time>>>,
}

impl Biometric {
    pub(super) fn merge(&mut self, recorded: &Recorded<Fact>, fact: &BiometricFact) {
        match fact {
            BiometricFact::Registered(registration) => {
                Latest::update(&mut self.registered, recorded, registration.clone())
            }
            BiometricFact::Verified => {
                self.verified = self.verified.max(Some(recorded.at));
                Latest::update(&mut self.locked, recorded, None);
            }
            BiometricFact::Failed { locked_until } => {
                self.failed.insert((recorded.at, recorded.id.clone()));
                Latest::update(&mut self.locked, recorded, *locked_until);
            }
        }
        // Count only failures after the latest success; keep the newest.
        self.failed.retain(|(at, _)| Some(*at) > self.verified);
        while self.failed.len() > FAILURES {
            self.failed.pop_first();
        }
    }

    /// The value that the profile embeds; null before the first registration.
    pub(super) fn value(&self) -> Value {
        let Some(Latest { at, value: registration, .. }) = &self.registered else { return Value::Null };
        let verified = self.verified.filter(|verified| verified >= at);
        let failures = self.failed.iter().filter(|(failed, _)| failed >= at).count() as u64;
        Value::M(rows::map([
            ("registration_id", Value::text(registration.registration_id.as_str())),
            ("biometric_type", Value::text(registration.biometric_type.as_str())),
            ("is_verified", Value::Bool(verified.is_some())),
            ("verification_level", rows::optional(registration.verification_level.as_deref())),
            ("challenge_data", rows::optional(registration.challenge_data.as_deref())),
            ("challenge_expires_at", rows::time(registration.challenge_expires_at)),
            ("last_verification_at", rows::time(verified)),
            ("failure_count", Value::number(failures)),
            ("locked_until", rows::time(self.locked.as_ref().and_then(|locked| locked.value))),
        ]))
    }
}
