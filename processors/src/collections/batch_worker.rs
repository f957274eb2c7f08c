//! `batch-worker`: an operator's list of records to collect.

use dues_events::collections::eligibility::{CollectionRequest, Trigger};
use dues_events::wire::WireError;
use dues_events::{Rejection, SubscriptionId};
use dues_store::{CommitError, Engine};

use super::{Collector, UserCollection};
use crate::collections::gateway::Gateway;
use crate::runtime::json_fields::Fields;
use crate::runtime::lanes::{Delivery, Outcome};
use crate::runtime::parking::park_record;

/// The stream name of parked messages.
pub const QUEUE: &str = "batch";

/// A message of the queue: records to collect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchList {
    /// The records.
    pub subscription_ids: Vec<SubscriptionId>,
    /// The members have new accounts on file.
    pub new_account: bool,
    /// The members have authorised the debits again.
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

/// Collects every record of a list; a rejected record is parked and does not stop the others.
///
/// # Errors
/// A store failure: the message must be redelivered, which is idempotent.
pub async fn batch_worker<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    message: &Delivery,
) -> Result<Vec<(SubscriptionId, Option<UserCollection>)>, String> {
    let list = match BatchList::read(&message.data) {
        Ok(list) => list,
        Err(error) => {
            return parked(
                park_record(&collector.store, QUEUE, message, "malformed", error.to_string()).await,
            )
            .map(|()| Vec::new());
        }
    };
    let mut done = Vec::with_capacity(list.subscription_ids.len());
    for id in &list.subscription_ids {
        let collection = match collect_one(collector, &list, id).await {
            Ok(collection) => Some(collection),
            Err(CommitError::Rejected(rejection)) => {
                let body = serde_json::json!({"subscription_ids": [id], "new_account": list.new_account,
                    "authorised": list.authorised});
                let one = Delivery { data: body.to_string().into_bytes(), ..message.clone() };
                parked(
                    park_record(&collector.store, QUEUE, &one, rejection.code(), rejection.to_string()).await,
                )?;
                None
            }
            Err(CommitError::Store(error)) => return Err(error.to_string()),
        };
        done.push((id.clone(), collection));
    }
    Ok(done)
}

async fn collect_one<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    list: &BatchList,
    id: &SubscriptionId,
) -> Result<UserCollection, CommitError> {
    let record =
        collector.store.get_by_id(id).await?.ok_or_else(|| Rejection::UnknownSubscription(id.clone()))?;
    let request = CollectionRequest {
        only: Some(id.clone()),
        new_account: list.new_account,
        authorised: list.authorised,
        ..CollectionRequest::triggered_by(Trigger::Batch)
    };
    collector.collect_user(&record.user_id, &request).await
}

fn parked(outcome: Outcome) -> Result<(), String> {
    match outcome {
        Outcome::Failed(reason) => Err(reason),
        Outcome::Parked | Outcome::Applied | Outcome::Duplicate | Outcome::Ignored | Outcome::Skipped => {
            Ok(())
        }
    }
}
