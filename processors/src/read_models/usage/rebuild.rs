//! The counts, made again from the log of actions, which is history itself.

use chrono::NaiveDate;
use dues_events::usage::{Count, Logged, Used, reset_date};
use dues_events::{Item, Time};
use dues_store::StoreError;
use dues_store::table::Table;
use dues_store::table::usage::USER_USAGE;
use std::collections::BTreeMap;

/// The counts of one user, of days that are not forgotten.
pub(crate) fn rows(log: Vec<Item>, forgotten: Option<NaiveDate>) -> Result<Vec<(&'static Table, Item)>, StoreError> {
    let (mut days, mut user) = (Days::new(), None);
    for item in log {
        let Logged { user: who, count, .. } = Logged::from_item(item)?;
        // Days that the reset has gone through are forgotten.
        if forgotten.is_none_or(|through| reset_date(count.day()) > through) {
            add(&mut days, count);
        }
        user = Some(who);
    }
    let Some(user) = user else { return Ok(Vec::new()) };
    Ok(days.into_values().map(|(first, count)| (&USER_USAGE, Used::after(&user, &count, first).to_item())).collect())
}

/// For each feature and day the first time, and the action that moved the count furthest.
type Days = BTreeMap<(String, NaiveDate), (Time, Count)>;

fn add(days: &mut Days, count: Count) {
    let at = count.action.at;
    let (first, furthest) = days.entry((count.feature.clone(), count.day())).or_insert_with(|| (at, count.clone()));
    if count.before == 0 {
        *first = at;
    }
    if count.after > furthest.after {
        *furthest = count;
    }
}
