//! Followers of change streams: each applies the changes of the tables, or parks them with the reason.

use dues_events::UserId;
use dues_store::Engine;
use dues_store::{Store, TableNames};
use std::future::Future;

use super::changes::Change;
use crate::runtime::lanes::{BatchReport, Delivery, Outcome};
use crate::runtime::parking::{Poison, park};

/// A consumer of changes.
pub trait Follower: Send + Sync {
    /// The engine of the tables.
    type Engine: Engine;

    /// The tables.
    fn store(&self) -> &Store<Self::Engine>;

    /// The deployment's table names.
    fn tables(&self) -> &TableNames;

    /// The stream name under which changes of a table are parked. Each follower has its own, since one may
    /// have applied a change that another has parked. The table's name comes after the last slash.
    fn parked_as(&self, table: &str) -> String;

    /// Applies changes idempotently, those of one user in order. A failure stops the user's later changes.
    fn follow(&self, changes: &[Change]) -> impl Future<Output = BatchReport> + Send;
}

/// Parks a change as it would have been delivered.
pub(crate) async fn park_change<F: Follower>(
    follower: &F,
    change: &Change,
    poison: Poison,
    user: &UserId,
) -> Outcome {
    let mut record = change.to_json();
    // A redelivery under another sequence number is the same parked record.
    if let Some(stream) = record["dynamodb"].as_object_mut() {
        stream.remove("SequenceNumber");
    }
    let delivery = Delivery {
        sequence: change.sequence.clone(),
        arrived: change.arrived,
        data: record.to_string().into_bytes(),
    };
    let stream = follower.parked_as(change.table.name);
    park(follower.store(), &stream, &delivery, poison, (None, Some(user.to_string()))).await
}
