//! Unapplied money: money that arrived and pays for nothing, listed until an operator decides about it.
//!
//! A record's own unapplied money follows from its attempts; the row here is a listing that is written after
//! the record's commit, and brought up to date by the sweeper after a crash. Money for a record that does not
//! exist has no record to follow from: its row holds the bank's reports itself.

use dues_events::billing::attempts::{Attempts, Resolution, UnappliedMoney, UnappliedReason};
use dues_events::billing::event::{AttemptName, Event, EventKind, Report, ReportKind};
use dues_events::billing::record::Receipt;
use dues_events::billing::wire::site_payments::Settlement;
use dues_events::ids::{EventId, SubscriptionId, TransactionId, UserId};
use dues_events::money::Currency;
use dues_events::{Item, Money, Record, Time, Value, attributes, time};

use crate::billing::Store;
use crate::billing::commit::CommitError;
use crate::billing::user_records::UserRecords;
use crate::engine::{Condition, Engine, Key, Query, StoreError, Written};
use crate::table::{BY_MONEY_STATUS, UNAPPLIED_MONEY};

const APPLIED_TO: &str = "applied_to";
const EVENTS: &str = "events";

/// What became of unapplied money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoneyStatus {
    /// An operator has to decide.
    Open,
    /// Applied to another record.
    Applied,
    /// A refund is under way.
    Refunding,
    /// Dismissed with a reason.
    Dismissed,
    /// No longer unapplied: returned, refunded, or it pays after all.
    Gone,
}

impl MoneyStatus {
    /// Every status.
    pub const ALL: [Self; 5] = [Self::Open, Self::Applied, Self::Refunding, Self::Dismissed, Self::Gone];

    /// The spelling in the table.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "OPEN",
            Self::Applied => "APPLIED",
            Self::Refunding => "REFUNDING",
            Self::Dismissed => "DISMISSED",
            Self::Gone => "GONE",
        }
    }

    /// Parses the spelling of [`Self::as_str`].
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    fn of(resolution: Option<&Resolution>) -> Self {
        match resolution {
            None | Some(Resolution::RefundRefused) => Self::Open,
            Some(Resolution::AppliedTo(_)) => Self::Applied,
            Some(Resolution::RefundRequested) => Self::Refunding,
            Some(Resolution::Dismissed) => Self::Dismissed,
        }
    }
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoneyRow {
    /// Its id: the record and the transaction.
    pub id: String,
    /// The member whom the payment names.
    pub user_id: UserId,
    /// The record that the payment names.
    pub subscription_id: SubscriptionId,
    /// The transaction that brought it.
    pub transaction_id: Option<TransactionId>,
    /// The number of our attempt, if we made it.
    pub number: Option<u32>,
    /// How much of it is left.
    pub amount: Money,
    /// Its currency.
    pub currency: Currency,
    /// When it settled.
    pub settled_at: Time,
    /// Why it pays for nothing.
    pub reason: UnappliedReason,
    /// What became of it.
    pub status: MoneyStatus,
    /// The record's version that the row was written from; 0 without a record.
    pub record_version: u64,
    /// Money without a record: the bank's reports on it.
    pub reports: Option<Attempts>,
    /// Who decided about it, and why; for money without a record: this row is its history.
    pub decision: Option<Decision>,
    /// The record that it was applied to; for money without a record.
    pub applied_to: Option<SubscriptionId>,
    /// The ids of the reports that the row has taken; for money without a record.
    pub events: Vec<EventId>,
}

/// A decision about money without a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Who decided.
    pub actor: String,
    /// When.
    pub at: Time,
    /// What, and why.
    pub note: String,
}

impl MoneyRow {
    /// The names by which the record knows the attempt.
    #[must_use]
    pub fn attempt(&self) -> AttemptName {
        AttemptName { transaction_id: self.transaction_id.clone(), number: self.number }
    }

    /// The event that pays the record to which this money is applied. It settled when the bank says, not when
    /// it was applied: the bank may have taken it back in between.
    #[must_use]
    pub fn payment(&self, actor: Option<&str>) -> Event {
        let (amount, currency) = (self.amount, self.currency);
        let kind = ReportKind::Settled { amount, currency, receipt: Receipt::default() };
        let attempt = AttemptName { transaction_id: self.transaction_id.clone(), number: None };
        let kind = EventKind::Reported(Report { attempt, kind });
        let id = format!("apply-money:{}", self.id);
        let mut event = Event::internal(id.into(), self.settled_at, "dues money-apply", kind).by(actor);
        let reason = format!("money of {} applied", self.subscription_id);
        event.data.set(attributes::DATA_REASON, Value::text(reason));
        event
    }

    /// The rows that follow from a record.
    #[must_use]
    pub fn all_of(record: &Record) -> Vec<Self> {
        record.unapplied_money().into_iter().map(|money| Self::of(record, money)).collect()
    }

    fn of(record: &Record, money: UnappliedMoney) -> Self {
        Self {
            id: id_of(&record.subscription_id, money.transaction_id.as_ref(), money.number),
            user_id: record.user_id.clone(),
            subscription_id: record.subscription_id.clone(),
            status: MoneyStatus::of(money.resolution.as_ref()),
            transaction_id: money.transaction_id,
            number: money.number,
            amount: money.amount,
            currency: money.currency,
            settled_at: money.at,
            reason: money.reason,
            record_version: record.version,
            reports: None,
            decision: None,
            applied_to: None,
            events: Vec::new(),
        }
    }

    fn to_item(&self) -> Item {
        let mut item = Item::new();
        item.set_text(UNAPPLIED_MONEY.partition, self.id.as_str());
        item.set_text(BY_MONEY_STATUS.partition, self.status.as_str());
        item.set_text(attributes::USER_ID, self.user_id.as_str());
        item.set_text(attributes::SUBSCRIPTION_ID, self.subscription_id.as_str());
        item.set_text("amount", self.amount.to_string());
        item.set_text("currency", self.currency.as_str());
        item.set_text("settled_at", self.settled_at.to_rfc3339());
        item.set_text("reason", self.reason.as_str());
        item.set("record_version", Value::number(self.record_version));
        if let Some(id) = &self.transaction_id {
            item.set_text(attributes::TRANSACTION_ID, id.as_str());
        }
        if let Some(number) = self.number {
            item.set("attempt_number", Value::number(number.into()));
        }
        if let Some(reports) = &self.reports {
            item.set_text(attributes::ATTEMPT_LOG, reports.to_text());
        }
        if let Some(decision) = &self.decision {
            item.set_text("actor", decision.actor.as_str());
            item.set_text("decided_at", decision.at.to_rfc3339());
            item.set_text("note", decision.note.as_str());
        }
        if let Some(to) = &self.applied_to {
            item.set_text(APPLIED_TO, to.as_str());
        }
        if !self.events.is_empty() {
            item.set(EVENTS, Value::L(self.events.iter().map(|id| Value::text(id.as_str())).collect()));
        }
        item
    }

    fn from_item(item: &Item) -> Result<Self, StoreError> {
        let id = item.text(UNAPPLIED_MONEY.partition).unwrap_or_default().to_owned();
        let bad = |name: &str| {
            StoreError::Invalid(format!("{}: {name} of {id} is not readable", UNAPPLIED_MONEY.name))
        };
        let text = |name: &'static str| item.text(name).ok_or_else(|| bad(name));
        let at = |name| text(name).and_then(|text| time::parse(text).map_err(|_| bad(name)));
        let number = |name| match item.get(name) {
            Some(Value::N(number)) => number.parse::<u64>().map(Some).map_err(|_| bad(name)),
            Some(_) => Err(bad(name)),
            None => Ok(None),
        };
        let reports = item.text(attributes::ATTEMPT_LOG).map(|log| Attempts::read(log, 0));
        Ok(Self {
            user_id: text(attributes::USER_ID)?.into(),
            subscription_id: text(attributes::SUBSCRIPTION_ID)?.into(),
            transaction_id: item.text(attributes::TRANSACTION_ID).map(TransactionId::from),
            number: number("attempt_number")?.and_then(|number| u32::try_from(number).ok()),
            amount: text("amount")?.parse().map_err(|_| bad("amount"))?,
            currency: Currency::read(text("currency")?).ok_or_else(|| bad("currency"))?,
            settled_at: at("settled_at")?,
            reason: UnappliedReason::read(text("reason")?).ok_or_else(|| bad("reason"))?,
            status: MoneyStatus::read(text(BY_MONEY_STATUS.partition)?)
                .ok_or_else(|| bad(BY_MONEY_STATUS.partition))?,
            record_version: number("record_version")?.unwrap_or(0),
            reports: reports.transpose().map_err(|_| bad(attributes::ATTEMPT_LOG))?,
            decision: match item.text("actor") {
                Some(actor) => Some(Decision {
                    actor: actor.to_owned(),
                    at: at("decided_at")?,
                    note: item.text("note").unwrap_or_default().to_owned(),
                }),
                None => None,
            },
            applied_to: item.text(APPLIED_TO).map(SubscriptionId::from),
            events: match item.get(EVENTS) {
                Some(Value::L(ids)) => ids.iter().filter_map(Value::as_text).map(EventId::from).collect(),
                Some(_) | None => Vec::new(),
            },
            id: id.clone(),
        })
    }
}

fn id_of(record: &SubscriptionId, transaction: Option<&TransactionId>, number: Option<u32>) -> String {
    match (transaction, number) {
        (Some(transaction), _) => format!("{record}:{transaction}"),
        (None, Some(number)) => format!("{record}:#{number}"),
        (None, None) => format!("{record}:#"),
    }
}

impl<E: Engine> Store<E> {
    /// Lists a record's unapplied money: what there is now, and what was there before and is gone.
    /// Idempotent, and never overwrites what a later version of the record says.
    pub async fn list_unapplied(&self, before: &[UnappliedMoney], record: &Record) -> Result<(), StoreError> {
        let now: Vec<MoneyRow> =
            record.unapplied_money().into_iter().map(|money| MoneyRow::of(record, money)).collect();
        let gone: Vec<MoneyRow> = before
            .iter()
            .map(|money| MoneyRow { status: MoneyStatus::Gone, ..MoneyRow::of(record, money.clone()) })
            .filter(|row| !now.iter().any(|there| there.id == row.id))
            .collect();
        for row in now.into_iter().chain(gone) {
            let older = Condition::Any(vec![
                Condition::Missing("record_version"),
                Condition::Less("record_version", Value::number(row.record_version)),
            ]);
            let written = self.engine.put(&UNAPPLIED_MONEY, row.to_item(), older).await?;
            if written == Written::Done && row.status == MoneyStatus::Open {
                warn_of(&row);
            }
        }
        Ok(())
    }

    /// Lists money that names a record which does not exist. Returns whether the report says anything new: a
    /// redelivery does not, although refunds add up.
    pub async fn list_money_without_record(
        &self,
        settlement: &Settlement,
        report: &Report,
    ) -> Result<bool, StoreError> {
        let Settlement { user_id: user, subscription_id: record, event } = settlement;
        let at = event.at;
        let id = id_of(record, report.attempt.transaction_id.as_ref(), report.attempt.number);
        for _ in 0..RACES {
            let there = self.money_row(&id).await?;
            let mut events = there.as_ref().map(|row| row.events.clone()).unwrap_or_default();
            if events.contains(&event.id) {
                return Ok(false);
            }
            events.push(event.id.clone());
            let mut reports = there.as_ref().and_then(|row| row.reports.clone()).unwrap_or_default();
            if !reports.take(report, at, Money::ZERO) {
                return Ok(false);
            }
            let left = reports.unapplied(Money::ZERO, true).into_iter().next();
            let row = match (left, there.clone()) {
                (Some(money), there) => MoneyRow {
                    id: id.clone(),
                    user_id: user.clone(),
                    subscription_id: record.clone(),
                    transaction_id: report.attempt.transaction_id.clone(),
                    number: report.attempt.number,
                    amount: money.amount,
                    currency: money.currency,
                    settled_at: money.at,
                    reason: UnappliedReason::UnknownRecord,
                    status: there.as_ref().map_or(MoneyStatus::Open, |row| match row.status {
                        MoneyStatus::Gone => MoneyStatus::Open,
                        kept @ (MoneyStatus::Open
                        | MoneyStatus::Applied
                        | MoneyStatus::Refunding
                        | MoneyStatus::Dismissed) => kept,
                    }),
                    record_version: 0,
                    reports: Some(reports.clone()),
                    applied_to: there.as_ref().and_then(|row| row.applied_to.clone()),
                    decision: there.and_then(|row| row.decision),
                    events,
                },
                (None, Some(there)) => {
                    MoneyRow { status: MoneyStatus::Gone, reports: Some(reports.clone()), events, ..there }
                }
                // Nothing has arrived yet.
                (None, None) => return Ok(false),
            };
            let was_open = there.as_ref().is_some_and(|there| there.status == MoneyStatus::Open);
            if self.put_money(there.as_ref(), &row).await? {
                if row.status == MoneyStatus::Open && !was_open {
                    warn_of(&row);
                }
                return Ok(true);
            }
        }
        Err(StoreError::Contended(RACES))
    }

    /// The money that is listed for a record that does not exist, under the report's names.
    pub async fn money_without_record(
        &self,
        record: &SubscriptionId,
        attempt: &AttemptName,
    ) -> Result<Option<MoneyRow>, StoreError> {
        let id = id_of(record, attempt.transaction_id.as_ref(), attempt.number);
        Ok(self.money_row(&id).await?.filter(|row| row.reports.is_some()))
    }

    /// Records a decision about money without a record. Returns whether the row was still the one that was
    /// read.
    pub async fn decide_money(&self, row: &MoneyRow, after: &MoneyRow) -> Result<bool, StoreError> {
        self.put_money(Some(row), after).await
    }

    async fn put_money(&self, before: Option<&MoneyRow>, after: &MoneyRow) -> Result<bool, StoreError> {
        let condition = match before {
            None => Condition::NoItem,
            Some(before) => {
                let log = before.reports.as_ref().map(Attempts::to_text).unwrap_or_default();
                Condition::All(vec![
                    Condition::Equals(attributes::ATTEMPT_LOG, Value::text(log)),
                    Condition::Equals(BY_MONEY_STATUS.partition, Value::text(before.status.as_str())),
                ])
            }
        };
        Ok(self.engine.put(&UNAPPLIED_MONEY, after.to_item(), condition).await? == Written::Done)
    }

    /// One row.
    pub async fn money_row(&self, id: &str) -> Result<Option<MoneyRow>, StoreError> {
        let key = Key { partition: id.to_owned(), sort: None };
        self.engine.get(&UNAPPLIED_MONEY, key).await?.as_ref().map(MoneyRow::from_item).transpose()
    }

    /// All rows in a status, oldest first.
    pub async fn money_rows(&self, status: MoneyStatus) -> Result<Vec<MoneyRow>, StoreError> {
        let query = Query::index(&UNAPPLIED_MONEY, BY_MONEY_STATUS.name, status.as_str());
        let rows = self.all(query).await?;
        let mut rows = rows.iter().map(MoneyRow::from_item).collect::<Result<Vec<_>, _>>()?;
        rows.sort_by(|a, b| (a.settled_at, &a.id).cmp(&(b.settled_at, &b.id)));
        Ok(rows)
    }

    /// Pays the records that money of this member was applied to, where a crash came before it. Returns how
    /// many there were.
    pub async fn complete_applied_money(&self, user: &mut UserRecords) -> Result<u64, CommitError> {
        let mut outstanding = Vec::new();
        for record in &user.records {
            for money in record.unapplied_money() {
                let (Some(Resolution::AppliedTo(to)), Some(id)) = (&money.resolution, &money.transaction_id)
                else {
                    continue;
                };
                let target = user.get(to).filter(|target| target.attempts.of_transaction(id).is_none());
                if target.is_some() {
                    outstanding.push((to.clone(), MoneyRow::of(record, money.clone()).payment(None)));
                }
            }
        }
        for (to, event) in &outstanding {
            self.apply(user, to, event).await?;
        }
        Ok(outstanding.len() as u64)
    }

    /// Pays the record that money without a record was applied to, where a crash came before it. Returns
    /// whether it was outstanding.
    pub async fn complete_application(&self, row: &MoneyRow) -> Result<bool, CommitError> {
        let (Some(to), Some(transaction)) = (&row.applied_to, &row.transaction_id) else { return Ok(false) };
        let Some(target) = self.get_by_id(to).await? else { return Ok(false) };
        if target.attempts.of_transaction(transaction).is_some() {
            return Ok(false);
        }
        let mut user = self.load_all(&target.user_id).await?;
        self.apply(&mut user, to, &row.payment(None)).await?;
        Ok(true)
    }

    /// Brings the listing up to date with the records after a crash. Returns how many rows were not.
    pub async fn repair_money_rows(&self) -> Result<u64, CommitError> {
        let mut repaired = 0;
        for row in self.money_rows(MoneyStatus::Applied).await? {
            repaired += u64::from(self.complete_application(&row).await?);
        }
        for status in [MoneyStatus::Open, MoneyStatus::Refunding] {
            for row in self.money_rows(status).await?.into_iter().filter(|row| row.reports.is_none()) {
                let Some(record) = self.get_by_id(&row.subscription_id).await? else { continue };
                let now = record.unapplied_money().into_iter().map(|money| MoneyRow::of(&record, money));
                let now = now.into_iter().find(|there| there.id == row.id);
                let is_current = match &now {
                    Some(now) => (now.amount, now.status) == (row.amount, row.status),
                    None => false,
                };
                if !is_current && record.version > row.record_version {
                    let after = now.unwrap_or(MoneyRow {
                        status: MoneyStatus::Gone,
                        record_version: record.version,
                        ..row
                    });
                    self.engine.put(&UNAPPLIED_MONEY, after.to_item(), Condition::Always).await?;
                    repaired += 1;
                }
            }
        }
        Ok(repaired)
    }
}

/// Logs that money waits for an operator. The field `unapplied_money` is a metric with an alarm.
fn warn_of(row: &MoneyRow) {
    tracing::warn!(
        subscription = %row.subscription_id, money = %row.id, unapplied_money = 1_u64,
        reason = row.reason.as_str(), "money arrived that pays for nothing"
    );
}

/// Maximum number of lost races; more indicate a fault.
const RACES: u32 = 100;
