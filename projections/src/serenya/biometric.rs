//! A user's biometric registration: what was registered last, when it was verified, and how often that has failed since.

use dues_events::{EventId, Time, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

use super::{Fact, rows};
use crate::model::{Latest, Told};

/// How many failures are remembered; more are not told apart.
const FAILURES: usize = 32;

/// What is told of a registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BiometricFact {
    /// A face or a finger was registered.
    Registered(Registration),
    /// It was recognized.
    Verified,
    /// It was not.
    Failed {
        /// Nobody is let in before.
        locked_until: Option<Time>,
    },
}

/// A registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// Which.
    pub registration_id: String,
    /// Such as `faceid`.
    pub biometric_type: String,
    /// Such as `high`.
    pub verification_level: Option<String>,
    /// The challenge, encrypted by whoever made it.
    pub challenge_data: Option<String>,
    /// Until when it can be answered.
    pub challenge_expires_at: Option<Time>,
}

/// How the registration stands.
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
    pub(super) fn merge(&mut self, told: &Told<Fact>, fact: &BiometricFact) {
        match fact {
            BiometricFact::Registered(registration) => Latest::put(&mut self.registered, told, registration.clone()),
            BiometricFact::Verified => {
                self.verified = self.verified.max(Some(told.at));
                Latest::put(&mut self.locked, told, None);
            }
            BiometricFact::Failed { locked_until } => {
                self.failed.insert((told.at, told.id.clone()));
                Latest::put(&mut self.locked, told, *locked_until);
            }
        }
        // Only those after the latest success count, and of them the newest.
        self.failed.retain(|(at, _)| Some(*at) > self.verified);
        while self.failed.len() > FAILURES {
            self.failed.pop_first();
        }
    }

    /// As the profile embeds it; null before anything was registered.
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
