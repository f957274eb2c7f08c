//! `ach-handler`: what became of debits, from Kinesis `site-payments` to the billing records.

use aws_lambda_events::event::kinesis::KinesisEvent;
use aws_lambda_events::event::streams::KinesisEventResponse;
use dues_events::event::Event;
use dues_events::ids::{SubscriptionId, UserId};
use dues_events::wire::WireError;
use dues_events::wire::site_payments::{Settlement, decode};
use dues_store::user::UserRecords;
use dues_store::{CommitError, Committed, Engine, Store};

use crate::batch::{Context, Handler};
use crate::kinesis;

/// The stream it reads.
pub const STREAM: &str = "site-payments";

/// Handles one batch of `site-payments`.
pub async fn ach_handler<E: Engine>(context: &Context<E>, batch: KinesisEvent) -> KinesisEventResponse {
    kinesis::handle::<AchHandler, E>(context, batch).await
}

/// Settlements, returns, refunds and chargebacks.
#[derive(Debug, Clone, Copy)]
pub struct AchHandler;

impl Handler for AchHandler {
    type Event = Settlement;
    const STREAM: &'static str = STREAM;

    fn decode(bytes: &[u8]) -> Result<Option<Settlement>, WireError> {
        decode(bytes)
    }

    fn user(settlement: &Settlement) -> &UserId {
        &settlement.user_id
    }

    fn target(_: &UserRecords, settlement: &Settlement) -> Option<(SubscriptionId, Event)> {
        Some((settlement.subscription_id.clone(), settlement.event.clone()))
    }

    async fn apply<E: Engine>(store: &Store<E>, user: &mut UserRecords, settlement: &Settlement) -> Result<Committed, CommitError> {
        store.apply(user, &settlement.subscription_id, &settlement.event).await
    }
}
