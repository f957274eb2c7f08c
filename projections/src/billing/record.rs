//! The primary row as a read model of history.

use dues_events::billing::record::{History, Record};

/// The record that a whole history folds to. Rows come in version order, and go through the same function as
/// live traffic. If two workers both recorded an event, it is taken once; a row that builds on a version that
/// another row has taken already lost its race, and has not happened.
#[must_use]
pub fn replay<'a>(rows: impl IntoIterator<Item = &'a History>) -> Option<Record> {
    rows.into_iter().fold(None, |record: Option<Record>, row| match (record, &row.token) {
        (Some(record), Some(token)) if record.applied.contains(token) => Some(record),
        (Some(record), Some(_)) if row.previous_version < record.version => Some(record),
        (record, _) => Some(row.apply_to(record.as_ref())),
    })
}

/// Whether a history row has happened: its event is in the record's list of applied events. Rows of older
/// writers carry no event, and have.
#[must_use]
pub fn is_committed(row: &History, record: &Record) -> bool {
    row.token.is_none_or(|token| record.applied.contains(&token))
}
