//! Credits: every movement is one transaction of a ledger row, put if it is not there, and the balance, changed by as much.
//!
//! So the balance is always the sum of the ledger, and a movement that is told twice happens once. Nobody reads the balance in order to write it:
//! the condition that there is enough, and that the credits have not expired, is checked where the balance is. A refusal tells what is there, and
//! whoever is refused finishes what that asks for (the first row of a user, an expiry) and tries again.
//!
//! Months do not reset a balance: credits roll over. They expire together, when none have been granted or bought for as long as
//! [`Store::credit_validity`]; those of a lasting membership, which brings some every month, never do.

mod booking;
mod expiry;

pub use booking::{Booked, Booking, Terms};

use dues_events::attr::{BALANCE, EXPIRES_AT, LAST_RESET, LAST_TOP_UP, NEXT_GRANT_AT, TYPE, UPDATED_AT};
use dues_events::credits::{BALANCE_SORT, MOVEMENT_TYPE, partition};
use dues_events::{Balance, Feature, GoTime, Item, Movement, MovementKind, Time, UserId, Value};
use std::collections::BTreeSet;

use crate::billing::Store;
use crate::engine::{Condition, Edit, Engine, Key, Op, Query, StoreError, Transacted, Written};
use crate::table::GG_CORE;
use crate::tries::Tries;

/// What became of a movement.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Moved {
    /// It happened; this is the balance now, with whatever others have moved since.
    Done(i64),
    /// It had happened before; this is its ledger row.
    Known(Movement),
    /// Its id is in the ledger with other content; nothing was done.
    Different,
    /// There are not enough credits to spend, only this many; nothing was done.
    NotEnough(i64),
}

/// What became of an attempt to spend credits. A key has one answer, however often and by however many it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Consumed {
    /// They are spent; this is the ledger row, of now or of the first time.
    Taken(Movement),
    /// The key was used for something else; nothing was done.
    Different,
    /// There are only this many; nothing was done, and the key is still free.
    NotEnough(i64),
}

/// A balance beside its ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct LedgerCheck {
    /// What the balance says.
    pub balance: i64,
    /// What the movements add up to.
    pub sum: i64,
}

impl LedgerCheck {
    /// Whether both are the same.
    #[must_use]
    pub fn agrees(self) -> bool {
        self.balance == self.sum
    }
}

/// The answer to one movement, before anybody has asked for the balance.
enum Recorded {
    New,
    Known(Movement),
    Different,
    NotEnough(i64),
}

/// The places of a transaction that moves credits.
const LEDGER: usize = 0;

impl<E: Engine> Store<E> {
    /// With another validity of credits.
    #[must_use]
    pub fn with_credit_validity(self, credit_validity: chrono::TimeDelta) -> Self {
        Self { credit_validity, ..self }
    }

    /// A user's credits. Their row is made on first access; credits whose time is over are gone before this answers.
    ///
    /// # Errors
    /// What the engine could not do, or a row that cannot be read.
    pub async fn credits(&self, user: &UserId) -> Result<Balance, StoreError> {
        let there = self.balance(user).await?;
        self.settle(user, there, &mut Tries::new(&self.clock)).await
    }

    /// Moves credits: the ledger row and the balance, or neither. Told again, a movement is [`Moved::Known`].
    ///
    /// # Errors
    /// What the engine could not do. Whether it happened may then be unknown; the same movement can be told again.
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
    ///
    /// # Errors
    /// What the engine could not do, or a row that cannot be read.
    pub async fn ledger(&self, user: &UserId) -> Result<Vec<Movement>, StoreError> {
        self.credits(user).await?;
        let filter = Condition::Equals(TYPE, Value::text(MOVEMENT_TYPE));
        let items = self.all(Query { filter, ..Query::partition(&GG_CORE, partition(user)) }).await?;
        let mut movements = items.into_iter().map(Movement::from_item).collect::<Result<Vec<_>, _>>()?;
        movements.sort_by(|a, b| (a.at, &a.id).cmp(&(b.at, &b.id)));
        Ok(movements)
    }

    /// Adds the ledger up. A movement that happens between the two reads, or a removal by TTL that was not handled yet, shows as a difference.
    ///
    /// # Errors
    /// What the engine could not do, or a row that cannot be read.
    pub async fn check_ledger(&self, user: &UserId) -> Result<LedgerCheck, StoreError> {
        let sum = self.ledger(user).await?.iter().map(|movement| movement.amount).sum();
        Ok(LedgerCheck { balance: self.credits(user).await?.balance, sum })
    }

    async fn record(&self, user: &UserId, movement: &Movement) -> Result<Recorded, StoreError> {
        let mut tries = Tries::new(&self.clock);
        loop {
            let row = Op::Put(&GG_CORE, movement.to_item(user), Condition::NoItem);
            match self.engine.transact(vec![row, self.balance_op(user, std::slice::from_ref(movement), None)]).await {
                Ok(Transacted::Done) => return Ok(Recorded::New),
                Ok(Transacted::Refused { place: LEDGER, there }) => {
                    if let Some(row) = there {
                        let row = Movement::from_item(*row)?;
                        return Ok(if row.is_same_as(movement) { Recorded::Known(row) } else { Recorded::Different });
                    }
                }
                Ok(Transacted::Refused { there, .. }) => {
                    let there = read(there)?;
                    if let Some(balance) = there.as_ref().and_then(|there| self.too_little(movement, there)) {
                        return Ok(Recorded::NotEnough(balance));
                    }
                    self.settle(user, there, &mut tries).await?;
                }
                Err(error) => tries.wait_out(error).await?,
            }
            tries.count()?;
        }
    }

    /// The balance, if it is what stands in the way of spending. What has expired has to go first: then it is seen again.
    fn too_little(&self, movement: &Movement, there: &Balance) -> Option<i64> {
        (there.balance < floor(movement) && !there.has_expired(self.clock.now())).then_some(there.balance)
    }

    /// How movements change the balance: the row has to be there, unexpired, and to have what is spent.
    ///
    /// Whatever comes in makes all credits good for as long as if they had come now, even when it tells of a payment of long ago: a late webhook
    /// takes nobody's credits away, and the order in which several come does not matter.
    fn balance_op(&self, user: &UserId, movements: &[Movement], terms: Option<&Terms>) -> Op {
        let now = self.clock.now();
        let total = movements.iter().fold(0_i64, |sum, movement| sum.saturating_add(movement.amount));
        let mut edits = vec![Edit::Add(BALANCE, total), Edit::Set(UPDATED_AT, text(now))];
        let marks: BTreeSet<&'static str> = movements.iter().filter_map(|movement| renewed(movement.kind)).collect();
        let comes_in = !marks.is_empty();
        edits.extend(marks.into_iter().map(|mark| Edit::Set(mark, text(now))));
        match terms {
            Some(Terms::Lasting { next_grant }) => {
                edits.extend([Edit::Set(NEXT_GRANT_AT, Value::signed(next_grant.timestamp())), Edit::Remove(EXPIRES_AT)]);
            }
            Some(Terms::Ordinary) => edits.extend([Edit::Remove(NEXT_GRANT_AT), self.good_from(now)]),
            None if comes_in => edits.push(self.good_from(now)),
            None => {}
        }
        // Any balance at all is more than the floor of those that do not spend: the row has to be there.
        let least = movements.iter().map(floor).max().unwrap_or(i64::MIN);
        let unexpired = Condition::Any(vec![Condition::Missing(EXPIRES_AT), later_than(now)]);
        let condition = Condition::All(vec![Condition::AtLeast(BALANCE, Value::signed(least)), unexpired]);
        Op::Update(&GG_CORE, balance_key(user), edits, condition)
    }

    fn good_from(&self, now: Time) -> Edit {
        let until = now.checked_add_signed(self.credit_validity).unwrap_or(Time::MAX_UTC);
        Edit::Set(EXPIRES_AT, Value::signed(until.timestamp()))
    }

    /// A user's balance as it stands: nothing is made, and nothing expires by being looked at.
    ///
    /// # Errors
    /// What the engine could not do, or a row that cannot be read.
    pub async fn balance(&self, user: &UserId) -> Result<Option<Balance>, StoreError> {
        read(self.engine.get(&GG_CORE, balance_key(user)).await?.map(Box::new))
    }

    /// Goes from what is there to a row that is there and has not expired, whoever makes it so.
    async fn settle(&self, user: &UserId, mut there: Option<Balance>, tries: &mut Tries<'_>) -> Result<Balance, StoreError> {
        loop {
            there = match there {
                Some(balance) if !balance.has_expired(self.clock.now()) => return Ok(balance),
                Some(expired) => self.expire(user, expired, tries).await?,
                None => self.open(user, tries).await?,
            };
            tries.count()?;
        }
    }

    /// Makes a user's first row. Of those who do it at once, one does, and the others get that row.
    async fn open(&self, user: &UserId, tries: &mut Tries<'_>) -> Result<Option<Balance>, StoreError> {
        let new = Balance::new(user.clone(), self.clock.now());
        match self.engine.put(&GG_CORE, new.to_item(), Condition::NoItem).await {
            Ok(Written::Done) => Ok(Some(new)),
            Ok(Written::Refused(there)) => read(there),
            Err(error) => tries.wait_out(error).await.map(|()| None),
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

/// How many credits there have to be. Only what is spent has to be there: a take-back may leave debts.
fn floor(movement: &Movement) -> i64 {
    match movement.kind {
        MovementKind::Consume => movement.amount.saturating_neg(),
        MovementKind::Grant | MovementKind::TopUp | MovementKind::TakeBack | MovementKind::Expire => i64::MIN,
    }
}

/// Where the row says when there last was such a movement, for those that make credits good for longer.
fn renewed(kind: MovementKind) -> Option<&'static str> {
    match kind {
        MovementKind::Grant => Some(LAST_RESET),
        MovementKind::TopUp => Some(LAST_TOP_UP),
        MovementKind::Consume | MovementKind::TakeBack | MovementKind::Expire => None,
    }
}
