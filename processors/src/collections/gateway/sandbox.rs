//! A deterministic ACH network: accepts debits, settles them on the second banking day, and returns, refunds
//! or charges back some of them.
//!
//! A debit's outcome is drawn from the seed and its key, or chosen by the account's last four digits:
//!
//! | mask | outcome |
//! |---|---|
//! | `00NN` | returned with `RNN` on the second banking day |
//! | `01NN` | settles, then returned late with `RNN` |
//! | `0200` | settles, then refunded |
//! | `0300` | settles, then charged back |
//! | `0400` | collected at once |
//! | `05NN` | refused with `RNN` when it is submitted |
//! | any other | settles, unless the seed says otherwise |
//!
//! Refunds that are asked for follow on the next banking day. Every event carries the amount that moved, its
//! currency, the transaction and our attempt key.
//!
//! Its state is a table of the same store: it survives restarts and can be reconciled with the records.

mod balances;
mod refunds;
mod rows;

use chrono::TimeDelta;
use dues_events::billing::event::{Answer, Paid};
use dues_events::billing::record::{Failure, Receipt};
use dues_events::collections::ach::ReturnCode;
use dues_events::{AttemptKey, GoTime, Item, RefundKey, Time, TransactionId, UserId, Value};
use dues_store::table::{PENDING, SANDBOX};
use dues_store::{Condition, Edit, Engine, Key, Query, Store, StoreError, Written};
use futures::stream::{StreamExt as _, TryStreamExt as _, iter};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{Debit, Gateway, OutcomeUnknown, Refund, RefundAnswer};
use rows::{announce, next_event, nth_step, number, steps, transaction_of, unchanged};

pub use balances::Balance;

/// Frequencies per 10,000 debits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Odds {
    /// The same seed gives the same outcomes.
    pub seed: u64,
    /// Returned on the second banking day.
    pub returned: u32,
    /// Settled, then returned late.
    pub returned_late: u32,
    /// Settled, then refunded.
    pub refunded: u32,
    /// Settled, then charged back.
    pub charged_back: u32,
}

impl Odds {
    /// Everything settles, except for the masks above.
    pub const NONE: Self = Self { seed: 7, returned: 0, returned_late: 0, refunded: 0, charged_back: 0 };
    /// Typical rates.
    pub const USUAL: Self =
        Self { seed: 7, returned: 700, returned_late: 30, refunded: 60, charged_back: 15 };
}

/// The network. Clones share its table.
#[derive(Clone)]
pub struct Sandbox<E> {
    store: Store<E>,
    odds: Odds,
}

/// An event of the network on one debit.
#[derive(Debug, Clone)]
pub struct NetworkEvent {
    /// A record for `site-payments`.
    pub record: String,
    /// When it happened.
    pub at: Time,
    row: Item,
}

/// Debits read at once.
const PAGE_ROWS: u32 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DebitFate {
    Settles,
    Returned(ReturnCode),
    ReturnedLate(ReturnCode),
    Refunded,
    ChargedBack,
    AtOnce,
    Refused(ReturnCode),
}

impl<E: Engine> Sandbox<E> {
    /// A network over that store.
    pub fn new(store: Store<E>, odds: Odds) -> Self {
        Self { store, odds }
    }

    /// Sets the last four digits of a user's account.
    pub async fn set_account(&self, user: &UserId, mask: &str) -> Result<(), StoreError> {
        let mut row = Item::new();
        row.set_text(SANDBOX.partition, account_key(user));
        row.set_text("account_mask", mask);
        self.store.engine.put(&SANDBOX, row, Condition::Always).await.map(drop)
    }

    /// The events due by now and not yet published, oldest first; empty when there are none left. Pass them
    /// to [`Self::mark_published`] once their records are durable.
    pub async fn due_events(&self, now: Time) -> Result<Vec<NetworkEvent>, StoreError> {
        let due = Condition::Less(
            "next_at",
            Value::text(GoTime::nine_digits(now + TimeDelta::nanoseconds(1)).text()),
        );
        let mut query =
            Query { filter: due, limit: Some(PAGE_ROWS), ..Query::index(&SANDBOX, PENDING.name, "1") };
        loop {
            let page = self.store.engine.query(query.clone()).await?;
            if !page.items.is_empty() || page.next.is_none() {
                let mut events = page.items.into_iter().map(network_event).collect::<Result<Vec<_>, _>>()?;
                events.sort_by_key(|event| event.at);
                return Ok(events);
            }
            query.start = page.next;
        }
    }

    /// Marks events as published. Unmarked events are returned again.
    pub async fn mark_published(&self, events: Vec<NetworkEvent>) -> Result<(), StoreError> {
        iter(events)
            .map(|event| self.mark_event_published(event))
            .buffer_unordered(PAGE_ROWS as usize)
            .try_collect()
            .await
    }

    async fn mark_event_published(&self, event: NetworkEvent) -> Result<(), StoreError> {
        let done = number(&event.row, "told");
        let mut edits = vec![Edit::Set("told", Value::number(done + 1))];
        edits.extend(next_event(&event.row, done + 1)?);
        let key = Key::of(&SANDBOX, &event.row)?;
        // Refused when a refund has changed the row: the event is returned again.
        self.store.engine.update(&SANDBOX, key, edits, unchanged(&event.row)).await.map(drop)
    }

    async fn mask(&self, user: &UserId) -> Result<String, StoreError> {
        let key = Key { partition: account_key(user), sort: None };
        let row = self.store.engine.get(&SANDBOX, key).await?;
        let chosen = row.as_ref().and_then(|row| row.text("account_mask")).map(str::to_owned);
        Ok(chosen.unwrap_or_else(|| (1000 + draw(self.odds.seed, user.as_str()) % 9000).to_string()))
    }

    fn fate(&self, mask: &str, key: &AttemptKey) -> DebitFate {
        let code = || ReturnCode::read(&format!("R{}", mask.get(2..).unwrap_or_default()));
        match (mask.get(..2), code()) {
            (Some("00"), Some(code)) => return DebitFate::Returned(code),
            (Some("01"), Some(code)) => return DebitFate::ReturnedLate(code),
            (Some("02"), _) => return DebitFate::Refunded,
            (Some("03"), _) => return DebitFate::ChargedBack,
            (Some("04"), _) => return DebitFate::AtOnce,
            (Some("05"), Some(code)) => return DebitFate::Refused(code),
            (Some(_) | None, _) => {}
        }
        let drawn = draw(self.odds.seed, key.as_str());
        let mut place = u32::try_from(drawn % 10_000).unwrap_or(0);
        let mut hits = |odds: u32| {
            let hit = place < odds;
            place = place.wrapping_sub(odds);
            hit
        };
        if hits(self.odds.returned) {
            DebitFate::Returned(pick(&ORDINARY, drawn))
        } else if hits(self.odds.returned_late) {
            DebitFate::ReturnedLate(pick(&UNAUTHORISED, drawn))
        } else if hits(self.odds.refunded) {
            DebitFate::Refunded
        } else if hits(self.odds.charged_back) {
            DebitFate::ChargedBack
        } else {
            DebitFate::Settles
        }
    }
}

/// Common return codes, by frequency.
const ORDINARY: [&str; 16] = [
    "R01", "R01", "R01", "R01", "R01", "R01", "R01", "R01", "R09", "R09", "R02", "R03", "R04", "R08", "R16",
    "R20",
];
/// Return codes of unauthorised debits.
const UNAUTHORISED: [&str; 4] = ["R10", "R10", "R07", "R05"];

fn pick(codes: &[&str], drawn: u64) -> ReturnCode {
    let place = usize::try_from(drawn >> 20).unwrap_or(0) % codes.len();
    ReturnCode::read(codes[place]).unwrap_or(ReturnCode::R01)
}

/// A number that only depends on the seed and the name.
fn draw(seed: u64, name: &str) -> u64 {
    let hash = Sha256::new().chain_update(seed.to_be_bytes()).chain_update(name).finalize();
    hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl<E: Engine> Gateway for Sandbox<E> {
    async fn submit(&self, debit: &Debit, key: &AttemptKey) -> Result<Answer, OutcomeUnknown> {
        self.accept(debit, key).await.map_err(|error| OutcomeUnknown(format!("sandbox: {error}")))
    }

    async fn lookup(&self, key: &AttemptKey) -> Result<Option<Answer>, OutcomeUnknown> {
        let key = Key { partition: key.to_string(), sort: None };
        let row = self
            .store
            .engine
            .get(&SANDBOX, key)
            .await
            .map_err(|error| OutcomeUnknown(format!("sandbox: {error}")))?;
        Ok(row.map(|row| answer(&row)))
    }

    async fn refund(&self, refund: &Refund, key: &RefundKey) -> Result<RefundAnswer, OutcomeUnknown> {
        self.accept_refund(refund, key).await.map_err(|error| OutcomeUnknown(format!("sandbox: {error}")))
    }

    async fn lookup_refund(&self, key: &RefundKey) -> Result<Option<RefundAnswer>, OutcomeUnknown> {
        self.find_refund(key).await.map_err(|error| OutcomeUnknown(format!("sandbox: {error}")))
    }
}

impl<E: Engine> Sandbox<E> {
    async fn accept(&self, debit: &Debit, key: &AttemptKey) -> Result<Answer, StoreError> {
        let mask = self.mask(&debit.user_id).await?;
        let now = self.store.clock.now();
        let fate = self.fate(&mask, key);
        let mut row = Item::new();
        row.set_text(SANDBOX.partition, key.as_str());
        row.set_text("user_id", debit.user_id.as_str());
        row.set_text("subscription_id", debit.subscription_id.as_str());
        row.set_text("amount", debit.amount.to_string());
        row.set_text("account_mask", mask.as_str());
        row.set_text("submitted_at", GoTime::nine_digits(now).text());
        row.set_text("transaction_id", transaction_of(key.as_str()));
        row.set("told", Value::number(0));
        match fate {
            DebitFate::AtOnce => row.set_text("answer", "collected"),
            DebitFate::Refused(code) => row.set_text("answer", code.as_str()),
            DebitFate::Settles
            | DebitFate::Returned(_)
            | DebitFate::ReturnedLate(_)
            | DebitFate::Refunded
            | DebitFate::ChargedBack => {
                row.set_text("answer", "accepted");
                row.set("steps", Value::L(steps(fate, now).into_iter().map(Value::text).collect()));
                announce(&mut row)?;
            }
        }
        match self.store.engine.put(&SANDBOX, row.clone(), Condition::NoItem).await? {
            // The key is known: its first debit is the answer.
            Written::Refused(Some(there)) => Ok(answer(&there)),
            Written::Refused(None) | Written::Done => Ok(answer(&row)),
        }
    }
}

fn network_event(row: Item) -> Result<NetworkEvent, StoreError> {
    let published = number(&row, "told");
    let step = nth_step(&row, published)?
        .ok_or_else(|| StoreError::Invalid(format!("{}: a pending row has no next step", SANDBOX.name)))?;
    let text = |name: &str| row.text(name).unwrap_or_default();
    let key = text(SANDBOX.partition);
    let record = json!({
        "event_id": format!("sandbox:{key}:{published}"),
        "type": format!("SUBSCRIPTION_{}", step.kind.as_str()),
        "occurred_at": GoTime::trimmed(step.at).text(),
        "payment": {
            // A refund has a key of its own, and names the debit that it belongs to.
            "payment_id": row.text("payment_id").unwrap_or(key), "subscription_id": text("subscription_id"),
            "user_id": text("user_id"), "status": step.kind.payment_status(),
            "amount": rows::amount_of(&row, step.kind)?.to_string(), "currency": "USD",
            "processor": "SANDBOX", "confirmation_id": text("transaction_id"), "payment_type": "ACH",
            "account_mask": text("account_mask"), "return_code": step.code,
            "message": step.code.as_deref().map(return_reason),
        },
    });
    Ok(NetworkEvent { record: record.to_string(), at: step.at, row })
}

fn answer(row: &Item) -> Answer {
    let transaction_id = TransactionId::from(row.text("transaction_id").unwrap_or_default());
    match row.text("answer") {
        Some("collected") => Answer::Collected(Paid {
            transaction_id: Some(transaction_id),
            receipt: Receipt {
                account_mask: row.text("account_mask").unwrap_or_default().to_owned(),
                payment_type: "ACH".to_owned(),
            },
        }),
        Some(code) if code.starts_with('R') => Answer::Refused {
            transaction_id: Some(transaction_id),
            failure: Failure::new(ReturnCode::read(code), Some(return_reason(code))),
        },
        Some(_) | None => Answer::Accepted { transaction_id },
    }
}

fn return_reason(code: &str) -> &'static str {
    match code {
        "R01" => "Insufficient funds",
        "R02" => "Account closed",
        "R03" => "No account",
        "R04" => "Invalid account number",
        "R05" => "Unauthorised debit to consumer account",
        "R07" => "Authorisation revoked",
        "R08" => "Payment stopped",
        "R09" => "Uncollected funds",
        "R10" => "Customer advises not authorised",
        "R11" => "Entry not in accordance with the authorisation",
        "R16" => "Account frozen",
        "R20" => "Non-transaction account",
        "R29" => "Corporate customer advises not authorised",
        _ => "Returned",
    }
}

fn account_key(user: &UserId) -> String {
    format!("account:{user}")
}
