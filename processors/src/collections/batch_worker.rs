//! `batch-worker`: an operator's list of records to collect.

use dues_events::collect::{Ask, Run};
use dues_events::wire::WireError;
use dues_events::{Rejection, SubscriptionId};
use dues_store::{CommitError, Engine};

use super::{Collector, Visit};
use crate::batch::{Fate, Incoming, park_record};
use crate::fields::Fields;
use crate::gateway::Gateway;

/// The queue's name among the parked records.
pub const QUEUE: &str = "batch";

/// A list, as it comes on the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchList {
    /// The records.
    pub subscription_ids: Vec<SubscriptionId>,
    /// The members have put other accounts on file.
    pub new_account: bool,
    /// The members have authorised the debits afresh.
    pub authorised: bool,
}

impl BatchList {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, WireError> {
        let fields = Fields::read(bytes, "message")?;
        Ok(Self {
            subscription_ids: fields.ids("subscription_ids")?.into_iter().map(SubscriptionId::from).collect(),
            new_account: fields.flag("new_account")?,
            authorised: fields.flag("authorised")?,
        })
    }
}

/// Collects every record of a list and tells what each came to. A record that is not there is parked, and the others go on.
///
/// # Errors
/// The list has to be delivered again: what was done is not done twice.
pub async fn batch_worker<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    message: &Incoming,
) -> Result<Vec<(SubscriptionId, Option<Visit>)>, String> {
    let list = match BatchList::read(&message.data) {
        Ok(list) => list,
        Err(error) => {
            return parked(park_record(&collector.store, QUEUE, message, "malformed", error.to_string()).await).map(|()| Vec::new());
        }
    };
    let mut done = Vec::with_capacity(list.subscription_ids.len());
    for id in &list.subscription_ids {
        let visit = match collect_one(collector, &list, id).await {
            Ok(visit) => Some(visit),
            Err(CommitError::Rejected(rejection)) => {
                let body = serde_json::json!({"subscription_ids": [id], "new_account": list.new_account, "authorised": list.authorised});
                let one = Incoming { data: body.to_string().into_bytes(), ..message.clone() };
                parked(park_record(&collector.store, QUEUE, &one, rejection.code(), rejection.to_string()).await)?;
                None
            }
            Err(CommitError::Store(error)) => return Err(error.to_string()),
        };
        done.push((id.clone(), visit));
    }
    Ok(done)
}

async fn collect_one<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    list: &BatchList,
    id: &SubscriptionId,
) -> Result<Visit, CommitError> {
    let record = collector.store.get_by_id(id).await?.ok_or_else(|| Rejection::UnknownSubscription(id.clone()))?;
    let ask = Ask { only: Some(id.clone()), new_account: list.new_account, authorised: list.authorised, ..Ask::of(Run::Batch) };
    collector.visit(&record.user_id, &ask).await
}

fn parked(fate: Fate) -> Result<(), String> {
    match fate {
        Fate::Failed(reason) => Err(reason),
        Fate::Parked | Fate::Applied | Fate::Duplicate | Fate::Ignored | Fate::Skipped => Ok(()),
    }
}
