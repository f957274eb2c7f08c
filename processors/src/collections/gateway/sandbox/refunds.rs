//! Refunds that are asked for: in parts, never more than what is left of a debit, once per key.

use dues_events::{GoTime, Item, Money, RefundKey, Time, TransactionId, Value};
use dues_store::table::SANDBOX;
use dues_store::{Condition, Edit, Engine, Key, Op, StoreError, Transacted};

use super::balances::{Balance, is_debit};
use super::rows::{self, StepKind, announce, next_event, number, step_text, transaction_of, unchanged};
use super::{PAGE_ROWS, Refund, RefundAnswer, Sandbox, draw};

/// Attempts to book a refund while others change the same debit.
const MAX_RACES: usize = 100;

impl<E: Engine> Sandbox<E> {
    pub(super) async fn accept_refund(
        &self,
        refund: &Refund,
        key: &RefundKey,
    ) -> Result<RefundAnswer, StoreError> {
        for _ in 0..MAX_RACES {
            if let Some(row) = self.store.engine.get(&SANDBOX, row_key(key)).await? {
                return first_answer(&row, refund);
            }
            let now = self.store.clock.now();
            let debit = self.debit_of(&refund.transaction_id).await?;
            let (row, mut ops) = match debit {
                None => (refused(refund, key, now, "unknown transaction"), Vec::new()),
                Some(debit) => match refusal(&debit, refund, now)? {
                    Some(reason) => (refused(refund, key, now, &reason), Vec::new()),
                    None => book(&debit, refund, key, now)?,
                },
            };
            ops.push(Op::Put(&SANDBOX, row.clone(), Condition::NoItem));
            match self.store.engine.transact(ops).await? {
                Transacted::Done => return Ok(answer(&row)),
                Transacted::Refused { .. } => {}
            }
        }
        Err(StoreError::Unavailable(format!("{}: refund {key} lost every race", SANDBOX.name)))
    }

    pub(super) async fn find_refund(&self, key: &RefundKey) -> Result<Option<RefundAnswer>, StoreError> {
        Ok(self.store.engine.get(&SANDBOX, row_key(key)).await?.as_ref().map(answer))
    }

    /// The debit with that transaction. Its id is a hash of its key, so reading the keys finds it.
    async fn debit_of(&self, transaction: &TransactionId) -> Result<Option<Item>, StoreError> {
        let mut start = None;
        loop {
            let page = self.store.engine.keys(&SANDBOX, start, PAGE_ROWS).await?;
            let is_it = |key: &Key| transaction_of(&key.partition) == transaction.as_str();
            if let Some(key) = page.keys.into_iter().find(is_it) {
                return Ok(self.store.engine.get(&SANDBOX, key).await?.filter(is_debit));
            }
            match page.next {
                Some(next) => start = Some(next),
                None => return Ok(None),
            }
        }
    }
}

fn row_key(key: &RefundKey) -> Key {
    Key { partition: key.to_string(), sort: None }
}

/// Why this debit cannot be refunded now.
fn refusal(debit: &Item, refund: &Refund, now: Time) -> Result<Option<String>, StoreError> {
    if debit.text("user_id") != Some(refund.user_id.as_str()) {
        return Ok(Some("the transaction is another member's".to_owned()));
    }
    if refund.amount == Money::ZERO {
        return Ok(Some("nothing to refund".to_owned()));
    }
    let left = left(debit, now)?;
    let reason = || format!("{} is more than the {left} that is left of the transaction", refund.amount);
    Ok((refund.amount > left).then(reason))
}

/// What can still be refunded: booked refunds count from the moment they were asked for.
fn left(debit: &Item, now: Time) -> Result<Money, StoreError> {
    let balance = Balance::of(debit, now)?;
    let is_reversed =
        rows::all_steps(debit)?.iter().any(|step| step.kind != StepKind::Completed && step.at <= now);
    if balance.collected == Money::ZERO || is_reversed {
        return Ok(Money::ZERO);
    }
    rows::amount_of(debit, StepKind::Refunded)
}

/// The refund's row, and the change of its debit's row.
fn book(debit: &Item, refund: &Refund, key: &RefundKey, now: Time) -> Result<(Item, Vec<Op>), StoreError> {
    let at = rows::refund_time(now);
    let mut row = request(refund, key, now);
    row.set_text("refund_id", format!("sbr-{:016x}", draw(0, key.as_str())));
    row.set_text("payment_id", debit.text(SANDBOX.partition).unwrap_or_default());
    for name in ["subscription_id", "account_mask"] {
        row.set_text(name, debit.text(name).unwrap_or_default());
    }
    row.set("steps", Value::L(vec![Value::text(step_text(at, StepKind::Refunded, ""))]));
    row.set("told", Value::number(0));
    announce(&mut row)?;

    let mut edits = vec![Edit::Set("refunds", rows::with_refund(debit, at, refund.amount))];
    if left(debit, now)? == refund.amount {
        // Nothing is left that could be returned or charged back.
        let mut settled = debit.clone();
        let past = rows::all_steps(debit)?.into_iter().filter(|step| step.at <= now);
        let past = past.map(|step| step_text(step.at, step.kind, step.code.as_deref().unwrap_or_default()));
        settled.set("steps", Value::L(past.map(Value::text).collect()));
        edits.push(Edit::Set("steps", settled.get("steps").cloned().unwrap_or(Value::L(Vec::new()))));
        edits.extend(next_event(&settled, number(&settled, "told"))?);
    }
    let debit = Op::Update(&SANDBOX, Key::of(&SANDBOX, debit)?, edits, unchanged(debit));
    Ok((row, vec![debit]))
}

fn refused(refund: &Refund, key: &RefundKey, now: Time, reason: &str) -> Item {
    let mut row = request(refund, key, now);
    row.set_text("refused", reason);
    row
}

fn request(refund: &Refund, key: &RefundKey, now: Time) -> Item {
    let mut row = Item::new();
    row.set_text(SANDBOX.partition, key.as_str());
    row.set_text("user_id", refund.user_id.as_str());
    row.set_text("transaction_id", refund.transaction_id.as_str());
    row.set_text("amount", refund.amount.to_string());
    row.set_text("requested_at", GoTime::nine_digits(now).text());
    row
}

/// The answer that the key was given first. A key that stands for another refund has none: a
/// caller that reuses it must not take the other's answer for its own.
fn first_answer(row: &Item, refund: &Refund) -> Result<RefundAnswer, StoreError> {
    let is_same = row.text("transaction_id") == Some(refund.transaction_id.as_str())
        && row.text("user_id") == Some(refund.user_id.as_str())
        && rows::amount(row)? == refund.amount;
    if is_same {
        return Ok(answer(row));
    }
    Err(StoreError::Invalid(format!("{}: the key stands for another refund", SANDBOX.name)))
}

fn answer(row: &Item) -> RefundAnswer {
    match row.text("refused") {
        Some(reason) => RefundAnswer::Refused { reason: reason.to_owned() },
        None => RefundAnswer::Refunded { refund_id: row.text("refund_id").unwrap_or_default().into() },
    }
}
