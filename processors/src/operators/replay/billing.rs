//! Rebuilds billing records from their history.

use dues_events::Item;
use dues_events::billing::record::{History, Record};
use dues_events::billing::replay::{Replay, StoredRow, check_successors, replay};
use dues_store::StoreError;
use dues_store::table::{BILLING_ACTIVITY, Table};

/// The records of one user: every decision in the history that the live records say has happened is taken
/// again.
///
/// # Errors
/// [`StoreError::Invalid`] names the first row that cannot be decoded or is not what its event gives: a wrong
/// history is not made true.
pub(super) fn rows(history: Vec<Item>, live: Vec<Item>) -> Result<Vec<(&'static Table, Item)>, StoreError> {
    let mut history = history.into_iter().map(StoredRow::read).collect::<Result<Vec<_>, _>>()?;
    // A live row that cannot be decoded is repaired from all of its history.
    let live: Vec<Record> = live.into_iter().filter_map(|item| Record::from_item(item).ok()).collect();
    in_order(&mut history);
    let replays = replays(&history, &live);
    let own =
        replays.iter().enumerate().flat_map(|(n, replay)| replay.faults.iter().map(move |f| (n, f.clone())));
    if let Some((n, fault)) = own.chain(check_successors(&replays)).next() {
        let id = replays[n].record.as_ref().map_or("", |record| record.subscription_id.as_str());
        let key = fault.key.map_or(String::new(), |key| key.text());
        return Err(StoreError::Invalid(format!("record {id}, history row {key}: {}", fault.fault)));
    }
    // What is ahead of the record is an interrupted commit, which replay completes.
    let records = replays.iter().filter_map(Replay::completed);
    Ok(records.map(|record| (&BILLING_ACTIVITY, record.to_item())).collect())
}

/// Takes the history of each of a user's records again. Rows are sorted by record.
pub(crate) fn replays<'a>(history: &'a [StoredRow], live: &[Record]) -> Vec<Replay<'a>> {
    let same = |a: &StoredRow, b: &StoredRow| a.row.record.subscription_id == b.row.record.subscription_id;
    let of = |rows: &'a [StoredRow]| {
        let id = &rows[0].row.record.subscription_id;
        replay(rows, live.iter().find(|record| record.subscription_id == *id))
    };
    history.chunk_by(same).map(of).collect()
}

/// Sorts history by record, then by version.
pub(crate) fn in_order(history: &mut [StoredRow]) {
    let at = |row: &History| row.record.last_run_date.as_ref().map(|at| at.at());
    history.sort_by(|a, b| {
        let (a, b) = (&a.row, &b.row);
        let order = a
            .record
            .subscription_id
            .cmp(&b.record.subscription_id)
            .then(a.record.version.cmp(&b.record.version));
        order.then_with(|| at(a).cmp(&at(b)))
    });
}
