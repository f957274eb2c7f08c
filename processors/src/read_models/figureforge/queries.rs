//! What `figureforge` is asked: every key of the table, and each of its six indexes.
//!
//! Indexes leave out what is deleted, except `byStripeSub`; so do the lists by a user's or an image's own partition. What is asked for by its key is given
//! also when it is deleted, and says so in `deleted_at`.

use dues_events::{Item, Value};
use dues_projections::figureforge::flag::FLAGS;
use dues_projections::figureforge::job::JobStatus;
use dues_projections::figureforge::report::ReportStatus;
use dues_projections::figureforge::tags;
use dues_projections::figureforge::words::Email;
use dues_store::table::Index;
use dues_store::table::figureforge::{
    BY_EMAIL, BY_STRIPE_SUB, FIGUREFORGE, IMAGES_BY_USER, JOBS_BY_STATUS, PLANS_BY_ACTIVE, REPORTS_BY_STATUS,
};
use dues_store::{Condition, Cursor, Engine, Key, Page, Query, Store, StoreError};
use serde_json::Value as Json;

/// Which page is asked for.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// How many items to look at, at the most.
    pub limit: Option<u32>,
    /// Where the page before ended.
    pub start: Option<Cursor>,
}

/// A row as it is shown: without the keys of the table and of its indexes.
#[must_use]
pub fn shown(item: &Item) -> Json {
    let keys: Vec<&str> = FIGUREFORGE.key_attributes().filter(|name| *name != "created_at").collect();
    item.iter()
        .filter(|(name, _)| !keys.contains(&name.as_ref()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect::<Item>()
        .to_json()
}

/// A user's profile.
///
/// # Errors
/// What the store could not do.
pub async fn user<E: Engine>(store: &Store<E>, id: &str) -> Result<Option<Item>, StoreError> {
    get(store, format!("USER#{id}"), "PROFILE".to_owned()).await
}

/// The users with that email, however it is capitalised: `byEmail`.
///
/// # Errors
/// What the store could not do.
pub async fn users_by_email<E: Engine>(store: &Store<E>, email: &str, asked: Asked) -> Result<Page, StoreError> {
    index(store, &BY_EMAIL, format!("EMAIL#{}", Email::folded(email)), true, asked).await
}

/// A user's subscription.
///
/// # Errors
/// What the store could not do.
pub async fn subscription<E: Engine>(store: &Store<E>, user: &str, id: &str) -> Result<Option<Item>, StoreError> {
    get(store, format!("USER#{user}"), format!("SUB#{id}")).await
}

/// The subscription that Stripe calls so, whose ever it is: `byStripeSub`.
///
/// # Errors
/// What the store could not do.
pub async fn subscription_by_stripe_id<E: Engine>(store: &Store<E>, id: &str) -> Result<Option<Item>, StoreError> {
    let page = index(store, &BY_STRIPE_SUB, format!("SUB#{id}"), true, Asked::default()).await?;
    Ok(page.items.into_iter().next())
}

/// A user's subscriptions.
///
/// # Errors
/// What the store could not do.
pub async fn subscriptions_of<E: Engine>(store: &Store<E>, user: &str, asked: Asked) -> Result<Page, StoreError> {
    list(store, format!("USER#{user}"), "SUB#", asked).await
}

/// A user's job.
///
/// # Errors
/// What the store could not do.
pub async fn job<E: Engine>(store: &Store<E>, user: &str, id: &str) -> Result<Option<Item>, StoreError> {
    get(store, format!("USER#{user}"), format!("JOB#{id}")).await
}

/// A user's jobs.
///
/// # Errors
/// What the store could not do.
pub async fn jobs_of<E: Engine>(store: &Store<E>, user: &str, asked: Asked) -> Result<Page, StoreError> {
    list(store, format!("USER#{user}"), "JOB#", asked).await
}

/// The jobs in a state, oldest first, because those are next: `jobsByStatus`.
///
/// # Errors
/// What the store could not do.
pub async fn jobs_by_status<E: Engine>(store: &Store<E>, status: JobStatus, asked: Asked) -> Result<Page, StoreError> {
    index(store, &JOBS_BY_STATUS, format!("JOBSTATUS#{}", status.as_str()), true, asked).await
}

/// An image.
///
/// # Errors
/// What the store could not do.
pub async fn image<E: Engine>(store: &Store<E>, id: &str) -> Result<Option<Item>, StoreError> {
    get(store, format!("IMG#{id}"), "META".to_owned()).await
}

/// A user's images, newest first: `imagesByUser`.
///
/// # Errors
/// What the store could not do.
pub async fn images_by_user<E: Engine>(store: &Store<E>, user: &str, asked: Asked) -> Result<Page, StoreError> {
    index(store, &IMAGES_BY_USER, format!("USER#{user}"), false, asked).await
}

/// The rows of the tag index under a tag.
///
/// # Errors
/// What the store could not do.
pub async fn images_by_tag<E: Engine>(store: &Store<E>, tag: &str, asked: Asked) -> Result<Page, StoreError> {
    list(store, tags::partition(tag), "IMG#", asked).await
}

/// A report of an image.
///
/// # Errors
/// What the store could not do.
pub async fn report<E: Engine>(store: &Store<E>, image: &str, id: &str) -> Result<Option<Item>, StoreError> {
    get(store, format!("IMG#{image}"), format!("REPORT#{id}")).await
}

/// The reports of an image.
///
/// # Errors
/// What the store could not do.
pub async fn reports_of<E: Engine>(store: &Store<E>, image: &str, asked: Asked) -> Result<Page, StoreError> {
    list(store, format!("IMG#{image}"), "REPORT#", asked).await
}

/// The reports in a state, oldest first: `reportsByStatus`.
///
/// # Errors
/// What the store could not do.
pub async fn reports_by_status<E: Engine>(store: &Store<E>, status: ReportStatus, asked: Asked) -> Result<Page, StoreError> {
    index(store, &REPORTS_BY_STATUS, format!("REPORTSTATUS#{}", status.as_str()), true, asked).await
}

/// A feature flag.
///
/// # Errors
/// What the store could not do.
pub async fn flag<E: Engine>(store: &Store<E>, name: &str) -> Result<Option<Item>, StoreError> {
    get(store, FLAGS.to_owned(), name.to_owned()).await
}

/// The feature flags.
///
/// # Errors
/// What the store could not do.
pub async fn flags<E: Engine>(store: &Store<E>, asked: Asked) -> Result<Page, StoreError> {
    list(store, FLAGS.to_owned(), "", asked).await
}

/// A plan.
///
/// # Errors
/// What the store could not do.
pub async fn plan<E: Engine>(store: &Store<E>, id: &str) -> Result<Option<Item>, StoreError> {
    get(store, format!("PLAN#{id}"), "META".to_owned()).await
}

/// The plans that can be bought, or those that cannot, oldest first: `plansByActive`.
///
/// # Errors
/// What the store could not do.
pub async fn plans_by_active<E: Engine>(store: &Store<E>, active: bool, asked: Asked) -> Result<Page, StoreError> {
    index(store, &PLANS_BY_ACTIVE, format!("PLANACTIVE#{active}"), true, asked).await
}

async fn get<E: Engine>(store: &Store<E>, partition: String, sort: String) -> Result<Option<Item>, StoreError> {
    store.engine.get(&FIGUREFORGE, Key { partition, sort: Some(sort) }).await
}

async fn index<E: Engine>(store: &Store<E>, index: &Index, partition: String, forward: bool, asked: Asked) -> Result<Page, StoreError> {
    let Asked { limit, start } = asked;
    store.engine.query(Query { forward, limit, start, ..Query::index(&FIGUREFORGE, index.name, partition) }).await
}

/// What a partition has that starts like that and is not deleted.
async fn list<E: Engine>(store: &Store<E>, partition: String, prefix: &str, asked: Asked) -> Result<Page, StoreError> {
    let Asked { limit, start } = asked;
    let query = match prefix {
        "" => Query::partition(&FIGUREFORGE, partition),
        prefix => Query::prefix(&FIGUREFORGE, partition, prefix),
    };
    let filter = Condition::Equals("deleted_at", Value::Null);
    store.engine.query(Query { limit, start, filter, ..query }).await
}
