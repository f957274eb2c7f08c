//! The collections engine: presents debits for records that are due, at most once per attempt.
//!
//! Per user, under the user's lock: load the records, roll interrupted commits forward, check each record's
//! [`eligibility`] and act on it. A debit takes three steps:
//!
//! 1. commit the attempt, history first, under a key derived from the record and the attempt number: the
//!    record is ACHSENT;
//! 2. submit the debit to the gateway under that key;
//! 3. commit the gateway's answer.
//!
//! A crash between two steps leaves an ACHSENT record without a confirmation. The next worker looks the key
//! up at the gateway, and submits under the same key if the gateway has never seen it. The lock only avoids
//! duplicate work: the record's version makes an attempt unique, the key makes a debit unique.

pub mod batch_worker;
pub mod commands;
pub mod gateway;
pub mod job;
pub mod notifier;
pub mod signals;
pub mod worker;

use dues_events::billing::event::{Answer, Event, EventKind, Ignored, Paid};
use dues_events::billing::record::{Failure, History, Process, Receipt, Record, Status};
use dues_events::collections::eligibility::{
    CollectionRequest, Eligibility, Reason, Rules, Trigger, eligibility, may_still_debit,
};
use dues_events::{AttemptKey, Rejection, SubscriptionId, Time, UserId, Value};
use dues_store::billing::user_records::UserRecords;
use dues_store::lock::{Acquired, Held, Locks};
use dues_store::{CommitError, Committed, Engine, Store};
use std::sync::Arc;

use crate::collections::gateway::{Debit, Gateway, OutcomeUnknown};

/// Collects dues: records, locks, gateway and rules.
#[derive(Clone)]
pub struct Collector<E: Engine, G> {
    /// The records.
    pub store: Store<E>,
    /// One lock per user.
    pub locks: Locks<E>,
    /// Debits are submitted here.
    pub gateway: G,
    /// Limits and intervals of the collection rules.
    pub rules: Arc<Rules>,
}

/// The result of collecting from one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserCollection {
    /// Another worker holds the user's lock: nothing was done.
    Locked,
    /// The outcome of each record, oldest first.
    Done(Vec<RecordOutcome>),
}

/// The outcome of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordOutcome {
    /// The record.
    pub subscription_id: SubscriptionId,
    /// What was done with it.
    pub outcome: Outcome,
}

/// What collecting did with a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The gateway accepted the debit; settlement is pending.
    Sent,
    /// The gateway collected at once.
    Collected,
    /// The gateway refused, with this reason.
    Refused(String),
    /// The gateway's answer is unknown, for this reason; the next run looks it up.
    InDoubt(String),
    /// The amount is zero: completed without a debit.
    Free,
    /// A requested cancellation took effect.
    Cancelled,
    /// Too old to collect.
    Stale,
    /// The pause expired; the next record follows.
    PauseExpired,
    /// The pause ends soon.
    PauseEnding,
    /// Not eligible, for this reason.
    Skipped(Reason),
}

/// History rows read to find commits that a crash interrupted.
const RECENT_HISTORY_ROWS: u32 = 8;
/// History rows read to count today's signal debits: two rows for each of at most three attempts a record.
const RECENT_HISTORY_ROWS_FOR_SIGNALS: u32 = 48;
/// `source` of an attempt's history row.
const ATTEMPT: &str = "dues attempt";
/// History attribute: the signal that caused an attempt.
const DATA_CAUSE: &str = "data_cause";
/// History attribute: why the gateway's answer is unknown.
const DATA_REASON: &str = "data_reason";

impl<E: Engine, G: Gateway> Collector<E, G> {
    /// A collector with the default rules.
    pub fn new(store: Store<E>, gateway: G) -> Self {
        let locks = Locks::new(store.engine.clone(), store.clock.clone());
        Self { store, locks, gateway, rules: Arc::default() }
    }

    /// Collects the records of a user that the request covers.
    ///
    /// # Errors
    /// [`Rejection::UnknownSubscription`] or [`Rejection::WrongUser`] for a requested record that does not
    /// exist or belongs to another user.
    pub async fn collect_user(
        &self,
        user: &UserId,
        request: &CollectionRequest,
    ) -> Result<UserCollection, CommitError> {
        let lock = match self.locks.acquire(user).await? {
            Acquired::Held(lock) => lock,
            Acquired::LockedElsewhere => return Ok(UserCollection::Locked),
        };
        let held = lock.watch();
        let done = lock.run(self.collect_records(user, request, &held)).await;
        lock.release().await;
        done.map(UserCollection::Done)
    }

    /// Whether any record of a user has failed or is in doubt: one read, without the lock. Most signals
    /// concern members with nothing to collect.
    pub async fn has_failed_records(&self, user: &UserId) -> Result<bool, CommitError> {
        let records = self.store.load_user(user).await?.records;
        Ok(records.iter().any(|record| record.status() == Status::Error || record.in_doubt().is_some()))
    }

    async fn collect_records(
        &self,
        user: &UserId,
        request: &CollectionRequest,
        held: &Held,
    ) -> Result<Vec<RecordOutcome>, CommitError> {
        let (mut records, recent) = self.load(user, request).await?;
        let mut request = request.clone();
        let mut remaining = self.remaining_signal_debits(&request, &recent);
        let mut outcomes = Vec::new();
        for id in requested_records(&records, &request) {
            let outcome = self.process_record(&mut records, &id, &request, &remaining, held).await?;
            if matches!(
                outcome,
                Outcome::Sent | Outcome::Collected | Outcome::Refused(_) | Outcome::InDoubt(_)
            ) {
                remaining = remaining.and_then(|remaining| {
                    remaining.checked_sub(1).filter(|remaining| *remaining > 0).ok_or(Reason::EnoughToday)
                });
                let amount = records.get(&id).map(|record| record.plan.amount.decimal()).unwrap_or_default();
                request.available = request.available.map(|available| available - amount);
            }
            let is_out_of_scope = matches!(&outcome, Outcome::Skipped(reason) if reason.is_out_of_scope());
            if request.only.is_some() || !is_out_of_scope {
                outcomes.push(RecordOutcome { subscription_id: id, outcome });
            }
        }
        Ok(outcomes)
    }

    /// Loads the records and recent history, rolls interrupted commits forward and applies follow-ups.
    async fn load(
        &self,
        user: &UserId,
        request: &CollectionRequest,
    ) -> Result<(UserRecords, Vec<History>), CommitError> {
        let mut records = self.store.load_user(user).await?;
        if let Some(id) = &request.only
            && records.get(id).is_none()
        {
            let record =
                self.store.get_by_id(id).await?.ok_or_else(|| Rejection::UnknownSubscription(id.clone()))?;
            if record.user_id != *user {
                return Err(Rejection::WrongUser(id.clone()).into());
            }
            records.set(record);
        }
        let recent = self
            .store
            .recent_history(
                user,
                if is_signal(request.trigger) {
                    RECENT_HISTORY_ROWS_FOR_SIGNALS
                } else {
                    RECENT_HISTORY_ROWS
                },
            )
            .await?;
        self.store.heal(&mut records, &recent).await?;
        self.store.apply_all_followups(&mut records).await?;
        Ok((records, recent))
    }

    /// How many debits this request may still cause today; only signals are limited.
    fn remaining_signal_debits(
        &self,
        request: &CollectionRequest,
        recent: &[History],
    ) -> Result<u32, Reason> {
        if !is_signal(request.trigger) {
            return Ok(u32::MAX);
        }
        let attempts = recent.iter().filter(|row| row.source == ATTEMPT);
        if let Some(cause) = &request.cause
            && attempts.clone().any(|row| row.record.data.text(DATA_CAUSE) == Some(cause))
        {
            return Err(Reason::SignalKnown);
        }
        let today = self.store.clock.now().date_naive();
        let is_signal_attempt =
            |row: &&History| matches!(row.record.process, Process::Webhook | Process::WebhookBalance);
        let made = attempts
            .filter(is_signal_attempt)
            .filter(|row| row.record.last_run_date.as_ref().is_some_and(|at| at.at().date_naive() == today));
        let made = u32::try_from(made.count()).unwrap_or(u32::MAX);
        self.rules
            .signals_a_day
            .checked_sub(made)
            .filter(|remaining| *remaining > 0)
            .ok_or(Reason::EnoughToday)
    }

    async fn process_record(
        &self,
        user: &mut UserRecords,
        id: &SubscriptionId,
        request: &CollectionRequest,
        remaining: &Result<u32, Reason>,
        held: &Held,
    ) -> Result<Outcome, CommitError> {
        let Some(record) = user.get(id).cloned() else { return Ok(Outcome::Skipped(Reason::Overtaken)) };
        let now = self.store.clock.now();
        let transition = match eligibility(&self.rules, request, &record, &user.records, now) {
            Eligibility::Skip(reason) => return Ok(Outcome::Skipped(reason)),
            Eligibility::Collect(key) => {
                return match remaining {
                    Ok(_) => self.attempt(user, &record, key, request, held).await,
                    Err(reason) => Ok(Outcome::Skipped(reason.clone())),
                };
            }
            Eligibility::Resolve(key) => return self.resolve(user, &record, key, held).await,
            Eligibility::Complete => {
                let paid = Paid {
                    transaction_id: None,
                    receipt: Receipt { account_mask: String::new(), payment_type: "NONE".to_owned() },
                };
                (
                    format!("free:{id}"),
                    "dues free",
                    Some(request.trigger),
                    EventKind::CollectedAtOnce(paid),
                    Outcome::Free,
                )
            }
            Eligibility::Cancel => (
                format!("cancel-due:{id}"),
                "dues due-cancel",
                None,
                EventKind::Cancelled,
                Outcome::Cancelled,
            ),
            Eligibility::Stale => {
                (format!("too-old:{id}"), "dues too-old", None, EventKind::TooOld, Outcome::Stale)
            }
            Eligibility::Expire => (
                format!("pause-expired:{id}"),
                "dues pause",
                Some(Trigger::Pause),
                EventKind::PauseExpired,
                Outcome::PauseExpired,
            ),
            Eligibility::Remind => {
                // A record can be paused more than once: the version makes each notice unique.
                let id = format!("pause-ending:{id}:{}", record.version);
                (id, "dues pause", Some(Trigger::Pause), EventKind::PauseEnding, Outcome::PauseEnding)
            }
        };
        let (event_id, source, run, kind, outcome) = transition;
        let event = Event::internal_at(event_id.into(), now, source, run.map(Trigger::process), kind);
        Ok(if self.apply(user, id, &event).await? { outcome } else { Outcome::Skipped(Reason::Overtaken) })
    }

    /// The three steps of a debit.
    async fn attempt(
        &self,
        user: &mut UserRecords,
        record: &Record,
        key: AttemptKey,
        request: &CollectionRequest,
        held: &Held,
    ) -> Result<Outcome, CommitError> {
        let sent = EventKind::Sent { transaction_id: None, key: Some(key.clone()) };
        let mut intent = Event::internal_at(
            format!("attempt:{key}").into(),
            self.store.clock.now(),
            ATTEMPT,
            Some(request.trigger.process()),
            sent,
        );
        if let Some(cause) = &request.cause {
            intent.data.set(DATA_CAUSE, Value::text(cause.as_str()));
        }
        if !self.apply(user, &record.subscription_id, &intent).await? {
            return Ok(Outcome::Skipped(Reason::Overtaken));
        }
        if !held.is_held() {
            return self
                .record_doubt(user, record, &key, "the lock was lost before the gateway was called")
                .await;
        }
        let answer = self.gateway.submit(&debit(record), &key).await;
        self.commit_answer(user, record, &key, answer).await
    }

    /// Looks up an attempt in doubt, and submits it if it never reached the gateway.
    async fn resolve(
        &self,
        user: &mut UserRecords,
        record: &Record,
        key: AttemptKey,
        held: &Held,
    ) -> Result<Outcome, CommitError> {
        let answer = match self.gateway.lookup(&key).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => match may_still_debit(record, &user.records, self.store.clock.now()) {
                Ok(()) if held.is_held() => self.gateway.submit(&debit(record), &key).await,
                Ok(()) => Err(OutcomeUnknown("the lock was lost before the gateway was called".to_owned())),
                Err(reason) => Ok(Answer::Refused {
                    transaction_id: None,
                    failure: Failure::new(None, Some(&format!("never submitted: {reason}"))),
                }),
            },
            Err(unanswered) => Err(unanswered),
        };
        self.commit_answer(user, record, &key, answer).await
    }

    /// Commits the gateway's answer.
    async fn commit_answer(
        &self,
        user: &mut UserRecords,
        record: &Record,
        key: &AttemptKey,
        answer: Result<Answer, OutcomeUnknown>,
    ) -> Result<Outcome, CommitError> {
        let answer = match answer {
            Ok(answer) => answer,
            Err(OutcomeUnknown(reason)) => return self.record_doubt(user, record, key, &reason).await,
        };
        let outcome = match &answer {
            Answer::Accepted { .. } => Outcome::Sent,
            Answer::Collected(_) => Outcome::Collected,
            Answer::Refused { failure, .. } => Outcome::Refused(failure.text().to_owned()),
        };
        let kind = EventKind::Answered { key: key.clone(), answer };
        let event = Event::internal_at(
            format!("answer:{key}").into(),
            self.store.clock.now(),
            "dues gateway",
            None,
            kind,
        );
        // Another worker or a settlement may have committed first: the debit's outcome is the same.
        self.apply(user, &record.subscription_id, &event).await?;
        Ok(outcome)
    }

    /// Records in history, once a day, why an attempt's answer is unknown.
    async fn record_doubt(
        &self,
        user: &mut UserRecords,
        record: &Record,
        key: &AttemptKey,
        reason: &str,
    ) -> Result<Outcome, CommitError> {
        let now = self.store.clock.now();
        let kind = EventKind::NoChange(Ignored::AnswerUnknown);
        let mut event = Event::internal_at(
            format!("doubt:{key}:{}", now.date_naive()).into(),
            now,
            "dues gateway",
            None,
            kind,
        );
        event.data.set(DATA_REASON, Value::text(reason));
        tracing::warn!(subscription = %record.subscription_id, %key, reason, "the outcome of a debit is unknown");
        self.apply(user, &record.subscription_id, &event).await?;
        Ok(Outcome::InDoubt(reason.to_owned()))
    }

    /// Applies an event; `false` when the record has changed since its eligibility was checked.
    async fn apply(
        &self,
        user: &mut UserRecords,
        id: &SubscriptionId,
        event: &Event,
    ) -> Result<bool, CommitError> {
        match self.store.apply(user, id, event).await {
            Ok(Committed::Applied) => Ok(true),
            Ok(Committed::Ignored(_) | Committed::Duplicate | Committed::Parked) => Ok(false),
            Err(CommitError::Rejected(rejection)) => {
                tracing::debug!(subscription = %id, event = %event.id, %rejection, "overtaken");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// The records that a request covers, oldest first.
fn requested_records(user: &UserRecords, request: &CollectionRequest) -> Vec<SubscriptionId> {
    let mut records: Vec<(Time, &SubscriptionId)> = user
        .records
        .iter()
        .filter(|record| match &request.only {
            Some(only) => record.subscription_id == *only,
            None => record.is_open() || record.in_doubt().is_some(),
        })
        .map(|record| (record.billing_date.at(), &record.subscription_id))
        .collect();
    records.sort();
    records.into_iter().map(|(_, id)| id.clone()).collect()
}

fn is_signal(run: Trigger) -> bool {
    matches!(run, Trigger::Income | Trigger::Balance)
}

fn debit(record: &Record) -> Debit {
    Debit {
        user_id: record.user_id.clone(),
        subscription_id: record.subscription_id.clone(),
        amount: record.plan.amount,
        period: record.period(),
    }
}
