//! Check and count: one conditional write, and no read of the count.
//!
//! The transaction puts the action under its key, if that is free, and moves the day's count from `n` to `n + 1`, if it is `n`. Nobody looks first:
//! `n` starts as 0, and a refusal shows the row. At the limit, that row is the answer; below it, the write is sent again with the `n` that was there.
//! So the count that was checked is the count that was moved, and the key's row knows both numbers: whoever comes with the same key again gets
//! the same answer, for ever.

use dues_events::attr::{PK, SK, STAMP};
use dues_events::usage::{Action, Count, LAST_ACTION, LIMIT_VALUE, UPDATED_AT, USAGE_COUNT, Used};
use dues_events::{EventId, GoTime, Item, Stamp, UserId, Value};

use super::usage_key;
use crate::billing::Store;
use crate::engine::{Condition, Edit, Engine, Key, Op, StoreError, Transacted};
use crate::table::JOURNAL;
use crate::table::usage::USER_USAGE;
use crate::tries::Tries;
use crate::unique::unique;

/// What somebody wants to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Who.
    pub user: UserId,
    /// With which feature.
    pub feature: String,
    /// What.
    pub kind: String,
    /// Whatever is to be remembered of it.
    pub details: Item,
    /// Names the action: it is counted once. Without one, each call is an action of its own.
    pub key: Option<EventId>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Counted {
    /// It is allowed and counted, now or when the key came first.
    Done(Count),
    /// It is not allowed: the feature was used so often today, and the key is still free.
    AtLimit {
        /// How often it was used.
        used: u64,
        /// How often it may be used.
        limit: u64,
    },
    /// The key was used for something else; nothing was counted.
    Different,
}

/// The places of the transaction.
const ACTION: usize = 0;

impl<E: Engine> Store<E> {
    /// Counts an action of a user who is on that plan, unless the limit is reached.
    ///
    /// # Errors
    /// What the engine could not do. Whether it was counted may then be unknown; with the same key it can be told again.
    pub async fn count_action(&self, asked: &Asked, plan: &str, limit: Option<u64>) -> Result<Counted, StoreError> {
        let key = asked.key.clone().unwrap_or_else(|| unique().into());
        let stamp = Stamp::new(&key, &[&asked.feature, &asked.kind, &asked.details.to_json().to_string()]);
        let mut tries = Tries::new(&self.clock);
        let mut used = 0;
        loop {
            if let Some(limit) = limit.filter(|limit| used >= *limit) {
                // A refusal of the count says that the key is free; where nothing is allowed at all, nobody has asked yet.
                let known = if limit == 0 { self.engine.get(&JOURNAL, action_key(&asked.user, &key)).await? } else { None };
                return known.map_or(Ok(Counted::AtLimit { used, limit }), |row| answer(row, &stamp));
            }
            let now = self.clock.now();
            let action =
                Action { id: key.clone(), kind: asked.kind.clone(), details: asked.details.clone(), at: now, plan: plan.to_owned() };
            let count = Count { feature: asked.feature.clone(), before: used, after: used + 1, limit, action };
            match self.engine.transact(vec![action_op(&asked.user, &count, &stamp), usage_op(&asked.user, &count)]).await {
                Ok(Transacted::Done) => return Ok(Counted::Done(count)),
                Ok(Transacted::Refused { place: ACTION, there: Some(row) }) => return answer(*row, &stamp),
                Ok(Transacted::Refused { place: ACTION, there: None }) => {}
                Ok(Transacted::Refused { there, .. }) => {
                    let found = there.map(|row| Used::from_item(*row)).transpose()?.map_or(0, |row| row.count);
                    // That the first guess is wrong is usual; after that, others are at the same row.
                    if std::mem::replace(&mut used, found) > 0 {
                        tries.wait_out(StoreError::Conflict(format!("usage of {} by {}", asked.feature, asked.user))).await?;
                    }
                }
                Err(error) => tries.wait_out(error).await?,
            }
            tries.count()?;
        }
    }
}

/// The answer that the key's first action was given, if it was the same one.
fn answer(row: Item, stamp: &Stamp) -> Result<Counted, StoreError> {
    let known = match row.get(STAMP) {
        Some(Value::B(bytes)) => Stamp::read(bytes),
        Some(_) | None => None,
    };
    if known.is_some_and(|known| known.same_event(stamp)) {
        Ok(Counted::Done(Count::from_item(row, [PK, SK])?))
    } else {
        Ok(Counted::Different)
    }
}

fn action_key(user: &UserId, key: &EventId) -> Key {
    Key { partition: format!("usage-action#{user}"), sort: Some(format!("ACTION#{key}")) }
}

fn action_op(user: &UserId, count: &Count, stamp: &Stamp) -> Op {
    let Key { partition, sort } = action_key(user, &count.action.id);
    let mut item = count.attributes();
    item.set_text(PK, partition);
    item.set_text(SK, sort.unwrap_or_default());
    item.set(STAMP, Value::B(stamp.to_bytes().to_vec()));
    Op::Put(&JOURNAL, item, Condition::NoItem)
}

/// The first action of a day makes the row; another moves it on.
fn usage_op(user: &UserId, count: &Count) -> Op {
    let row = Used::after(user, count, count.action.at);
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
