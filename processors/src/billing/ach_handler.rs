//! `ach-handler`: settlements, returns, refunds and chargebacks, from the Kinesis stream `site-payments` to
//! the billing records.

use aws_lambda_events::event::kinesis::KinesisEvent;
use aws_lambda_events::event::streams::KinesisEventResponse;
use dues_events::billing::attempts::Resolution;
use dues_events::billing::decide::Rejection::{self, UnknownSubscription, WrongUser};
use dues_events::billing::event::{AttemptName, Event, EventKind, Report, ReportKind};
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
        let EventKind::Reported(report) = &settlement.event.kind else { continue };
        let (charged_back, failure) = match &report.kind {
            ReportKind::Sent => {
                debits += 1;
                continue;
            }
            ReportKind::Settled { .. } | ReportKind::Refunded { .. } => continue,
            ReportKind::Returned(failure) => (false, failure),
            ReportKind::ChargedBack(failure) => (true, failure),
        };
        let code = failure.code();
        returned += 1;
        unauthorised += u64::from(charged_back || code.is_some_and(ReturnCode::is_unauthorised));
        administrative += u64::from(!charged_back && code.is_some_and(ReturnCode::is_administrative));
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
        let committed = store.apply(user, &settlement.subscription_id, &settlement.event).await;
        let EventKind::Reported(report) = &settlement.event.kind else { return committed };
        match committed {
            Err(CommitError::Rejected(rejection @ (UnknownSubscription(_) | WrongUser(_)))) => {
                Box::pin(without_record(store, settlement, report, rejection)).await
            }
            Ok(committed) => {
                Box::pin(forward(store, user, settlement, report)).await?;
                Ok(committed)
            }
            Err(error) => Err(error),
        }
    }
}

/// Money for a record that does not exist is listed, with everything the bank says about it later. A report
/// of anything else about such a record is rejected.
async fn without_record<E: Engine>(
    store: &Store<E>,
    settlement: &Settlement,
    report: &Report,
    rejection: Rejection,
) -> Result<Committed, CommitError> {
    let record = &settlement.subscription_id;
    let is_money = matches!(report.kind, ReportKind::Settled { .. });
    if !is_money && !store.has_money_without_record(record, &report.attempt).await? {
        return Err(rejection.into());
    }
    let at = settlement.event.at;
    match store.list_money_without_record(&settlement.user_id, record, report, at).await? {
        true => Ok(Committed::Applied),
        false => Ok(Committed::Duplicate),
    }
}

/// Money of this record that an operator applied to another one: what the bank says about it concerns that
/// one too.
async fn forward<E: Engine>(
    store: &Store<E>,
    user: &mut UserRecords,
    settlement: &Settlement,
    report: &Report,
) -> Result<(), CommitError> {
    let Some(transaction_id) = &report.attempt.transaction_id else { return Ok(()) };
    let applied_to = user.get(&settlement.subscription_id).and_then(|record| {
        match &record.attempts.of_transaction(transaction_id)?.resolution {
            Some(Resolution::AppliedTo(other)) => Some(other.clone()),
            Some(Resolution::RefundRequested | Resolution::RefundRefused | Resolution::Dismissed) | None => {
                None
            }
        }
    });
    let Some(other) = applied_to else { return Ok(()) };
    let attempt = AttemptName { transaction_id: Some(transaction_id.clone()), number: None };
    let event = Event {
        kind: EventKind::Reported(Report { attempt, kind: report.kind.clone() }),
        ..settlement.event.clone()
    };
    store.apply(user, &other, &event).await.map(drop)
}
