//! The expiry of credits: on access, or after DynamoDB has removed the row by TTL.

use dues_events::attributes::{BALANCE, EXPIRES_AT, UPDATED_AT};
use dues_events::{Balance, Item, Movement, UserId, Value};

use super::{LEDGER, balance_key, ledger_op, read, text};
use crate::backoff::{Backoff, BackoffPolicy};
use crate::billing::Store;
use crate::engine::{Condition, Edit, Engine, Op, StoreError, Transacted};
use crate::table::GG_CORE;

impl<E: Engine> Store<E> {
    /// Expires what is left of a balance, once, however many callers try. Returns the row after that.
    pub(super) async fn expire(
        &self,
        user: &UserId,
        expired: Balance,
        backoff: &mut Backoff<'_>,
    ) -> Result<Option<Balance>, StoreError> {
        let Some(expiry) = expired.expires_at else { return Ok(Some(expired)) };
        let mut there = expired;
        let mut nth = 0;
        loop {
            let after = there.expired(self.clock.now());
            let mut ops = vec![self.expire_op(user, &there, expiry)];
            // An empty balance needs no ledger row.
            if there.balance > 0 {
                ops.insert(LEDGER, ledger_op(user, &Movement::expire(expiry, nth, there.balance)));
            }
            let balance_place = ops.len() - 1;
            match self.engine.transact(ops).await {
                Ok(Transacted::Done) => return Ok(Some(after)),
                Ok(Transacted::Refused { place, there }) if place == balance_place => return read(there),
                Ok(Transacted::Refused { .. }) => match self.balance(user).await? {
                    // Credits that came in late got the same expiry second again.
                    Some(same) if same.expires_at == Some(expiry) => {
                        there = same;
                        nth += 1;
                    }
                    other => return Ok(other),
                },
                Err(error) => backoff.wait_out(error).await?,
            }
            backoff.take_retry()?;
        }
    }

    /// Expires the row, if it is unchanged since it was read.
    fn expire_op(&self, user: &UserId, read: &Balance, expiry: i64) -> Op {
        let unchanged = vec![
            Condition::Equals(EXPIRES_AT, Value::signed(expiry)),
            Condition::Equals(BALANCE, Value::signed(read.balance)),
        ];
        let edits = vec![
            Edit::Add(BALANCE, read.balance.max(0).saturating_neg()),
            Edit::Remove(EXPIRES_AT),
            Edit::Set(UPDATED_AT, text(self.clock.now())),
        ];
        Op::Update(&GG_CORE, balance_key(user), edits, Condition::All(unchanged))
    }

    /// Handles the removal of an expired balance row by TTL: `old` is the image from the change stream.
    /// Records in the ledger that what was left has expired, and restores the row without it. A negative
    /// balance is restored too. Idempotent; if a new row was created for the user in between, its later
    /// movements are kept.
    ///
    /// A row without `expiresAt` was not removed by TTL, and is ignored.
    pub async fn balance_row_removed(&self, user: &UserId, old: &Item) -> Result<(), StoreError> {
        let removed = Balance::from_item(old.clone())?;
        let Some(expiry) = removed.expires_at else { return Ok(()) };
        let restored = removed.expired(self.clock.now());
        let mut backoff = Backoff::new(&self.clock, BackoffPolicy::CONTENDED);
        let (mut nth, mut row_is_there) = (0, false);
        loop {
            let movement = Movement::expire(expiry, nth, removed.balance);
            let row = if row_is_there {
                self.debt_op(user, &restored)
            } else {
                Op::Put(&GG_CORE, restored.to_item(), Condition::NoItem)
            };
            match self.engine.transact(vec![ledger_op(user, &movement), row]).await {
                Ok(Transacted::Done) => return Ok(()),
                Ok(Transacted::Refused { place: LEDGER, there: Some(known) }) => {
                    if Movement::from_item(*known)?.has_same_content(&movement) {
                        return Ok(());
                    }
                    nth += 1;
                }
                Ok(Transacted::Refused { there, .. }) => row_is_there = there.is_some(),
                Err(error) => backoff.wait_out(error).await?,
            }
            backoff.take_retry()?;
        }
    }

    /// Adds the negative balance of a removed row to the row that has replaced it.
    fn debt_op(&self, user: &UserId, restored: &Balance) -> Op {
        let edits = vec![Edit::Add(BALANCE, restored.balance), Edit::Set(UPDATED_AT, text(self.clock.now()))];
        Op::Update(&GG_CORE, balance_key(user), edits, Condition::AtLeast(BALANCE, Value::signed(i64::MIN)))
    }
}
