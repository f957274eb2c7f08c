//! A user's profile: one row with consents, device, session, biometric registration and subscription
//! embedded.
//!
//! The row's `ttl` is the end of the session; DynamoDB then deletes the whole row. The expiry is recorded as
//! a fact, and the row is rebuilt without session and `ttl`. Until then the user is found through the
//! pointers from email and external id, which have no `ttl`.

mod facts;

use chrono::{DateTime, TimeDelta};
use dues_events::attributes::{PK, SK};
use dues_events::{Item, Time, Value};
use serde::{Deserialize, Serialize};

use super::biometric::Biometric;
use super::session::Summary;
use super::subscription::{Subscription, Subscriptions};
use super::usage::{Counted, MAX_COUNTED, Usage};
use super::{Fact, rows};
use crate::model::{Latest, Recorded};
pub use facts::{Consent, Created, Device, ProfileFact, Updated};

/// The sort key of a profile.
pub const PROFILE: &str = "PROFILE";
/// The status of a closed account.
pub const CLOSED: &str = "closed";
/// How long the row of a new user waits for the first session.
const FIRST_SESSION: TimeDelta = TimeDelta::hours(24);

/// State of a user's profile.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    created: Option<Latest<Created>>,
    updated: Option<Time>,
    email: Option<Latest<String>>,
    name: Option<Latest<String>>,
    account_status: Option<Latest<String>>,
    medical_disclaimers: Option<Latest<bool>>,
    terms_of_service: Option<Latest<bool>>,
    privacy_policy: Option<Latest<bool>>,
    consent: Option<Latest<Consent>>,
    device: Option<Latest<Device>>,
    session: Option<Box<Summary>>,
    biometric: Biometric,
    subscriptions: Subscriptions,
    counted: Counted,
    expired: Option<i64>,
}

impl Profile {
    pub(super) fn merge(&mut self, recorded: &Recorded<Fact>, fact: &ProfileFact) {
        self.updated = self.updated.max(Some(recorded.at));
        match fact {
            ProfileFact::Created(created) => self.create(recorded, created),
            ProfileFact::Updated(updated) => {
                put(&mut self.email, recorded, updated.email.as_ref());
                put(&mut self.name, recorded, updated.name.as_ref());
                put(&mut self.account_status, recorded, updated.account_status.as_ref());
            }
            ProfileFact::Consent(consent) => {
                put(&mut self.medical_disclaimers, recorded, consent.medical_disclaimers.as_ref());
                put(&mut self.terms_of_service, recorded, consent.terms_of_service.as_ref());
                put(&mut self.privacy_policy, recorded, consent.privacy_policy.as_ref());
                Latest::update(&mut self.consent, recorded, consent.clone());
            }
            ProfileFact::Device(device) => Latest::update(&mut self.device, recorded, device.clone()),
            ProfileFact::Session(summary) => {
                if self.session.as_ref().is_none_or(|known| known.place() < summary.place()) {
                    self.session = Some(summary.clone());
                }
            }
            ProfileFact::Biometric(fact) => self.biometric.merge(recorded, fact),
            ProfileFact::Subscription(subscription) => self.subscriptions.application(recorded, subscription),
            ProfileFact::Stripe(subscription) => self.subscriptions.stripe(recorded, subscription),
            ProfileFact::Dues(dues) => self.subscriptions.dues(dues),
            ProfileFact::Counted => self.counted.add(&recorded.id, recorded.at),
            ProfileFact::Expired { ttl } => self.expired = self.expired.max(Some(*ttl)),
            ProfileFact::Closed => Latest::update(&mut self.account_status, recorded, CLOSED.to_owned()),
        }
    }

    /// The earliest creation wins; later ones change nothing.
    fn create(&mut self, recorded: &Recorded<Fact>, created: &Created) {
        if self.created.as_ref().is_none_or(|known| (recorded.at, &recorded.id) < (known.at, &known.by)) {
            self.created = Some(Latest { at: recorded.at, by: recorded.id.clone(), value: created.clone() });
        }
    }

    /// When the user was created; `None` before that.
    #[must_use]
    pub fn since(&self) -> Option<Time> {
        self.created.as_ref().map(|created| created.at)
    }

    /// The fact that created the user.
    #[must_use]
    pub fn created(&self) -> Option<&Latest<Created>> {
        self.created.as_ref()
    }

    /// The current email address.
    #[must_use]
    pub fn email(&self) -> Option<&str> {
        let created = self.created.as_ref()?;
        Some(self.email.as_ref().map_or(created.value.email.as_str(), |email| email.value.as_str()))
    }

    /// The current subscription.
    #[must_use]
    pub fn subscription(&self, user: &str) -> Option<Subscription> {
        self.since().map(|created| self.subscriptions.current(user, created))
    }

    /// The usage of the period that contains `at`.
    #[must_use]
    pub fn usage_at(&self, at: Time) -> Option<Usage> {
        self.since().map(|created| self.counted.period(created, at))
    }

    /// Whether the count has reached [`MAX_COUNTED`].
    #[must_use]
    pub fn is_counted_full(&self) -> bool {
        self.counted.len() >= MAX_COUNTED
    }

    /// The profile, and pointers to it from email and external id.
    pub(super) fn rows(&self, user: &str) -> Vec<Item> {
        let (Some(created), Some(email)) = (&self.created, self.email()) else { return Vec::new() };
        let Created { auth_provider, external_id, .. } = &created.value;
        let (by_email, by_external) = (email_key(email), external_key(auth_provider, external_id));
        let session = self.current_session();
        let updated = self.updated.unwrap_or(created.at);
        let mut row = rows::row(
            rows::user_partition(user),
            PROFILE.to_owned(),
            "user",
            self.data(user, created, email, session),
            created.at,
            updated,
        );
        for (name, key) in [
            ("GSI1PK", by_email.as_str()),
            ("GSI1SK", PROFILE),
            ("GSI2PK", by_external.as_str()),
            ("GSI2SK", PROFILE),
        ] {
            row.set_text(name, key);
        }
        if let Some(ttl) = self.ttl(created.at, session) {
            row.set("ttl", Value::signed(ttl));
        }
        vec![row, pointer(by_email, user), pointer(by_external, user)]
    }

    /// The session that started last, unless it ended or expired, or the account is closed.
    fn current_session(&self) -> Option<&Summary> {
        let over = |session: &&Summary| {
            session.ended.is_some() || Some(session.started.expires_at.timestamp()) <= self.expired
        };
        self.session.as_deref().filter(|session| !over(session) && !self.is_closed())
    }

    fn is_closed(&self) -> bool {
        self.account_status.as_ref().is_some_and(|status| status.value == CLOSED)
    }

    /// The end of the current session; before the first one, 24 hours after creation. `None` once expired or
    /// closed.
    fn ttl(&self, created: Time, session: Option<&Summary>) -> Option<i64> {
        let first =
            || (self.session.is_none() && !self.is_closed()).then(|| (created + FIRST_SESSION).timestamp());
        let ttl = session.map(|session| session.started.expires_at.timestamp()).or_else(first);
        ttl.filter(|ttl| Some(*ttl) > self.expired)
    }

    fn data(&self, user: &str, created: &Latest<Created>, email: &str, session: Option<&Summary>) -> Value {
        let Created { name, auth_provider, external_id, .. } = &created.value;
        let status = self.account_status.as_ref().map_or("active", |status| status.value.as_str());
        Value::M(rows::map([
            ("id", Value::text(user)),
            ("email", Value::text(email)),
            ("name", Value::text(self.name.as_ref().map_or(name.as_str(), |name| name.value.as_str()))),
            ("auth_provider", Value::text(auth_provider.as_str())),
            ("external_id", Value::text(external_id.as_str())),
            ("account_status", Value::text(status)),
            ("consents", self.consents()),
            ("current_device", self.current_device()),
            ("current_session", session.map_or(Value::Null, Summary::value)),
            ("biometric", self.biometric.value()),
            ("subscription", self.subscription_value(user, created.at)),
        ]))
    }

    fn consents(&self) -> Value {
        let flag = |flag: &Option<Latest<bool>>| Value::Bool(flag.as_ref().is_some_and(|flag| flag.value));
        let last = self.consent.as_ref();
        let mut consents = rows::map([
            ("medical_disclaimers", flag(&self.medical_disclaimers)),
            ("terms_of_service", flag(&self.terms_of_service)),
            ("privacy_policy", flag(&self.privacy_policy)),
            ("consent_version", rows::optional(last.and_then(|last| last.value.consent_version.as_deref()))),
            ("consent_date", rows::time(last.map(|last| last.at))),
        ]);
        if let Some(Latest { value, .. }) = last {
            consents.set("ip_address", rows::optional(value.ip_address.as_deref()));
            consents.set("user_agent", rows::optional(value.user_agent.as_deref()));
        }
        Value::M(consents)
    }

    fn current_device(&self) -> Value {
        let Some(device) = &self.device else { return Value::Null };
        let mut value = rows::value(&device.value);
        if let Value::M(fields) = &mut value {
            fields.set("last_active_at", rows::time(Some(device.at)));
        }
        value
    }

    fn subscription_value(&self, user: &str, created: Time) -> Value {
        let usage = self.counted.period(created, self.counted.last().unwrap_or(created));
        let mut value = self.subscriptions.current(user, created).value();
        if let Value::M(fields) = &mut value {
            let used = rows::map([
                ("documents_processed", Value::number(usage.documents_processed as u64)),
                ("period_start", rows::time(Some(usage.period_start))),
                ("period_end", rows::time(Some(usage.period_end))),
            ]);
            fields.set("usage_current_period", Value::M(used));
        }
        value
    }
}

fn put<T: Clone>(place: &mut Option<Latest<T>>, recorded: &Recorded<Fact>, value: Option<&T>) {
    if let Some(value) = value {
        Latest::update(place, recorded, value.clone());
    }
}

/// A row that maps a key to its user.
fn pointer(key: String, user: &str) -> Item {
    let mut row = Item::new();
    row.set_text(PK, key);
    row.set_text(SK, rows::user_partition(user));
    row.set_text("entity_type", "user_pointer");
    row
}

/// The pointer key of an email address: SHA-256 of its trimmed, lower-case form, because users vary case and
/// blanks.
#[must_use]
pub fn email_key(email: &str) -> String {
    format!("USER_EMAIL#{}", rows::sha256(&email.trim().to_lowercase()))
}

/// The pointer key of a provider's id.
#[must_use]
pub fn external_key(provider: &str, external_id: &str) -> String {
    format!("USER_EXTERNAL#{provider}#{external_id}")
}

/// The row's `ttl`, in seconds of the Unix epoch and as a time: when DynamoDB may delete it.
#[must_use]
pub fn ttl_of(row: &Item) -> Option<(i64, Time)> {
    let ttl = match row.get("ttl") {
        Some(Value::N(ttl)) => ttl.parse().ok()?,
        Some(_) | None => return None,
    };
    DateTime::from_timestamp(ttl, 0).map(|at| (ttl, at))
}
