//! Handlers of the routes of `serenya`.

use axum::Json;
use axum::extract::State;
use dues_events::{EventId, GoTime, Item, Time};
use dues_projections::serenya::DOCUMENT_PROCESSING;
use dues_projections::serenya::chat::for_document;
use dues_store::{Engine, Store};
use serde_json::{Value, json};

use crate::api::extract::{Body, Ids, Parameters};
use crate::api::page::MAX_PAGE;
use crate::api::{Error, Response, Shared};
use crate::collections::gateway::Gateway;
use crate::outcome::CommandOutcome;
use crate::runtime::json_fields::Fields;
use crate::serenya as model;
use crate::serenya::{Taken, UsageCheck};

/// Default lengths of the lists of payments and jobs.
const PAYMENTS: u32 = 20;
const JOBS: u32 = 50;

/// The event of a command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) kind: &'static str,
    pub(super) nesting: Nesting,
}

/// Where the event holds the fields of its command.
#[derive(Debug, Clone, Copy)]
pub(super) enum Nesting {
    /// At the top level.
    None,
    /// In `payment`; `payment_id` defaults to the id of the command.
    Payment,
    /// In `subscription`.
    Subscription,
}

/// A command: its id, its time, and the remaining fields.
struct Command {
    id: Option<EventId>,
    at: Option<Time>,
    body: Value,
}

impl Command {
    fn read(fields: Fields) -> Result<Self, Error> {
        let id = fields.optional_id("event_id")?.map(EventId::from);
        let occurred_at = fields.json("occurred_at");
        let at = if occurred_at.is_null() {
            None
        } else {
            let at = occurred_at.as_str().and_then(|at| dues_events::time::parse(at).ok());
            Some(at.ok_or_else(|| Error::field("occurred_at", "is not an RFC 3339 time"))?)
        };
        let mut fields = fields.into_map();
        fields.remove("event_id");
        fields.remove("occurred_at");
        Ok(Self { id, at, body: Value::Object(fields) })
    }

    fn id(&self) -> Result<&EventId, Error> {
        self.id.as_ref().ok_or_else(|| Error::field("event_id", "is missing"))
    }

    fn nest(&mut self, name: &str) {
        let mut inside = self.body.take();
        let user = inside.as_object_mut().and_then(|fields| fields.remove("user_id"));
        self.body = json!({"user_id": user, name: inside});
    }
}

/// Reads a command for a user; 404 if the user does not exist.
async fn for_user<E: Engine>(store: &Store<E>, user: &str, fields: Fields) -> Result<Command, Error> {
    let mut command = Command::read(fields)?;
    command.body["user_id"] = user.into();
    match model::profile(store, user).await? {
        Some(_) => Ok(command),
        None => Err(Error::not_found(format!("user {user}"))),
    }
}

async fn run<E: Engine>(store: &Store<E>, kind: &str, command: &Command) -> Result<&'static str, Error> {
    match model::command(store, kind, command.id()?, command.at, &command.body).await? {
        CommandOutcome::Applied(()) => Ok("applied"),
        CommandOutcome::Duplicate(()) => Ok("known"),
        CommandOutcome::ConflictingContent => Err(key_was_used()),
        CommandOutcome::Rejected(never) => match never {},
        CommandOutcome::Malformed(error) => Err(error.into()),
    }
}

fn key_was_used() -> Error {
    Error::new(409, "key_was_used", "event_id: it was used for another command")
}

/// Applies an event to a user, and returns the resulting profile. Path ids override those of the body.
pub(super) async fn apply<E: Engine>(
    store: &Store<E>,
    event: Event,
    ids: &Ids,
    fields: Fields,
) -> Result<Json<Value>, Error> {
    let user = ids.get("user_id");
    let mut command = for_user(store, user, fields).await?;
    for (name, id) in ids.fields() {
        command.body[name] = id;
    }
    match event.nesting {
        Nesting::None => {}
        Nesting::Payment => {
            if let Some(id) = command.id.as_ref().filter(|_| command.body["payment_id"].is_null()) {
                command.body["payment_id"] = id.as_str().into();
            }
            command.nest("payment");
        }
        Nesting::Subscription => command.nest("subscription"),
    }
    let outcome = run(store, event.kind, &command).await?;
    let profile = model::profile(store, user).await?.map(|profile| profile.to_json());
    Ok(Json(json!({"user_id": user, "outcome": outcome, "profile": profile})))
}

pub(super) async fn tiers<E: Engine, G: Gateway>(State(api): State<Shared<E, G>>) -> Json<Value> {
    Json(api.read_models.serenya().tiers_json())
}

pub(super) async fn chat_options<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    Body(fields): Body<Fields>,
) -> Result<Json<Value>, Error> {
    let body = Command::read(fields)?.body;
    let metrics: Option<Vec<String>> = match &body["availableMetrics"] {
        Value::Null => Some(Vec::new()),
        Value::Array(metrics) => metrics.iter().map(|metric| metric.as_str().map(str::to_owned)).collect(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => None,
    };
    let metrics = metrics.ok_or_else(|| Error::field("availableMetrics", "is not a list of texts"))?;
    let options = &api.read_models.serenya().chat_options;
    Ok(Json(for_document(options, body["documentType"].as_str(), &metrics)))
}

pub(super) async fn config<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
    parameters: Parameters,
) -> Result<Json<Value>, Error> {
    let key = ids.get("config_key");
    let found = model::config(api.store(), key, parameters.get("version")).await?;
    found_or(found, format!("configuration {key}"))
}

pub(super) async fn save_config<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
    Body(fields): Body<Fields>,
) -> Result<Json<Value>, Error> {
    let mut command = Command::read(fields)?;
    command.body["config_key"] = ids.get("config_key").into();
    let outcome = run(api.store(), "config.saved", &command).await?;
    Ok(Json(json!({"config_key": ids.get("config_key"), "outcome": outcome})))
}

pub(super) async fn create<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    Body(fields): Body<Fields>,
) -> Result<Response, Error> {
    let Command { id, body, .. } = Command::read(fields)?;
    match model::create_user(api.store(), id.as_ref(), &body).await? {
        CommandOutcome::Applied(profile) => Ok(Response::of(201, profile.to_json())),
        CommandOutcome::Duplicate(profile) => Ok(Response::of(200, profile.to_json())),
        CommandOutcome::Rejected(Taken(why)) => Err(Error::new(409, "taken", why)),
        CommandOutcome::ConflictingContent => Err(key_was_used()),
        CommandOutcome::Malformed(error) => Err(error.into()),
    }
}

pub(super) async fn find<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    Body(fields): Body<Fields>,
) -> Result<Json<Value>, Error> {
    let store = api.store();
    let user = match fields.id("email") {
        Ok(email) => model::find_by_email(store, email).await?,
        Err(_) => {
            let (provider, id) = (fields.id("auth_provider")?, fields.id("external_id")?);
            model::find_by_external_id(store, provider, id).await?
        }
    };
    found_or(user, "such user".to_owned())
}

pub(super) async fn profile<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
) -> Result<Json<Value>, Error> {
    found_or(model::profile(api.store(), ids.get("user_id")).await?, ids.name())
}

pub(super) async fn subscription<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
) -> Result<Json<Value>, Error> {
    found_or(model::current_subscription(api.store(), ids.get("user_id")).await?, ids.name())
}

pub(super) async fn payments<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
    parameters: Parameters,
) -> Result<Json<Value>, Error> {
    let limit = parameters.limit(PAYMENTS, MAX_PAGE)?;
    let payments = model::payments(api.store(), ids.get("user_id"), limit).await?;
    Ok(Json(json!({"user_id": ids.get("user_id"), "payments": rows(&payments)})))
}

pub(super) async fn jobs<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
    parameters: Parameters,
) -> Result<Json<Value>, Error> {
    let limit = parameters.limit(JOBS, MAX_PAGE)? as usize;
    let jobs = model::jobs(api.store(), ids.get("user_id"), limit).await?;
    Ok(Json(json!({"user_id": ids.get("user_id"), "jobs": rows(&jobs)})))
}

pub(super) async fn job<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
) -> Result<Response, Error> {
    let file = ids.get("file_name");
    Ok(match model::job(api.store(), ids.get("user_id"), file).await? {
        Some(job) => Response::of(200, job.to_json()),
        None => Response::of(404, json!({"status": "not_found", "file_name": file})),
    })
}

pub(super) async fn check_usage<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
    parameters: Parameters,
) -> Result<Json<Value>, Error> {
    let feature = parameters.get("feature").unwrap_or(DOCUMENT_PROCESSING);
    let settings = api.read_models.serenya();
    Ok(Json(shown(&model::check_usage(api.store(), settings, ids.get("user_id"), feature).await?)))
}

/// Counts a document, or returns 429 with limit, usage and the start of the next period.
pub(super) async fn count_usage<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
    Body(fields): Body<Fields>,
) -> Result<Response, Error> {
    let (store, user) = (api.store(), ids.get("user_id"));
    let command = for_user(store, user, fields).await?;
    let (checked, status, name, value) =
        match model::count_usage(store, api.read_models.serenya(), user, command.id()?).await? {
            CommandOutcome::Applied(checked) => (checked, 200, "outcome", json!("applied")),
            CommandOutcome::Duplicate(checked) => (checked, 200, "outcome", json!("known")),
            CommandOutcome::ConflictingContent => return Err(key_was_used()),
            CommandOutcome::Malformed(error) => return Err(error.into()),
            CommandOutcome::Rejected(checked) => {
                let why = checked.reason.clone();
                let why = why.unwrap_or_else(|| "all documents of this period are used".to_owned());
                (checked, 429, "error", json!({"code": "usage_limit", "message": why}))
            }
        };
    let mut response = Response::of(status, shown(&checked));
    response.body[name] = value;
    if status == 429 {
        let wait = checked.reset.map(|reset| (reset - store.clock.now()).num_seconds());
        response.retry_after = wait.and_then(|wait| u64::try_from(wait).ok());
    }
    Ok(response)
}

fn shown(checked: &UsageCheck) -> Value {
    let mut json = json!({"allowed": checked.allowed});
    let reset = checked.reset.map(|reset| GoTime::trimmed(reset).text());
    let fields = [
        ("reason", checked.reason.clone().map(Value::from)),
        ("usage", checked.usage.map(Value::from)),
        ("limit", checked.limit.map(Value::from)),
        ("period_end", reset.map(Value::from)),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            json[name] = value;
        }
    }
    json
}

fn rows(items: &[Item]) -> Vec<Value> {
    items.iter().map(Item::to_json).collect()
}

fn found_or(item: Option<Item>, what: String) -> Result<Json<Value>, Error> {
    item.map(|item| Json(item.to_json())).ok_or_else(|| Error::not_found(what))
}
