//! The end of credits: when somebody comes by, or when DynamoDB has removed the row.

use dues_events::attr::{BALANCE, EXPIRES_AT, UPDATED_AT};
use dues_events::{Balance, Item, Movement, UserId, Value};

use super::{LEDGER, balance_key, ledger_op, read, text};
use crate::billing::Store;
use crate::engine::{Condition, Edit, Engine, Op, StoreError, Transacted};
use crate::table::GG_CORE;
use crate::tries::Tries;

impl<E: Engine> Store<E> {
    /// Takes what is left of a balance whose time is over, once, whoever comes first. Gives the row as it is then.
    pub(super) async fn expire(&self, user: &UserId, expired: Balance, tries: &mut Tries<'_>) -> Result<Option<Balance>, StoreError> {
        let Some(expiry) = expired.expires_at else { return Ok(Some(expired)) };
        let mut there = expired;
        let mut nth = 0;
        loop {
            let after = there.expired(self.clock.now());
            let mut ops = vec![self.expire_op(user, &there, expiry)];
            // Where nothing is left there is nothing to tell.
            if there.balance > 0 {
                ops.insert(LEDGER, ledger_op(user, &Movement::expire(expiry, nth, there.balance)));
            }
            let balance_place = ops.len() - 1;
            match self.engine.transact(ops).await {
                Ok(Transacted::Done) => return Ok(Some(after)),
                Ok(Transacted::Refused { place, there }) if place == balance_place => return read(there),
                Ok(Transacted::Refused { .. }) => match self.balance(user).await? {
                    // Credits that came late were given the same second again.
                    Some(same) if same.expires_at == Some(expiry) => {
                        there = same;
                        nth += 1;
                    }
                    other => return Ok(other),
                },
                Err(error) => tries.wait_out(error).await?,
            }
            tries.count()?;
        }
    }

    /// The change of a row that is as it was seen.
    fn expire_op(&self, user: &UserId, seen: &Balance, expiry: i64) -> Op {
        let unchanged = vec![Condition::Equals(EXPIRES_AT, Value::signed(expiry)), Condition::Equals(BALANCE, Value::signed(seen.balance))];
        let edits = vec![
            Edit::Add(BALANCE, seen.balance.max(0).saturating_neg()),
            Edit::Remove(EXPIRES_AT),
            Edit::Set(UPDATED_AT, text(self.clock.now())),
        ];
        Op::Update(&GG_CORE, balance_key(user), edits, Condition::All(unchanged))
    }

    /// DynamoDB has removed an expired balance by TTL: `old` is the image that its change stream tells. Tells the ledger that what was left has
    /// expired, and brings the row back without it. Debts are brought back too. Done again it does nothing; a user who came by in
    /// between, and for whom a new row was made, keeps what has happened since.
    ///
    /// A row without `expiresAt` was not removed by TTL, and is left to whoever removed it.
    ///
    /// # Errors
    /// What the engine could not do, or an image that cannot be read.
    pub async fn balance_row_removed(&self, user: &UserId, old: &Item) -> Result<(), StoreError> {
        let removed = Balance::from_item(old.clone())?;
        let Some(expiry) = removed.expires_at else { return Ok(()) };
        let restored = removed.expired(self.clock.now());
        let mut tries = Tries::new(&self.clock);
        let (mut nth, mut row_is_there) = (0, false);
        loop {
            let movement = Movement::expire(expiry, nth, removed.balance);
            let row = if row_is_there { self.debt_op(user, &restored) } else { Op::Put(&GG_CORE, restored.to_item(), Condition::NoItem) };
            match self.engine.transact(vec![ledger_op(user, &movement), row]).await {
                Ok(Transacted::Done) => return Ok(()),
                Ok(Transacted::Refused { place: LEDGER, there: Some(known) }) => {
                    if Movement::from_item(*known)?.is_same_as(&movement) {
                        return Ok(());
                    }
                    nth += 1;
                }
                Ok(Transacted::Refused { there, .. }) => row_is_there = there.is_some(),
                Err(error) => tries.wait_out(error).await?,
            }
            tries.count()?;
        }
    }

    /// Adds the debts of a row that was removed to the one that has taken its place.
    fn debt_op(&self, user: &UserId, restored: &Balance) -> Op {
        let edits = vec![Edit::Add(BALANCE, restored.balance), Edit::Set(UPDATED_AT, text(self.clock.now()))];
        Op::Update(&GG_CORE, balance_key(user), edits, Condition::AtLeast(BALANCE, Value::signed(i64::MIN)))
    }
}
