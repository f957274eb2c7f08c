//! Rebuilds the counts from the log of actions, which is itself history.

use chrono::NaiveDate;
use dues_events::usage::{CountedAction, DailyUsage, LoggedAction, reset_date};
use dues_events::{Item, Time};
use dues_store::StoreError;
use dues_store::table::Table;
use dues_store::table::usage::USER_USAGE;
use std::collections::BTreeMap;

/// The counts of one user, without the days that were reset.
pub(crate) fn rows(
    log: Vec<Item>,
    forgotten: Option<NaiveDate>,
) -> Result<Vec<(&'static Table, Item)>, StoreError> {
    let (mut days, mut user) = (Days::new(), None);
    for item in log {
        let LoggedAction { user: who, count, .. } = LoggedAction::from_item(item)?;
        // The reset has deleted the counts of these days.
        if forgotten.is_none_or(|through| reset_date(count.day()) > through) {
            add(&mut days, count);
        }
        user = Some(who);
    }
    let Some(user) = user else { return Ok(Vec::new()) };
    Ok(days
        .into_values()
        .map(|(first, count)| (&USER_USAGE, DailyUsage::after(&user, &count, first).to_item()))
        .collect())
}

/// For each feature and day: the first time, and the action with the highest count.
type Days = BTreeMap<(String, NaiveDate), (Time, CountedAction)>;

fn add(days: &mut Days, count: CountedAction) {
    let at = count.action.at;
    let (first, furthest) =
        days.entry((count.feature.clone(), count.day())).or_insert_with(|| (at, count.clone()));
    if count.before == 0 {
        *first = at;
    }
    if count.after > furthest.after {
        *furthest = count;
    }
}
