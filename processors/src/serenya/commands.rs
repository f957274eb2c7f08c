//! Commands of the REST API: each is recorded as the fact that the same application event would be, under
//! the client's id.

use dues_events::wire::WireError;
use dues_events::wire::app_events::AppEvent;
use dues_events::{EventId, Item, Time, UserId};
use dues_projections::model::{Model as _, Recorded};
use dues_projections::serenya::tiers::Settings;
use dues_projections::serenya::{
    DOCUMENT_PROCESSING, Fact, MAX_COUNTED, Profile, ProfileFact, Serenya, State, user_aggregate,
};
use dues_store::{Engine, Store, StoreError};
use serde_json::Value as Json;
use std::convert::Infallible;

use super::{find_by_email, profile};
use crate::outcome::{CommandOutcome, FactOutcome};
use crate::read_models::journal_commit::{self, Decision, decide, record_facts};

/// Executes the command of that event kind once. Without a time it happens now; a retry without a time is a
/// duplicate of the first request.
pub async fn command<E: Engine>(
    store: &Store<E>,
    kind: &str,
    id: &EventId,
    at: Option<Time>,
    body: &Json,
) -> Result<CommandOutcome<(), Infallible>, StoreError> {
    let read = |at: Time| Serenya::read(&event(kind, id, at, body));
    let at = at.unwrap_or_else(|| store.clock.now());
    let (aggregate, fact) = match read(at) {
        Ok(Some(read)) => read,
        Ok(None) => return Err(StoreError::Invalid(format!("serenya: unknown command {kind}"))),
        Err(error) => return Ok(CommandOutcome::Malformed(error)),
    };
    Ok(
        match record_facts::<Serenya, E>(store, &aggregate, &[Recorded { id: id.clone(), at, fact }])
            .await?
            .first()
        {
            Some(FactOutcome::Applied) => CommandOutcome::Applied(()),
            Some(FactOutcome::Duplicate) => CommandOutcome::Duplicate(()),
            Some(FactOutcome::ConflictingContent) | None => {
                let known = journal_commit::load_fact::<Serenya, E>(store, &aggregate, id).await?;
                let same = known.is_some_and(|known| read(known.at) == Ok(Some((aggregate, known.fact))));
                if same { CommandOutcome::Duplicate(()) } else { CommandOutcome::ConflictingContent }
            }
        },
    )
}

fn event(kind: &str, id: &EventId, at: Time, body: &Json) -> AppEvent {
    AppEvent {
        id: id.clone(),
        model: Serenya::NAME.to_owned(),
        kind: kind.to_owned(),
        at,
        body: body.clone(),
    }
}

/// Another user has the id or the email: the text names the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken(pub String);

/// Creates a user and returns the profile. Without an id, the id is derived from the sign-in, so that
/// retries create one user.
///
/// An email in use is rejected. The check is not atomic: two concurrent requests with one email create two
/// users.
pub async fn create_user<E: Engine>(
    store: &Store<E>,
    id: Option<&EventId>,
    body: &Json,
) -> Result<CommandOutcome<Item, Taken>, StoreError> {
    let text = |name: &str| body[name].as_str().unwrap_or_default();
    let user = match &body["id"] {
        Json::Null => UserId::of_sign_in(text("auth_provider"), text("external_id")),
        Json::String(given) => UserId::from(given.as_str()),
        Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
            return Ok(CommandOutcome::Malformed(WireError {
                field: "id".to_owned(),
                problem: "is not text".to_owned(),
            }));
        }
    };
    let mut body = body.clone();
    body["user_id"] = user.as_str().into();
    let fact_id = id.cloned().unwrap_or_else(|| format!("created:{user}").into());
    let read = |at: Time| Serenya::read(&event("user.created", &fact_id, at, &body));
    let now = store.clock.now();
    let (aggregate, fact) = match read(now) {
        Ok(Some(read)) => read,
        Ok(None) => return Err(StoreError::Invalid("serenya: unknown command user.created".to_owned())),
        Err(error) => return Ok(CommandOutcome::Malformed(error)),
    };
    if let Some(other) = find_by_email(store, body["email"].as_str().unwrap_or_default()).await?
        && other.text("id") != Some(user.as_str())
    {
        return Ok(CommandOutcome::Rejected(Taken("email: in use by another user".to_owned())));
    }
    let decided = decide::<Serenya, (), E>(store, &aggregate, &fact_id, |state: &State| {
        match state.profile.created() {
            Some(_) => Err(()),
            None => Ok(Recorded { id: fact_id.clone(), at: now, fact: fact.clone() }),
        }
    });
    let same = |known: &Recorded<Fact>| {
        read(known.at).is_ok_and(|read| read.is_some_and(|(_, fact)| fact == known.fact))
    };
    let taken = || CommandOutcome::Rejected(Taken(format!("id: user {user} exists")));
    let required = |profile: Option<Item>| {
        profile.ok_or_else(|| StoreError::Invalid(format!("serenya: user {user} has no profile")))
    };
    Ok(match decided.await? {
        Decision::Applied(_) => CommandOutcome::Applied(required(profile(store, user.as_str()).await?)?),
        Decision::Known(known) if id.is_some() && same(&known) => {
            CommandOutcome::Duplicate(required(profile(store, user.as_str()).await?)?)
        }
        Decision::Known(_) | Decision::Refused(()) => taken(),
    })
}

/// Whether a feature may be used now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageCheck {
    /// Whether one more use is allowed.
    pub allowed: bool,
    /// Why not, unless the limit is the reason.
    pub reason: Option<String>,
    /// Uses in this period, where there is a limit.
    pub usage: Option<usize>,
    /// The limit of the period.
    pub limit: Option<u32>,
    /// The end of the period.
    pub reset: Option<Time>,
}

impl UsageCheck {
    fn allow() -> Self {
        Self { allowed: true, reason: None, usage: None, limit: None, reset: None }
    }

    fn deny(reason: impl Into<String>) -> Self {
        Self { allowed: false, reason: Some(reason.into()), ..Self::allow() }
    }
}

/// Checks whether a user may use a feature now.
pub async fn check_usage<E: Engine>(
    store: &Store<E>,
    settings: &Settings,
    user: &str,
    feature: &str,
) -> Result<UsageCheck, StoreError> {
    let state = journal_commit::load_state::<Serenya, E>(store, &user_aggregate(user)).await?;
    Ok(check_profile(settings, &state.profile, user, feature, store.clock.now()))
}

/// Checks whether a user may process one more document and counts it, atomically: concurrent requests never
/// exceed the limit.
pub async fn count_usage<E: Engine>(
    store: &Store<E>,
    settings: &Settings,
    user: &str,
    key: &EventId,
) -> Result<CommandOutcome<UsageCheck, UsageCheck>, StoreError> {
    let now = store.clock.now();
    let aggregate = user_aggregate(user);
    let counted = Fact::Profile(ProfileFact::Counted);
    let decided = decide::<Serenya, UsageCheck, E>(store, &aggregate, key, |state: &State| {
        let check = check_profile(settings, &state.profile, user, DOCUMENT_PROCESSING, now);
        if !check.allowed {
            return Err(check);
        }
        if state.profile.is_counted_full() {
            return Err(UsageCheck::deny(format!(
                "at most {MAX_COUNTED} documents are counted in thirty days"
            )));
        }
        Ok(Recorded { id: key.clone(), at: now, fact: counted.clone() })
    });
    Ok(match decided.await? {
        Decision::Applied(_) => {
            CommandOutcome::Applied(allowed(check_usage(store, settings, user, DOCUMENT_PROCESSING).await?))
        }
        Decision::Known(known) if known.fact == counted => {
            CommandOutcome::Duplicate(allowed(check_usage(store, settings, user, DOCUMENT_PROCESSING).await?))
        }
        Decision::Known(_) => CommandOutcome::ConflictingContent,
        Decision::Refused(check) => CommandOutcome::Rejected(check),
    })
}

/// The counted action itself was allowed, even when it was the last one.
fn allowed(check: UsageCheck) -> UsageCheck {
    UsageCheck { allowed: true, ..check }
}

fn check_profile(settings: &Settings, profile: &Profile, user: &str, feature: &str, now: Time) -> UsageCheck {
    let (Some(subscription), Some(usage)) = (profile.subscription(user), profile.usage_at(now)) else {
        return UsageCheck::deny("No subscription found");
    };
    let Some(tier) = settings.tiers.get(subscription.tier_at(now)) else {
        return UsageCheck::deny("Invalid subscription tier");
    };
    match tier.max_documents_per_month.filter(|_| feature == DOCUMENT_PROCESSING) {
        None => UsageCheck::allow(),
        Some(limit) => UsageCheck {
            allowed: u64::try_from(usage.documents_processed).is_ok_and(|used| used < u64::from(limit)),
            reason: None,
            usage: Some(usage.documents_processed),
            limit: Some(limit),
            reset: Some(usage.period_end),
        },
    }
}
