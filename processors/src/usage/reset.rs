//! `usage-reset`: deletes the usage of past days, day by day and page by page.
//!
//! Each completed day is recorded. The next run repeats that day, because a count that was in progress at
//! midnight may have been written after the run, and catches up on days that no run has processed.
//! Deletions of an interrupted run are final; the next run deletes the rest.

use chrono::NaiveDate;
use dues_store::{Engine, Store, StoreError};
use futures::stream::{StreamExt as _, iter};
use serde::Serialize;

use crate::usage::Settings;

/// Rows per page.
const PAGE: u32 = 200;
/// Rows deleted concurrently.
const PARALLEL: usize = 64;

/// Counts of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reset {
    /// Days processed.
    pub days: u64,
    /// Rows deleted.
    pub rows: u64,
    /// Rows that another run deleted first.
    pub gone: u64,
    /// The last day.
    pub through: NaiveDate,
}

/// Deletes the usage of the days before today, UTC, and reports progress after each page.
///
/// # Errors
/// Any [`StoreError`]. The job is idempotent: run it again.
pub async fn usage_reset<E: Engine>(
    store: &Store<E>,
    settings: &Settings,
    mut on_progress: impl FnMut(&Reset),
) -> Result<Reset, StoreError> {
    let today = store.clock.now().date_naive();
    let mut reset = Reset { days: 0, rows: 0, gone: 0, through: today };
    for day in first_day(store, settings, today).await?.iter_days().take_while(|day| *day <= today) {
        reset_day(store, day, &mut reset, &mut on_progress).await?;
        store.note_usage_reset(day).await?;
        reset.days += 1;
    }
    Ok(reset)
}

/// The last completed day; without one, the earliest day with usage to delete.
async fn first_day<E: Engine>(
    store: &Store<E>,
    settings: &Settings,
    today: NaiveDate,
) -> Result<NaiveDate, StoreError> {
    if let Some(done) = store.usage_reset_through().await? {
        return Ok(done.min(today));
    }
    let mut first = today;
    for feature in settings.plans.features() {
        first = store.earliest_reset(feature).await?.map_or(first, |earliest| earliest.min(first));
    }
    Ok(first)
}

async fn reset_day<E: Engine>(
    store: &Store<E>,
    day: NaiveDate,
    reset: &mut Reset,
    on_progress: &mut impl FnMut(&Reset),
) -> Result<(), StoreError> {
    let mut start = None;
    loop {
        let page = store.usage_to_reset(day, start, PAGE).await?;
        // Collected first: a lazily built future that borrows the rows would not be `Send`.
        let forgetting: Vec<_> = page.items.iter().map(|row| store.forget_usage(row, day)).collect();
        let mut forgotten = iter(forgetting).buffer_unordered(PARALLEL);
        while let Some(done) = forgotten.next().await {
            if done? {
                reset.rows += 1;
            } else {
                reset.gone += 1;
            }
        }
        on_progress(reset);
        match page.next {
            Some(next) => start = Some(next),
            None => return Ok(()),
        }
    }
}
