//! The paths below `/models/figureforge/`. What changes something carries an `event_id`, and is one of the facts that also come on the stream
//! `app-events`: repeated, it changes nothing; the same id with something else is 409. `occurred_at` may be left out: then it is now.
//!
//! ```text
//! users?email=   users/{id}   users/{id}/restore   users/{id}/images   users/{id}/jobs   users/{id}/subscriptions
//! subscriptions/{stripe_sub_id}
//! jobs?status=   jobs/{id}   jobs/{id}/start|succeed|fail|cancel|restore
//! images/{id}    images/{id}/tags|favorites|flag|restore|purge   images/{id}/url   images/{id}/reports
//! images/{id}/reports/{id}   images/{id}/reports/{id}/review|dismiss|uphold|restore   reports?status=
//! tags/{tag}     flags   flags/{name}   flags/{name}/restore   plans?active=   plans/{id}   plans/{id}/restore
//! ```

mod asked;
mod page;

use dues_events::wire::WireError;
use dues_events::wire::app_events::AppEvent;
use dues_events::{Item, Time, Value as Attribute};
use dues_projections::figureforge::job::JobStatus;
use dues_projections::figureforge::objects::ObjectKey;
use dues_projections::figureforge::report::ReportStatus;
use dues_projections::figureforge::tags::can_be_seen;
use dues_store::{Engine, Page, Store, StoreError};
use serde_json::{Map, Value, json};

use super::{Request, Response, store_failed};
use crate::fields::LONGEST_ID;
use crate::read_models::figureforge::Settings;
use crate::read_models::figureforge::commands::{self, Done, command};
use crate::read_models::figureforge::queries::{self, shown};
use asked::{Command, List, One, What};
use page::{Parameters, cursor_text};

/// Answers a request; the path has no percent-encoding any more.
pub(super) async fn answer<E: Engine>(store: &Store<E>, settings: &Settings, path: &[&str], request: Request<'_>) -> Response {
    let Some(what) = asked::what(request.method, path) else { return nowhere(path) };
    // Each turn is boxed: a request would otherwise have room for all of them on its stack.
    let answered = match what {
        What::One(one) => Box::pin(find(store, settings, one)).await,
        What::List(list) => Box::pin(listed(store, list, request.query)).await,
        What::Command(command) => Box::pin(carried_out(store, command, request.body)).await,
    };
    answered.unwrap_or_else(|error| store_failed(&error))
}

/// A path that is not there, or a method that it does not take.
fn nowhere(path: &[&str]) -> Response {
    match asked::allowed(path) {
        Some(allowed) => {
            let refused = Response::error(405, "method_not_allowed", format!("the methods here are {allowed}"));
            Response { allow: Some(allowed), ..refused }
        }
        None => Response::error(404, "no_such_path", format!("there is no /models/figureforge/{}", path.join("/"))),
    }
}

fn invalid(error: &WireError) -> Response {
    Response::error(422, "invalid_field", error.to_string())
}

fn not_found(what: &str) -> Response {
    Response::error(404, "not_found", format!("there is no {what}"))
}

async fn find<E: Engine>(store: &Store<E>, settings: &Settings, one: One<'_>) -> Result<Response, StoreError> {
    let found = match one {
        One::User(id) => queries::user(store, id).await?,
        One::Subscription(id) => queries::subscription_by_stripe_id(store, id).await?,
        // Only the head knows whose job it is; the row is under its user.
        One::Job(id) => commands::row(store, &format!("job:{id}")).await?,
        One::Image(id) => queries::image(store, id).await?,
        One::Url(id) => return Ok(signed(queries::image(store, id).await?, settings, id, store.clock.now())),
        One::Report(image, id) => queries::report(store, image, id).await?,
        One::Flag(name) => queries::flag(store, name).await?,
        One::Plan(id) => queries::plan(store, id).await?,
    };
    Ok(found.map_or_else(|| not_found(&one.name()), |item| Response::of(200, shown(&item))))
}

/// A URL with which an image can be read for a while, public or not. What is deleted, blocked or removed has none.
fn signed(image: Option<Item>, settings: &Settings, id: &str, now: Time) -> Response {
    let Some(image) = image.filter(can_be_seen) else { return not_found(&format!("image {id}")) };
    let made = image.get("created_at").and_then(Attribute::as_u64).and_then(|second| Time::from_timestamp(i64::try_from(second).ok()?, 0));
    let (Some(signer), Some(made)) = (&settings.signer, made) else {
        return Response::error(503, "no_signer", "this deployment has no credentials to sign URLs with");
    };
    let key = ObjectKey::of(image.text("user_id"), made, id).to_string();
    let url = signer.url(&key, now, settings.signed_url_ttl);
    Response::of(200, json!({"image_id": id, "key": key, "url": url, "expires_in": settings.signed_url_ttl}))
}

async fn listed<E: Engine>(store: &Store<E>, list: List<'_>, query: &str) -> Result<Response, StoreError> {
    match page_of(store, list, query).await {
        Ok(page) => {
            let items: Vec<Value> = page.items.iter().map(|item| list.shown(item)).collect();
            Ok(Response::of(200, json!({"items": items, "next": page.next.as_ref().map(cursor_text)})))
        }
        Err(Unlisted::Asked(error)) => Ok(invalid(&error)),
        Err(Unlisted::Store(error)) => Err(error),
    }
}

/// Why there is no page.
enum Unlisted {
    /// What was asked is wrong.
    Asked(WireError),
    /// What the store could not do.
    Store(StoreError),
}

impl From<WireError> for Unlisted {
    fn from(error: WireError) -> Self {
        Self::Asked(error)
    }
}

async fn page_of<E: Engine>(store: &Store<E>, list: List<'_>, query: &str) -> Result<Page, Unlisted> {
    let given = Parameters::read(query)?;
    let (asked, goes_on) = (given.asked.clone(), given.asked.start.is_some());
    let page = match list {
        List::Users => queries::users_by_email(store, given.required("email")?, asked).await,
        List::Jobs => queries::jobs_by_status(store, given.one_of("status", &JobStatus::ALL, |status| status.as_str())?, asked).await,
        List::Reports => {
            queries::reports_by_status(store, given.one_of("status", &ReportStatus::ALL, |status| status.as_str())?, asked).await
        }
        List::Plans => {
            let active = given.one_of("active", &[true, false], |active| if *active { "true" } else { "false" })?;
            queries::plans_by_active(store, active, asked).await
        }
        List::Flags => queries::flags(store, asked).await,
        List::ImagesOf(user) => queries::images_by_user(store, user, asked).await,
        List::JobsOf(user) => queries::jobs_of(store, user, asked).await,
        List::SubscriptionsOf(user) => queries::subscriptions_of(store, user, asked).await,
        List::ReportsOf(image) => queries::reports_of(store, image, asked).await,
        List::Tag(tag) => queries::images_by_tag(store, tag, asked).await,
    };
    // DynamoDB refuses a cursor that it has not made.
    let forged = |error: &StoreError| goes_on && matches!(error, StoreError::Invalid(_));
    page.map_err(|error| if forged(&error) { page::wrong("after", "is not from a page before").into() } else { Unlisted::Store(error) })
}

async fn carried_out<E: Engine>(store: &Store<E>, asked: Command<'_>, body: &[u8]) -> Result<Response, StoreError> {
    let (event, dated) = match event(&asked, body, store.clock.now()) {
        Ok(event) => event,
        Err(error) => return Ok(invalid(&error)),
    };
    Ok(match command(store, event, asked.makes(), dated).await? {
        Done::Row(Some(row)) => Response::of(200, shown(&row)),
        Done::Row(None) if asked.makes() => Response::error(409, "purged", "it was deleted for good, and does not come back"),
        Done::Row(None) => Response::of(200, Value::Object(asked.ids().collect())),
        Done::Nothing => not_found(&asked.name()),
        Done::Different => Response::error(409, "event_id_was_used", "event_id: it was used for something else"),
        Done::Malformed(error) => invalid(&error),
    })
}

/// The event that a command makes, and whether the client said when it happened. The path says what it is about, whatever the body says.
fn event(asked: &Command<'_>, body: &[u8], now: Time) -> Result<(AppEvent, bool), WireError> {
    let mut fields: Map<String, Value> = page::object(body)?;
    fields.extend(asked.ids());
    let id = fields.remove("event_id").unwrap_or_default();
    let id = id.as_str().filter(|id| (1..=LONGEST_ID).contains(&id.len()));
    let id = id.ok_or_else(|| page::wrong("event_id", "is missing, or not a text of 1 to 256 bytes"))?.into();
    let (at, dated) = match fields.remove("occurred_at") {
        None | Some(Value::Null) => (now, false),
        Some(given) => {
            let read = given.as_str().and_then(|text| dues_events::time::parse(text).ok());
            (read.ok_or_else(|| page::wrong("occurred_at", "is not an RFC 3339 time"))?, true)
        }
    };
    let event = AppEvent { id, model: "figureforge".to_owned(), kind: asked.kind.to_owned(), at, body: Value::Object(fields) };
    Ok((event, dated))
}
