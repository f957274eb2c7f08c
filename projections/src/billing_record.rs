//! The primary row as a read model of history.

use dues_events::record::{History, Record};

/// The record that a whole history tells of. Rows come in version order; each is folded in with the same function that live traffic uses.
#[must_use]
pub fn replay<'a>(rows: impl IntoIterator<Item = &'a History>) -> Option<Record> {
    rows.into_iter().fold(None, |record, row| Some(row.onto(record.as_ref())))
}
