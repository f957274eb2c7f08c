//! Operators decide about money: unapplied money is applied to a record, refunded or dismissed, and a paid
//! record is refunded. Each decision is an event in history, with its actor.

use dues_events::attributes::{DATA_ACTOR, DATA_REASON};
use dues_events::billing::attempts::{Attempt, Resolution, UnappliedReason};
use dues_events::billing::event::{Event, EventKind, Ignored};
use dues_events::billing::record::{Record, State};
use dues_events::ids::RefundKey;
use dues_events::money::Currency;
use dues_events::{Money, Rejection, SubscriptionId, TransactionId, UserId, Value};
use dues_store::billing::money::{Decision, MoneyRow, MoneyStatus};
use dues_store::{CommitError, Committed, Engine, StoreError};

use super::Collector;
use crate::collections::gateway::{Gateway, OutcomeUnknown, Refund, RefundAnswer};

/// Maximum number of lost races; more indicate a fault.
const RACES: u32 = 100;

/// Why a decision about money is not possible.
#[derive(Debug, thiserror::Error)]
pub enum MoneyError {
    /// No such row.
    #[error("no unapplied money {0}")]
    Unknown(String),
    /// Decided before.
    #[error("{id} is {} already", status.as_str())]
    Decided {
        /// The money.
        id: String,
        /// What became of it.
        status: MoneyStatus,
    },
    /// The decision is not possible, for this reason.
    #[error("{0}")]
    Impossible(String),
    /// The amount of a refund is not what is left of the payment, or less.
    #[error("{0}")]
    InvalidAmount(String),
    /// The gateway refused the refund, for this reason.
    #[error("the gateway refused the refund: {0}")]
    Refused(String),
    /// The gateway's answer is not known; the same command asks again under the same key.
    #[error("the gateway's answer is not known: {0}; run the same command again")]
    Unknowable(String),
    /// Reading or writing failed, or the record rejects it.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl From<StoreError> for MoneyError {
    fn from(error: StoreError) -> Self {
        Self::Commit(error.into())
    }
}

impl From<OutcomeUnknown> for MoneyError {
    fn from(OutcomeUnknown(reason): OutcomeUnknown) -> Self {
        Self::Unknowable(reason)
    }
}

impl<E: Engine, G: Gateway> Collector<E, G> {
    /// Applies unapplied money to an open record of the same member, which it has to pay in full.
    pub async fn apply_money(
        &self,
        id: &str,
        to: &SubscriptionId,
        actor: &str,
    ) -> Result<MoneyRow, MoneyError> {
        let row = self.store.money_row(id).await?.ok_or_else(|| MoneyError::Unknown(id.to_owned()))?;
        transaction_of(&row)?;
        let target = self.money_target(&row, to).await?;
        // First the mark on the money, which excludes every other decision, then the record that is paid.
        // After a crash between the two, the same command and the sweeper go on.
        let is_paid =
            row.transaction_id.as_ref().is_some_and(|id| target.attempts.of_transaction(id).is_some());
        let row = if !is_paid && self.is_applied_to(&row, to).await? {
            row
        } else {
            let row = self.open_money(id).await?;
            let note = format!("applied to {to}");
            self.resolve_money(&row, Resolution::AppliedTo(to.clone()), actor, &note).await?
        };
        let event = row.payment(Some(actor));
        let mut user = self.store.load_all(&target.user_id).await?;
        self.store.apply(&mut user, to, &event).await?;
        Ok(row)
    }

    /// Whether the money was marked as applied to that record.
    async fn is_applied_to(&self, row: &MoneyRow, to: &SubscriptionId) -> Result<bool, MoneyError> {
        if row.status != MoneyStatus::Applied {
            return Ok(false);
        }
        if row.reports.is_some() {
            return Ok(row.applied_to.as_ref() == Some(to));
        }
        let record = self.store.get_by_id(&row.subscription_id).await?;
        let attempt = row.transaction_id.as_ref().and_then(|id| record.as_ref()?.attempts.of_transaction(id));
        Ok(attempt.and_then(|attempt| attempt.resolution.as_ref())
            == Some(&Resolution::AppliedTo(to.clone())))
    }

    /// Refunds unapplied money through the gateway.
    pub async fn refund_money(&self, id: &str, actor: &str) -> Result<MoneyRow, MoneyError> {
        let row = match self.store.money_row(id).await? {
            // The answer was lost: the same key asks again.
            Some(row) if row.status == MoneyStatus::Refunding => row,
            Some(_) | None => self.open_money(id).await?,
        };
        let transaction_id = transaction_of(&row)?;
        if row.currency != Currency::USD {
            return Err(MoneyError::Impossible(format!("{} cannot be refunded from here", row.currency)));
        }
        let row = if row.status == MoneyStatus::Refunding {
            row
        } else {
            self.resolve_money(&row, Resolution::RefundRequested, actor, "refund requested").await?
        };
        let refund = Refund {
            transaction_id: transaction_id.clone(),
            amount: row.amount,
            user_id: row.user_id.clone(),
        };
        let key = RefundKey::of(&transaction_id, self.refund_number(&row).await?);
        match self.gateway.refund(&refund, &key).await? {
            RefundAnswer::Refunded { .. } => Ok(row),
            RefundAnswer::Refused { reason } => {
                let note = format!("the gateway refused the refund: {reason}");
                self.resolve_money(&row, Resolution::RefundRefused, actor, &note).await?;
                Err(MoneyError::Refused(reason))
            }
        }
    }

    /// Dismisses unapplied money, with a reason.
    pub async fn dismiss_money(&self, id: &str, reason: &str, actor: &str) -> Result<MoneyRow, MoneyError> {
        let row = self.open_money(id).await?;
        self.resolve_money(&row, Resolution::Dismissed, actor, &format!("dismissed: {reason}")).await
    }

    /// Refunds a paid record through the gateway, in full or in part. The bank reports when the money has
    /// gone back; until then the record stays COMPLETED.
    pub async fn refund_record(
        &self,
        user: &UserId,
        id: &SubscriptionId,
        amount: Option<Money>,
        actor: &str,
    ) -> Result<(Record, Money), MoneyError> {
        let mut records = self.store.load_all(user).await?;
        let record = records.get(id).cloned();
        let record = record.ok_or_else(|| CommitError::from(Rejection::UnknownSubscription(id.clone())))?;
        let State::Completed(payment) = &record.state else {
            let status = record.status().as_str();
            return Err(MoneyError::Impossible(format!("{status} is not paid: there is nothing to refund")));
        };
        let Some(transaction_id) = payment.transaction_id.clone() else {
            return Err(MoneyError::Impossible("it was paid without a transaction".to_owned()));
        };
        let attempt = record.attempts.of_transaction(&transaction_id);
        let paid = attempt.and_then(|attempt| attempt.settled.as_ref()).map_or(Money::ZERO, |s| s.amount);
        let back = attempt.map_or(Money::ZERO, Attempt::refunded_amount);
        let left = paid.checked_sub(back).unwrap_or(Money::ZERO);
        let amount = amount.unwrap_or(left);
        if left == Money::ZERO {
            return Err(MoneyError::Impossible("all of it was refunded".to_owned()));
        }
        if amount <= Money::ZERO || amount > left {
            return Err(MoneyError::InvalidAmount(format!(
                "{amount} is not 0.01 to {left}, which is left of it"
            )));
        }
        let key = RefundKey::of(&transaction_id, refunds_reported(attempt));
        let mut event = Event::internal_at(
            format!("refund:{key}").into(),
            self.store.clock.now(),
            "dues refund",
            None,
            EventKind::NoChange(Ignored::RefundRequested),
        );
        set_actor(&mut event, actor, &format!("refund of {amount} requested"));
        match self.store.apply(&mut records, id, &event).await {
            // The same refund was requested before: ask again under its key.
            Ok(_) | Err(CommitError::Rejected(Rejection::ConflictingContent)) => {}
            Err(error) => return Err(error.into()),
        }
        let refund = Refund { transaction_id, amount, user_id: user.clone() };
        match self.gateway.refund(&refund, &key).await? {
            RefundAnswer::Refunded { .. } => Ok((record, amount)),
            RefundAnswer::Refused { reason } => Err(MoneyError::Refused(reason)),
        }
    }

    /// The row, if no decision about it has been made.
    async fn open_money(&self, id: &str) -> Result<MoneyRow, MoneyError> {
        let row = self.store.money_row(id).await?.ok_or_else(|| MoneyError::Unknown(id.to_owned()))?;
        match row.status {
            MoneyStatus::Open => Ok(row),
            MoneyStatus::Applied | MoneyStatus::Refunding | MoneyStatus::Dismissed | MoneyStatus::Gone => {
                Err(decided(&row))
            }
        }
    }

    /// The record that the money is to pay: open, and not more than the money.
    async fn money_target(&self, row: &MoneyRow, to: &SubscriptionId) -> Result<Record, MoneyError> {
        let record = self.store.get_by_id(to).await?;
        let record = record.ok_or_else(|| CommitError::from(Rejection::UnknownSubscription(to.clone())))?;
        if row.reason != UnappliedReason::UnknownRecord && record.user_id != row.user_id {
            return Err(MoneyError::Impossible(format!("{to} is a record of another member")));
        }
        if row.currency != Currency::USD || row.amount < record.plan.amount {
            let (amount, due) = (row.amount, record.plan.amount);
            return Err(MoneyError::Impossible(format!(
                "{amount} {} do not pay {due} USD of {to}",
                row.currency
            )));
        }
        let applied_before = row
            .transaction_id
            .as_ref()
            .is_some_and(|id| *to != row.subscription_id && record.attempts.of_transaction(id).is_some());
        if record.is_open() && *to == row.subscription_id {
            return Err(MoneyError::Impossible(format!("{to} is the record that it came for")));
        }
        if record.is_open() || applied_before {
            return Ok(record);
        }
        Err(MoneyError::Impossible(format!("{to} is {}: it needs no money", record.status().as_str())))
    }

    /// Commits a decision: on the record that the money came for, or on the row if there is no such record.
    async fn resolve_money(
        &self,
        row: &MoneyRow,
        resolution: Resolution,
        actor: &str,
        note: &str,
    ) -> Result<MoneyRow, MoneyError> {
        if row.reports.is_some() {
            return self.resolve_without_record(row, &resolution, actor, note).await;
        }
        for _ in 0..RACES {
            let mut user = self.store.load_all(&row.user_id).await?;
            let Some(record) = user.get(&row.subscription_id).cloned() else {
                return Err(MoneyError::Unknown(row.id.clone()));
            };
            let mut event = Event::internal_at(
                format!("resolve-money:{}:{}", row.id, record.version).into(),
                self.store.clock.now(),
                "dues money-decision",
                None,
                EventKind::MoneyResolved { attempt: row.attempt(), resolution: resolution.clone() },
            );
            set_actor(&mut event, actor, note);
            let id = &record.subscription_id;
            match self.store.apply_at(&mut user, id, record.version, &event).await? {
                Committed::Overtaken => {}
                Committed::Ignored(_) => {
                    let row = self.open_money(&row.id).await?;
                    return Err(MoneyError::Impossible(format!("{} has changed meanwhile", row.id)));
                }
                Committed::Applied | Committed::Duplicate | Committed::Parked => {
                    let row = self.store.money_row(&row.id).await?;
                    return row.ok_or_else(|| MoneyError::Unknown(id.to_string()));
                }
            }
        }
        Err(StoreError::Contended(RACES).into())
    }

    async fn resolve_without_record(
        &self,
        row: &MoneyRow,
        resolution: &Resolution,
        actor: &str,
        note: &str,
    ) -> Result<MoneyRow, MoneyError> {
        let status = match resolution {
            Resolution::AppliedTo(_) => MoneyStatus::Applied,
            Resolution::RefundRequested => MoneyStatus::Refunding,
            Resolution::RefundRefused => MoneyStatus::Open,
            Resolution::Dismissed => MoneyStatus::Dismissed,
        };
        let at = self.store.clock.now();
        let decision = Some(Decision { actor: actor.to_owned(), at, note: note.to_owned() });
        let applied_to = match resolution {
            Resolution::AppliedTo(to) => Some(to.clone()),
            Resolution::RefundRequested | Resolution::RefundRefused | Resolution::Dismissed => None,
        };
        let after = MoneyRow { status, decision, applied_to, ..row.clone() };
        match self.store.decide_money(row, &after).await? {
            true => Ok(after),
            false => Err(MoneyError::Impossible(format!("{} has changed meanwhile: look again", row.id))),
        }
    }

    /// How many refunds of the money's transaction have been reported: the next key is one further.
    async fn refund_number(&self, row: &MoneyRow) -> Result<u32, MoneyError> {
        let record = self.store.get_by_id(&row.subscription_id).await?;
        let attempt = row.transaction_id.as_ref().and_then(|id| record.as_ref()?.attempts.of_transaction(id));
        Ok(refunds_reported(attempt))
    }
}

fn decided(row: &MoneyRow) -> MoneyError {
    MoneyError::Decided { id: row.id.clone(), status: row.status }
}

/// Distinguishes the refunds of one transaction: cents that went back so far.
fn refunds_reported(attempt: Option<&Attempt>) -> u32 {
    let refunded = attempt.map_or(Money::ZERO, Attempt::refunded_amount).cents();
    u32::try_from(refunded).unwrap_or(u32::MAX)
}

fn transaction_of(row: &MoneyRow) -> Result<TransactionId, MoneyError> {
    let none = || MoneyError::Impossible(format!("{} has no transaction id", row.id));
    row.transaction_id.clone().ok_or_else(none)
}

fn set_actor(event: &mut Event, actor: &str, reason: &str) {
    event.data.set(DATA_ACTOR, Value::text(actor));
    event.data.set(DATA_REASON, Value::text(reason));
}
