//! The collections engine: presents debits for records that are due, at most once per attempt.
//!
//! Per user, under the user's lock: load the records, roll interrupted commits forward, check each record's
//! [`eligibility`] and act on it. A debit takes four steps:
//!
//! 1. commit the attempt, history first, under a key derived from the record and the attempt number, and only
//!    at the version that was judged: the record is ACHSENT;
//! 2. read the member's records again: if a change has come in between, the attempt is withdrawn, and the
//!    gateway is not called. So either the change sees the attempt, or the debit sees the change;
//! 3. submit the debit, built from the record as committed, to the gateway under that key;
//! 4. commit the gateway's answer.
//!
//! A crash between two steps leaves an ACHSENT record without a confirmation. The next worker looks the key
//! up at the gateway, and submits under the same key if the gateway has never seen it. The lock only avoids
//! duplicate work: the record's version makes an attempt unique, the key makes a debit unique.

pub mod batch_worker;
pub mod commands;
pub mod gateway;
pub mod job;
pub mod money;
pub mod notifier;
pub mod planned_retries;
pub mod signals;
pub mod worker;

use chrono::TimeDelta;
use dues_events::attributes::{DATA_CAUSE, DATA_REASON};
use dues_events::billing::event::{Answer, Event, EventKind, Ignored};
use dues_events::billing::record::{History, Process, Record, Status};
use dues_events::collections::eligibility::{
    CollectionRequest, Eligibility, Reason, Rules, Trigger, eligibility, may_still_debit,
};
use dues_events::{AttemptKey, GoTime, Rejection, SubscriptionId, Time, UserId, Value};
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
    /// The member's records changed before the gateway was called: no debit was made, for this reason.
    Withdrawn(String),
    /// Not eligible, for this reason.
    Skipped(Reason),
}

/// Maximum number of lost races for one record in one run; the next run tries again.
const MAX_RACES: u32 = 8;
/// History rows read to find commits that a crash interrupted.
const RECENT_HISTORY_ROWS: u32 = 8;
/// History rows read to count today's signal debits: two rows for each of at most three attempts a record.
const RECENT_HISTORY_ROWS_FOR_SIGNALS: u32 = 48;
/// `source` of an attempt's history row.
const ATTEMPT: &str = "dues attempt";

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
        // Boxed, as are all that few collections need: together they outgrow a worker's stack.
        Box::pin(self.record_new_accounts(&mut records, &request)).await?;
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

    /// Records that a new account is on file, where the request brings one: on every record that waits for
    /// it, and for a signal on the newest record, so that a notification of change that is older than the
    /// account and arrives later finds it. A person's request that debits nothing changes nothing else.
    async fn record_new_accounts(
        &self,
        user: &mut UserRecords,
        request: &CollectionRequest,
    ) -> Result<(), CommitError> {
        if !request.new_account {
            return Ok(());
        }
        let newest = user.records.iter().max_by_key(|record| record.billing_date.at());
        let newest = newest.map(|record| &record.subscription_id).filter(|_| is_signal(request.trigger));
        let is_concerned = |record: &&Record| {
            Some(&record.subscription_id) == newest || record.correction.awaited().is_some()
        };
        let concerned: Vec<Record> = user.records.iter().filter(is_concerned).cloned().collect();
        for record in concerned {
            let event = self.new_account(&record, request);
            self.apply(user, &record.subscription_id, &event).await?;
        }
        Ok(())
    }

    fn new_account(&self, record: &Record, request: &CollectionRequest) -> Event {
        let (id, version) = (&record.subscription_id, record.version.to_string());
        // A redelivered signal names the same fact; a person may bring another account any time.
        let fact = request.cause.as_deref().unwrap_or(&version);
        let (event_id, now) = (format!("new-account:{id}:{fact}"), self.store.clock.now());
        Event::internal_at(event_id.into(), now, "dues new-account", None, EventKind::NewAccount)
            .by(request.actor.as_deref())
    }

    /// Debits a record that was judged. A new account that the debit is made from is recorded before it,
    /// unless that was the latest event of the record.
    async fn attempt_from_account(
        &self,
        user: &mut UserRecords,
        judged: &Record,
        key: AttemptKey,
        request: &CollectionRequest,
        held: &Held,
    ) -> Result<Outcome, CommitError> {
        let latest = judged.last_run_date.as_ref().map_or(Time::MIN_UTC, GoTime::at);
        let latest = latest.min(self.store.clock.now());
        let is_on_file = judged.correction.new_account_at().is_some_and(|at| at >= latest);
        if !request.new_account || is_on_file {
            return self.attempt(user, judged, key, request, held).await;
        }
        let event = self.new_account(judged, request);
        if !self.apply_at(user, judged, &event).await? {
            return Ok(Outcome::Skipped(Reason::Overtaken));
        }
        // Nothing but that has happened to the record since it was judged.
        let Some(record) = user.get(&judged.subscription_id).cloned() else {
            return Ok(Outcome::Skipped(Reason::Overtaken));
        };
        self.attempt(user, &record, key, request, held).await
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

    /// Judges a record and acts on it. After a lost race everything is read and judged again.
    async fn process_record(
        &self,
        user: &mut UserRecords,
        id: &SubscriptionId,
        request: &CollectionRequest,
        remaining: &Result<u32, Reason>,
        held: &Held,
    ) -> Result<Outcome, CommitError> {
        for _ in 0..MAX_RACES {
            // Boxed, as its branches are: together they outgrow a worker's stack.
            let outcome = Box::pin(self.judge_and_act(user, id, request, remaining, held)).await?;
            if outcome != Outcome::Skipped(Reason::Overtaken) {
                return Ok(outcome);
            }
            self.read_again(user, id).await?;
            self.store.apply_all_followups(user).await?;
        }
        Ok(Outcome::Skipped(Reason::Overtaken))
    }

    async fn judge_and_act(
        &self,
        user: &mut UserRecords,
        id: &SubscriptionId,
        request: &CollectionRequest,
        remaining: &Result<u32, Reason>,
        held: &Held,
    ) -> Result<Outcome, CommitError> {
        let Some(record) = user.get(id).cloned() else { return Ok(Outcome::Skipped(Reason::Overtaken)) };
        let now = self.store.clock.now();
        let run = Some(request.trigger.process());
        let transition = match Box::pin(self.judge(request, &record, &user.records, now)).await? {
            Eligibility::Skip(reason) => return Ok(Outcome::Skipped(reason)),
            Eligibility::Collect(key) => {
                return match remaining {
                    Ok(_) => Box::pin(self.attempt_from_account(user, &record, key, request, held)).await,
                    Err(reason) => Ok(Outcome::Skipped(reason.clone())),
                };
            }
            Eligibility::Resolve(key) => return Box::pin(self.resolve(user, &record, key, held)).await,
            Eligibility::Complete => (format!("free:{id}"), "dues free", EventKind::Free, Outcome::Free),
            Eligibility::Cancel => {
                (format!("cancel-due:{id}"), "dues due-cancel", EventKind::Cancelled, Outcome::Cancelled)
            }
            Eligibility::Stale => {
                (format!("too-old:{id}"), "dues too-old", EventKind::TooOld, Outcome::Stale)
            }
            Eligibility::Expire => {
                (format!("pause-expired:{id}"), "dues pause", EventKind::PauseExpired, Outcome::PauseExpired)
            }
            Eligibility::Remind => {
                // A record can be paused more than once: the version makes each notice unique.
                let id = format!("pause-ending:{id}:{}", record.version);
                (id, "dues pause", EventKind::PauseEnding, Outcome::PauseEnding)
            }
        };
        let (event_id, source, kind, outcome) = transition;
        let event = Event::internal_at(event_id.into(), now, source, run, kind).by(request.actor.as_deref());
        let done = self.apply_at(user, &record, &event).await?;
        if done {
            self.store.apply_followups(user, id).await?;
        }
        Ok(if done { outcome } else { Outcome::Skipped(Reason::Overtaken) })
    }

    /// The eligibility of a record. RETRY needs the member's incomes, and only where nothing else keeps the
    /// record from being presented again: one read for each of those.
    async fn judge(
        &self,
        request: &CollectionRequest,
        record: &Record,
        of_user: &[Record],
        now: Time,
    ) -> Result<Eligibility, CommitError> {
        let verdict = eligibility(&self.rules, request, record, of_user, now);
        if request.trigger != Trigger::Retry || !matches!(verdict, Eligibility::Collect(_)) {
            return Ok(verdict);
        }
        let incomes = Some(self.store.incomes(&record.user_id).await?);
        let request = CollectionRequest { incomes, ..request.clone() };
        Ok(eligibility(&self.rules, &request, record, of_user, now))
    }

    /// Reads the user's records again. One that is not among the recent ones is read by its id.
    async fn read_again(&self, user: &mut UserRecords, id: &SubscriptionId) -> Result<(), CommitError> {
        *user = self.store.load_user(&user.user_id).await?;
        if user.get(id).is_none()
            && let Some(record) = self.store.get_by_id(id).await?
        {
            user.set(record);
        }
        Ok(())
    }

    /// The four steps of a debit.
    async fn attempt(
        &self,
        user: &mut UserRecords,
        record: &Record,
        key: AttemptKey,
        request: &CollectionRequest,
        held: &Held,
    ) -> Result<Outcome, CommitError> {
        let Some(number) = key.number_of(&record.subscription_id) else {
            return Ok(Outcome::Skipped(Reason::Overtaken));
        };
        let mut intent = Event::internal_at(
            format!("attempt:{key}").into(),
            self.store.clock.now(),
            ATTEMPT,
            Some(request.trigger.process()),
            EventKind::Intended { number },
        )
        .by(request.actor.as_deref());
        if let Some(cause) = &request.cause {
            intent.data.set(DATA_CAUSE, Value::text(cause.as_str()));
        }
        if !self.apply_at(user, record, &intent).await? {
            return Ok(Outcome::Skipped(Reason::Overtaken));
        }
        self.store.apply_followups(user, &record.subscription_id).await?;
        // Nothing may come between this read and the gateway.
        self.read_again(user, &record.subscription_id).await?;
        let now = self.store.clock.now();
        let Some(committed) = user.get(&record.subscription_id).cloned() else {
            return Ok(Outcome::Skipped(Reason::Overtaken));
        };
        let submitted = committed.attempts.numbered(number).and_then(|attempt| attempt.submitted);
        if committed.in_doubt().as_ref() != Some(&key) || submitted != Some(intent.at) {
            // The bank reported on it already, or another worker took it over.
            return Ok(Outcome::Skipped(Reason::InFlight));
        }
        if let Err(reason) = may_still_debit(&committed, &user.records, now) {
            return self.withdraw(user, &committed, &key, number, &reason).await;
        }
        if !held.is_held() {
            let reason = "the lock was lost before the gateway was called";
            return self.record_doubt(user, &committed, &key, reason).await;
        }
        let answer = self.gateway.submit(&debit(&committed), &key).await;
        self.commit_answer(user, &committed, &key, number, answer).await
    }

    /// Withdraws an attempt that was never submitted.
    async fn withdraw(
        &self,
        user: &mut UserRecords,
        record: &Record,
        key: &AttemptKey,
        number: u32,
        reason: &str,
    ) -> Result<Outcome, CommitError> {
        let mut event = Event::internal_at(
            format!("withdraw:{key}").into(),
            self.store.clock.now(),
            ATTEMPT,
            None,
            EventKind::Withdrawn { number },
        );
        event.data.set(DATA_REASON, Value::text(format!("never submitted: {reason}")));
        // Only as it was judged: another worker may be submitting it.
        if !self.apply_at(user, record, &event).await? {
            return Ok(Outcome::Skipped(Reason::InFlight));
        }
        self.store.apply_followups(user, &record.subscription_id).await?;
        Ok(Outcome::Withdrawn(reason.to_owned()))
    }

    /// Looks up an attempt in doubt, and submits it again if it never reached the gateway. The key makes
    /// that the same debit. Where the member may no longer be debited, it is withdrawn, but only once the
    /// gateway's queue can no longer hold the request.
    async fn resolve(
        &self,
        user: &mut UserRecords,
        record: &Record,
        key: AttemptKey,
        held: &Held,
    ) -> Result<Outcome, CommitError> {
        let id = &record.subscription_id;
        let Some(number) = key.number_of(id) else { return Ok(Outcome::Skipped(Reason::Overtaken)) };
        match self.gateway.lookup(&key).await {
            Ok(Some(answer)) => return self.commit_answer(user, record, &key, number, Ok(answer)).await,
            Ok(None) => {}
            Err(unknown) => return self.commit_answer(user, record, &key, number, Err(unknown)).await,
        }
        self.read_again(user, id).await?;
        let now = self.store.clock.now();
        let Some(current) = user.get(id).filter(|r| r.in_doubt().as_ref() == Some(&key)).cloned() else {
            return Ok(Outcome::Skipped(Reason::InFlight));
        };
        if let Err(reason) = may_still_debit(&current, &user.records, now) {
            let submitted = current.attempts.numbered(number).and_then(|attempt| attempt.submitted);
            let queued_until =
                submitted.map(|at| at + TimeDelta::hours(self.rules.gateway_queue_hours.into()));
            if queued_until.is_some_and(|until| now < until) {
                let reason = format!("never seen by the gateway, but it may still wait there ({reason})");
                return self.record_doubt(user, &current, &key, &reason).await;
            }
            return self.withdraw(user, &current, &key, number, &reason).await;
        }
        if !held.is_held() {
            let reason = "the lock was lost before the gateway was called";
            return self.record_doubt(user, &current, &key, reason).await;
        }
        let again = Event::internal_at(
            format!("attempt:{key}:again:{}", current.version).into(),
            now,
            "dues attempt-again",
            None,
            EventKind::Intended { number },
        );
        if !self.apply_at(user, &current, &again).await? {
            return Ok(Outcome::Skipped(Reason::Overtaken));
        }
        self.read_again(user, id).await?;
        let Some(committed) = user.get(id).filter(|r| r.in_doubt().as_ref() == Some(&key)).cloned() else {
            return Ok(Outcome::Skipped(Reason::InFlight));
        };
        if let Err(reason) = may_still_debit(&committed, &user.records, now) {
            let reason = format!("never seen by the gateway, but it may still wait there ({reason})");
            return self.record_doubt(user, &committed, &key, &reason).await;
        }
        let answer = self.gateway.submit(&debit(&committed), &key).await;
        self.commit_answer(user, &committed, &key, number, answer).await
    }

    /// Commits the gateway's answer.
    async fn commit_answer(
        &self,
        user: &mut UserRecords,
        record: &Record,
        key: &AttemptKey,
        number: u32,
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
        let kind = EventKind::Answered { number, answer };
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
        let id = &record.subscription_id;
        tracing::warn!(subscription = %id, %key, reason, "the outcome of a debit is unknown");
        self.apply(user, &record.subscription_id, &event).await?;
        Ok(Outcome::InDoubt(reason.to_owned()))
    }

    /// Applies an event, whatever has happened to the record since.
    async fn apply(
        &self,
        user: &mut UserRecords,
        id: &SubscriptionId,
        event: &Event,
    ) -> Result<bool, CommitError> {
        let committed = self.store.apply(user, id, event).await;
        is_applied(event, committed)
    }

    /// Applies an event to a record as it was judged; `false` when it has changed since.
    async fn apply_at(
        &self,
        user: &mut UserRecords,
        judged: &Record,
        event: &Event,
    ) -> Result<bool, CommitError> {
        let committed = self.store.apply_at(user, &judged.subscription_id, judged.version, event).await;
        is_applied(event, committed)
    }
}

fn is_applied(event: &Event, committed: Result<Committed, CommitError>) -> Result<bool, CommitError> {
    match committed {
        Ok(Committed::Applied) => Ok(true),
        Ok(Committed::Ignored(_) | Committed::Duplicate | Committed::Parked | Committed::Overtaken) => {
            Ok(false)
        }
        Err(CommitError::Rejected(rejection)) => {
            tracing::debug!(event = %event.id, %rejection, "overtaken");
            Ok(false)
        }
        Err(error) => Err(error),
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
