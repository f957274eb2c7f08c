//! A deterministic ACH network: takes debits, settles them on the second banking day, returns some, takes some back later.
//!
//! What happens to a debit is drawn from the seed and its key, or chosen by the account's last four digits:
//!
//! | mask | what happens |
//! |---|---|
//! | `00NN` | returned with `RNN` on the second banking day |
//! | `01NN` | settles, then returned late with `RNN` |
//! | `0200` | settles, then refunded |
//! | `0300` | settles, then charged back |
//! | `0400` | collected at once |
//! | `05NN` | refused with `RNN` when it is submitted |
//! | any other | settles, unless the seed says otherwise |
//!
//! Its books are a table of the same store, so that they survive a restart and can be compared with the records.

use chrono::{NaiveTime, TimeDelta};
use dues_events::ach::ReturnCode;
use dues_events::calendar::banking_days_after;
use dues_events::event::{Answer, Paid};
use dues_events::record::{Failure, Receipt};
use dues_events::{AttemptKey, GoTime, Item, Time, TransactionId, UserId, Value};
use dues_store::table::{PENDING, SANDBOX};
use dues_store::{Condition, Engine, Key, Query, Store, StoreError, Written};
use futures::stream::{StreamExt as _, TryStreamExt as _, iter};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{Debit, Gateway, Unanswered};

/// How often things go wrong, of 10,000 debits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Odds {
    /// The same seed gives the same year.
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
    /// Nothing goes wrong, except for the accounts whose masks say so.
    pub const NONE: Self = Self { seed: 7, returned: 0, returned_late: 0, refunded: 0, charged_back: 0 };
    /// As a company with ordinary members sees it.
    pub const USUAL: Self = Self { seed: 7, returned: 700, returned_late: 30, refunded: 60, charged_back: 15 };
}

/// The network. Clones share its books.
#[derive(Clone)]
pub struct Sandbox<E> {
    store: Store<E>,
    odds: Odds,
}

/// What the network has to tell of one debit by now.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// A record for `site-payments`.
    pub record: String,
    /// When it happened.
    pub at: Time,
    row: Item,
}

/// How many debits are looked at for news at once.
const PAGE: u32 = 1000;
/// When outcomes come in on their day.
const MORNING: Option<NaiveTime> = NaiveTime::from_hms_opt(6, 0, 0);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Settles,
    Returned(ReturnCode),
    ReturnedLate(ReturnCode),
    Refunded,
    ChargedBack,
    AtOnce,
    Refused(ReturnCode),
}

impl<E: Engine> Sandbox<E> {
    /// A network whose books are in that store.
    pub fn new(store: Store<E>, odds: Odds) -> Self {
        Self { store, odds }
    }

    /// Gives a user an account with these last four digits.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn set_account(&self, user: &UserId, mask: &str) -> Result<(), StoreError> {
        let mut row = Item::new();
        row.set_text(SANDBOX.partition, account_key(user));
        row.set_text("account_mask", mask);
        self.store.engine.put(&SANDBOX, row, Condition::Always).await.map(drop)
    }

    /// What has happened by now and was not yet told, oldest first; empty when there is no more. They have to be passed to [`Self::told`] once their
    /// records are durable.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn outcomes(&self, now: Time) -> Result<Vec<Outcome>, StoreError> {
        let due = Condition::Less("next_at", Value::text(GoTime::nine_digits(now + TimeDelta::nanoseconds(1)).text()));
        let mut query = Query { filter: due, limit: Some(PAGE), ..Query::index(&SANDBOX, PENDING.name, "1") };
        loop {
            let page = self.store.engine.query(query.clone()).await?;
            if !page.items.is_empty() || page.next.is_none() {
                let mut news = page.items.into_iter().map(outcome).collect::<Result<Vec<_>, _>>()?;
                news.sort_by_key(|outcome| outcome.at);
                return Ok(news);
            }
            query.start = page.next;
        }
    }

    /// Notes that outcomes were told.
    ///
    /// # Errors
    /// What the store could not do: they are told again.
    pub async fn told(&self, outcomes: Vec<Outcome>) -> Result<(), StoreError> {
        iter(outcomes).map(|outcome| self.told_one(outcome)).buffer_unordered(PAGE as usize).try_collect().await
    }

    async fn told_one(&self, outcome: Outcome) -> Result<(), StoreError> {
        let mut row = outcome.row;
        let done = number(&row, "told");
        row.set("told", Value::number(done + 1));
        set_next(&mut row, done + 1)?;
        self.store.engine.put(&SANDBOX, row, Condition::Equals("told", Value::number(done))).await.map(drop)
    }

    async fn mask(&self, user: &UserId) -> Result<String, StoreError> {
        let key = Key { partition: account_key(user), sort: None };
        let row = self.store.engine.get(&SANDBOX, key).await?;
        let chosen = row.as_ref().and_then(|row| row.text("account_mask")).map(str::to_owned);
        Ok(chosen.unwrap_or_else(|| (1000 + draw(self.odds.seed, user.as_str()) % 9000).to_string()))
    }

    fn fate(&self, mask: &str, key: &AttemptKey) -> Fate {
        let code = || ReturnCode::read(&format!("R{}", mask.get(2..).unwrap_or_default()));
        match (mask.get(..2), code()) {
            (Some("00"), Some(code)) => return Fate::Returned(code),
            (Some("01"), Some(code)) => return Fate::ReturnedLate(code),
            (Some("02"), _) => return Fate::Refunded,
            (Some("03"), _) => return Fate::ChargedBack,
            (Some("04"), _) => return Fate::AtOnce,
            (Some("05"), Some(code)) => return Fate::Refused(code),
            (Some(_) | None, _) => {}
        }
        let drawn = draw(self.odds.seed, key.as_str());
        let mut place = u32::try_from(drawn % 10_000).unwrap_or(0);
        let mut falls = |odds: u32| {
            let hit = place < odds;
            place = place.wrapping_sub(odds);
            hit
        };
        if falls(self.odds.returned) {
            Fate::Returned(pick(&ORDINARY, drawn))
        } else if falls(self.odds.returned_late) {
            Fate::ReturnedLate(pick(&UNAUTHORISED, drawn))
        } else if falls(self.odds.refunded) {
            Fate::Refunded
        } else if falls(self.odds.charged_back) {
            Fate::ChargedBack
        } else {
            Fate::Settles
        }
    }
}

/// What banks return debits for, about as often as they do.
const ORDINARY: [&str; 16] =
    ["R01", "R01", "R01", "R01", "R01", "R01", "R01", "R01", "R09", "R09", "R02", "R03", "R04", "R08", "R16", "R20"];
/// What members' claims come back as.
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
    async fn submit(&self, debit: &Debit, key: &AttemptKey) -> Result<Answer, Unanswered> {
        self.take(debit, key).await.map_err(|error| Unanswered(format!("sandbox: {error}")))
    }

    async fn lookup(&self, key: &AttemptKey) -> Result<Option<Answer>, Unanswered> {
        let key = Key { partition: key.to_string(), sort: None };
        let row = self.store.engine.get(&SANDBOX, key).await.map_err(|error| Unanswered(format!("sandbox: {error}")))?;
        Ok(row.map(|row| answer(&row)))
    }
}

impl<E: Engine> Sandbox<E> {
    async fn take(&self, debit: &Debit, key: &AttemptKey) -> Result<Answer, StoreError> {
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
        row.set_text("transaction_id", format!("sbx-{:016x}", draw(0, key.as_str())));
        row.set("told", Value::number(0));
        match fate {
            Fate::AtOnce => row.set_text("answer", "collected"),
            Fate::Refused(code) => row.set_text("answer", code.as_str()),
            Fate::Settles | Fate::Returned(_) | Fate::ReturnedLate(_) | Fate::Refunded | Fate::ChargedBack => {
                row.set_text("answer", "accepted");
                row.set("steps", Value::L(steps(fate, now).into_iter().map(Value::text).collect()));
                set_next(&mut row, 0)?;
            }
        }
        match self.store.engine.put(&SANDBOX, row.clone(), Condition::NoItem).await? {
            // The key has been here before: its debit is the only one.
            Written::Refused(Some(there)) => Ok(answer(&there)),
            Written::Refused(None) | Written::Done => Ok(answer(&row)),
        }
    }
}

/// What will be told of a debit: time, type and code, in order.
fn steps(fate: Fate, submitted: Time) -> Vec<String> {
    let second = banking_days_after(dues_events::calendar::banking_day_from(submitted.date_naive()), 2);
    let on = |day: chrono::NaiveDate| day.and_time(MORNING.unwrap_or_default()).and_utc();
    let later = |days: u64| on(dues_events::calendar::banking_day_from(second + chrono::Days::new(days)));
    let step = |at: Time, kind: &str, code: &str| format!("{} {kind} {code}", GoTime::nine_digits(at).text()).trim_end().to_owned();
    let settled = step(on(second), "COMPLETED", "");
    match fate {
        Fate::Settles => vec![settled],
        Fate::Returned(code) => vec![step(on(second), "RETURNED", code.as_str())],
        Fate::ReturnedLate(code) => vec![settled, step(later(21), "RETURNED", code.as_str())],
        Fate::Refunded => vec![settled, step(later(5), "REFUNDED", "")],
        Fate::ChargedBack => vec![settled, step(later(30), "CHARGED_BACK", "R10")],
        Fate::AtOnce | Fate::Refused(_) => Vec::new(),
    }
}

/// Marks when the debit is heard of next, or that it is not any more.
fn set_next(row: &mut Item, told: u64) -> Result<(), StoreError> {
    match step(row, told)? {
        Some((at, ..)) => {
            row.set_text("next_at", GoTime::nine_digits(at).text());
            row.set_text(PENDING.partition, "1");
        }
        None => {
            row.remove("next_at");
            row.remove(PENDING.partition);
        }
    }
    Ok(())
}

fn step(row: &Item, n: u64) -> Result<Option<(Time, String, Option<String>)>, StoreError> {
    let Some(Value::L(steps)) = row.get("steps") else { return Ok(None) };
    let Some(text) = usize::try_from(n).ok().and_then(|n| steps.get(n)).and_then(Value::as_text) else { return Ok(None) };
    let unreadable = || StoreError::Invalid(format!("{}: step {text:?} cannot be read", SANDBOX.name));
    let mut words = text.split(' ');
    let at = words.next().and_then(|at| dues_events::time::parse(at).ok()).ok_or_else(unreadable)?;
    let kind = words.next().ok_or_else(unreadable)?;
    Ok(Some((at, kind.to_owned(), words.next().map(str::to_owned))))
}

fn outcome(row: Item) -> Result<Outcome, StoreError> {
    let told = number(&row, "told");
    let (at, kind, code) =
        step(&row, told)?.ok_or_else(|| StoreError::Invalid(format!("{}: a pending debit has no next step", SANDBOX.name)))?;
    let text = |name: &str| row.text(name).unwrap_or_default();
    let status = match kind.as_str() {
        "RETURNED" => "FAILED",
        other => other,
    };
    let record = json!({
        "event_id": format!("sandbox:{}:{told}", text(SANDBOX.partition)),
        "type": format!("SUBSCRIPTION_{kind}"),
        "occurred_at": GoTime::trimmed(at).text(),
        "payment": {
            "payment_id": text(SANDBOX.partition), "subscription_id": text("subscription_id"), "user_id": text("user_id"),
            "status": status, "amount": text("amount"), "currency": "USD", "processor": "SANDBOX",
            "confirmation_id": text("transaction_id"), "payment_type": "ACH", "account_mask": text("account_mask"),
            "return_code": code, "message": code.as_deref().map(meaning),
        },
    });
    Ok(Outcome { record: record.to_string(), at, row })
}

fn answer(row: &Item) -> Answer {
    let transaction_id = TransactionId::from(row.text("transaction_id").unwrap_or_default());
    match row.text("answer") {
        Some("collected") => Answer::Collected(Paid {
            transaction_id: Some(transaction_id),
            receipt: Receipt { account_mask: row.text("account_mask").unwrap_or_default().to_owned(), payment_type: "ACH".to_owned() },
        }),
        Some(code) if code.starts_with('R') => {
            Answer::Refused { transaction_id: Some(transaction_id), failure: Failure::new(ReturnCode::read(code), Some(meaning(code))) }
        }
        Some(_) | None => Answer::Accepted { transaction_id },
    }
}

fn meaning(code: &str) -> &'static str {
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

fn number(row: &Item, name: &str) -> u64 {
    match row.get(name) {
        Some(Value::N(number)) => number.parse().unwrap_or(0),
        Some(_) | None => 0,
    }
}

fn account_key(user: &UserId) -> String {
    format!("account:{user}")
}
