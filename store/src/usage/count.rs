//! Check and count: one conditional write, without reading the count first.
//!
//! The transaction puts the action under its key, if that is free, and moves the day's count from `n` to
//! `n + 1`, if it is `n`. `n` starts as 0, and a refusal returns the row. At the limit, that row is the
//! answer; below it, the write is repeated with the `n` from the row. So the count that was checked is the
//! count that was incremented, and the key's row holds both numbers: a request with the same key always gets
//! the same answer.

use dues_events::attributes::{PK, SK, TOKEN};
use dues_events::usage::{
    Action, CountedAction, DailyUsage, LAST_ACTION, LIMIT_VALUE, UPDATED_AT, USAGE_COUNT,
};
use dues_events::{EventId, GoTime, IdempotencyToken, Item, UserId, Value};

use super::usage_key;
use crate::backoff::{Backoff, BackoffPolicy};
use crate::billing::Store;
use crate::engine::{Condition, Edit, Engine, Key, Op, StoreError, Transacted};
use crate::table::JOURNAL;
use crate::table::usage::USER_USAGE;
use crate::unique_name::unique;

/// A request to count an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionRequest {
    /// The user.
    pub user: UserId,
    /// The feature that is used.
    pub feature: String,
    /// The type of action.
    pub kind: String,
    /// Any details to log with it.
    pub details: Item,
    /// Idempotency key: the action is counted once per key. Without one, every call is a new action.
    pub key: Option<EventId>,
}

/// Outcome of a request to count an action.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum CountOutcome {
    /// Allowed and counted, now or on the first request with this key.
    Done(CountedAction),
    /// Not allowed: the limit is reached for today. The key is still free.
    AtLimit {
        /// How often the feature was used today.
        used: u64,
        /// How often it may be used in a day.
        limit: u64,
    },
    /// The key was used for another action; nothing was counted.
    Different,
}

/// Index of the action's operation in the transaction.
const ACTION: usize = 0;

impl<E: Engine> Store<E> {
    /// Counts an action of a user on that plan, unless the limit is reached.
    ///
    /// # Errors
    /// After an error it may be unknown whether the action was counted; repeating the call with the same key
    /// is safe.
    pub async fn count_action(
        &self,
        asked: &ActionRequest,
        plan: &str,
        limit: Option<u64>,
    ) -> Result<CountOutcome, StoreError> {
        let key = asked.key.clone().unwrap_or_else(|| unique().into());
        let token =
            IdempotencyToken::new(&key, &[&asked.feature, &asked.kind, &asked.details.to_json().to_string()]);
        let mut backoff = Backoff::new(&self.clock, BackoffPolicy::CONTENDED);
        let mut used = 0;
        loop {
            if let Some(limit) = limit.filter(|limit| used >= *limit) {
                // A refused count implies that the key is free. With a limit of 0 no write was sent, so look
                // the key up.
                let known = if limit == 0 {
                    self.engine.get(&JOURNAL, action_key(&asked.user, &key)).await?
                } else {
                    None
                };
                return known.map_or(Ok(CountOutcome::AtLimit { used, limit }), |row| answer(row, &token));
            }
            let now = self.clock.now();
            let action = Action {
                id: key.clone(),
                kind: asked.kind.clone(),
                details: asked.details.clone(),
                at: now,
                plan: plan.to_owned(),
            };
            let count = CountedAction {
                feature: asked.feature.clone(),
                before: used,
                after: used + 1,
                limit,
                action,
            };
            match self
                .engine
                .transact(vec![action_op(&asked.user, &count, &token), usage_op(&asked.user, &count)])
                .await
            {
                Ok(Transacted::Done) => return Ok(CountOutcome::Done(count)),
                Ok(Transacted::Refused { place: ACTION, there: Some(row) }) => return answer(*row, &token),
                Ok(Transacted::Refused { place: ACTION, there: None }) => {}
                Ok(Transacted::Refused { there, .. }) => {
                    let found =
                        there.map(|row| DailyUsage::from_item(*row)).transpose()?.map_or(0, |row| row.count);
                    // A wrong first guess is normal; after that, others are writing the same row.
                    if std::mem::replace(&mut used, found) > 0 {
                        backoff
                            .wait_out(StoreError::Conflict(format!(
                                "usage of {} by {}",
                                asked.feature, asked.user
                            )))
                            .await?;
                    }
                }
                Err(error) => backoff.wait_out(error).await?,
            }
            backoff.take_retry()?;
        }
    }
}

/// The answer to the first action with this key, if the content is the same.
fn answer(row: Item, token: &IdempotencyToken) -> Result<CountOutcome, StoreError> {
    let known = match row.get(TOKEN) {
        Some(Value::B(bytes)) => IdempotencyToken::read(bytes),
        Some(_) | None => None,
    };
    if known.is_some_and(|known| known.same_event(token)) {
        Ok(CountOutcome::Done(CountedAction::from_item(row, [PK, SK])?))
    } else {
        Ok(CountOutcome::Different)
    }
}

fn action_key(user: &UserId, key: &EventId) -> Key {
    Key { partition: format!("usage-action#{user}"), sort: Some(format!("ACTION#{key}")) }
}

fn action_op(user: &UserId, count: &CountedAction, token: &IdempotencyToken) -> Op {
    let Key { partition, sort } = action_key(user, &count.action.id);
    let mut item = count.attributes();
    item.set_text(PK, partition);
    item.set_text(SK, sort.unwrap_or_default());
    item.set(TOKEN, Value::B(token.to_bytes().to_vec()));
    Op::Put(&JOURNAL, item, Condition::NoItem)
}

/// Creates the row on the first action of a day; increments it afterwards.
fn usage_op(user: &UserId, count: &CountedAction) -> Op {
    let row = DailyUsage::after(user, count, count.action.at);
    if count.before == 0 {
        return Op::Put(&USER_USAGE, row.to_item(), Condition::NoItem);
    }
    let edits = vec![
        Edit::Add(USAGE_COUNT, 1),
        match count.limit {
            Some(limit) => Edit::Set(LIMIT_VALUE, Value::number(limit)),
            None => Edit::Remove(LIMIT_VALUE),
        },
        Edit::Set(UPDATED_AT, Value::text(GoTime::nine_digits(row.updated_at).text())),
        Edit::Set(LAST_ACTION, row.last_action()),
    ];
    let unmoved = Condition::Equals(USAGE_COUNT, Value::number(count.before));
    Op::Update(&USER_USAGE, usage_key(user, &count.feature, row.day), edits, unmoved)
}
