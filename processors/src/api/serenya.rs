//! What is answered below `/models/serenya/`; [`places`] lists the paths.

mod places;
mod usage;

use dues_events::wire::WireError;
use dues_events::{EventId, Item};
use dues_projections::serenya::chat::for_document;
use dues_projections::serenya::tiers::Settings;
use dues_store::{Engine, Store, StoreError};
use serde_json::{Value as Json, json};

use super::places::{Ids, find as find_place};
use super::{Request, Response, decoded_text, store_failed};
use crate::fields::Fields;
use crate::read_models::serenya::{self as model, Commanded, Created};
use places::{Asked, At, PLACES, Tell};
pub(super) use places::{openapi, template};

/// How many payments are listed, as in the seed.
const PAYMENTS: u32 = 20;
/// How many jobs are listed, as in the seed.
const JOBS: u32 = 50;
/// The most that is listed at once.
const MOST: u32 = 1000;

/// Answers a request; the path has no percent-encoding any more.
pub(super) async fn answer<E: Engine>(store: &Store<E>, settings: &Settings, path: &[&str], request: Request<'_>) -> Response {
    route(store, settings, path, request).await.unwrap_or_else(|no| match no {
        No::Wrong(error) => Response::error(422, "invalid_field", error.to_string()),
        No::Store(error) => store_failed(&error),
        No::Said(response) => response,
    })
}

/// Why a request is not answered with what it asks for.
enum No {
    Wrong(WireError),
    Store(StoreError),
    Said(Response),
}

impl From<WireError> for No {
    fn from(error: WireError) -> Self {
        Self::Wrong(error)
    }
}

impl From<StoreError> for No {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

async fn route<E: Engine>(store: &Store<E>, settings: &Settings, path: &[&str], request: Request<'_>) -> Result<Response, No> {
    let (asked, ids) = find_place(PLACES, path, request).map_err(No::Said)?;
    let user = ids.get("user_id");
    let nobody = || format!("there is no user {user}");
    match asked {
        Asked::Tiers => Ok(ok(settings.tiers_json())),
        Asked::ChatOptions => chat_options(settings, request.body),
        Asked::Config => config(store, ids.get("config_key"), query(request, "version")?).await,
        Asked::SaveConfig => save_config(store, ids.get("config_key"), request.body).await,
        Asked::Create => create(store, request.body).await,
        Asked::Find => find(store, request.body).await,
        Asked::Profile => found(model::profile(store, user).await?, nobody()),
        Asked::Subscription => found(model::current_subscription(store, user).await?, nobody()),
        Asked::Payments => Ok(list(user, "payments", &model::payments(store, user, limit(request, PAYMENTS)?).await?)),
        Asked::Usage => usage::check(store, settings, user, query(request, "feature")?).await,
        Asked::Count => usage::count(store, settings, user, &known(store, user, request.body).await?).await,
        Asked::Jobs => Ok(list(user, "jobs", &model::jobs(store, user, limit(request, JOBS)? as usize).await?)),
        Asked::Job => job(store, user, ids.get("file_name")).await,
        Asked::Tell(tell) => told(store, *tell, &ids, request.body).await,
    }
}

/// Tells what has happened to a user, and how the user stands then.
async fn told<E: Engine>(store: &Store<E>, tell: Tell, ids: &Ids<'_>, body: &[u8]) -> Result<Response, No> {
    let user = ids.get("user_id");
    let known = known(store, user, body).await?;
    // The path says what it is about, whatever the body says.
    let mut asked = ids.iter().fold(known, |asked, (name, id)| asked.with(name, id));
    match tell.fields {
        At::Top => {}
        At::Payment => asked.wrap_payment(),
        At::Subscription => asked.wrap("subscription"),
    }
    let outcome = command(store, tell.kind, asked).await?;
    let profile = model::profile(store, user).await?.map(|profile| profile.to_json());
    Ok(ok(json!({"user_id": user, "outcome": outcome, "profile": profile})))
}

async fn config<E: Engine>(store: &Store<E>, key: &str, version: Option<String>) -> Result<Response, No> {
    found(model::config(store, key, version.as_deref()).await?, format!("there is no configuration {key}"))
}

async fn save_config<E: Engine>(store: &Store<E>, key: &str, body: &[u8]) -> Result<Response, No> {
    let saved = command(store, "config.saved", Command::read(body)?.with("config_key", key)).await?;
    Ok(ok(json!({"config_key": key, "outcome": saved})))
}

async fn job<E: Engine>(store: &Store<E>, user: &str, file: &str) -> Result<Response, No> {
    Ok(match model::job(store, user, file).await? {
        Some(job) => ok(job.to_json()),
        None => Response::of(404, json!({"status": "not_found", "file_name": file})),
    })
}

fn list(user: &str, name: &str, items: &[Item]) -> Response {
    ok(json!({"user_id": user, name: items.iter().map(Item::to_json).collect::<Vec<_>>()}))
}

fn ok(body: Json) -> Response {
    Response::of(200, body)
}

fn found(item: Option<Item>, none: String) -> Result<Response, No> {
    item.map(|item| ok(item.to_json())).ok_or_else(|| No::Said(Response::error(404, "not_found", none)))
}

/// What a command says, and under which id.
struct Command {
    id: Option<EventId>,
    at: Option<dues_events::Time>,
    body: Json,
}

impl Command {
    fn read(body: &[u8]) -> Result<Self, No> {
        let mut body = Fields::read(if body.trim_ascii().is_empty() { b"{}" } else { body }, "body")?.into_json();
        let mut take = |name: &str| body.as_object_mut().and_then(|fields| fields.remove(name)).filter(|value| !value.is_null());
        let (id, at) = (take("event_id"), take("occurred_at"));
        let id = id.map(|id| {
            Fields::of(json!({"event_id": id}))
                .ok_or_else(|| wrong("event_id", "is no id"))
                .and_then(|f| Ok(EventId::from(f.id("event_id")?)))
        });
        let at = at.map(|at| {
            at.as_str().and_then(|at| dues_events::time::parse(at).ok()).ok_or_else(|| wrong("occurred_at", "is not an RFC 3339 time"))
        });
        Ok(Self { id: id.transpose()?, at: at.transpose()?, body })
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.body[name] = value.into();
        self
    }

    /// Puts the fields where the event has them.
    fn wrap(&mut self, name: &str) {
        let mut inside = self.body.take();
        let user = inside.as_object_mut().and_then(|fields| fields.remove("user_id"));
        self.body = json!({"user_id": user, name: inside});
    }

    /// A payment without an id goes by that of the command.
    fn wrap_payment(&mut self) {
        if let Some(id) = self.id.as_ref().filter(|_| self.body["payment_id"].is_null()) {
            self.body["payment_id"] = id.as_str().into();
        }
        self.wrap("payment");
    }
}

fn wrong(field: &str, problem: &str) -> WireError {
    WireError { field: field.to_owned(), problem: problem.to_owned() }
}

/// A command for somebody who is there.
async fn known<E: Engine>(store: &Store<E>, user: &str, body: &[u8]) -> Result<Command, No> {
    let command = Command::read(body)?.with("user_id", user);
    match model::profile(store, user).await? {
        Some(_) => Ok(command),
        None => Err(No::Said(Response::error(404, "not_found", format!("there is no user {user}")))),
    }
}

async fn command<E: Engine>(store: &Store<E>, kind: &str, asked: Command) -> Result<&'static str, No> {
    let id = asked.id.ok_or_else(|| wrong("event_id", "is missing"))?;
    match model::command(store, kind, &id, asked.at, &asked.body).await? {
        Commanded::Applied => Ok("applied"),
        Commanded::Known => Ok("known"),
        Commanded::Different => Err(No::Said(key_was_used())),
        Commanded::Wrong(error) => Err(No::Wrong(error)),
    }
}

fn key_was_used() -> Response {
    Response::error(409, "key_was_used", "event_id: it was used for something else")
}

async fn create<E: Engine>(store: &Store<E>, body: &[u8]) -> Result<Response, No> {
    let Command { id, body, .. } = Command::read(body)?;
    Ok(match model::create_user(store, id.as_ref(), &body).await? {
        Created::Made(profile) => Response::of(201, profile.to_json()),
        Created::Known(profile) => ok(profile.to_json()),
        Created::Taken(why) => Response::error(409, "taken", why),
        Created::Wrong(error) => return Err(No::Wrong(error)),
    })
}

async fn find<E: Engine>(store: &Store<E>, body: &[u8]) -> Result<Response, No> {
    let fields = Fields::read(body, "body")?;
    let user = match fields.id("email") {
        Ok(email) => model::find_by_email(store, email).await?,
        Err(_) => model::find_by_external_id(store, fields.id("auth_provider")?, fields.id("external_id")?).await?,
    };
    found(user, "there is no such user".to_owned())
}

fn chat_options(settings: &Settings, body: &[u8]) -> Result<Response, No> {
    let body = Command::read(body)?.body;
    let metrics: Option<Vec<String>> = match &body["availableMetrics"] {
        Json::Null => Some(Vec::new()),
        Json::Array(metrics) => metrics.iter().map(|metric| metric.as_str().map(str::to_owned)).collect(),
        Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => None,
    };
    let metrics = metrics.ok_or_else(|| wrong("availableMetrics", "is not a list of texts"))?;
    Ok(ok(for_document(&settings.chat_options, body["documentType"].as_str(), &metrics)))
}

fn query(request: Request<'_>, name: &str) -> Result<Option<String>, No> {
    let pair = request.query.split('&').filter_map(|pair| pair.split_once('=')).find(|(field, _)| *field == name);
    pair.map(|(_, value)| decoded_text(value).ok_or_else(|| No::Wrong(wrong(name, "is not UTF-8")))).transpose()
}

fn limit(request: Request<'_>, usual: u32) -> Result<u32, No> {
    let Some(text) = query(request, "limit")? else { return Ok(usual) };
    let number = text.parse().ok().filter(|number| (1..=MOST).contains(number));
    number.ok_or_else(|| No::Wrong(wrong("limit", &format!("{text:?} is not a whole number from 1 to {MOST}"))))
}
