//! The planned presentments of a member's failed records, for operators and members to see.

use dues_events::collections::eligibility::{
    CollectionRequest, Eligibility, Reason, Rules, Trigger, eligibility,
};
use dues_events::collections::retry_plan::RetryPlan;
use dues_events::{Record, Status, SubscriptionId};
use dues_store::{Engine, Store, StoreError};
use std::collections::BTreeMap;

/// When each of a member's failed records is presented again, if that is planned for a later day. Reads the
/// incomes only if a record has failed.
pub async fn planned_retries<E: Engine>(
    store: &Store<E>,
    rules: &Rules,
    records: &[Record],
) -> Result<BTreeMap<SubscriptionId, RetryPlan>, StoreError> {
    let Some(failed) = records.iter().find(|record| record.status() == Status::Error) else {
        return Ok(BTreeMap::new());
    };
    let incomes = Some(store.incomes(&failed.user_id).await?);
    let request = CollectionRequest { incomes, ..CollectionRequest::triggered_by(Trigger::Retry) };
    let now = store.clock.now();
    let plan = |record: &Record| match eligibility(rules, &request, record, records, now) {
        Eligibility::Skip(Reason::RetryPlanned(plan)) => Some((record.subscription_id.clone(), plan)),
        Eligibility::Skip(_)
        | Eligibility::Collect(_)
        | Eligibility::Complete
        | Eligibility::Resolve(_)
        | Eligibility::Cancel
        | Eligibility::Stale
        | Eligibility::Expire
        | Eligibility::Remind => None,
    };
    Ok(records.iter().filter_map(plan).collect())
}
