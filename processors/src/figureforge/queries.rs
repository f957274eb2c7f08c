//! Queries of `figureforge`: by every key of the table, and by each of its six indexes.
//!
//! Indexes leave out deleted rows, except `byStripeSub`; so do the lists of a user's or an image's own
//! partition. A query by key also returns a deleted row, with its `deleted_at`.

use dues_events::{Item, Value};
use dues_projections::figureforge::flag::FLAGS;
use dues_projections::figureforge::job::JobStatus;
use dues_projections::figureforge::report::ReportStatus;
use dues_projections::figureforge::tags;
use dues_projections::figureforge::validation::Email;
use dues_store::table::Index;
use dues_store::table::figureforge::{
    BY_EMAIL, BY_STRIPE_SUB, FIGUREFORGE, IMAGES_BY_USER, JOBS_BY_STATUS, PLANS_BY_ACTIVE, REPORTS_BY_STATUS,
};
use dues_store::{Condition, Cursor, Engine, Key, Order, Page, Query, Store, StoreError};
use serde_json::Value as Json;

/// Selects a page.
#[derive(Debug, Clone, Default)]
pub struct PageRequest {
    /// How many items to read, at most.
    pub limit: Option<u32>,
    /// Where the previous page ended.
    pub start: Option<Cursor>,
}

/// A row as clients see it: without the keys of the table and of its indexes.
#[must_use]
pub fn public_json(item: &Item) -> Json {
    let keys: Vec<&str> = FIGUREFORGE.key_attributes().filter(|name| *name != "created_at").collect();
    item.iter()
        .filter(|(name, _)| !keys.contains(&name.as_ref()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect::<Item>()
        .to_json()
}

/// A user's profile.
pub async fn user<E: Engine>(store: &Store<E>, id: &str) -> Result<Option<Item>, StoreError> {
    get(store, format!("USER#{id}"), "PROFILE".to_owned()).await
}

/// The users with that email, ignoring case: `byEmail`.
pub async fn users_by_email<E: Engine>(
    store: &Store<E>,
    email: &str,
    asked: PageRequest,
) -> Result<Page, StoreError> {
    index(store, &BY_EMAIL, format!("EMAIL#{}", Email::normalized(email)), Order::Ascending, asked).await
}

/// A user's subscription.
pub async fn subscription<E: Engine>(
    store: &Store<E>,
    user: &str,
    id: &str,
) -> Result<Option<Item>, StoreError> {
    get(store, format!("USER#{user}"), format!("SUB#{id}")).await
}

/// The subscription with that Stripe id, of any user: `byStripeSub`.
pub async fn subscription_by_stripe_id<E: Engine>(
    store: &Store<E>,
    id: &str,
) -> Result<Option<Item>, StoreError> {
    let page =
        index(store, &BY_STRIPE_SUB, format!("SUB#{id}"), Order::Ascending, PageRequest::default()).await?;
    Ok(page.items.into_iter().next())
}

/// A user's subscriptions.
pub async fn subscriptions_of<E: Engine>(
    store: &Store<E>,
    user: &str,
    asked: PageRequest,
) -> Result<Page, StoreError> {
    list(store, format!("USER#{user}"), "SUB#", asked).await
}

/// A user's job.
pub async fn job<E: Engine>(store: &Store<E>, user: &str, id: &str) -> Result<Option<Item>, StoreError> {
    get(store, format!("USER#{user}"), format!("JOB#{id}")).await
}

/// A user's jobs.
pub async fn jobs_of<E: Engine>(
    store: &Store<E>,
    user: &str,
    asked: PageRequest,
) -> Result<Page, StoreError> {
    list(store, format!("USER#{user}"), "JOB#", asked).await
}

/// The jobs with a status, oldest first, because those are next: `jobsByStatus`.
pub async fn jobs_by_status<E: Engine>(
    store: &Store<E>,
    status: JobStatus,
    asked: PageRequest,
) -> Result<Page, StoreError> {
    index(store, &JOBS_BY_STATUS, format!("JOBSTATUS#{}", status.as_str()), Order::Ascending, asked).await
}

/// An image.
pub async fn image<E: Engine>(store: &Store<E>, id: &str) -> Result<Option<Item>, StoreError> {
    get(store, format!("IMG#{id}"), "META".to_owned()).await
}

/// A user's images, newest first: `imagesByUser`.
pub async fn images_by_user<E: Engine>(
    store: &Store<E>,
    user: &str,
    asked: PageRequest,
) -> Result<Page, StoreError> {
    index(store, &IMAGES_BY_USER, format!("USER#{user}"), Order::Descending, asked).await
}

/// The tag index rows of a tag.
pub async fn images_by_tag<E: Engine>(
    store: &Store<E>,
    tag: &str,
    asked: PageRequest,
) -> Result<Page, StoreError> {
    list(store, tags::partition(tag), "IMG#", asked).await
}

/// A report on an image.
pub async fn report<E: Engine>(store: &Store<E>, image: &str, id: &str) -> Result<Option<Item>, StoreError> {
    get(store, format!("IMG#{image}"), format!("REPORT#{id}")).await
}

/// The reports on an image.
pub async fn reports_of<E: Engine>(
    store: &Store<E>,
    image: &str,
    asked: PageRequest,
) -> Result<Page, StoreError> {
    list(store, format!("IMG#{image}"), "REPORT#", asked).await
}

/// The reports with a status, oldest first: `reportsByStatus`.
pub async fn reports_by_status<E: Engine>(
    store: &Store<E>,
    status: ReportStatus,
    asked: PageRequest,
) -> Result<Page, StoreError> {
    index(store, &REPORTS_BY_STATUS, format!("REPORTSTATUS#{}", status.as_str()), Order::Ascending, asked)
        .await
}

/// A feature flag.
pub async fn flag<E: Engine>(store: &Store<E>, name: &str) -> Result<Option<Item>, StoreError> {
    get(store, FLAGS.to_owned(), name.to_owned()).await
}

/// The feature flags.
pub async fn flags<E: Engine>(store: &Store<E>, asked: PageRequest) -> Result<Page, StoreError> {
    list(store, FLAGS.to_owned(), "", asked).await
}

/// A plan.
pub async fn plan<E: Engine>(store: &Store<E>, id: &str) -> Result<Option<Item>, StoreError> {
    get(store, format!("PLAN#{id}"), "META".to_owned()).await
}

/// The active plans, or the inactive ones, oldest first: `plansByActive`.
pub async fn plans_by_active<E: Engine>(
    store: &Store<E>,
    active: bool,
    asked: PageRequest,
) -> Result<Page, StoreError> {
    index(store, &PLANS_BY_ACTIVE, format!("PLANACTIVE#{active}"), Order::Ascending, asked).await
}

async fn get<E: Engine>(
    store: &Store<E>,
    partition: String,
    sort: String,
) -> Result<Option<Item>, StoreError> {
    store.engine.get(&FIGUREFORGE, Key { partition, sort: Some(sort) }).await
}

async fn index<E: Engine>(
    store: &Store<E>,
    index: &Index,
    partition: String,
    order: Order,
    asked: PageRequest,
) -> Result<Page, StoreError> {
    let PageRequest { limit, start } = asked;
    store
        .engine
        .query(Query { order, limit, start, ..Query::index(&FIGUREFORGE, index.name, partition) })
        .await
}

/// The rows of a partition with that sort key prefix, without deleted ones.
async fn list<E: Engine>(
    store: &Store<E>,
    partition: String,
    prefix: &str,
    asked: PageRequest,
) -> Result<Page, StoreError> {
    let PageRequest { limit, start } = asked;
    let query = match prefix {
        "" => Query::partition(&FIGUREFORGE, partition),
        prefix => Query::prefix(&FIGUREFORGE, partition, prefix),
    };
    let filter = Condition::Equals("deleted_at", Value::Null);
    store.engine.query(Query { limit, start, filter, ..query }).await
}
