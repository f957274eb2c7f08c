//! The primary row as a read model of history.

use dues_events::billing::record::{History, Record};
use dues_events::billing::replay::{self, StoredRow};

/// The record that a whole history folds to. Rows come in version order, and every decision is taken again
/// by the function of live traffic: `None` also when one of them is wrong.
#[must_use]
pub fn replay<'a>(rows: impl IntoIterator<Item = &'a History>) -> Option<Record> {
    let rows: Vec<StoredRow> = rows.into_iter().cloned().map(StoredRow::from).collect();
    let replay = replay::replay(&rows, None);
    replay.record.filter(|_| replay.faults.is_empty())
}

/// Whether a history row has happened: its event is in the record's list of applied events. Rows of older
/// writers carry no event, and have.
#[must_use]
pub fn is_committed(row: &History, record: &Record) -> bool {
    row.token.is_none_or(|token| record.applied.contains(&token))
}
