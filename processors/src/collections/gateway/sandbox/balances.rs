//! Money at the bank, transaction by transaction, for audits.

use dues_events::{AttemptKey, Item, Money, SubscriptionId, Time, TransactionId, UserId};
use dues_store::table::SANDBOX;
use dues_store::{Engine, StoreError};

use super::rows::{self, StepKind, subtract};
use super::{PAGE_ROWS, Sandbox};

/// What became of the money of one debit, up to some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balance {
    /// The transaction.
    pub transaction_id: TransactionId,
    /// The attempt that asked for it.
    pub key: AttemptKey,
    /// The member.
    pub user_id: UserId,
    /// The billing record.
    pub subscription_id: SubscriptionId,
    /// What settled or was collected at once.
    pub collected: Money,
    /// What of it was refunded.
    pub refunded: Money,
    /// What of it was returned late or charged back.
    pub returned: Money,
}

impl Balance {
    /// What is left at the bank.
    #[must_use]
    pub fn at_bank(&self) -> Money {
        let left = self.collected.checked_sub(self.refunded).and_then(|left| left.checked_sub(self.returned));
        left.unwrap_or(Money::ZERO)
    }

    pub(super) fn of(row: &Item, at: Time) -> Result<Self, StoreError> {
        let text = |name: &str| row.text(name).unwrap_or_default();
        let mut balance = Self {
            transaction_id: text("transaction_id").into(),
            key: text(SANDBOX.partition).into(),
            user_id: text("user_id").into(),
            subscription_id: text("subscription_id").into(),
            collected: Money::ZERO,
            refunded: Money::ZERO,
            returned: Money::ZERO,
        };
        if text("answer") == "collected" {
            balance.collected = rows::amount(row)?;
        }
        for refund in rows::refunds(row)?.into_iter().filter(|refund| refund.at <= at) {
            balance.refunded = add(balance.refunded, refund.amount)?;
        }
        for step in rows::all_steps(row)?.into_iter().filter(|step| step.at <= at) {
            let amount = rows::amount_of(row, step.kind)?;
            match step.kind {
                StepKind::Completed => balance.collected = amount,
                StepKind::Refunded => balance.refunded = add(balance.refunded, amount)?,
                // A debit that never settled has nothing to give back.
                StepKind::Returned | StepKind::ChargedBack if balance.collected == Money::ZERO => {}
                StepKind::Returned | StepKind::ChargedBack => balance.returned = amount,
            }
        }
        subtract(subtract(balance.collected, balance.refunded)?, balance.returned)?;
        Ok(balance)
    }
}

impl<E: Engine> Sandbox<E> {
    /// The money of every debit that was not refused, as of that time, by transaction. Published or not: an
    /// audit delivers what is due first.
    pub async fn balances(&self, at: Time) -> Result<Vec<Balance>, StoreError> {
        let (mut balances, mut start) = (Vec::new(), None);
        loop {
            let page = self.store.engine.scan(&SANDBOX, start, PAGE_ROWS).await?;
            let debits = page.items.iter().filter(|row| is_debit(row));
            balances.extend(debits.map(|row| Balance::of(row, at)).collect::<Result<Vec<_>, _>>()?);
            match page.next {
                Some(next) => start = Some(next),
                None => break,
            }
        }
        balances.sort_by(|one, other| one.transaction_id.cmp(&other.transaction_id));
        Ok(balances)
    }
}

/// Accounts and refunds are rows of the same table; a refused debit never was one.
pub(super) fn is_debit(row: &Item) -> bool {
    matches!(row.text("answer"), Some("accepted" | "collected"))
}

fn add(one: Money, other: Money) -> Result<Money, StoreError> {
    one.checked_add(other).map_err(|error| StoreError::Invalid(format!("{}: {error}", SANDBOX.name)))
}
