//! Handlers of the routes of `figureforge`.

use axum::Json;
use dues_events::wire::app_events::AppEvent;
use dues_events::{Item, Time, Value as Attribute};
use dues_projections::figureforge::job::JobStatus;
use dues_projections::figureforge::objects::ObjectKey;
use dues_projections::figureforge::report::ReportStatus;
use dues_projections::figureforge::tags::can_be_seen;
use dues_store::{Engine, Store, StoreError};
use serde_json::{Value, json};

use super::super::Error;
use crate::api::extract::{Ids, Parameters};
use crate::api::page::{FORGED, cursor_text, page};
use crate::figureforge::Settings;
use crate::figureforge::commands::{self, NotFound, Precondition, command};
use crate::figureforge::queries::{self, public_json};
use crate::outcome::CommandOutcome;
use crate::runtime::json_fields::{Fields, MAX_ID_BYTES};

/// Queries for one row.
#[derive(Debug, Clone, Copy)]
pub(super) enum One {
    User,
    Subscription,
    Job,
    Image,
    Url,
    Report,
    Flag,
    Plan,
}

/// Queries for pages of rows.
#[derive(Debug, Clone, Copy)]
pub(super) enum List {
    Users,
    Jobs,
    Reports,
    Plans,
    Flags,
    ImagesOfUser,
    JobsOfUser,
    SubscriptionsOfUser,
    ReportsOfImage,
    Tag,
}

/// A command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command {
    /// The type of its event.
    pub(super) kind: &'static str,
    /// Whether the row may not exist yet.
    pub(super) creates: bool,
}

pub(super) async fn find<E: Engine>(
    store: &Store<E>,
    settings: &Settings,
    one: One,
    ids: &Ids,
) -> Result<Json<Value>, Error> {
    let image = ids.get("image_id");
    let found = match one {
        One::User => queries::user(store, ids.get("user_id")).await?,
        One::Subscription => queries::subscription_by_stripe_id(store, ids.get("stripe_sub_id")).await?,
        // The row is in the user's partition, and only the job's head names the user.
        One::Job => commands::row(store, &format!("job:{}", ids.get("job_id"))).await?,
        One::Image => queries::image(store, image).await?,
        One::Url => return signed(queries::image(store, image).await?, settings, image, store.clock.now()),
        One::Report => queries::report(store, image, ids.get("report_id")).await?,
        One::Flag => queries::flag(store, ids.get("flag_name")).await?,
        One::Plan => queries::plan(store, ids.get("plan_id")).await?,
    };
    found.map(|item| Json(public_json(&item))).ok_or_else(|| Error::not_found(ids.name()))
}

/// A signed URL of an image, public or not, with an expiry. Deleted, blocked and removed images have none.
fn signed(image: Option<Item>, settings: &Settings, id: &str, now: Time) -> Result<Json<Value>, Error> {
    let missing = || Error::not_found(format!("image {id}"));
    let image = image.filter(can_be_seen).ok_or_else(missing)?;
    // 404, as for a read model that the deployment does not have: a retry would not help.
    let Some(signer) = &settings.signer else {
        return Err(Error::new(404, "no_signer", "this deployment has no credentials to sign URLs with"));
    };
    // A signed integer: an image may be older than the Unix epoch.
    let created = image.get("created_at").and_then(Attribute::as_i64);
    let created = created.and_then(|second| Time::from_timestamp(second, 0)).ok_or_else(missing)?;
    let key = ObjectKey::of(image.text("user_id"), created, id).to_string();
    let url = signer.url(&key, now, settings.signed_url_ttl);
    Ok(Json(json!({"image_id": id, "key": key, "url": url, "expires_in": settings.signed_url_ttl})))
}

pub(super) async fn page_of<E: Engine>(
    store: &Store<E>,
    list: List,
    ids: &Ids,
    given: &Parameters,
) -> Result<Json<Value>, Error> {
    let asked = page(given)?;
    let (user, continues) = (ids.get("user_id"), asked.start.is_some());
    let found = match list {
        List::Users => queries::users_by_email(store, given.required("email")?, asked).await,
        List::Jobs => {
            let status = given.one_of("status", &JobStatus::ALL, |status| status.as_str())?;
            queries::jobs_by_status(store, status, asked).await
        }
        List::Reports => {
            let status = given.one_of("status", &ReportStatus::ALL, |status| status.as_str())?;
            queries::reports_by_status(store, status, asked).await
        }
        List::Plans => {
            let active =
                given.one_of("active", &[true, false], |active| if *active { "true" } else { "false" })?;
            queries::plans_by_active(store, active, asked).await
        }
        List::Flags => queries::flags(store, asked).await,
        List::ImagesOfUser => queries::images_by_user(store, user, asked).await,
        List::JobsOfUser => queries::jobs_of(store, user, asked).await,
        List::SubscriptionsOfUser => queries::subscriptions_of(store, user, asked).await,
        List::ReportsOfImage => queries::reports_of(store, ids.get("image_id"), asked).await,
        List::Tag => queries::images_by_tag(store, ids.get("tag"), asked).await,
    };
    let found = found.map_err(|error| {
        // DynamoDB rejects a cursor that it did not issue.
        let is_forged = continues && matches!(error, StoreError::Invalid(_));
        if is_forged { Error::field("after", FORGED) } else { error.into() }
    })?;
    let items: Vec<Value> = found.items.iter().map(|item| item_of(list, ids, item)).collect();
    Ok(Json(json!({"items": items, "next": found.next.as_ref().map(cursor_text)})))
}

/// A row of a list as JSON. In the tag index, the sort key names the image.
fn item_of(list: List, ids: &Ids, item: &Item) -> Value {
    match list {
        List::Tag => {
            let image = item.text("sk").and_then(|sort| sort.strip_prefix("IMG#"));
            let created = item.get("created_at").map(Attribute::to_json);
            json!({"tag": ids.get("tag"), "image_id": image, "created_at": created})
        }
        List::Users
        | List::Jobs
        | List::Reports
        | List::Plans
        | List::Flags
        | List::ImagesOfUser
        | List::JobsOfUser
        | List::SubscriptionsOfUser
        | List::ReportsOfImage => public_json(item),
    }
}

pub(super) async fn run<E: Engine>(
    store: &Store<E>,
    Command { kind, creates }: Command,
    ids: &Ids,
    fields: Fields,
) -> Result<Json<Value>, Error> {
    let (event, dated) = event(kind, ids, fields, store.clock.now())?;
    let precondition = if creates { Precondition::None } else { Precondition::RowExists };
    match command(store, event, precondition, dated).await? {
        CommandOutcome::Applied(Some(row)) | CommandOutcome::Duplicate(Some(row)) => {
            Ok(Json(public_json(&row)))
        }
        CommandOutcome::Applied(None) | CommandOutcome::Duplicate(None) if creates => {
            Err(Error::new(409, "purged", "it was purged and cannot be restored"))
        }
        CommandOutcome::Applied(None) | CommandOutcome::Duplicate(None) => {
            Ok(Json(Value::Object(ids.fields().collect())))
        }
        CommandOutcome::Rejected(NotFound) => Err(Error::not_found(ids.name())),
        CommandOutcome::ConflictingContent => {
            Err(Error::new(409, "event_id_was_used", "event_id: it was used for another command"))
        }
        CommandOutcome::Malformed(error) => Err(error.into()),
    }
}

/// The event of a command, and whether the client set its time. Path ids override those of the body.
fn event(kind: &str, ids: &Ids, fields: Fields, now: Time) -> Result<(AppEvent, bool), Error> {
    let mut fields = fields.into_map();
    fields.extend(ids.fields());
    let id = fields.remove("event_id").unwrap_or_default();
    let id = id.as_str().filter(|id| (1..=MAX_ID_BYTES).contains(&id.len()));
    let id =
        id.ok_or_else(|| Error::field("event_id", "is missing, or not a text of 1 to 256 bytes"))?.into();
    let (at, dated) = match fields.remove("occurred_at") {
        None | Some(Value::Null) => (now, false),
        Some(given) => {
            let read = given.as_str().and_then(|text| dues_events::time::parse(text).ok());
            (read.ok_or_else(|| Error::field("occurred_at", "is not an RFC 3339 time"))?, true)
        }
    };
    let (model, kind, body) = ("figureforge".to_owned(), kind.to_owned(), Value::Object(fields));
    Ok((AppEvent { id, model, kind, at, body }, dated))
}
