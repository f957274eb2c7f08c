//! The primary row as a read model of history.

use dues_events::record::{History, Record};

/// The record that a whole history tells of. Rows come in version order; each is folded in with the same function that live traffic uses. An event that
/// two workers wrote down at once is taken once.
#[must_use]
pub fn replay<'a>(rows: impl IntoIterator<Item = &'a History>) -> Option<Record> {
    rows.into_iter().fold(None, |record: Option<Record>, row| match (record, &row.stamp) {
        (Some(record), Some(stamp)) if record.applied.holds(stamp) => Some(record),
        (record, _) => Some(row.onto(record.as_ref())),
    })
}
