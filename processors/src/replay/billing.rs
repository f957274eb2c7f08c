//! Billing records, from their history.

use dues_events::record::{History, Record};
use dues_events::{Item, SubscriptionId, attr};
use dues_projections::billing_record::replay;
use dues_store::table::{BILLING_ACTIVITY, HISTORY};
use dues_store::{Condition, Engine, Store, StoreError};
use futures::stream::{StreamExt as _, TryStreamExt as _, iter};

use super::{PARALLEL, each_page};

/// How many users' records are written at once.
const USERS: usize = 200;

/// Folds every history into its record.
pub(super) async fn rebuild<E: Engine, F: Engine>(
    from: &Store<E>,
    into: &Store<F>,
    mut progress: impl FnMut(u64),
) -> Result<u64, StoreError> {
    let (mut rows, mut users): (u64, Vec<Vec<History>>) = (0, Vec::new());
    each_page(from, &HISTORY, async |items: Vec<Item>| {
        for item in items {
            rows += 1;
            let user = item.text(attr::USER_ID).unwrap_or_default().to_owned();
            let row = History::from_item(item)?;
            match users.last_mut().filter(|known| known.first().is_some_and(|first| first.record.user_id.as_str() == user)) {
                // Items of one user come together.
                Some(known) => known.push(row),
                None => {
                    if users.len() >= USERS {
                        write(into, std::mem::take(&mut users)).await?;
                        progress(rows);
                    }
                    users.push(vec![row]);
                }
            }
        }
        Ok(())
    })
    .await?;
    write(into, users).await?;
    progress(rows);
    Ok(rows)
}

async fn write<F: Engine>(into: &Store<F>, users: Vec<Vec<History>>) -> Result<(), StoreError> {
    let records = users.into_iter().flat_map(fold);
    let writes = records.map(|record| into.engine.put(&BILLING_ACTIVITY, record.to_item(), Condition::Always));
    iter(writes).buffer_unordered(PARALLEL).try_for_each(async |_| Ok(())).await
}

/// The records of one user.
fn fold(mut rows: Vec<History>) -> Vec<Record> {
    let place = |row: &History| -> (SubscriptionId, u64, _) {
        (row.record.subscription_id.clone(), row.record.version, row.record.last_run_date.as_ref().map(|at| at.at()))
    };
    rows.sort_by_cached_key(place);
    rows.chunk_by(|a, b| a.record.subscription_id == b.record.subscription_id).filter_map(replay).collect()
}
