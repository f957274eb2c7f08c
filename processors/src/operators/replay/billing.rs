//! Rebuilds billing records from their history.

use dues_events::Item;
use dues_events::billing::record::History;
use dues_projections::billing::record::replay;
use dues_store::StoreError;
use dues_store::table::{BILLING_ACTIVITY, Table};

/// The records of one user.
pub(super) fn rows(history: Vec<Item>) -> Result<Vec<(&'static Table, Item)>, StoreError> {
    let mut history = history.into_iter().map(History::from_item).collect::<Result<Vec<_>, _>>()?;
    in_order(&mut history);
    let records =
        history.chunk_by(|a, b| a.record.subscription_id == b.record.subscription_id).filter_map(replay);
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
