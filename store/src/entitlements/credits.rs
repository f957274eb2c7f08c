//! Credits: every movement is one transaction of a ledger row, put if it does not exist, and the balance,
//! changed by the same amount.
//!
//! So the balance is always the sum of the ledger, and a repeated movement happens once. No writer reads the
//! balance first: the transaction itself checks that there is enough and that the credits have not expired.
//! A refusal returns the current row; the caller then completes what it requires (creating the user's first
//! row, an expiry) and retries with backoff.
//!
//! Months do not reset a balance: credits roll over. They expire together, when none have been granted or
//! bought for [`Store::credit_validity`]; those of a lasting membership, which grants some every month,
//! never do.

mod booking;
mod expiry;

pub use booking::{Booked, Booking, Terms};

use dues_events::attributes::{
    BALANCE, EXPIRES_AT, LAST_RESET, LAST_TOP_UP, NEXT_GRANT_AT, TYPE, UPDATED_AT,
};
use dues_events::entitlements::credits::{BALANCE_SORT, MOVEMENT_TYPE, partition};
use dues_events::{Balance, Feature, GoTime, Item, Movement, MovementKind, Time, UserId, Value};
use std::collections::BTreeSet;

use crate::backoff::{Backoff, BackoffPolicy};
use crate::billing::Store;
use crate::engine::{Condition, Edit, Engine, Key, Op, Query, StoreError, Transacted, Written};
use crate::table::GG_CORE;

/// Outcome of a movement.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Moved {
    /// It happened; contains the balance now, including any later movements.
    Done(i64),
    /// It happened before; contains its ledger row.
    Known(Movement),
    /// Its id is in the ledger with other content; nothing was written.
    Different,
    /// There are not enough credits to spend, only this many; nothing was written.
    NotEnough(i64),
}

/// Outcome of an attempt to spend credits. A key has one answer, for any number of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Consumed {
    /// The credits are spent; contains the ledger row, from now or from the first request.
    Taken(Movement),
    /// The key was used for something else; nothing was written.
    Different,
    /// There are only this many credits; nothing was written, and the key is still free.
    NotEnough(i64),
}

/// A balance compared with its ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct LedgerCheck {
    /// The stored balance.
    pub balance: i64,
    /// The sum of the movements.
    pub sum: i64,
}

impl LedgerCheck {
    /// Whether both are equal.
    #[must_use]
    pub fn agrees(self) -> bool {
        self.balance == self.sum
    }
}

/// Outcome of one movement, without the balance after it.
enum Recorded {
    New,
    Known(Movement),
    Different,
    NotEnough(i64),
}

/// Index of the ledger row in a transaction that moves credits.
const LEDGER: usize = 0;

impl<E: Engine> Store<E> {
    /// With another validity of credits.
    #[must_use]
    pub fn with_credit_validity(self, credit_validity: chrono::TimeDelta) -> Self {
        Self { credit_validity, ..self }
    }

    /// A user's credits. Creates the row on first access, and books an expiry that is due first.
    pub async fn credits(&self, user: &UserId) -> Result<Balance, StoreError> {
        let there = self.balance(user).await?;
        self.settle(user, there, &mut Backoff::new(&self.clock, BackoffPolicy::CONTENDED)).await
    }

    /// Moves credits: writes the ledger row and the balance, or neither. A repeated movement is
    /// [`Moved::Known`].
    ///
    /// # Errors
    /// After an error it may be unknown whether the movement happened; repeating the same movement is safe.
    pub async fn move_credits(&self, user: &UserId, movement: &Movement) -> Result<Moved, StoreError> {
        Ok(match self.record(user, movement).await? {
            Recorded::New => Moved::Done(self.credits(user).await?.balance),
            Recorded::Known(row) => Moved::Known(row),
            Recorded::Different => Moved::Different,
            Recorded::NotEnough(balance) => Moved::NotEnough(balance),
        })
    }

    /// Spends what a feature costs, once for each key, if there is enough.
    ///
    /// # Errors
    /// As [`Self::move_credits`].
    pub async fn consume(&self, user: &UserId, feature: Feature, key: &str) -> Result<Consumed, StoreError> {
        let movement = Movement::consume(key, feature, self.clock.now());
        Ok(match self.record(user, &movement).await? {
            Recorded::New => Consumed::Taken(movement),
            Recorded::Known(row) => Consumed::Taken(row),
            Recorded::Different => Consumed::Different,
            Recorded::NotEnough(balance) => Consumed::NotEnough(balance),
        })
    }

    /// Every movement of a user's credits, in the order in which they happened.
    pub async fn ledger(&self, user: &UserId) -> Result<Vec<Movement>, StoreError> {
        self.credits(user).await?;
        let filter = Condition::Equals(TYPE, Value::text(MOVEMENT_TYPE));
        let items = self.all(Query { filter, ..Query::partition(&GG_CORE, partition(user)) }).await?;
        let mut movements = items.into_iter().map(Movement::from_item).collect::<Result<Vec<_>, _>>()?;
        movements.sort_by(|a, b| (a.at, &a.id).cmp(&(b.at, &b.id)));
        Ok(movements)
    }

    /// Sums the ledger and compares. A movement between the two reads, or a removal by TTL that was not
    /// handled yet, shows as a difference.
    pub async fn check_ledger(&self, user: &UserId) -> Result<LedgerCheck, StoreError> {
        let sum = self.ledger(user).await?.iter().map(|movement| movement.amount).sum();
        Ok(LedgerCheck { balance: self.credits(user).await?.balance, sum })
    }

    async fn record(&self, user: &UserId, movement: &Movement) -> Result<Recorded, StoreError> {
        let mut backoff = Backoff::new(&self.clock, BackoffPolicy::CONTENDED);
        loop {
            let row = Op::Put(&GG_CORE, movement.to_item(user), Condition::NoItem);
            match self
                .engine
                .transact(vec![row, self.balance_op(user, std::slice::from_ref(movement), None)])
                .await
            {
                Ok(Transacted::Done) => return Ok(Recorded::New),
                Ok(Transacted::Refused { place: LEDGER, there }) => {
                    if let Some(row) = there {
                        let row = Movement::from_item(*row)?;
                        return Ok(if row.has_same_content(movement) {
                            Recorded::Known(row)
                        } else {
                            Recorded::Different
                        });
                    }
                }
                Ok(Transacted::Refused { there, .. }) => {
                    let there = read(there)?;
                    if let Some(balance) = there.as_ref().and_then(|there| self.too_little(movement, there)) {
                        return Ok(Recorded::NotEnough(balance));
                    }
                    self.settle(user, there, &mut backoff).await?;
                }
                Err(error) => backoff.wait_out(error).await?,
            }
            backoff.take_retry()?;
        }
    }

    /// The balance, if it is too low to spend. Not for an expired row: the expiry is booked first, then the
    /// balance checked again.
    fn too_little(&self, movement: &Movement, there: &Balance) -> Option<i64> {
        (there.balance < floor(movement) && !there.has_expired(self.clock.now())).then_some(there.balance)
    }

    /// Applies movements to the balance: the row has to exist, unexpired, with enough for what is spent.
    ///
    /// Credits that come in extend the validity of all credits from now, even if their payment is old: a
    /// late webhook does not shorten the validity, and the order of several does not matter.
    fn balance_op(&self, user: &UserId, movements: &[Movement], terms: Option<&Terms>) -> Op {
        let now = self.clock.now();
        let total = movements.iter().fold(0_i64, |sum, movement| sum.saturating_add(movement.amount));
        let mut edits = vec![Edit::Add(BALANCE, total), Edit::Set(UPDATED_AT, text(now))];
        let marks: BTreeSet<&'static str> =
            movements.iter().filter_map(|movement| renewed(movement.kind)).collect();
        let comes_in = !marks.is_empty();
        edits.extend(marks.into_iter().map(|mark| Edit::Set(mark, text(now))));
        match terms {
            Some(Terms::Lasting { next_grant }) => {
                edits.extend([
                    Edit::Set(NEXT_GRANT_AT, Value::signed(next_grant.timestamp())),
                    Edit::Remove(EXPIRES_AT),
                ]);
            }
            Some(Terms::Ordinary) => edits.extend([Edit::Remove(NEXT_GRANT_AT), self.good_from(now)]),
            None if comes_in => edits.push(self.good_from(now)),
            None => {}
        }
        // Movements that do not spend have the lowest floor: any balance passes, but the row has to exist.
        let least = movements.iter().map(floor).max().unwrap_or(i64::MIN);
        let unexpired = Condition::Any(vec![Condition::Missing(EXPIRES_AT), later_than(now)]);
        let condition = Condition::All(vec![Condition::AtLeast(BALANCE, Value::signed(least)), unexpired]);
        Op::Update(&GG_CORE, balance_key(user), edits, condition)
    }

    fn good_from(&self, now: Time) -> Edit {
        let until = now.checked_add_signed(self.credit_validity).unwrap_or(Time::MAX_UTC);
        Edit::Set(EXPIRES_AT, Value::signed(until.timestamp()))
    }

    /// A user's balance as stored: creates nothing and expires nothing.
    pub async fn balance(&self, user: &UserId) -> Result<Option<Balance>, StoreError> {
        read(self.engine.get(&GG_CORE, balance_key(user)).await?.map(Box::new))
    }

    /// Creates or expires the row until it exists and has not expired; concurrent callers may do either.
    async fn settle(
        &self,
        user: &UserId,
        mut there: Option<Balance>,
        backoff: &mut Backoff<'_>,
    ) -> Result<Balance, StoreError> {
        loop {
            there = match there {
                Some(balance) if !balance.has_expired(self.clock.now()) => return Ok(balance),
                Some(expired) => self.expire(user, expired, backoff).await?,
                None => self.open(user, backoff).await?,
            };
            backoff.take_retry()?;
        }
    }

    /// Creates a user's first row. Of concurrent callers one succeeds, and the others get that row.
    async fn open(&self, user: &UserId, backoff: &mut Backoff<'_>) -> Result<Option<Balance>, StoreError> {
        let new = Balance::new(user.clone(), self.clock.now());
        match self.engine.put(&GG_CORE, new.to_item(), Condition::NoItem).await {
            Ok(Written::Done) => Ok(Some(new)),
            Ok(Written::Refused(there)) => read(there),
            Err(error) => backoff.wait_out(error).await.map(|()| None),
        }
    }
}

fn balance_key(user: &UserId) -> Key {
    Key { partition: partition(user), sort: Some(BALANCE_SORT.to_owned()) }
}

fn ledger_op(user: &UserId, movement: &Movement) -> Op {
    Op::Put(&GG_CORE, movement.to_item(user), Condition::NoItem)
}

fn read(there: Option<Box<Item>>) -> Result<Option<Balance>, StoreError> {
    Ok(there.map(|item| Balance::from_item(*item)).transpose()?)
}

fn text(at: Time) -> Value {
    Value::text(GoTime::trimmed(at).text())
}

fn later_than(now: Time) -> Condition {
    Condition::AtLeast(EXPIRES_AT, Value::signed(now.timestamp() + 1))
}

/// The minimum balance. Only spending has one: a take-back may leave a negative balance.
fn floor(movement: &Movement) -> i64 {
    match movement.kind {
        MovementKind::Consume => movement.amount.saturating_neg(),
        MovementKind::Grant | MovementKind::TopUp | MovementKind::TakeBack | MovementKind::Expire => i64::MIN,
    }
}

/// The attribute with the time of the last such movement, for kinds that extend the validity.
fn renewed(kind: MovementKind) -> Option<&'static str> {
    match kind {
        MovementKind::Grant => Some(LAST_RESET),
        MovementKind::TopUp => Some(LAST_TOP_UP),
        MovementKind::Consume | MovementKind::TakeBack | MovementKind::Expire => None,
    }
}
