//! Encoding and decoding of records as table rows.

use super::standing::of_state;
use crate::attributes::*;
use crate::billing::attempts::{Attempt, Attempts, Failed};
use crate::billing::chain::Chain;
use crate::billing::event::Event;
use crate::billing::event_codec;
use crate::billing::idempotency::{Applied, IdempotencyToken};
use crate::billing::record::{
    Closed, FailedAttempt, Failure, Pause, Payment, Plan, Process, Provider, Receipt, Record, Standing,
    State, Status, TierName, UpdatedEvent,
};
use crate::calendar::{BillingWeek, Term};
use crate::collections::correction::{Correction, Notice};
use crate::ids::{AttemptKey, EventId, SubscriptionId, TransactionId};
use crate::item::{Item, Value};
use crate::money::Money;
use crate::row::Reader;
use crate::time::{GoTime, Time};

pub use crate::row::ReadError;

/// A history row: a record after an event, with that event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The record after the event, with its `data_` fields.
    pub record: Record,
    /// The event's id; rows of older writers have none.
    pub event_id: Option<EventId>,
    /// Source and type of the event, such as `site-payments SUBSCRIPTION_COMPLETED`.
    pub source: String,
    /// The version before the event.
    pub previous_version: u64,
    /// `applied`, or `ignored: …` with the reason.
    pub outcome: String,
    /// The event's idempotency token.
    pub token: Option<IdempotencyToken>,
    /// Its link in the record's chain.
    pub chain: Option<Chain>,
}

/// The `outcome` of an event that changed the record.
pub const APPLIED_OUTCOME: &str = "applied";

impl Record {
    /// Encodes the primary row, without `data_` fields.
    #[must_use]
    pub fn to_item(&self) -> Item {
        let mut item = self.common_item();
        if !self.applied.is_empty() {
            item.set(APPLIED, Value::B(self.applied.as_bytes().to_vec()));
        }
        if let Some(chain) = self.chain {
            item.set(CHAIN, chain.to_value());
        }
        item
    }

    /// Decodes a primary row.
    ///
    /// # Errors
    /// [`ReadError`] names the attribute and the row.
    pub fn from_item(item: Item) -> Result<Self, ReadError> {
        read_record(&mut Reader::new(item, [USER_ID, BILLING_DATE]))
    }

    fn common_item(&self) -> Item {
        let mut item = self.extra.clone();
        let mut text = |name: &'static str, text: &str| item.set_text(name, text);
        text(USER_ID, self.user_id.as_str());
        text(BILLING_DATE, &self.billing_date.text());
        text(SUBSCRIPTION_ID, self.subscription_id.as_str());
        text(BILLING_AMOUNT, &self.plan.amount.to_string());
        text(BILLING_STATUS, self.status().as_str());
        text(BILLING_PERIOD, &self.period());
        text(TRANSACTION_ID, self.state.transaction_id().map_or("", TransactionId::as_str));
        text(USIO_ERROR, self.state.last_failure().map_or("", |failed| failed.failure.text()));
        text(PROCESS, self.process.as_str());
        text(UPDATED_EVENT, self.updated_event.as_ref().map_or("", UpdatedEvent::as_str));
        text(TERM, self.term.as_str());
        text(RECEIPT_ACCOUNT_MASK, &self.receipt.account_mask);
        text(RECEIPT_TIER_NAME, self.plan.tier.as_str());
        text(RECEIPT_PAYMENT_TYPE, &self.receipt.payment_type);
        for (name, time) in [
            (INITIAL_RUN_DATE, self.initial_run_date.as_ref()),
            (COMPLETION_DATE, self.state.closed_at()),
            (LAST_RUN_DATE, self.last_run_date.as_ref()),
            (CREATED_DATE, self.created_date.as_ref()),
            (ANCHOR_DATE, self.anchor.as_ref()),
            (MEMBER_SINCE, self.member_since.as_ref()),
            (CANCEL_AT, self.cancel_at.as_ref()),
            (ORIGINAL_DUE_DATE, self.original_due_date.as_ref()),
            (MOVED_TO, self.moved_to.as_ref()),
            (DUE_NOTICE, self.due_notice.as_ref()),
        ] {
            if let Some(time) = time {
                text(name, &time.text());
            }
        }
        for (name, value) in [
            (PROVIDER, self.provider.map(Provider::as_str)),
            (NEXT_SUBSCRIPTION_ID, self.next.as_ref().map(SubscriptionId::as_str)),
            (COLLECTION_BAR, self.bar.as_deref()),
            (PENDING_CHANGE, self.pending_change.as_deref()),
            (SUPERSEDED_BY, self.superseded_by.as_ref().map(SubscriptionId::as_str)),
        ] {
            if let Some(value) = value {
                text(name, value);
            }
        }
        if let Some(notice) = self.correction.awaited() {
            text(AWAITS_CORRECTION, &notice.to_text());
        }
        if let Some(at) = self.correction.new_account_at() {
            text(NEW_ACCOUNT_AT, &GoTime::trimmed(at).text());
        }
        if let Some(plan) = &self.downgrade {
            text(PENDING_TIER_NAME, plan.tier.as_str());
            text(PENDING_AMOUNT, &plan.amount.to_string());
        }
        if !self.attempts.is_empty() {
            text(ATTEMPT_LOG, &self.attempts.to_text());
        }
        let refunded = self.refunded_amount();
        if refunded > Money::ZERO {
            text(REFUNDED_AMOUNT, &refunded.to_string());
        }
        // While a debit of a paused record is in flight the pause is not its status, but still its standing.
        let months = match self.standing {
            Standing::Open => 0,
            Standing::Paused { months } | Standing::Closed { months, .. } => months,
        };
        item.set(PAUSE_DURATION_MONTHS, Value::number(months.into()));
        if let Some(week) = self.billing_week {
            item.set(BILLING_WEEK, Value::number(week.get().into()));
        }
        // Pending until the next record is created, which takes over the plan.
        if self.downgrade.is_some() && self.next.is_none() {
            item.set(IS_PENDING_DOWNGRADE, Value::Bool(true));
        }
        if let Some(months) = self.pause_passed_on {
            item.set(PAUSE_PASSED_ON, Value::number(months.into()));
        }
        if self.attempts.last_number() > 0 {
            item.set(ATTEMPTS, Value::number(self.attempts.last_number().into()));
        }
        if self.version > 0 {
            item.set(VERSION, Value::number(self.version));
        }
        item
    }
}

impl History {
    /// The row of an event that was decided on a record, before it has a key and a link.
    #[must_use]
    pub fn of(mut record: Record, previous_version: u64, event: &Event, outcome: String) -> Self {
        record.version = previous_version + 1;
        record.data = event.data.clone();
        Self {
            record,
            event_id: Some(event.id.clone()),
            source: event.source.to_string(),
            previous_version,
            outcome,
            token: Some(event.token),
            chain: None,
        }
    }

    /// Gives the row its key, its event and its link after the head of the record that it was decided on.
    /// Returns the item to store.
    pub fn link(&mut self, key: Time, event: &Event, head: Option<Chain>) -> Item {
        self.record.last_run_date = Some(GoTime::nine_digits(key));
        self.record.data.set_text(DATA_EVENT, event_codec::encode(event, key));
        let mut item = self.to_item();
        let chain = Chain::following(head, &item);
        self.chain = Some(chain);
        item.set(DATA_CHAIN, chain.to_value());
        item
    }

    /// Encodes the history row, without `applied`, which only the primary row has.
    #[must_use]
    pub fn to_item(&self) -> Item {
        let mut item = self.record.common_item();
        item.extend(self.record.data.clone());
        if let Some(id) = &self.event_id {
            item.set_text(EVENT_ID, id.as_str());
        }
        if let Some(token) = &self.token {
            item.set(TOKEN, Value::B(token.to_bytes().to_vec()));
        }
        item.set_text(SOURCE, self.source.as_str());
        item.set_text(OUTCOME, self.outcome.as_str());
        item.set(PREVIOUS_VERSION, Value::number(self.previous_version));
        if let Some(chain) = self.chain {
            item.set(DATA_CHAIN, chain.to_value());
        }
        item
    }

    /// Decodes a history row, including rows of older writers, which lack the event's attributes.
    ///
    /// # Errors
    /// [`ReadError`] names the attribute and the row.
    pub fn from_item(item: Item) -> Result<Self, ReadError> {
        let mut reader = Reader::new(item, [USER_ID, LAST_RUN_DATE]);
        Ok(Self {
            event_id: reader.optional_text(EVENT_ID)?.map(EventId::from),
            source: reader.optional_text(SOURCE)?.unwrap_or_default(),
            previous_version: reader.count(PREVIOUS_VERSION)?,
            outcome: reader.optional_text(OUTCOME)?.unwrap_or_default(),
            token: reader.bytes(TOKEN)?.and_then(|bytes| IdempotencyToken::read(&bytes)),
            chain: reader.bytes(DATA_CHAIN)?.and_then(|bytes| Chain::read(&bytes)),
            record: read_record(&mut reader)?,
        })
    }

    /// The record after this row, given the record before it (none for the first). Live commits,
    /// roll-forward and replay all use this function.
    #[must_use]
    pub fn apply_to(&self, before: Option<&Record>) -> Record {
        let mut after = match before {
            // An event that changed nothing leaves only its token and its version.
            Some(before) if !self.changed() => before.clone(),
            Some(_) | None => self.record.clone(),
        };
        after.version = self.record.version;
        after.data = Item::new();
        // A row without a link, of an older version of this program, leaves the head as it is.
        after.chain = self.chain.or(before.and_then(|before| before.chain));
        after.applied = before.map(|before| before.applied.clone()).unwrap_or_default();
        if let Some(token) = self.token {
            after.applied.push(token);
        }
        after
    }

    /// Whether the event changed the record's own attributes.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.outcome.is_empty() || self.outcome == APPLIED_OUTCOME
    }
}

fn read_record(row: &mut Reader) -> Result<Record, ReadError> {
    let (state, pause_months) = read_state(row)?;
    let mut record = Record {
        user_id: row.text(USER_ID)?.into(),
        billing_date: row.time(BILLING_DATE)?.ok_or_else(|| row.error(BILLING_DATE, "is not set"))?,
        subscription_id: row.text(SUBSCRIPTION_ID)?.into(),
        plan: Plan {
            amount: row.money(BILLING_AMOUNT)?.ok_or_else(|| row.error(BILLING_AMOUNT, "is missing"))?,
            tier: TierName::read(&row.optional_text(RECEIPT_TIER_NAME)?.unwrap_or_default()),
        },
        term: row.parsed(TERM, "MONTHLY or YEARLY", Term::read)?.unwrap_or(Term::Monthly),
        billing_week: week(row)?,
        standing: Standing::Open,
        attempts: Attempts::default(),
        state,
        process: Process::read(&row.optional_text(PROCESS)?.unwrap_or_default()),
        updated_event: row.some_text(UPDATED_EVENT)?.map(|text| UpdatedEvent::read(&text)),
        created_date: row.time(CREATED_DATE)?,
        initial_run_date: row.time(INITIAL_RUN_DATE)?,
        last_run_date: row.time(LAST_RUN_DATE)?,
        receipt: Receipt {
            account_mask: row.optional_text(RECEIPT_ACCOUNT_MASK)?.unwrap_or_default(),
            payment_type: row.optional_text(RECEIPT_PAYMENT_TYPE)?.unwrap_or_default(),
        },
        anchor: row.time(ANCHOR_DATE)?,
        member_since: row.time(MEMBER_SINCE)?,
        provider: row.parsed(PROVIDER, "cognito or local", Provider::read)?,
        due_notice: row.time(DUE_NOTICE)?,
        next: row.some_text(NEXT_SUBSCRIPTION_ID)?.map(SubscriptionId::from),
        cancel_at: row.time(CANCEL_AT)?,
        downgrade: match (row.money(PENDING_AMOUNT)?, row.some_text(PENDING_TIER_NAME)?) {
            (Some(amount), Some(tier)) => Some(Plan { amount, tier: TierName::read(&tier) }),
            (Some(_) | None, _) => None,
        },
        bar: row.some_text(COLLECTION_BAR)?,
        correction: correction(row)?,
        superseded_by: row.some_text(SUPERSEDED_BY)?.map(SubscriptionId::from),
        pending_change: row.some_text(PENDING_CHANGE)?,
        pause_passed_on: u32::try_from(row.count(PAUSE_PASSED_ON)?).ok().filter(|months| *months > 0),
        original_due_date: row.time(ORIGINAL_DUE_DATE)?,
        moved_to: row.time(MOVED_TO)?,
        version: row.count(VERSION)?,
        applied: match row.bytes(APPLIED)? {
            Some(bytes) => {
                Applied::read(&bytes).ok_or_else(|| row.error(APPLIED, "is not a whole number of tokens"))?
            }
            None => Applied::default(),
        },
        chain: row.bytes(CHAIN)?.and_then(|bytes| Chain::read(&bytes)),
        data: Item::new(),
        extra: Item::new(),
    };
    (record.standing, record.attempts) = read_attempts(row, &record, pause_months)?;
    record.derive_state();
    row.item.remove(REFUNDED_AMOUNT);
    // Derived when written. A flag without a plan (an older writer's) stays among the unknown attributes.
    row.item.remove(BILLING_PERIOD);
    if record.downgrade.is_some() {
        row.item.remove(IS_PENDING_DOWNGRADE);
    }
    let (data, extra) =
        std::mem::take(&mut row.item).into_iter().partition(|(name, _)| name.starts_with(DATA_PREFIX));
    Ok(Record { data, extra, ..record })
}

fn correction(row: &mut Reader) -> Result<Correction, ReadError> {
    let mut correction = Correction::default();
    if let Some(notice) = row.parsed(AWAITS_CORRECTION, "a code and a time", Notice::read)? {
        correction.notified(notice);
    }
    if let Some(at) = row.time(NEW_ACCOUNT_AT)? {
        correction.put_on_file(at.at());
    }
    Ok(correction)
}

/// The attempts of a row: its own log, or what the row of another writer shows.
fn read_attempts(
    row: &mut Reader,
    record: &Record,
    pause_months: u32,
) -> Result<(Standing, Attempts), ReadError> {
    let last_number = u32::try_from(row.count(ATTEMPTS)?).map_err(|_| row.error(ATTEMPTS, "is too large"))?;
    let earlier = row.texts(EARLIER_TRANSACTION_IDS)?;
    let key = row.some_text(ATTEMPT_KEY)?.map(AttemptKey::from);
    let (mut standing, shown) = of_state(&record.state, record);
    if record.version > 0 && standing == Standing::Open && pause_months > 0 {
        standing = Standing::Paused { months: pause_months };
    }
    if let Some(log) = row.some_text(ATTEMPT_LOG)? {
        let attempts =
            Attempts::read(&log, last_number).map_err(|problem| row.error(ATTEMPT_LOG, problem))?;
        return Ok((standing, attempts));
    }
    let first_run = record.initial_run_date.as_ref().unwrap_or(&record.billing_date).at();
    let failed = |id: String| Attempt {
        transaction_id: Some(TransactionId::from(id)),
        returned: Some(Failed { at: first_run, failure: Failure(String::new()) }),
        ..Attempt::default()
    };
    let mut attempts: Vec<Attempt> = shown.as_slice().to_vec();
    if let (Some(attempt), Some(key)) = (attempts.first_mut(), key) {
        attempt.number = key.number_of(&record.subscription_id);
    }
    attempts.extend(earlier.into_iter().map(failed));
    Ok((standing, Attempts::of_other_writer(attempts, last_number)))
}

/// The state as the row's own columns show it, and the length of its pause.
fn read_state(row: &mut Reader) -> Result<(State, u32), ReadError> {
    let status = row
        .parsed(BILLING_STATUS, "a billing status", Status::read)?
        .ok_or_else(|| row.error(BILLING_STATUS, "is missing"))?;
    let transaction_id = row.some_text(TRANSACTION_ID)?.map(TransactionId::from);
    let failure = row.some_text(USIO_ERROR)?;
    let at = row.time(COMPLETION_DATE)?;
    let months = u32::try_from(row.count(PAUSE_DURATION_MONTHS)?)
        .map_err(|_| row.error(PAUSE_DURATION_MONTHS, "is too large"))?;
    let last = || {
        let failed =
            |text: String| FailedAttempt { transaction_id: transaction_id.clone(), failure: Failure(text) };
        failure.clone().or_else(|| transaction_id.as_ref().map(|_| String::new())).map(failed)
    };
    let payment = || Payment { transaction_id: transaction_id.clone(), at: at.clone() };
    let closed = || Closed { at: at.clone(), last: last() };
    let state = match status {
        // An older writer's record that waits again after a pause keeps its failed attempt.
        Status::Scheduled => match last() {
            Some(failed) if !failed.failure.text().is_empty() => State::Error(failed),
            Some(_) | None => State::Scheduled,
        },
        Status::AchSent => State::AchSent(transaction_id),
        Status::Completed => State::Completed(payment()),
        Status::Error => State::Error(
            last().unwrap_or(FailedAttempt { transaction_id: None, failure: Failure(String::new()) }),
        ),
        Status::Waived => State::Waived(closed()),
        Status::Cancelled => State::Cancelled(closed()),
        Status::Paused => State::Paused(Pause { months, last: last() }),
        Status::PausedSkipped => {
            State::PausedSkipped(Pause { months, last: last() }, Closed { at, last: None })
        }
        Status::Refunded => State::Refunded(payment()),
        Status::Stale => State::Stale(closed()),
    };
    Ok((state, months))
}

fn week(row: &mut Reader) -> Result<Option<BillingWeek>, ReadError> {
    match row.number(BILLING_WEEK)? {
        None => Ok(None),
        Some(n) => {
            BillingWeek::new(n).map(Some).ok_or_else(|| row.error(BILLING_WEEK, format!("{n} is not 1 to 5")))
        }
    }
}
