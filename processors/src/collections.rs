//! The collections engine: collects what is due, once, by the rules.
//!
//! For one user, under their lock: read the records, finish what a crash cut short, [`judge`] each record, and do what is due. A debit takes three steps:
//!
//! 1. the attempt is committed, history first, under a key that only depends on the record and the number of the attempt: the record is ACHSENT;
//! 2. the gateway is called with that key;
//! 3. its answer is committed.
//!
//! A crash between two steps leaves a record that says so: ACHSENT without a confirmation. Whoever comes by next asks the gateway for the key, and submits
//! under the same one if it was never seen. The lock keeps workers from doing the same work; that an attempt is made once is the record's version, and
//! that a debit is made once is the key.

pub mod batch_worker;
pub mod commands;
pub mod job;
pub mod signals;
pub mod worker;

use dues_events::collect::{Ask, Reason, Rules, Run, Verdict, judge, may_still_debit};
use dues_events::event::{Answer, Event, Happening, Ignored, Paid};
use dues_events::record::{Failure, History, Process, Receipt, Record, Status};
use dues_events::{AttemptKey, Rejection, SubscriptionId, Time, UserId, Value};
use dues_store::lock::{Acquired, Held, Locks};
use dues_store::user::UserRecords;
use dues_store::{CommitError, Committed, Engine, Store};
use std::sync::Arc;

use crate::gateway::{Debit, Gateway, Unanswered};

/// What collects.
#[derive(Clone)]
pub struct Collector<E: Engine, G> {
    /// The records.
    pub store: Store<E>,
    /// The users' locks.
    pub locks: Locks<E>,
    /// Where debits go.
    pub gateway: G,
    /// The rules' numbers.
    pub rules: Arc<Rules>,
}

/// What a visit to a user came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visit {
    /// Another worker has the user: nothing was touched.
    Locked,
    /// What became of each record that was looked at, the oldest first.
    Done(Vec<Looked>),
}

/// A record that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    /// Which.
    pub subscription_id: SubscriptionId,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A debit is under way.
    Sent,
    /// The money is there.
    Collected,
    /// The gateway refused, for this reason.
    Refused(String),
    /// The gateway was asked and what it did is not known, for this reason: it is found out next time.
    InDoubt(String),
    /// There was nothing to pay.
    Free,
    /// The cancellation that was asked for took effect.
    Cancelled,
    /// It was too old.
    Stale,
    /// Its pause ran out, and the next record took over.
    PauseExpired,
    /// Its pause ends soon.
    PauseEnding,
    /// Nothing was done, for this reason.
    Left(Reason),
}

/// How many of a user's newest history rows are looked at for what a crash cut short.
const NEWEST: u32 = 8;
/// How many for what signals caused today: a record takes two rows for each of at most three attempts.
const NEWEST_FOR_SIGNALS: u32 = 48;
/// The source of an attempt's history row.
const ATTEMPT: &str = "dues attempt";
/// History: the fact that caused an attempt.
const DATA_CAUSE: &str = "data_cause";
/// History: why the gateway's answer is not known.
const DATA_REASON: &str = "data_reason";

impl<E: Engine, G: Gateway> Collector<E, G> {
    /// With the usual rules.
    pub fn new(store: Store<E>, gateway: G) -> Self {
        let locks = Locks::new(store.engine.clone(), store.clock.clone());
        Self { store, locks, gateway, rules: Arc::default() }
    }

    /// Collects from a user what the wish is about.
    ///
    /// # Errors
    /// What the store could not do; a wish for a record that is not there or is somebody else's.
    pub async fn visit(&self, user: &UserId, ask: &Ask) -> Result<Visit, CommitError> {
        let lock = match self.locks.acquire(user).await? {
            Acquired::Held(lock) => lock,
            Acquired::LockedElsewhere => return Ok(Visit::Locked),
        };
        let held = lock.watch();
        let done = lock.run(self.work(user, ask, &held)).await;
        lock.release().await;
        done.map(Visit::Done)
    }

    /// Whether anything of a user's has failed or is in doubt: one read, without the lock. Most signals come for members who owe nothing.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn has_failed(&self, user: &UserId) -> Result<bool, CommitError> {
        let records = self.store.load_user(user).await?.records;
        Ok(records.iter().any(|record| record.status() == Status::Error || record.in_doubt().is_some()))
    }

    async fn work(&self, user: &UserId, ask: &Ask, held: &Held) -> Result<Vec<Looked>, CommitError> {
        let (mut records, newest) = self.load(user, ask).await?;
        let mut ask = ask.clone();
        let mut left = self.signals_left(&ask, &newest);
        let mut looked = Vec::new();
        for id in wanted(&records, &ask) {
            let outcome = self.look(&mut records, &id, &ask, &left, held).await?;
            if matches!(outcome, Outcome::Sent | Outcome::Collected | Outcome::Refused(_) | Outcome::InDoubt(_)) {
                left = left.and_then(|left| left.checked_sub(1).filter(|left| *left > 0).ok_or(Reason::EnoughToday));
                let amount = records.get(&id).map(|record| record.plan.amount.decimal()).unwrap_or_default();
                ask.available = ask.available.map(|available| available - amount);
            }
            let beside_the_point = matches!(&outcome, Outcome::Left(reason) if reason.is_beside_the_point());
            if ask.only.is_some() || !beside_the_point {
                looked.push(Looked { subscription_id: id, outcome });
            }
        }
        Ok(looked)
    }

    /// The user's records, with what a crash cut short finished, and their newest history.
    async fn load(&self, user: &UserId, ask: &Ask) -> Result<(UserRecords, Vec<History>), CommitError> {
        let mut records = self.store.load_user(user).await?;
        if let Some(id) = &ask.only
            && records.get(id).is_none()
        {
            let record = self.store.get_by_id(id).await?.ok_or_else(|| Rejection::UnknownSubscription(id.clone()))?;
            if record.user_id != *user {
                return Err(Rejection::WrongUser(id.clone()).into());
            }
            records.set(record);
        }
        let newest = self.store.recent_history(user, if is_signal(ask.run) { NEWEST_FOR_SIGNALS } else { NEWEST }).await?;
        self.store.heal(&mut records, &newest).await?;
        self.store.pay_all_debts(&mut records).await?;
        Ok((records, newest))
    }

    /// How many debits may still be caused now; a wish that is no signal has no limit.
    fn signals_left(&self, ask: &Ask, newest: &[History]) -> Result<u32, Reason> {
        if !is_signal(ask.run) {
            return Ok(u32::MAX);
        }
        let attempts = newest.iter().filter(|row| row.source == ATTEMPT);
        if let Some(cause) = &ask.cause
            && attempts.clone().any(|row| row.record.data.text(DATA_CAUSE) == Some(cause))
        {
            return Err(Reason::SignalKnown);
        }
        let today = self.store.clock.now().date_naive();
        let of_signals = |row: &&History| matches!(row.record.process, Process::Webhook | Process::WebhookBalance);
        let made =
            attempts.filter(of_signals).filter(|row| row.record.last_run_date.as_ref().is_some_and(|at| at.at().date_naive() == today));
        let made = u32::try_from(made.count()).unwrap_or(u32::MAX);
        self.rules.signals_a_day.checked_sub(made).filter(|left| *left > 0).ok_or(Reason::EnoughToday)
    }

    async fn look(
        &self,
        user: &mut UserRecords,
        id: &SubscriptionId,
        ask: &Ask,
        left: &Result<u32, Reason>,
        held: &Held,
    ) -> Result<Outcome, CommitError> {
        let Some(record) = user.get(id).cloned() else { return Ok(Outcome::Left(Reason::Overtaken)) };
        let now = self.store.clock.now();
        let happened = match judge(&self.rules, ask, &record, &user.records, now) {
            Verdict::Leave(reason) => return Ok(Outcome::Left(reason)),
            Verdict::Collect(key) => {
                return match left {
                    Ok(_) => self.attempt(user, &record, key, ask, held).await,
                    Err(reason) => Ok(Outcome::Left(reason.clone())),
                };
            }
            Verdict::Resolve(key) => return self.resolve(user, &record, key, held).await,
            Verdict::Complete => {
                let paid = Paid { transaction_id: None, receipt: Receipt { account_mask: String::new(), payment_type: "NONE".to_owned() } };
                (format!("free:{id}"), "dues free", Some(ask.run), Happening::CollectedAtOnce(paid), Outcome::Free)
            }
            Verdict::Cancel => (format!("cancel-due:{id}"), "dues due-cancel", None, Happening::Cancelled, Outcome::Cancelled),
            Verdict::Stale => (format!("too-old:{id}"), "dues too-old", None, Happening::TooOld, Outcome::Stale),
            Verdict::Expire => {
                (format!("pause-expired:{id}"), "dues pause", Some(Run::Pause), Happening::PauseExpired, Outcome::PauseExpired)
            }
            Verdict::Remind => {
                // A record can be paused more than once: each time has its own notice.
                let id = format!("pause-ending:{id}:{}", record.version);
                (id, "dues pause", Some(Run::Pause), Happening::PauseEnding, Outcome::PauseEnding)
            }
        };
        let (event_id, source, run, happening, outcome) = happened;
        let event = Event::made(event_id.into(), now, source, run.map(Run::process), happening);
        Ok(if self.take(user, id, &event).await? { outcome } else { Outcome::Left(Reason::Overtaken) })
    }

    /// The three steps of a debit.
    async fn attempt(
        &self,
        user: &mut UserRecords,
        record: &Record,
        key: AttemptKey,
        ask: &Ask,
        held: &Held,
    ) -> Result<Outcome, CommitError> {
        let sent = Happening::Sent { transaction_id: None, key: Some(key.clone()) };
        let mut intent = Event::made(format!("attempt:{key}").into(), self.store.clock.now(), ATTEMPT, Some(ask.run.process()), sent);
        if let Some(cause) = &ask.cause {
            intent.data.set(DATA_CAUSE, Value::text(cause.as_str()));
        }
        if !self.take(user, &record.subscription_id, &intent).await? {
            return Ok(Outcome::Left(Reason::Overtaken));
        }
        if !held.is_held() {
            return self.doubt(user, record, &key, "the lock was lost before the gateway was called").await;
        }
        let answer = self.gateway.submit(&debit(record), &key).await;
        self.answered(user, record, &key, answer).await
    }

    /// Finds out what became of an attempt, and makes it if it never reached the gateway.
    async fn resolve(&self, user: &mut UserRecords, record: &Record, key: AttemptKey, held: &Held) -> Result<Outcome, CommitError> {
        let answer = match self.gateway.lookup(&key).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => match may_still_debit(record, &user.records, self.store.clock.now()) {
                Ok(()) if held.is_held() => self.gateway.submit(&debit(record), &key).await,
                Ok(()) => Err(Unanswered("the lock was lost before the gateway was called".to_owned())),
                Err(reason) => {
                    Ok(Answer::Refused { transaction_id: None, failure: Failure::new(None, Some(&format!("never submitted: {reason}"))) })
                }
            },
            Err(unanswered) => Err(unanswered),
        };
        self.answered(user, record, &key, answer).await
    }

    /// Commits what the gateway said.
    async fn answered(
        &self,
        user: &mut UserRecords,
        record: &Record,
        key: &AttemptKey,
        answer: Result<Answer, Unanswered>,
    ) -> Result<Outcome, CommitError> {
        let answer = match answer {
            Ok(answer) => answer,
            Err(Unanswered(reason)) => return self.doubt(user, record, key, &reason).await,
        };
        let outcome = match &answer {
            Answer::Accepted { .. } => Outcome::Sent,
            Answer::Collected(_) => Outcome::Collected,
            Answer::Refused { failure, .. } => Outcome::Refused(failure.text().to_owned()),
        };
        let happening = Happening::Answered { key: key.clone(), answer };
        let event = Event::made(format!("answer:{key}").into(), self.store.clock.now(), "dues gateway", None, happening);
        // Another worker may have written the same answer down, or a settlement may have been faster: the debit is what it is.
        self.take(user, &record.subscription_id, &event).await?;
        Ok(outcome)
    }

    /// Says in history, once a day, that and why an attempt's answer is not known.
    async fn doubt(&self, user: &mut UserRecords, record: &Record, key: &AttemptKey, reason: &str) -> Result<Outcome, CommitError> {
        let now = self.store.clock.now();
        let noted = Happening::Noted(Ignored::AnswerUnknown);
        let mut event = Event::made(format!("doubt:{key}:{}", now.date_naive()).into(), now, "dues gateway", None, noted);
        event.data.set(DATA_REASON, Value::text(reason));
        tracing::warn!(subscription = %record.subscription_id, %key, reason, "a debit's answer is not known");
        self.take(user, &record.subscription_id, &event).await?;
        Ok(Outcome::InDoubt(reason.to_owned()))
    }

    /// Applies an event; `false` when the record has moved on since it was judged.
    async fn take(&self, user: &mut UserRecords, id: &SubscriptionId, event: &Event) -> Result<bool, CommitError> {
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

/// The records that a wish is about, the oldest first.
fn wanted(user: &UserRecords, ask: &Ask) -> Vec<SubscriptionId> {
    let mut records: Vec<(Time, &SubscriptionId)> = user
        .records
        .iter()
        .filter(|record| match &ask.only {
            Some(only) => record.subscription_id == *only,
            None => record.is_open() || record.in_doubt().is_some(),
        })
        .map(|record| (record.billing_date.at(), &record.subscription_id))
        .collect();
    records.sort();
    records.into_iter().map(|(_, id)| id.clone()).collect()
}

fn is_signal(run: Run) -> bool {
    matches!(run, Run::Income | Run::Balance)
}

fn debit(record: &Record) -> Debit {
    Debit {
        user_id: record.user_id.clone(),
        subscription_id: record.subscription_id.clone(),
        amount: record.plan.amount,
        period: record.period(),
    }
}
