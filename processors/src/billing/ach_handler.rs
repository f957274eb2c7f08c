//! `ach-handler`: settlements, returns, refunds and chargebacks, from the Kinesis stream `site-payments` to
//! the billing records.

use aws_lambda_events::event::kinesis::KinesisEvent;
use aws_lambda_events::event::streams::KinesisEventResponse;
use dues_events::billing::event::{Event, EventKind};
use dues_events::billing::wire::site_payments::{Settlement, decode};
use dues_events::collections::ach::ReturnCode;
use dues_events::ids::{SubscriptionId, UserId};
use dues_events::wire::WireError;
use dues_store::billing::user_records::UserRecords;
use dues_store::{CommitError, Committed, Engine, Store};

use crate::aws::triggers::kinesis;
use crate::billing::user_lanes::{BillingHandler, process};
use crate::runtime::context::Context;
use crate::runtime::lanes::{BatchReport, Delivery, Outcome};

/// The stream it reads.
pub const STREAM: &str = "site-payments";

/// Handles one batch of `site-payments`.
pub async fn ach_handler<E: Engine>(context: &Context<E>, batch: KinesisEvent) -> KinesisEventResponse {
    let records = kinesis::deliveries(batch);
    let report = process::<AchHandler, E>(context, &records).await;
    log_debits(&records, &report);
    kinesis::answer(STREAM, &records, &report, context.store.clock.now())
}

/// Logs how many debits were sent and returned, for the rates on the dashboard.
/// `projections::collections::return_rates` computes them exactly, from history.
fn log_debits(records: &[Delivery], report: &BatchReport) {
    let (mut debits, mut returned, mut unauthorised, mut administrative) = (0_u64, 0_u64, 0_u64, 0_u64);
    let applied = records.iter().zip(&report.outcomes).filter(|(_, outcome)| **outcome == Outcome::Applied);
    for settlement in applied.filter_map(|(record, _)| decode(&record.data).ok().flatten()) {
        let kind = &settlement.event.kind;
        debits += u64::from(matches!(kind, EventKind::Sent { .. }));
        if let EventKind::Failed { failure, .. } | EventKind::ChargedBack { failure, .. } = kind {
            let (charged_back, code) = (matches!(kind, EventKind::ChargedBack { .. }), failure.code());
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

impl BillingHandler for AchHandler {
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

    async fn apply<E: Engine>(
        store: &Store<E>,
        user: &mut UserRecords,
        settlement: &Settlement,
    ) -> Result<Committed, CommitError> {
        store.apply(user, &settlement.subscription_id, &settlement.event).await
    }
}
