//! Jobs: the state of a document's processing.

use dues_events::Item;
use dues_projections::serenya::document::JOB;
use dues_store::table::serenya::SERENYA;
use dues_store::{Engine, Key, Query, Store, StoreError};

use super::{USER, data};

/// The job of a file; `None` when there is no such file.
pub async fn job<E: Engine>(store: &Store<E>, user: &str, file: &str) -> Result<Option<Item>, StoreError> {
    let key = Key { partition: format!("{USER}{user}"), sort: Some(format!("{JOB}{file}")) };
    Ok(store.engine.get(&SERENYA, key).await?.and_then(|row| data(row, store.clock.now())))
}

/// A user's jobs, latest upload first. Rows are sorted by file name, so all of them are read.
pub async fn jobs<E: Engine>(store: &Store<E>, user: &str, limit: usize) -> Result<Vec<Item>, StoreError> {
    let rows = store.all(Query::prefix(&SERENYA, format!("{USER}{user}"), JOB)).await?;
    let mut jobs: Vec<Item> = rows.into_iter().filter_map(|row| data(row, store.clock.now())).collect();
    // Time texts omit trailing zeros, so they do not sort by time.
    let uploaded = |job: &Item| job.text("uploaded_at").and_then(|at| dues_events::time::parse(at).ok());
    jobs.sort_by_key(|job| std::cmp::Reverse(uploaded(job)));
    jobs.truncate(limit);
    Ok(jobs)
}
