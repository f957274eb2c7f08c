//! Rebuilds billing records from their history.

use dues_events::Item;
use dues_events::billing::record::{History, Record};
use dues_projections::billing::record::{is_committed, replay};
use dues_store::StoreError;
use dues_store::table::{BILLING_ACTIVITY, Table};

/// The records of one user, from the history that the live records say has happened.
pub(super) fn rows(history: Vec<Item>, live: Vec<Item>) -> Result<Vec<(&'static Table, Item)>, StoreError> {
    let mut history = history.into_iter().map(History::from_item).collect::<Result<Vec<_>, _>>()?;
    // A live row that cannot be decoded is repaired from all of its history.
    let live: Vec<Record> = live.into_iter().filter_map(|item| Record::from_item(item).ok()).collect();
    in_order(&mut history);
    let records = history.chunk_by(|a, b| a.record.subscription_id == b.record.subscription_id);
    let records = records.filter_map(|rows| {
        let id = &rows[0].record.subscription_id;
        match live.iter().find(|record| record.subscription_id == *id && !record.applied.is_empty()) {
            // What is ahead of the record is an interrupted commit, which replay completes.
            Some(record) => replay(
                rows.iter().filter(|row| is_committed(row, record) || row.previous_version >= record.version),
            ),
            None => replay(rows),
        }
    });
    Ok(records.map(|record| (&BILLING_ACTIVITY, record.to_item())).collect())
}

/// Sorts history by record, then by version.
pub(crate) fn in_order(history: &mut [History]) {
    let at = |row: &History| row.record.last_run_date.as_ref().map(|at| at.at());
    history.sort_by(|a, b| {
        let order = a
            .record
            .subscription_id
            .cmp(&b.record.subscription_id)
            .then(a.record.version.cmp(&b.record.version));
        order.then_with(|| at(a).cmp(&at(b)))
    });
}
