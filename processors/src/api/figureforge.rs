//! What is answered below `/models/figureforge/`; [`places`] lists the paths.

mod page;
mod places;

use dues_events::wire::WireError;
use dues_events::wire::app_events::AppEvent;
use dues_events::{Item, Time, Value as Attribute};
use dues_projections::figureforge::job::JobStatus;
use dues_projections::figureforge::objects::ObjectKey;
use dues_projections::figureforge::report::ReportStatus;
use dues_projections::figureforge::tags::can_be_seen;
use dues_store::{Engine, Page, Store, StoreError};
use serde_json::{Map, Value, json};

use super::places::{Ids, find as find_place};
use super::{Request, Response, store_failed};
use crate::fields::LONGEST_ID;
use crate::read_models::figureforge::Settings;
use crate::read_models::figureforge::commands::{self, Done, command};
use crate::read_models::figureforge::queries::{self, shown};
use page::{Parameters, cursor_text};
use places::{Command, List, One, PLACES, What};
pub(super) use places::{openapi, template};

/// Answers a request; the path has no percent-encoding any more.
pub(super) async fn answer<E: Engine>(store: &Store<E>, settings: &Settings, path: &[&str], request: Request<'_>) -> Response {
    let (what, ids) = match find_place(PLACES, path, request) {
        Ok(found) => found,
        Err(refused) => return refused,
    };
    // Each turn is boxed: a request would otherwise have room for all of them on its stack.
    let answered = match what {
        What::One(one) => Box::pin(find(store, settings, *one, &ids)).await,
        What::List(list) => Box::pin(listed(store, *list, &ids, request.query)).await,
        What::Command(command) => Box::pin(carried_out(store, *command, &ids, request.body)).await,
    };
    answered.unwrap_or_else(|error| store_failed(&error))
}

fn invalid(error: &WireError) -> Response {
    Response::error(422, "invalid_field", error.to_string())
}

fn not_found(what: &str) -> Response {
    Response::error(404, "not_found", format!("there is no {what}"))
}

async fn find<E: Engine>(store: &Store<E>, settings: &Settings, one: One, ids: &Ids<'_>) -> Result<Response, StoreError> {
    let image = ids.get("image_id");
    let found = match one {
        One::User => queries::user(store, ids.get("user_id")).await?,
        One::Subscription => queries::subscription_by_stripe_id(store, ids.get("stripe_sub_id")).await?,
        // Only the head knows whose job it is; the row is under its user.
        One::Job => commands::row(store, &format!("job:{}", ids.get("job_id"))).await?,
        One::Image => queries::image(store, image).await?,
        One::Url => return Ok(signed(queries::image(store, image).await?, settings, image, store.clock.now())),
        One::Report => queries::report(store, image, ids.get("report_id")).await?,
        One::Flag => queries::flag(store, ids.get("flag_name")).await?,
        One::Plan => queries::plan(store, ids.get("plan_id")).await?,
    };
    Ok(found.map_or_else(|| not_found(&ids.name()), |item| Response::of(200, shown(&item))))
}

/// A URL with which an image can be read for a while, public or not. What is deleted, blocked or removed has none.
fn signed(image: Option<Item>, settings: &Settings, id: &str, now: Time) -> Response {
    let Some(image) = image.filter(can_be_seen) else { return not_found(&format!("image {id}")) };
    // As with a read model that a deployment does not have, to come again would not help.
    let Some(signer) = &settings.signer else {
        return Response::error(404, "no_signer", "this deployment has no credentials to sign URLs with");
    };
    // An image may be older than the Unix epoch.
    let made = image.get("created_at").and_then(Attribute::as_i64).and_then(|second| Time::from_timestamp(second, 0));
    let Some(made) = made else { return not_found(&format!("image {id}")) };
    let key = ObjectKey::of(image.text("user_id"), made, id).to_string();
    let url = signer.url(&key, now, settings.signed_url_ttl);
    Response::of(200, json!({"image_id": id, "key": key, "url": url, "expires_in": settings.signed_url_ttl}))
}

async fn listed<E: Engine>(store: &Store<E>, list: List, ids: &Ids<'_>, query: &str) -> Result<Response, StoreError> {
    match page_of(store, list, ids, query).await {
        Ok(page) => {
            let items: Vec<Value> = page.items.iter().map(|item| item_of(list, ids, item)).collect();
            Ok(Response::of(200, json!({"items": items, "next": page.next.as_ref().map(cursor_text)})))
        }
        Err(Unlisted::Asked(error)) => Ok(invalid(&error)),
        Err(Unlisted::Store(error)) => Err(error),
    }
}

/// An item as it is shown: a row of the tag index says in its key which image it is about.
fn item_of(list: List, ids: &Ids<'_>, item: &Item) -> Value {
    match list {
        List::Tag => {
            let image = item.text("sk").and_then(|sort| sort.strip_prefix("IMG#"));
            json!({"tag": ids.get("tag"), "image_id": image, "created_at": item.get("created_at").map(Attribute::to_json)})
        }
        List::Users
        | List::Jobs
        | List::Reports
        | List::Plans
        | List::Flags
        | List::ImagesOfUser
        | List::JobsOfUser
        | List::SubscriptionsOfUser
        | List::ReportsOfImage => shown(item),
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

async fn page_of<E: Engine>(store: &Store<E>, list: List, ids: &Ids<'_>, query: &str) -> Result<Page, Unlisted> {
    let given = Parameters::read(query)?;
    let (asked, goes_on) = (given.asked.clone(), given.asked.start.is_some());
    let user = ids.get("user_id");
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
        List::ImagesOfUser => queries::images_by_user(store, user, asked).await,
        List::JobsOfUser => queries::jobs_of(store, user, asked).await,
        List::SubscriptionsOfUser => queries::subscriptions_of(store, user, asked).await,
        List::ReportsOfImage => queries::reports_of(store, ids.get("image_id"), asked).await,
        List::Tag => queries::images_by_tag(store, ids.get("tag"), asked).await,
    };
    // DynamoDB refuses a cursor that it has not made.
    let forged = |error: &StoreError| goes_on && matches!(error, StoreError::Invalid(_));
    page.map_err(|error| if forged(&error) { page::wrong("after", "is not from a page before").into() } else { Unlisted::Store(error) })
}

async fn carried_out<E: Engine>(store: &Store<E>, asked: Command, ids: &Ids<'_>, body: &[u8]) -> Result<Response, StoreError> {
    let (event, dated) = match event(asked, ids, body, store.clock.now()) {
        Ok(event) => event,
        Err(error) => return Ok(invalid(&error)),
    };
    Ok(match command(store, event, asked.makes, dated).await? {
        Done::Row(Some(row)) => Response::of(200, shown(&row)),
        Done::Row(None) if asked.makes => Response::error(409, "purged", "it was deleted for good, and does not come back"),
        Done::Row(None) => Response::of(200, Value::Object(fields_of(ids).collect())),
        Done::Nothing => not_found(&ids.name()),
        Done::Different => Response::error(409, "event_id_was_used", "event_id: it was used for something else"),
        Done::Malformed(error) => invalid(&error),
    })
}

/// What a command is about, as the fact names it.
fn fields_of(ids: &Ids<'_>) -> impl Iterator<Item = (String, Value)> {
    ids.iter().map(|(name, id)| (name.to_owned(), id.into()))
}

/// The event that a command makes, and whether the client said when it happened. The path says what it is about, whatever the body says.
fn event(asked: Command, ids: &Ids<'_>, body: &[u8], now: Time) -> Result<(AppEvent, bool), WireError> {
    let mut fields: Map<String, Value> = page::object(body)?;
    fields.extend(fields_of(ids));
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
