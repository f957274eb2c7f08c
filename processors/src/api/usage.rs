//! What is answered below `/models/usage/`; [`places`] lists the paths.

mod places;

use chrono::{Datelike as _, NaiveDate};
use dues_events::usage::{Logged, Used, details, reset_at, reset_date};
use dues_events::wire::WireError;
use dues_events::{GoTime, Item, Time, UserId};
use dues_store::usage::count::{Asked as Action, Counted};
use dues_store::usage::log::Span;
use dues_store::{Engine, Store, StoreError};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::str::FromStr;

use super::path::decoded_text;
use super::places::find;
use super::{Request, Response, store_failed};
use crate::fields::{Fields, LONGEST_ID};
use crate::read_models::usage::{Settings, count, count_json, summary};
use places::{Asked, PLACES};
pub(super) use places::{openapi, template};

/// How many rows are listed, unless somebody asks for more or fewer, and the most.
const LISTED: usize = 100;
const MOST_LISTED: usize = 1000;

/// Answers a request; the path has no percent-encoding any more.
pub(super) async fn answer<E: Engine>(store: &Store<E>, settings: &Settings, path: &[&str], request: Request<'_>) -> Response {
    let (asked, ids) = match find(PLACES, path, request) {
        Ok(found) => found,
        Err(refused) => return refused,
    };
    let (user, feature) = (UserId::from(ids.get("user_id")), ids.get("feature"));
    let answered = match asked {
        Asked::AllActions => all_actions(store, request.query).await,
        Asked::Feature => feature_usage(store, settings, feature, request.query).await,
        Asked::User => user_summary(store, settings, &user).await,
        Asked::Actions => user_actions(store, &user, request.query).await,
        Asked::Count => count_action(store, settings, user, feature, request.body).await,
    };
    answered.unwrap_or_else(|failed| match failed {
        Failed::Asked(wrong) => Response::error(422, "invalid_field", wrong.to_string()),
        Failed::NoFeature(feature) => {
            let known = settings.plans.features().into_iter().collect::<Vec<_>>().join(", ");
            Response::error(404, "no_such_feature", format!("{feature:?} is not one of {known}"))
        }
        Failed::Store(error) => store_failed(&error),
    })
}

/// Why there is no answer.
enum Failed {
    Asked(WireError),
    NoFeature(String),
    Store(StoreError),
}

impl From<WireError> for Failed {
    fn from(wrong: WireError) -> Self {
        Self::Asked(wrong)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

async fn count_action<E: Engine>(
    store: &Store<E>,
    settings: &Settings,
    user: UserId,
    feature: &str,
    body: &[u8],
) -> Result<Response, Failed> {
    known(settings, feature)?;
    let fields = Fields::read(body, "body")?;
    let asked = Action {
        user,
        feature: feature.to_owned(),
        kind: fields.id("action_type")?.to_owned(),
        details: details(fields.json("action_details")).map_err(|why| wrong("action_details", why.to_string()))?,
        key: fields.optional_id("idempotency_key")?.map(Into::into),
    };
    Ok(match count(store, settings, &asked).await? {
        Counted::Done(count) => Response::of(200, count_json(&asked.user, &count)),
        Counted::AtLimit { used, limit } => refused(&asked, used, limit, store.clock.now()),
        Counted::Different => Response::error(409, "key_was_used", "idempotency_key: it was used for another action"),
    })
}

/// The day's usage is used up: it is forgotten at midnight.
fn refused(asked: &Action, used: u64, limit: u64, now: Time) -> Response {
    let reset = reset_at(now);
    let at = GoTime::trimmed(reset).text();
    let message = format!("{} was used {used} times today, the most is {limit}: again after {at}", asked.feature);
    let mut response = Response::error(429, "usage_limit_exceeded", message);
    for (name, value) in [("limit", json!(limit)), ("used", json!(used)), ("reset_at", json!(at))] {
        response.body[name] = value;
    }
    // A part of a second is a whole one to wait.
    let wait = (reset - now).num_milliseconds().max(0).unsigned_abs().div_ceil(1000);
    Response { retry_after: Some(wait), ..response }
}

async fn user_summary<E: Engine>(store: &Store<E>, settings: &Settings, user: &UserId) -> Result<Response, Failed> {
    let mut body = summary(store, settings, user).await?.json();
    body["user_id"] = user.as_str().into();
    Ok(Response::of(200, body))
}

async fn user_actions<E: Engine>(store: &Store<E>, user: &UserId, query: &str) -> Result<Response, Failed> {
    let asked = Parameters::read(query)?;
    // One more than is listed tells whether there are more.
    let actions = store.actions_of(user, asked.span, asked.limit + 1).await?;
    Ok(listed(json!({"user_id": user.as_str()}), &actions, asked.limit))
}

async fn all_actions<E: Engine>(store: &Store<E>, query: &str) -> Result<Response, Failed> {
    let asked = Parameters::read(query)?;
    let most = asked.limit + 1;
    let actions = match &asked.kind {
        Some(kind) => store.actions_of_type(kind, asked.span, most).await?,
        None => store.actions_between(asked.span, most).await?,
    };
    Ok(listed(json!({}), &actions, asked.limit))
}

fn listed(mut body: Value, actions: &[Logged], limit: usize) -> Response {
    body["actions"] = actions.iter().take(limit).map(|action| action.to_item().to_json()).collect();
    body["more"] = (actions.len() > limit).into();
    Response::of(200, body)
}

async fn feature_usage<E: Engine>(store: &Store<E>, settings: &Settings, feature: &str, query: &str) -> Result<Response, Failed> {
    known(settings, feature)?;
    let asked = Parameters::read(query)?;
    let day = asked.date.unwrap_or_else(|| store.clock.now().date_naive());
    let used = store.usage_of_feature(feature, reset_date(day), asked.at_least, asked.limit + 1).await?;
    let rows: Vec<Value> = used.iter().take(asked.limit).map(Used::to_item).map(|row| Item::to_json(&row)).collect();
    let (date, reset) = (day.to_string(), reset_date(day).to_string());
    Ok(Response::of(200, json!({"feature": feature, "date": date, "reset_date": reset, "usage": rows, "more": used.len() > asked.limit})))
}

fn known(settings: &Settings, feature: &str) -> Result<(), Failed> {
    if settings.plans.features().contains(feature) { Ok(()) } else { Err(Failed::NoFeature(feature.to_owned())) }
}

/// What stands behind the question mark.
struct Parameters {
    span: Span,
    limit: usize,
    kind: Option<String>,
    date: Option<NaiveDate>,
    at_least: u64,
}

impl Parameters {
    fn read(query: &str) -> Result<Self, WireError> {
        let mut values = BTreeMap::new();
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            values.insert(name, decoded_text(value).ok_or_else(|| wrong(name, "is not UTF-8".to_owned()))?);
        }
        let time = |name: &str| {
            let read = |text: &String| {
                dues_events::time::parse(text).map_err(|why| wrong(name, format!("{text:?} is not an RFC 3339 time: {why}")))
            };
            values.get(name).map(read).transpose()
        };
        let limit =
            parsed(&values, "limit", &format!("a whole number from 1 to {MOST_LISTED}"), |limit| (1..=MOST_LISTED).contains(limit))?;
        Ok(Self {
            span: Span { from: time("from")?, to: time("to")? },
            limit: limit.unwrap_or(LISTED),
            date: parsed(&values, "date", "a day such as 2024-01-15", |day: &NaiveDate| (1..=9999).contains(&day.year()))?,
            at_least: parsed(&values, "at_least", "a whole number", |_| true)?.unwrap_or(0),
            kind: parsed(&values, "type", &format!("a text of 1 to {LONGEST_ID} bytes"), |kind: &String| {
                (1..=LONGEST_ID).contains(&kind.len())
            })?,
        })
    }
}

fn parsed<T: FromStr>(
    values: &BTreeMap<&str, String>,
    name: &str,
    wanted: &str,
    fits: impl Fn(&T) -> bool,
) -> Result<Option<T>, WireError> {
    let read =
        |text: &String| text.parse().ok().filter(|value| fits(value)).ok_or_else(|| wrong(name, format!("{text:?} is not {wanted}")));
    values.get(name).map(read).transpose()
}

fn wrong(field: &str, problem: String) -> WireError {
    WireError { field: field.to_owned(), problem }
}
