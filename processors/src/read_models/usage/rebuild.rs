//! The three tables, made again from history: the plans from the journal, the counts from the log of actions, and the log, which is history itself, copied.

use chrono::NaiveDate;
use dues_events::usage::{Count, Logged, Used, reset_date};
use dues_events::{Time, UserId};
use dues_projections::usage::Usage;
use dues_store::table::usage::{ACTIONS_LOG, USER_USAGE};
use dues_store::{Engine, Store, StoreError};
use std::collections::BTreeMap;

use crate::read_models::booking::{self, write_rows};

/// How many rows of the log are read at once.
const PAGE: u32 = 500;

/// Makes all rows again in another store, whose tables are empty, and gives their number.
///
/// # Errors
/// What a store could not do, or a row that cannot be read.
pub async fn rebuild<E: Engine, F: Engine>(from: &Store<E>, into: &Store<F>) -> Result<u64, StoreError> {
    Ok(booking::rebuild::<Usage, E, F>(from, into, |_| Vec::new()).await? + rebuild_usage(from, into).await?)
}

/// The log comes user by user, so one user's counts are all that is held at a time.
async fn rebuild_usage<E: Engine, F: Engine>(from: &Store<E>, into: &Store<F>) -> Result<u64, StoreError> {
    let through = from.usage_reset_through().await?;
    let (mut rows, mut start, mut counts) = (0, None, None);
    loop {
        let page = from.engine.scan(&ACTIONS_LOG, start, PAGE).await?;
        rows += write_rows(into, page.items.iter().map(|item| (&ACTIONS_LOG, item.clone())).collect()).await?;
        for item in page.items {
            let logged = Logged::from_item(item)?;
            let mut counting = match counts.take() {
                Some(counting) if same_user(&counting, &logged) => counting,
                before => {
                    rows += finish(into, before).await?;
                    Counts { user: logged.user.clone(), days: BTreeMap::new() }
                }
            };
            counting.add(logged.count, through);
            counts = Some(counting);
        }
        match page.next {
            Some(next) => start = Some(next),
            None => return Ok(rows + finish(into, counts).await?),
        }
    }
}

/// What one user has used: for each feature and day the first time, and the action that moved the count furthest.
struct Counts {
    user: UserId,
    days: BTreeMap<(String, NaiveDate), (Time, Count)>,
}

impl Counts {
    /// Days that the reset has gone through are forgotten.
    fn add(&mut self, count: Count, through: Option<NaiveDate>) {
        if through.is_some_and(|through| reset_date(count.day()) <= through) {
            return;
        }
        let at = count.action.at;
        let (first, furthest) = self.days.entry((count.feature.clone(), count.day())).or_insert_with(|| (at, count.clone()));
        if count.before == 0 {
            *first = at;
        }
        if count.after > furthest.after {
            *furthest = count;
        }
    }
}

fn same_user(counts: &Counts, logged: &Logged) -> bool {
    counts.user == logged.user
}

async fn finish<F: Engine>(into: &Store<F>, counts: Option<Counts>) -> Result<u64, StoreError> {
    let Some(Counts { user, days }) = counts else { return Ok(0) };
    let used = days.into_values().map(|(first, count)| (&USER_USAGE, Used::after(&user, &count, first).to_item()));
    write_rows(into, used.collect()).await
}
