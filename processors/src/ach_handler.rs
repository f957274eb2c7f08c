//! `ach-handler`: what became of debits, from Kinesis `site-payments` to the billing records.

use aws_lambda_events::event::kinesis::KinesisEvent;
use aws_lambda_events::event::streams::KinesisEventResponse;
use dues_events::ach::ReturnCode;
use dues_events::event::{Event, Happening};
use dues_events::ids::{SubscriptionId, UserId};
use dues_events::wire::WireError;
use dues_events::wire::site_payments::{Settlement, decode};
use dues_store::user::UserRecords;
use dues_store::{CommitError, Committed, Engine, Store};

use crate::batch::{Context, Fate, Handler, Incoming, Report, process};
use crate::kinesis;

/// The stream it reads.
pub const STREAM: &str = "site-payments";

/// Handles one batch of `site-payments`.
pub async fn ach_handler<E: Engine>(context: &Context<E>, batch: KinesisEvent) -> KinesisEventResponse {
    let records = kinesis::incoming(batch);
    let report = process::<AchHandler, E>(context, &records).await;
    tell_debits(&records, &report);
    kinesis::answer(STREAM, &records, &report, context.store.clock.now())
}

/// Says in the log how many debits others have sent, and how many came back: the rates of both are watched. `projections::return_rates` tells
/// them exactly, from history.
fn tell_debits(records: &[Incoming], report: &Report) {
    let (mut debits, mut returned, mut unauthorised, mut administrative) = (0_u64, 0_u64, 0_u64, 0_u64);
    let applied = records.iter().zip(&report.fates).filter(|(_, fate)| **fate == Fate::Applied);
    for settlement in applied.filter_map(|(record, _)| decode(&record.data).ok().flatten()) {
        let happening = &settlement.event.happening;
        debits += u64::from(matches!(happening, Happening::Sent { .. }));
        if let Happening::Failed { failure, .. } | Happening::ChargedBack { failure, .. } = happening {
            let (charged_back, code) = (matches!(happening, Happening::ChargedBack { .. }), failure.code());
            returned += 1;
            unauthorised += u64::from(charged_back || code.is_some_and(ReturnCode::is_unauthorised));
            administrative += u64::from(!charged_back && code.is_some_and(ReturnCode::is_administrative));
        }
    }
    if debits + returned > 0 {
        tracing::info!(debits, returned, unauthorised, administrative, "debits");
    }
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
