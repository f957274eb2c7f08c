//! Routes of the read model `usage`. Its routes `actions` and `features` shadow users of these names.

mod schema;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use chrono::{Datelike as _, NaiveDate};
use dues_events::usage::{DailyUsage, LoggedAction, details, reset_at, reset_date};
use dues_events::wire::WireError;
use dues_events::{GoTime, Item, Time};
use dues_store::Engine;
use dues_store::usage::count::{ActionRequest, CountOutcome};
use dues_store::usage::log::TimeRange;
use serde_json::{Value, json};

use super::document::Operation;
use super::extract::{Body, FromFields, Ids, Parameters};
use super::page::{MAX_PAGE, PAGE};
use super::routes::Routes;
use super::schema::ErrorBody;
use super::{Error, Response, Shared};
use crate::collections::gateway::Gateway;
use crate::runtime::json_fields::{Fields, MAX_ID_BYTES};
use crate::usage::{Settings, count, count_json, summary};
use schema::{Action, Actions, Counted, LimitReached, TimeSpan, UsageOfDay, UserActions};

/// Declares the routes.
pub(super) fn declare<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(routes: R) -> R {
    routes
        .tag("usage", "Usage of features against the limits of plans (read model usage).")
        .route(Method::GET, "/models/usage/actions", all_actions, || {
            Operation::new("usage_list_actions", "The actions of all users, newest first.")
                .query::<TimeSpan>()
                .query::<schema::ActionType>()
                .answer::<Actions>(200, "The actions.")
                .errors(&[422, 500, 503])
        })
        .route(Method::GET, "/models/usage/features/{feature}", feature_usage, || {
            Operation::new(
                "usage_list_users_of_feature",
                "The users of a feature on a day, and how often each used it.",
            )
            .query::<schema::Day>()
            .answer::<UsageOfDay>(200, "The users.")
            .errors(&[404, 422, 500, 503])
        })
        .route(Method::GET, "/models/usage/{user_id}", user_summary, || {
            Operation::new("usage_get_user", "A user's plan, its limits, and today's usage.")
                .answer::<schema::Summary>(200, "The summary.")
                .errors(&[404, 500, 503])
        })
        .route(Method::GET, "/models/usage/{user_id}/actions", user_actions, || {
            Operation::new("usage_list_user_actions", "A user's actions, newest first.")
                .query::<TimeSpan>()
                .answer::<UserActions>(200, "The actions.")
                .errors(&[404, 422, 500, 503])
        })
        .route(Method::POST, "/models/usage/{user_id}/{feature}", count_action, || {
            Operation::new(
                "usage_count_action",
                "Counts an action if the user's plan allows one more today; once for each key.",
            )
            .needs::<Action>()
            .answer::<Counted>(200, "Counted, now or before.")
            .answer_either::<LimitReached, ErrorBody>(
                429,
                "The day's limit is reached, or the server is too busy.",
            )
            .errors(&[404, 409, 422, 500, 503])
        })
}

impl FromFields for Action {
    fn from_fields(fields: Fields) -> Result<Self, WireError> {
        let problem = |problem: String| WireError { field: "action_details".to_owned(), problem };
        Ok(Self {
            action_type: fields.id("action_type")?.to_owned(),
            action_details: details(fields.json("action_details")).map_err(|why| problem(why.to_string()))?,
            idempotency_key: fields.optional_id("idempotency_key")?.map(str::to_owned),
        })
    }
}

async fn count_action<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
    body: Result<Body<Action>, Error>,
) -> Result<Response, Error> {
    let (store, settings) = (api.store(), api.read_models.usage());
    let feature = known_feature(settings, &ids)?;
    let Body(action) = body?;
    let request = ActionRequest {
        user: ids.user(),
        feature: feature.to_owned(),
        kind: action.action_type,
        details: action.action_details,
        key: action.idempotency_key.map(Into::into),
    };
    Ok(match count(store, settings, &request).await? {
        CountOutcome::Done(count) => Response::of(200, count_json(&request.user, &count)),
        CountOutcome::AtLimit { used, limit } => limit_reached(feature, used, limit, store.clock.now()),
        CountOutcome::Different => {
            Response::error(409, "key_was_used", "idempotency_key: it was used for another action")
        }
    })
}

/// 429 with the time of the next reset, at midnight.
fn limit_reached(feature: &str, used: u64, limit: u64, now: Time) -> Response {
    let reset = reset_at(now);
    let at = GoTime::trimmed(reset).text();
    let message = format!("{feature} was used {used} times today, the most is {limit}: again after {at}");
    let mut response = Response::error(429, "usage_limit_exceeded", message);
    for (name, value) in [("limit", json!(limit)), ("used", json!(used)), ("reset_at", json!(at))] {
        response.body[name] = value;
    }
    // Rounded up to whole seconds.
    let wait = (reset - now).num_milliseconds().max(0).unsigned_abs().div_ceil(1000);
    Response { retry_after: Some(wait), ..response }
}

async fn user_summary<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
) -> Result<Json<Value>, Error> {
    let mut body = summary(api.store(), api.read_models.usage(), &ids.user()).await?.json();
    body["user_id"] = ids.get("user_id").into();
    Ok(Json(body))
}

async fn user_actions<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
    parameters: Parameters,
) -> Result<Json<UserActions>, Error> {
    let limit = parameters.limit(PAGE, MAX_PAGE)? as usize;
    // One row more than the limit shows whether there are more.
    let found = api.store().actions_of(&ids.user(), time_range(&parameters)?, limit + 1).await?;
    let (actions, more) = (rows(&found, limit), found.len() > limit);
    Ok(Json(UserActions { user_id: ids.user().to_string(), actions, more }))
}

async fn all_actions<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    parameters: Parameters,
) -> Result<Json<Actions>, Error> {
    let limit = parameters.limit(PAGE, MAX_PAGE)? as usize;
    let span = time_range(&parameters)?;
    let expected = format!("a text of 1 to {MAX_ID_BYTES} bytes");
    let kind =
        parameters.parsed("type", &expected, |kind: &String| (1..=MAX_ID_BYTES).contains(&kind.len()))?;
    let found = match &kind {
        Some(kind) => api.store().actions_of_type(kind, span, limit + 1).await?,
        None => api.store().actions_between(span, limit + 1).await?,
    };
    Ok(Json(Actions { actions: rows(&found, limit), more: found.len() > limit }))
}

fn rows(actions: &[LoggedAction], limit: usize) -> Vec<Value> {
    actions.iter().take(limit).map(|action| action.to_item().to_json()).collect()
}

async fn feature_usage<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
    parameters: Parameters,
) -> Result<Json<UsageOfDay>, Error> {
    let feature = known_feature(api.read_models.usage(), &ids)?;
    let limit = parameters.limit(PAGE, MAX_PAGE)? as usize;
    let day = parameters
        .parsed("date", "a day such as 2024-01-15", |day: &NaiveDate| (1..=9999).contains(&day.year()))?
        .unwrap_or_else(|| api.store().clock.now().date_naive());
    let at_least = parameters.parsed("at_least", "a whole number", |_| true)?.unwrap_or(0);
    let used = api.store().usage_of_feature(feature, reset_date(day), at_least, limit + 1).await?;
    Ok(Json(UsageOfDay {
        feature: feature.to_owned(),
        date: day,
        reset_date: reset_date(day),
        usage: used.iter().take(limit).map(DailyUsage::to_item).map(|row| Item::to_json(&row)).collect(),
        more: used.len() > limit,
    }))
}

fn known_feature<'a>(settings: &Settings, ids: &'a Ids) -> Result<&'a str, Error> {
    let (feature, known) = (ids.get("feature"), settings.plans.features());
    match known.contains(feature) {
        true => Ok(feature),
        false => {
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            Err(Error::new(404, "no_such_feature", format!("{feature:?} is not one of {known}")))
        }
    }
}

fn time_range(parameters: &Parameters) -> Result<TimeRange, Error> {
    let time = |name: &str| {
        let read = |text: &str| {
            dues_events::time::parse(text)
                .map_err(|why| Error::field(name, format!("{text:?} is not an RFC 3339 time: {why}")))
        };
        parameters.get(name).map(read).transpose()
    };
    Ok(TimeRange { from: time("from")?, to: time("to")? })
}
