//! The primary row as a read model of history.

use dues_events::billing::record::{History, Record};

/// The record that a whole history folds to. Rows come in version order, and go through the same function as
/// live traffic. If two workers both recorded an event, it is taken once.
#[must_use]
pub fn replay<'a>(rows: impl IntoIterator<Item = &'a History>) -> Option<Record> {
    rows.into_iter().fold(None, |record: Option<Record>, row| match (record, &row.token) {
        (Some(record), Some(token)) if record.applied.contains(token) => Some(record),
        (record, _) => Some(row.apply_to(record.as_ref())),
    })
}
