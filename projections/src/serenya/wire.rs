//! Decodes application events such as `serenya.user.created`. The API's commands have the same shapes.

mod payments;

use chrono::{Datelike as _, TimeDelta};
use dues_events::Time;
use dues_events::usage::storable_value;
use dues_events::wire::WireError;
use dues_events::wire::app_events::AppEvent;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::biometric::{BiometricFact, Registration};
use super::document::{Document, Failure, Object, read_key, read_sequencer};
use super::profile::{Consent, Created, Device, ProfileFact, Updated};
use super::session::{SessionFact, SessionRef, Started};
use super::{Fact, Saved, Subscription, aggregate_of, user_aggregate};
use payments::{payment, recorded, refunded};

/// Fields that hold raw tokens, which must not be stored: only their hashes are.
pub const RAW_TOKENS: [&str; 3] = ["access_token", "refresh_token", "id_token"];
/// Replaces a removed token. It still counts as one, so that the event is rejected as before.
const REMOVED: &str = "eyJ.removed";
/// The longest id: it must fit into a table key.
const MAX_ID_BYTES: usize = 256;
/// The longest challenge, in bytes.
const LONGEST_CHALLENGE: usize = 4096;
/// Length of a session without `expires_at`.
const SESSION: TimeDelta = TimeDelta::hours(24);

/// The aggregate and its fact; `None` for an unknown event type. Rejects events with raw tokens.
pub(super) fn read(event: &AppEvent) -> Result<Option<(String, Fact)>, WireError> {
    if let Some(field) = raw_token(&event.body) {
        return Err(wrong(&field, "is a token: only its hash is accepted"));
    }
    let profile = |fact: ProfileFact| Ok(Some((user_aggregate(&user(event)?), Fact::Profile(fact))));
    match event.kind.as_str() {
        "user.created" => profile(ProfileFact::Created(created(event)?)),
        "user.updated" => profile(ProfileFact::Updated(updated(event)?)),
        "consent.given" => profile(ProfileFact::Consent(event.read::<Consent>()?)),
        "device.seen" => profile(ProfileFact::Device(device(event)?)),
        "session.started" => session(event, SessionFact::Started(started(event)?)),
        "session.accessed" => session(event, SessionFact::Accessed(named(event)?)),
        "session.ended" => session(event, SessionFact::Ended(named(event)?)),
        "biometric.registered" => {
            profile(ProfileFact::Biometric(BiometricFact::Registered(registration(event)?)))
        }
        "biometric.verified" => profile(ProfileFact::Biometric(BiometricFact::Verified)),
        "biometric.failed" => profile(ProfileFact::Biometric(failed(event)?)),
        "subscription.updated" => profile(ProfileFact::Subscription(subscription(event)?)),
        "usage.counted" => profile(ProfileFact::Counted),
        "account.closed" => profile(ProfileFact::Closed),
        "payment.recorded" => payment(event, recorded(event)?),
        "payment.refunded" => payment(event, refunded(event)?),
        "document.failed" => document(failure(event)?),
        "document.object" => document(object(event)?),
        "config.saved" => config(event),
        _ => Ok(None),
    }
}

/// The path of the first field, at any depth, that holds a token: by its name, or a JWT in a `_hash` field.
#[must_use]
pub fn raw_token(json: &Json) -> Option<String> {
    match json {
        Json::Object(fields) => fields.iter().find_map(|(name, field)| {
            if is_token(name, field) {
                Some(name.clone())
            } else {
                raw_token(field).map(|inside| format!("{name}.{inside}"))
            }
        }),
        Json::Array(values) => values
            .iter()
            .enumerate()
            .find_map(|(n, value)| raw_token(value).map(|inside| format!("[{n}].{inside}"))),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => None,
    }
}

/// Replaces every token, so that the rest can be stored. The event is still rejected.
pub fn remove_tokens(json: &mut Json) {
    match json {
        Json::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                if is_token(name, field) {
                    *field = REMOVED.into();
                } else {
                    remove_tokens(field);
                }
            }
        }
        Json::Array(values) => values.iter_mut().for_each(remove_tokens),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

fn is_token(name: &str, field: &Json) -> bool {
    let is_jwt = || field.as_str().is_some_and(|text| text.starts_with("eyJ") && text.contains('.'));
    (RAW_TOKENS.contains(&name) && !field.is_null()) || (name.ends_with("_hash") && is_jwt())
}

#[derive(Deserialize)]
struct OfUser {
    user_id: String,
}

fn user(event: &AppEvent) -> Result<String, WireError> {
    id("user_id", event.read::<OfUser>()?.user_id)
}

fn created(event: &AppEvent) -> Result<Created, WireError> {
    let mut created: Created = event.read()?;
    created.email = email("email", &created.email)?;
    created.auth_provider = id("auth_provider", created.auth_provider)?;
    if created.auth_provider.contains('#') {
        return Err(wrong("auth_provider", "has a # in it"));
    }
    created.external_id = id("external_id", created.external_id)?;
    Ok(created)
}

fn updated(event: &AppEvent) -> Result<Updated, WireError> {
    let mut updated: Updated = event.read()?;
    updated.email = updated.email.map(|text| email("email", &text)).transpose()?;
    updated.account_status = updated.account_status.map(|status| id("account_status", status)).transpose()?;
    Ok(updated)
}

fn device(event: &AppEvent) -> Result<Device, WireError> {
    let mut device: Device = event.read()?;
    device.device_id = id("device_id", device.device_id)?;
    Ok(device)
}

fn session(event: &AppEvent, fact: SessionFact) -> Result<Option<(String, Fact)>, WireError> {
    let SessionRef { user_id, session_id } = named(event)?;
    Ok(Some((aggregate_of("session", &user_id, &session_id), Fact::Session(fact))))
}

fn named(event: &AppEvent) -> Result<SessionRef, WireError> {
    let named: SessionRef = event.read()?;
    Ok(SessionRef { user_id: id("user_id", named.user_id)?, session_id: id("session_id", named.session_id)? })
}

#[derive(Deserialize)]
struct StartedWire {
    access_token_hash: Option<String>,
    refresh_token_hash: Option<String>,
    issued_at: Option<Time>,
    expires_at: Option<Time>,
    biometric_expires_at: Option<Time>,
    user_agent: Option<String>,
    source_ip: Option<String>,
}

fn started(event: &AppEvent) -> Result<Started, WireError> {
    let SessionRef { user_id, session_id } = named(event)?;
    let wire: StartedWire = event.read()?;
    let issued_at = dated("issued_at", wire.issued_at)?.unwrap_or(event.at);
    let expires_at = dated("expires_at", wire.expires_at.or_else(|| issued_at.checked_add_signed(SESSION)))?
        .unwrap_or(issued_at);
    if expires_at <= issued_at {
        return Err(wrong("expires_at", "is not after issued_at"));
    }
    Ok(Started {
        user_id,
        session_id,
        access_token_hash: wire.access_token_hash,
        refresh_token_hash: wire.refresh_token_hash,
        issued_at,
        expires_at,
        biometric_expires_at: dated("biometric_expires_at", wire.biometric_expires_at)?,
        user_agent: wire.user_agent,
        source_ip: wire.source_ip,
    })
}

fn registration(event: &AppEvent) -> Result<Registration, WireError> {
    let mut registration: Registration = event.read()?;
    registration.registration_id = id("registration_id", registration.registration_id)?;
    dated("challenge_expires_at", registration.challenge_expires_at)?;
    match registration.challenge_data.as_ref().map(String::len) {
        Some(length) if length > LONGEST_CHALLENGE => {
            Err(wrong("challenge_data", format!("has {length} bytes, the most is {LONGEST_CHALLENGE}")))
        }
        Some(_) | None => Ok(registration),
    }
}

fn failed(event: &AppEvent) -> Result<BiometricFact, WireError> {
    #[derive(Deserialize)]
    struct Wire {
        locked_until: Option<Time>,
    }
    let Wire { locked_until } = event.read()?;
    Ok(BiometricFact::Failed { locked_until: dated("locked_until", locked_until)? })
}

fn subscription(event: &AppEvent) -> Result<Subscription, WireError> {
    let mut subscription: Subscription = inside(event, "subscription")?;
    subscription.subscription_id = id("subscription.subscription_id", subscription.subscription_id)?;
    subscription.subscription_type = id("subscription.subscription_type", subscription.subscription_type)?;
    dated("subscription.start_date", Some(subscription.start_date))?;
    dated("subscription.end_date", subscription.end_date)?;
    Ok(subscription)
}

fn document(document: Document) -> Result<Option<(String, Fact)>, WireError> {
    Ok(Some((aggregate_of("document", &document.user, &document.file), Fact::Document(document))))
}

fn failure(event: &AppEvent) -> Result<Document, WireError> {
    #[derive(Deserialize)]
    struct Wire {
        file_name: String,
        error_message: Option<String>,
    }
    let wire: Wire = event.read()?;
    let failure = Failure { at: event.at, error_message: wire.error_message };
    Ok(Document {
        user: user(event)?,
        file: id("file_name", wire.file_name)?,
        failure: Some(failure),
        ..Document::default()
    })
}

fn object(event: &AppEvent) -> Result<Document, WireError> {
    #[derive(Deserialize)]
    struct Wire {
        key: String,
        sequencer: String,
        #[serde(default)]
        deleted: bool,
    }
    let wire: Wire = event.read()?;
    let (user, place, file) =
        read_key(&wire.key).ok_or_else(|| wrong("key", "is not of a user's document"))?;
    let sequencer =
        read_sequencer(&wire.sequencer).ok_or_else(|| wrong("sequencer", "is not a hexadecimal number"))?;
    Ok(Document::object(user, file, place, Object { sequencer, at: event.at, gone: wire.deleted }))
}

fn config(event: &AppEvent) -> Result<Option<(String, Fact)>, WireError> {
    let mut saved: Saved = event.read()?;
    saved.config_key = id("config_key", saved.config_key)?;
    saved.version = id("version", saved.version)?;
    // The row's key joins the two with a `#`.
    if saved.config_key.contains('#') {
        return Err(wrong("config_key", "has a # in it"));
    }
    for (field, json) in
        [("features", &saved.features), ("limits", &saved.limits), ("services", &saved.services)]
    {
        storable_value(json).map_err(|why| wrong(field, why.to_string()))?;
    }
    let name = aggregate_of("config", &saved.config_key.to_lowercase(), &saved.version);
    Ok(Some((name, Fact::Config(saved))))
}

fn email(field: &str, text: &str) -> Result<String, WireError> {
    let text = text.trim();
    let parts = text.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty());
    if parts { id(field, text.to_owned()) } else { Err(wrong(field, "is not an email address")) }
}

/// A time with a four-digit year, as RFC 3339 requires.
fn dated(field: &str, time: Option<Time>) -> Result<Option<Time>, WireError> {
    match time {
        Some(time) if !(1..=9999).contains(&time.year()) => {
            Err(wrong(field, "is not in the years 1 to 9999"))
        }
        Some(_) | None => Ok(time),
    }
}

fn id(field: &str, text: String) -> Result<String, WireError> {
    match text.len() {
        0 => Err(wrong(field, "is empty")),
        1..=MAX_ID_BYTES => Ok(text),
        length => Err(wrong(field, format!("has {length} bytes, the most is {MAX_ID_BYTES}"))),
    }
}

/// Decodes an object nested in an event.
fn inside<T: DeserializeOwned>(event: &AppEvent, field: &str) -> Result<T, WireError> {
    let json = event.body.get(field).ok_or_else(|| wrong(field, "is missing"))?;
    dues_events::wire::shape(json).map_err(|error| wrong(&format!("{field}.{}", error.field), error.problem))
}

fn wrong(field: &str, problem: impl Into<String>) -> WireError {
    WireError { field: field.to_owned(), problem: problem.into() }
}
