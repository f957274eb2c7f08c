//! The event of a history row as one text attribute, `data_event`: compact JSON, because the second kilobyte
//! of a row doubles the cost of every write.
//!
//! It holds what the row's other attributes do not: schema version, kind, the kind's fields, and the event's
//! time where the row's key is another one. Id, source, token and the other `data_` attributes are the row's.
//!
//! Decoding is total: an unknown schema version, kind or field is an [`EventError`] that names it. Events of
//! an older schema version go through `upcast` first, one version at a time.

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::attributes::{DATA_CHAIN, DATA_EVENT};
use crate::billing::attempts::Resolution;
use crate::billing::event::{
    Answer, AttemptName, CancelTime, Creation, Event, EventKind, Ignored, Paid, Report, ReportKind,
};
use crate::billing::membership::NewMembership;
use crate::billing::record::{Failure, History, Plan, Process, Provider, Receipt, TierName};
use crate::calendar::{BillingWeek, Term};
use crate::ids::{SubscriptionId, TransactionId};
use crate::money::{Currency, Money};
use crate::time::{GoTime, Time};

/// The schema version that is written.
///
/// | version | differs from the one before |
/// |---|---|
/// | 1 | |
/// | 2 | an amount that the bank reports names its currency; version 1 knew US dollars only |
pub const SCHEMA_VERSION: u32 = 2;

/// Why `data_event` cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// It is not the JSON that any version of this program writes.
    #[error("data_event: {0}")]
    Malformed(String),
    /// A newer version of this program wrote it, or none.
    #[error("data_event: schema version {0} is not 1 to {newest}", newest = SCHEMA_VERSION)]
    UnknownVersion(u64),
    /// No event has that kind.
    #[error("data_event: unknown kind {0:?}")]
    UnknownKind(String),
    /// A field of its kind is missing.
    #[error("data_event: {kind} without {field}")]
    Missing {
        /// The kind.
        kind: String,
        /// The field.
        field: &'static str,
    },
    /// A field cannot be read.
    #[error("data_event: {field} of {kind}: {value:?} is not {expected}")]
    Invalid {
        /// The kind.
        kind: String,
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// The row lacks an attribute that its event needs.
    #[error("data_event: the row has no {0}")]
    Row(&'static str),
}

/// An event as it is stored. Field names are short for the sake of the row's size.
#[derive(Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Stored {
    /// Schema version.
    v: u32,
    /// Kind.
    k: String,
    /// Time, where the row's key is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    /// Process.
    #[serde(skip_serializing_if = "Option::is_none")]
    p: Option<String>,
    /// It begins a change of several records, which the row has as `pending_change`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    b: bool,
    /// Number of an attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<u32>,
    /// Transaction of an attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    t: Option<String>,
    /// Amount: with its currency where the bank reports it, without in a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    a: Option<String>,
    /// Tier and version of a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    l: Option<String>,
    /// Mask of the account.
    #[serde(skip_serializing_if = "Option::is_none")]
    m: Option<String>,
    /// Payment type.
    #[serde(skip_serializing_if = "Option::is_none")]
    y: Option<String>,
    /// Failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    e: Option<String>,
    /// Decision about money.
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<String>,
    /// Months of a pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    months: Option<u32>,
    /// A due date.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// When a cancellation takes effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<String>,
    /// Another record.
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<String>,
    /// Why nothing changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Billing interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    term: Option<String>,
    /// Which Friday.
    #[serde(skip_serializing_if = "Option::is_none")]
    week: Option<u8>,
    /// Where the user signs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    prov: Option<String>,
}

/// Encodes an event for the history row with that key.
#[must_use]
pub fn encode(event: &Event, key: Time) -> String {
    let mut stored = of_kind(&event.kind);
    stored.v = SCHEMA_VERSION;
    stored.at = (event.at != key).then(|| time(event.at));
    stored.p = event.process.as_ref().map(|process| process.as_str().to_owned());
    stored.b = event.begins.is_some();
    serde_json::to_string(&stored).unwrap_or_default()
}

/// Decodes the event of a history row; `None` for a row of a writer that stored none.
///
/// # Errors
/// [`EventError`] names what is wrong.
pub fn decode(row: &History) -> Result<Option<Event>, EventError> {
    let Some(text) = row.record.data.text(DATA_EVENT) else { return Ok(None) };
    let json: Json = serde_json::from_str(text).map_err(|error| EventError::Malformed(error.to_string()))?;
    let stored: Stored =
        serde_json::from_value(upcast(json)?).map_err(|error| EventError::Malformed(error.to_string()))?;
    let key = row.record.last_run_date.as_ref().ok_or(EventError::Row("last_run_date"))?.at();
    let at = match &stored.at {
        Some(at) => stored.time("at", at)?,
        None => key,
    };
    let begins = match (stored.b, &row.record.pending_change) {
        (false, _) => None,
        (true, Some(change)) => Some(change.as_str().into()),
        (true, None) => return Err(EventError::Row("pending_change")),
    };
    let mut data = row.record.data.clone();
    data.remove(DATA_EVENT);
    data.remove(DATA_CHAIN);
    Ok(Some(Event {
        id: row.event_id.clone().ok_or(EventError::Row("event_id"))?,
        at,
        source: row.source.clone().into(),
        kind: stored.kind(row)?,
        process: stored.p.as_deref().map(Process::read),
        token: row.token.ok_or(EventError::Row("stamp"))?,
        data,
        begins,
    }))
}

/// Turns an event of an older schema version into one of today's, one version at a time.
fn upcast(mut json: Json) -> Result<Json, EventError> {
    loop {
        let version = json["v"].as_u64().ok_or_else(|| EventError::Malformed("no schema version".into()))?;
        match version {
            1 => from_1_to_2(&mut json),
            2 => return Ok(json),
            other => return Err(EventError::UnknownVersion(other)),
        }
    }
}

/// Version 1 stored what the bank reports as a bare amount: dues were collected in US dollars only.
fn from_1_to_2(json: &mut Json) {
    if matches!(json["k"].as_str(), Some("settled" | "refunded"))
        && let Some(amount) = json["a"].as_str().map(|amount| format!("{amount} {}", Currency::USD))
    {
        json["a"] = json!(amount);
    }
    json["v"] = json!(2);
}

fn of_kind(kind: &EventKind) -> Stored {
    let named = |k: &str| Stored { k: k.to_owned(), ..Stored::default() };
    let attempt = |k: &str, name: &AttemptName| Stored {
        n: name.number,
        t: name.transaction_id.as_ref().map(ToString::to_string),
        ..named(k)
    };
    let plan = |k: &str, plan: &Plan| Stored {
        a: Some(plan.amount.to_string()),
        l: Some(plan.tier.as_str().to_owned()),
        ..named(k)
    };
    let failed = |stored: Stored, failure: &Failure| Stored { e: Some(failure.text().to_owned()), ..stored };
    let receipt = |stored: Stored, receipt: &Receipt| Stored {
        m: Some(receipt.account_mask.clone()).filter(|mask| !mask.is_empty()),
        y: Some(receipt.payment_type.clone()).filter(|kind| !kind.is_empty()),
        ..stored
    };
    let answered = |k: &str, number: u32, id: Option<&TransactionId>| {
        attempt(k, &AttemptName { transaction_id: id.cloned(), number: Some(number) })
    };
    match kind {
        EventKind::Reported(Report { attempt: name, kind }) => match kind {
            ReportKind::Sent => attempt("sent", name),
            ReportKind::Settled { amount, currency, receipt: paid } => {
                receipt(Stored { a: Some(money(*amount, *currency)), ..attempt("settled", name) }, paid)
            }
            ReportKind::Returned(failure) => failed(attempt("returned", name), failure),
            ReportKind::Refunded { amount, currency } => {
                Stored { a: Some(money(*amount, *currency)), ..attempt("refunded", name) }
            }
            ReportKind::ChargedBack(failure) => failed(attempt("charged-back", name), failure),
        },
        EventKind::Intended { number } => Stored { n: Some(*number), ..named("intended") },
        EventKind::Withdrawn { number } => Stored { n: Some(*number), ..named("withdrawn") },
        EventKind::Answered { number, answer } => match answer {
            Answer::Accepted { transaction_id } => answered("accepted", *number, Some(transaction_id)),
            Answer::Collected(paid) => {
                receipt(answered("collected", *number, paid.transaction_id.as_ref()), &paid.receipt)
            }
            Answer::Refused { transaction_id, failure } => {
                failed(answered("refused", *number, transaction_id.as_ref()), failure)
            }
        },
        EventKind::Free => named("free"),
        EventKind::NewAccount => named("new-account"),
        EventKind::MoneyResolved { attempt: name, resolution } => {
            Stored { x: Some(resolution.to_text()), ..attempt("money", name) }
        }
        EventKind::Paused { months } => Stored { months: Some(*months), ..named("paused") },
        EventKind::Unpaused => named("unpaused"),
        EventKind::PauseExpired => named("pause-expired"),
        EventKind::Waived => named("waived"),
        EventKind::Cancelled => named("cancelled"),
        EventKind::TooOld => named("too-old"),
        EventKind::Moved { to } => Stored { to: Some(time(*to)), ..named("moved") },
        EventKind::PauseEnding => named("pause-ending"),
        EventKind::DueSoon => named("due-soon"),
        EventKind::PlanChanged(new) => plan("plan", new),
        EventKind::DowngradeRequested(new) => plan("downgrade", new),
        EventKind::CancelRequested(CancelTime::PeriodEnd) => {
            Stored { when: Some("end".to_owned()), ..named("cancel") }
        }
        EventKind::CancelRequested(CancelTime::Now) => {
            Stored { when: Some("now".to_owned()), ..named("cancel") }
        }
        EventKind::CancelRetracted => named("retracted"),
        EventKind::Superseded(by) => Stored { of: Some(by.to_string()), ..named("superseded") },
        EventKind::ChangeCompleted => named("change-done"),
        EventKind::Created(Creation::Began(new)) => Stored {
            to: Some(time(new.billing_date)),
            term: Some(new.term.as_str().to_owned()),
            week: new.billing_week.map(BillingWeek::get),
            prov: new.provider.map(|provider| provider.as_str().to_owned()),
            ..plan("began", &new.plan)
        },
        EventKind::Created(Creation::NextOf(id)) => Stored { of: Some(id.to_string()), ..named("next") },
        EventKind::Created(Creation::Imported(_)) => named("imported"),
        EventKind::Replaced(_) => named("replaced"),
        EventKind::NoChange(reason) => Stored { why: Some(reason.as_str().to_owned()), ..named("none") },
    }
}

impl Stored {
    fn kind(&self, row: &History) -> Result<EventKind, EventError> {
        let reported = |kind| EventKind::Reported(Report { attempt: self.attempt(), kind });
        let answered = |answer| Ok(EventKind::Answered { number: self.number()?, answer });
        Ok(match self.k.as_str() {
            "sent" => reported(ReportKind::Sent),
            "settled" => {
                let (amount, currency) = self.money()?;
                reported(ReportKind::Settled { amount, currency, receipt: self.receipt() })
            }
            "returned" => reported(ReportKind::Returned(self.failure()?)),
            "refunded" => {
                let (amount, currency) = self.money()?;
                reported(ReportKind::Refunded { amount, currency })
            }
            "charged-back" => reported(ReportKind::ChargedBack(self.failure()?)),
            "intended" => EventKind::Intended { number: self.number()? },
            "withdrawn" => EventKind::Withdrawn { number: self.number()? },
            "accepted" => {
                let id = self.attempt().transaction_id.ok_or_else(|| self.missing("t"))?;
                answered(Answer::Accepted { transaction_id: id })?
            }
            "collected" => answered(Answer::Collected(Paid {
                transaction_id: self.attempt().transaction_id,
                receipt: self.receipt(),
            }))?,
            "refused" => answered(Answer::Refused {
                transaction_id: self.attempt().transaction_id,
                failure: self.failure()?,
            })?,
            "free" => EventKind::Free,
            "new-account" => EventKind::NewAccount,
            "money" => EventKind::MoneyResolved {
                attempt: self.attempt(),
                resolution: self.read("x", &self.x, "a decision", Resolution::read)?,
            },
            "paused" => EventKind::Paused { months: self.months.ok_or_else(|| self.missing("months"))? },
            "unpaused" => EventKind::Unpaused,
            "pause-expired" => EventKind::PauseExpired,
            "waived" => EventKind::Waived,
            "cancelled" => EventKind::Cancelled,
            "too-old" => EventKind::TooOld,
            "moved" => EventKind::Moved { to: self.due()? },
            "pause-ending" => EventKind::PauseEnding,
            "due-soon" => EventKind::DueSoon,
            "plan" => EventKind::PlanChanged(self.plan()?),
            "downgrade" => EventKind::DowngradeRequested(self.plan()?),
            "cancel" => {
                EventKind::CancelRequested(self.read(
                    "when",
                    &self.when,
                    "end or now",
                    |when| match when {
                        "end" => Some(CancelTime::PeriodEnd),
                        "now" => Some(CancelTime::Now),
                        _ => None,
                    },
                )?)
            }
            "retracted" => EventKind::CancelRetracted,
            "superseded" => EventKind::Superseded(self.other_record()?),
            "change-done" => EventKind::ChangeCompleted,
            "began" => EventKind::Created(Creation::Began(Box::new(self.terms()?))),
            "next" => EventKind::Created(Creation::NextOf(self.other_record()?)),
            "imported" => EventKind::Created(Creation::Imported(Box::new(row.record.clone()))),
            "replaced" => EventKind::Replaced(Box::new(row.record.clone())),
            "none" => EventKind::NoChange(self.read("why", &self.why, "a known reason", Ignored::read)?),
            other => return Err(EventError::UnknownKind(other.to_owned())),
        })
    }

    fn attempt(&self) -> AttemptName {
        AttemptName { transaction_id: self.t.as_deref().map(TransactionId::from), number: self.n }
    }

    fn number(&self) -> Result<u32, EventError> {
        self.n.ok_or_else(|| self.missing("n"))
    }

    fn money(&self) -> Result<(Money, Currency), EventError> {
        self.read("a", &self.a, "an amount with its currency", |text| {
            let (amount, currency) = text.split_once(' ')?;
            Some((amount.parse().ok()?, Currency::read(currency)?))
        })
    }

    fn failure(&self) -> Result<Failure, EventError> {
        self.e.clone().map(Failure::from_text).ok_or_else(|| self.missing("e"))
    }

    fn receipt(&self) -> Receipt {
        Receipt {
            account_mask: self.m.clone().unwrap_or_default(),
            payment_type: self.y.clone().unwrap_or_default(),
        }
    }

    fn plan(&self) -> Result<Plan, EventError> {
        Ok(Plan {
            amount: self.read("a", &self.a, "an amount", |text| text.parse().ok())?,
            tier: self.read("l", &self.l, "a tier", |text| Some(TierName::read(text)))?,
        })
    }

    fn terms(&self) -> Result<NewMembership, EventError> {
        let week = |n: u8| {
            let week = BillingWeek::new(n.into());
            week.ok_or_else(|| self.invalid("week", &n.to_string(), "1 to 5"))
        };
        let provider = |text: &String| {
            Provider::read(text).ok_or_else(|| self.invalid("prov", text, "cognito or local"))
        };
        Ok(NewMembership {
            plan: self.plan()?,
            term: self.read("term", &self.term, "MONTHLY or YEARLY", Term::read)?,
            billing_date: self.due()?,
            billing_week: self.week.map(week).transpose()?,
            provider: self.prov.as_ref().map(provider).transpose()?,
        })
    }

    fn due(&self) -> Result<Time, EventError> {
        self.time("to", self.to.as_deref().ok_or_else(|| self.missing("to"))?)
    }

    fn other_record(&self) -> Result<SubscriptionId, EventError> {
        self.of.as_deref().map(SubscriptionId::from).ok_or_else(|| self.missing("of"))
    }

    fn time(&self, field: &'static str, text: &str) -> Result<Time, EventError> {
        crate::time::parse(text).map_err(|_| self.invalid(field, text, "an RFC 3339 time"))
    }

    fn read<T>(
        &self,
        field: &'static str,
        value: &Option<String>,
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, EventError> {
        let text = value.as_deref().ok_or_else(|| self.missing(field))?;
        parse(text).ok_or_else(|| self.invalid(field, text, expected))
    }

    fn missing(&self, field: &'static str) -> EventError {
        EventError::Missing { kind: self.k.clone(), field }
    }

    fn invalid(&self, field: &'static str, value: &str, expected: &'static str) -> EventError {
        EventError::Invalid { kind: self.k.clone(), field, value: value.to_owned(), expected }
    }
}

fn time(at: Time) -> String {
    GoTime::trimmed(at).text()
}

fn money(amount: Money, currency: Currency) -> String {
    format!("{amount} {currency}")
}
