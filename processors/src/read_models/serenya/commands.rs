//! What users and applications do by the API. Each command makes the fact that an application's event would make, under the id that the client gives.

use dues_events::wire::WireError;
use dues_events::wire::app_events::AppEvent;
use dues_events::{EventId, Item, Time, UserId};
use dues_projections::model::{Model as _, Told};
use dues_projections::serenya::tiers::Settings;
use dues_projections::serenya::{DOCUMENT_PROCESSING, Fact, MOST_COUNTED, Profile, ProfileFact, Serenya, State, user_aggregate};
use dues_store::{Engine, Store, StoreError};
use serde_json::Value as Json;

use super::{find_by_email, profile};
use crate::read_models::booking::{self, Booked, Decided, decide, tell};

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Commanded {
    /// It was done.
    Applied,
    /// It had been done, under the same id.
    Known,
    /// Something else had been done under its id.
    Different,
    /// It cannot be understood.
    Wrong(WireError),
}

/// Does what the event of that kind says. Without a time it happens now; asked again, it happened when it was asked first.
///
/// # Errors
/// What the store could not do.
pub async fn command<E: Engine>(
    store: &Store<E>,
    kind: &str,
    id: &EventId,
    at: Option<Time>,
    body: &Json,
) -> Result<Commanded, StoreError> {
    let read = |at: Time| Serenya::read(&event(kind, id, at, body));
    let at = at.unwrap_or_else(|| store.clock.now());
    let (aggregate, fact) = match read(at) {
        Ok(Some(read)) => read,
        Ok(None) => return Err(StoreError::Invalid(format!("serenya: there is no command {kind}"))),
        Err(error) => return Ok(Commanded::Wrong(error)),
    };
    Ok(match tell::<Serenya, E>(store, &aggregate, &[Told { id: id.clone(), at, fact }]).await?.first() {
        Some(Booked::Applied) => Commanded::Applied,
        Some(Booked::Duplicate) => Commanded::Known,
        Some(Booked::Different) | None => {
            let known = booking::fact::<Serenya, E>(store, &aggregate, id).await?;
            let same = known.is_some_and(|known| read(known.at) == Ok(Some((aggregate, known.fact))));
            if same { Commanded::Known } else { Commanded::Different }
        }
    })
}

fn event(kind: &str, id: &EventId, at: Time, body: &Json) -> AppEvent {
    AppEvent { id: id.clone(), model: Serenya::NAME.to_owned(), kind: kind.to_owned(), at, body: body.clone() }
}

/// What became of a new user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// There is one now: the profile.
    Made(Item),
    /// The same request has made this one before.
    Known(Item),
    /// There is such a user already; this says what they have in common.
    Taken(String),
    /// The request cannot be understood.
    Wrong(WireError),
}

/// Makes a user. Without an id it is the one that the sign-in stands for, so that nobody is made twice.
///
/// An email that is somebody's is refused. Two who are made with one email in the same moment are not seen by each other: both are there then.
///
/// # Errors
/// What the store could not do.
pub async fn create_user<E: Engine>(store: &Store<E>, id: Option<&EventId>, body: &Json) -> Result<Created, StoreError> {
    let text = |name: &str| body[name].as_str().unwrap_or_default();
    let user = match &body["id"] {
        Json::Null => UserId::of_sign_in(text("auth_provider"), text("external_id")),
        Json::String(given) => UserId::from(given.as_str()),
        Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
            return Ok(Created::Wrong(WireError { field: "id".to_owned(), problem: "is not text".to_owned() }));
        }
    };
    let mut body = body.clone();
    body["user_id"] = user.as_str().into();
    let fact_id = id.cloned().unwrap_or_else(|| format!("created:{user}").into());
    let read = |at: Time| Serenya::read(&event("user.created", &fact_id, at, &body));
    let now = store.clock.now();
    let (aggregate, fact) = match read(now) {
        Ok(Some(read)) => read,
        Ok(None) => return Err(StoreError::Invalid("serenya: a user cannot be made".to_owned())),
        Err(error) => return Ok(Created::Wrong(error)),
    };
    if let Some(other) = find_by_email(store, body["email"].as_str().unwrap_or_default()).await?
        && other.text("id") != Some(user.as_str())
    {
        return Ok(Created::Taken("email: somebody else has it".to_owned()));
    }
    let decided = decide::<Serenya, (), E>(store, &aggregate, &fact_id, |state: &State| match state.profile.created() {
        Some(_) => Err(()),
        None => Ok(Told { id: fact_id.clone(), at: now, fact: fact.clone() }),
    });
    let same = |known: &Told<Fact>| read(known.at).is_ok_and(|read| read.is_some_and(|(_, fact)| fact == known.fact));
    let taken = || Created::Taken(format!("id: there is a user {user}"));
    let made = |profile: Option<Item>| profile.ok_or_else(|| StoreError::Invalid(format!("serenya: user {user} has no profile")));
    Ok(match decided.await? {
        Decided::Applied(_) => Created::Made(made(profile(store, user.as_str()).await?)?),
        Decided::Known(known) if id.is_some() && same(&known) => Created::Known(made(profile(store, user.as_str()).await?)?),
        Decided::Known(_) | Decided::Refused(()) => taken(),
    })
}

/// Whether something may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Whether it may.
    pub allowed: bool,
    /// Why not, when it is not for the limit.
    pub reason: Option<String>,
    /// How much is used, where there is a limit.
    pub usage: Option<usize>,
    /// The limit.
    pub limit: Option<u32>,
    /// When it begins anew.
    pub reset: Option<Time>,
}

impl Checked {
    fn yes() -> Self {
        Self { allowed: true, reason: None, usage: None, limit: None, reset: None }
    }

    fn no(reason: impl Into<String>) -> Self {
        Self { allowed: false, reason: Some(reason.into()), ..Self::yes() }
    }
}

/// Whether a user may use a feature now.
///
/// # Errors
/// What the store could not do.
pub async fn check_usage<E: Engine>(store: &Store<E>, settings: &Settings, user: &str, feature: &str) -> Result<Checked, StoreError> {
    let state = booking::state::<Serenya, E>(store, &user_aggregate(user)).await?;
    Ok(checked(settings, &state.profile, user, feature, store.clock.now()))
}

/// What becomes of an action that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counting {
    /// It is allowed, and counted now.
    Counted(Checked),
    /// It was counted before, under the same key.
    Known(Checked),
    /// It is not allowed, and was not counted.
    Refused(Checked),
    /// The key was used for something else.
    Different,
}

/// Checks whether a user may process one more document, and counts it, in one step: of many who ask at once, no more are let through than the limit says.
///
/// # Errors
/// What the store could not do.
pub async fn count_usage<E: Engine>(store: &Store<E>, settings: &Settings, user: &str, key: &EventId) -> Result<Counting, StoreError> {
    let now = store.clock.now();
    let aggregate = user_aggregate(user);
    let counted = Fact::Profile(ProfileFact::Counted);
    let decided = decide::<Serenya, Checked, E>(store, &aggregate, key, |state: &State| {
        let checked = checked(settings, &state.profile, user, DOCUMENT_PROCESSING, now);
        if !checked.allowed {
            return Err(checked);
        }
        if state.profile.is_counted_full() {
            return Err(Checked::no(format!("{MOST_COUNTED} documents in thirty days are the most that are counted")));
        }
        Ok(Told { id: key.clone(), at: now, fact: counted.clone() })
    });
    Ok(match decided.await? {
        Decided::Applied(_) => Counting::Counted(allowed(check_usage(store, settings, user, DOCUMENT_PROCESSING).await?)),
        Decided::Known(known) if known.fact == counted => {
            Counting::Known(allowed(check_usage(store, settings, user, DOCUMENT_PROCESSING).await?))
        }
        Decided::Known(_) => Counting::Different,
        Decided::Refused(checked) => Counting::Refused(checked),
    })
}

/// This action was let through, even if no other will be.
fn allowed(checked: Checked) -> Checked {
    Checked { allowed: true, ..checked }
}

fn checked(settings: &Settings, profile: &Profile, user: &str, feature: &str, now: Time) -> Checked {
    let (Some(subscription), Some(usage)) = (profile.subscription(user), profile.usage_at(now)) else {
        return Checked::no("No subscription found");
    };
    let Some(tier) = settings.tiers.get(subscription.tier_at(now)) else { return Checked::no("Invalid subscription tier") };
    match tier.max_documents_per_month.filter(|_| feature == DOCUMENT_PROCESSING) {
        None => Checked::yes(),
        Some(limit) => Checked {
            allowed: u64::try_from(usage.documents_processed).is_ok_and(|used| used < u64::from(limit)),
            reason: None,
            usage: Some(usage.documents_processed),
            limit: Some(limit),
            reset: Some(usage.period_end),
        },
    }
}
