//! `ach-handler`: settlements, returns, refunds and chargebacks, from the Kinesis stream `site-payments` to
//! the billing records.

use aws_lambda_events::event::kinesis::KinesisEvent;
use aws_lambda_events::event::streams::KinesisEventResponse;
use dues_events::billing::attempts::Resolution;
use dues_events::billing::decide::Rejection::{self, UnknownSubscription, WrongUser};
use dues_events::billing::event::{AttemptName, Event, EventKind, Report, ReportKind};
use dues_events::billing::wire::site_payments::{Settlement, decode};
use dues_events::collections::ach::ReturnCode;
use dues_events::ids::{SubscriptionId, TransactionId, UserId};
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
    let listed = store.money_without_record(record, &report.attempt).await?;
    if !is_money && listed.is_none() {
        return Err(rejection.into());
    }
    let is_news = store.list_money_without_record(settlement, report).await?;
    // An operator has applied it to a record: the report concerns that one too.
    if let Some((transaction_id, to)) = listed.and_then(|row| row.transaction_id.zip(row.applied_to))
        && let Some(target) = store.get_by_id(&to).await?
    {
        let mut user = store.load_all(&target.user_id).await?;
        pass_on(store, &mut user, settlement, report, (transaction_id, to)).await?;
    }
    Ok(if is_news { Committed::Applied } else { Committed::Duplicate })
}

/// Money of this record that an operator applied to another one: what the bank says about it concerns that
/// one too. The report may name the attempt by our key alone.
async fn forward<E: Engine>(
    store: &Store<E>,
    user: &mut UserRecords,
    settlement: &Settlement,
    report: &Report,
) -> Result<(), CommitError> {
    match applied_to(user, &settlement.subscription_id, &report.attempt) {
        Some(next) => pass_on(store, user, settlement, report, next).await,
        None => Ok(()),
    }
}

/// Takes the report on the record that the transaction's money was applied to, and on the next one if an
/// excess was applied in turn.
async fn pass_on<E: Engine>(
    store: &Store<E>,
    user: &mut UserRecords,
    settlement: &Settlement,
    report: &Report,
    (transaction_id, to): (TransactionId, SubscriptionId),
) -> Result<(), CommitError> {
    match report.kind {
        // That it settled is why it was applied, with what was left of it.
        ReportKind::Sent | ReportKind::Settled { .. } => return Ok(()),
        ReportKind::Returned(_) | ReportKind::Refunded { .. } | ReportKind::ChargedBack(_) => {}
    }
    let attempt = AttemptName { transaction_id: Some(transaction_id), number: None };
    let event = Event {
        kind: EventKind::Reported(Report { attempt: attempt.clone(), kind: report.kind.clone() }),
        ..settlement.event.clone()
    };
    let mut visited = vec![settlement.subscription_id.clone()];
    let mut next = Some(to);
    while let Some(to) = next.filter(|to| !visited.contains(to)) {
        store.apply(user, &to, &event).await?;
        next = applied_to(user, &to, &attempt).map(|(_, to)| to);
        visited.push(to);
    }
    Ok(())
}

/// The transaction of a record's attempt, and the record that an operator applied its money to.
fn applied_to(
    user: &UserRecords,
    record: &SubscriptionId,
    name: &AttemptName,
) -> Option<(TransactionId, SubscriptionId)> {
    let attempts = &user.get(record)?.attempts;
    let by_number = || name.number.and_then(|number| attempts.numbered(number));
    let attempt =
        name.transaction_id.as_ref().and_then(|id| attempts.of_transaction(id)).or_else(by_number)?;
    match &attempt.resolution {
        Some(Resolution::AppliedTo(other)) => Some((attempt.transaction_id.clone()?, other.clone())),
        Some(Resolution::RefundRequested | Resolution::RefundRefused | Resolution::Dismissed) | None => None,
    }
}
