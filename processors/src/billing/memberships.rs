//! `memberships`: activations, cancellations, pauses and tier changes, from the Kinesis stream `memberships`
//! to the billing records.

use aws_lambda_events::event::kinesis::KinesisEvent;
use aws_lambda_events::event::streams::KinesisEventResponse;
use dues_events::billing::event::{Event, EventKind, Ignored};
use dues_events::billing::membership::MembershipEvent;
use dues_events::billing::wire::memberships::decode;
use dues_events::ids::{SubscriptionId, UserId};
use dues_events::wire::WireError;
use dues_store::billing::user_records::UserRecords;
use dues_store::{CommitError, Committed, Engine, Store};

use crate::aws::triggers::kinesis;
use crate::billing::user_lanes::{BillingHandler, process};
use crate::runtime::context::Context;

/// The stream it reads.
pub const STREAM: &str = "memberships";

/// Handles one batch of `memberships`.
pub async fn memberships<E: Engine>(context: &Context<E>, batch: KinesisEvent) -> KinesisEventResponse {
    let records = kinesis::deliveries(batch);
    let report = process::<Memberships, E>(context, &records).await;
    kinesis::answer(STREAM, &records, &report, context.store.clock.now())
}

/// Activations, cancellations, pauses and tier changes.
#[derive(Debug, Clone, Copy)]
pub struct Memberships;

impl BillingHandler for Memberships {
    type Event = MembershipEvent;
    const STREAM: &'static str = STREAM;

    fn decode(bytes: &[u8]) -> Result<Option<MembershipEvent>, WireError> {
        decode(bytes)
    }

    fn user(event: &MembershipEvent) -> &UserId {
        &event.user_id
    }

    /// A rejected change goes into the history of the user's newest record.
    fn target(user: &UserRecords, event: &MembershipEvent) -> Option<(SubscriptionId, Event)> {
        let newest = user.records.iter().max_by_key(|record| record.billing_date.at())?;
        Some((newest.subscription_id.clone(), event.step(EventKind::NoChange(Ignored::NothingOpen))))
    }

    async fn apply<E: Engine>(
        store: &Store<E>,
        user: &mut UserRecords,
        event: &MembershipEvent,
    ) -> Result<Committed, CommitError> {
        store.change(user, event).await
    }
}
