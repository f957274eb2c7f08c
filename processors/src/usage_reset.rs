//! `usage-reset`: forgets what was used on days that are over, day by day and page by page.
//!
//! A day that was done to its end is noted. The next run begins with that day again, because a count that was under way at midnight may have come after
//! the run, and catches up with the days that no run has seen. Whatever a run that was cut short has forgotten stays forgotten; the next one finds
//! the rest.

use chrono::NaiveDate;
use dues_store::{Engine, Store, StoreError};
use futures::stream::{StreamExt as _, iter};
use serde::Serialize;

use crate::read_models::usage::Settings;

/// How many rows are read at once.
const PAGE: u32 = 200;
/// How many rows are forgotten at once.
const PARALLEL: usize = 64;

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reset {
    /// How many days it went through.
    pub days: u64,
    /// Rows that it has forgotten.
    pub rows: u64,
    /// Rows that another run has forgotten meanwhile.
    pub gone: u64,
    /// The last day.
    pub through: NaiveDate,
}

/// Forgets what was used before today, UTC, telling after each page how far it has come.
///
/// # Errors
/// What the store could not do. It can be run again at any time.
pub async fn usage_reset<E: Engine>(store: &Store<E>, settings: &Settings, mut told: impl FnMut(&Reset)) -> Result<Reset, StoreError> {
    let today = store.clock.now().date_naive();
    let mut reset = Reset { days: 0, rows: 0, gone: 0, through: today };
    for day in first_day(store, settings, today).await?.iter_days().take_while(|day| *day <= today) {
        reset_day(store, day, &mut reset, &mut told).await?;
        store.note_usage_reset(day).await?;
        reset.days += 1;
    }
    Ok(reset)
}

/// The last day that was done; where none was, the earliest on which there is something to forget.
async fn first_day<E: Engine>(store: &Store<E>, settings: &Settings, today: NaiveDate) -> Result<NaiveDate, StoreError> {
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
    told: &mut impl FnMut(&Reset),
) -> Result<(), StoreError> {
    let mut start = None;
    loop {
        let page = store.usage_to_reset(day, start, PAGE).await?;
        // Collected: a future over borrowed rows, made on the way, could not be sent to another thread.
        let forgetting: Vec<_> = page.items.iter().map(|row| store.forget_usage(row, day)).collect();
        let mut forgotten = iter(forgetting).buffer_unordered(PARALLEL);
        while let Some(done) = forgotten.next().await {
            if done? {
                reset.rows += 1;
            } else {
                reset.gone += 1;
            }
        }
        told(reset);
        match page.next {
            Some(next) => start = Some(next),
            None => return Ok(()),
        }
    }
}
