//! Scans of whole tables: batches of partitions, processed concurrently.
//!
//! The scan itself lists only partition keys. Each batch reads its own rows, from one snapshot where the
//! engine supports it, so that reading and decoding use all cores.

use dues_events::Item;
use dues_store::table::Table;
use dues_store::{Cursor, Engine, Key, Query, Store, StoreError};
use futures::stream::{FuturesUnordered, StreamExt as _};
use std::future::Future;

/// Keys per page.
const PAGE: u32 = 4000;
/// Partition batches processed concurrently.
const PARALLEL: usize = 4;

/// Calls `each` with every key of a table.
pub(crate) async fn each_key<E: Engine>(
    store: &Store<E>,
    table: &'static Table,
    mut each: impl FnMut(Key),
) -> Result<(), StoreError> {
    let mut start: Option<Cursor> = None;
    loop {
        let page = store.engine.keys(table, start, PAGE).await?;
        page.keys.into_iter().for_each(&mut each);
        match page.next {
            Some(next) => start = Some(next),
            None => return Ok(()),
        }
    }
}

/// The partition keys of a table that are `wanted`, each once.
pub(crate) async fn partitions<E: Engine>(
    store: &Store<E>,
    table: &'static Table,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<String>, StoreError> {
    let mut names: Vec<String> = Vec::new();
    // Items of one partition are adjacent.
    each_key(store, table, |key| {
        if names.last() != Some(&key.partition) && wanted(&key.partition) {
            names.push(key.partition);
        }
    })
    .await?;
    Ok(names)
}

/// Runs `work` on batches of `batch_size` partition keys, each in its own task, and calls `done` with each
/// result, in no particular order.
pub(crate) async fn side_by_side<E, T, F>(
    store: &Store<E>,
    names: Vec<String>,
    batch_size: usize,
    work: impl Fn(Store<E>, Vec<String>) -> F,
    mut done: impl FnMut(T),
) -> Result<(), StoreError>
where
    E: Engine,
    T: Send + 'static,
    F: Future<Output = Result<T, StoreError>> + Send + 'static,
{
    let mut running = FuturesUnordered::new();
    let mut names = names.into_iter();
    loop {
        let some: Vec<String> = names.by_ref().take(batch_size).collect();
        let last = some.is_empty();
        if !last {
            running.push(tokio::spawn(work(store.clone(), some)));
        }
        while running.len() >= PARALLEL || (last && !running.is_empty()) {
            let Some(worked) = running.next().await else { break };
            done(
                worked.map_err(|error| {
                    StoreError::Invalid(format!("a part of the work broke off: {error}"))
                })??,
            );
        }
        if last {
            return Ok(());
        }
    }
}

/// All items of each query.
pub(crate) async fn read<E: Engine>(
    store: &Store<E>,
    queries: Vec<Query>,
) -> Result<Vec<Vec<Item>>, StoreError> {
    let pages = store.engine.query_many(queries.clone()).await;
    let mut all = Vec::with_capacity(queries.len());
    for (query, page) in queries.into_iter().zip(pages) {
        let page = page?;
        let mut items = page.items;
        if let Some(next) = page.next {
            items.extend(store.all(Query { start: Some(next), ..query }).await?);
        }
        all.push(items);
    }
    Ok(all)
}
