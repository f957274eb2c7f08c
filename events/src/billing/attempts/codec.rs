//! The attempts as one text attribute, which readers of other systems ignore: compact JSON, because the
//! second kilobyte of a row doubles the cost of every write.

use serde::{Deserialize, Serialize};

use super::{Attempt, Attempts, Failed, Refunded, Resolution, Settled};
use crate::billing::record::Failure;
use crate::ids::{SubscriptionId, TransactionId};
use crate::money::{Currency, Money};
use crate::time::{GoTime, Time};

/// `n`umber, `t`ransaction, submitted (`i`ntent), `s`ent, `p`aid, `r`eturned, re`f`unded, `c`harged back,
/// resolution (`x`), of all its money (`w`hole).
#[derive(Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Stored {
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    t: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    i: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p: Option<(String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r: Option<(String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    f: Option<(String, Vec<String>)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    c: Option<(String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    w: bool,
}

impl Attempts {
    /// Encodes the attempts.
    #[must_use]
    pub fn to_text(&self) -> String {
        let stored: Vec<Stored> = self.attempts.iter().map(store).collect();
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// Decodes the text of [`Self::to_text`], with the highest number ever used.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn read(text: &str, last_number: u32) -> Result<Self, String> {
        let stored: Vec<Stored> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let attempts = stored.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let highest = attempts.iter().filter_map(|attempt| attempt.number).max().unwrap_or(0);
        let mut set =
            Self { attempts: Vec::with_capacity(attempts.len()), last_number: last_number.max(highest) };
        attempts.into_iter().for_each(|attempt| set.insert(attempt));
        Ok(set)
    }

    /// The highest attempt number that was ever used.
    #[must_use]
    pub fn last_number(&self) -> u32 {
        self.last_number
    }

    /// The attempts of a row that another writer left: as many as it shows.
    #[must_use]
    pub fn of_other_writer(attempts: Vec<Attempt>, last_number: u32) -> Self {
        let mut set = Self { attempts: Vec::with_capacity(attempts.len()), last_number };
        attempts.into_iter().for_each(|attempt| set.insert(attempt));
        set
    }
}

fn time(at: Time) -> String {
    GoTime::trimmed(at).text()
}

fn money(amount: Money, currency: Currency) -> String {
    if currency == Currency::USD { amount.to_string() } else { format!("{amount} {currency}") }
}

fn store(attempt: &Attempt) -> Stored {
    let failed = |failed: &Failed| (time(failed.at), failed.failure.text().to_owned());
    Stored {
        n: attempt.number,
        t: attempt.transaction_id.as_ref().map(ToString::to_string),
        i: attempt.submitted.map(time),
        s: attempt.sent.map(time),
        p: attempt.settled.as_ref().map(|s| (time(s.at), money(s.amount, s.currency))),
        r: attempt.returned.as_ref().map(failed),
        f: attempt
            .refunded
            .as_ref()
            .map(|f| (time(f.at), f.sums.iter().map(|(currency, sum)| money(*sum, *currency)).collect())),
        c: attempt.charged_back.as_ref().map(failed),
        x: attempt.resolution.as_ref().map(Resolution::to_text),
        w: attempt.is_spent,
    }
}

fn read(stored: Stored) -> Result<Attempt, String> {
    let failed = |(at, text): (String, String)| -> Result<Failed, String> {
        Ok(Failed { at: read_time(&at)?, failure: Failure::from_text(text) })
    };
    Ok(Attempt {
        number: stored.n,
        transaction_id: stored.t.map(TransactionId::from),
        submitted: stored.i.as_deref().map(read_time).transpose()?,
        sent: stored.s.as_deref().map(read_time).transpose()?,
        settled: stored.p.map(|(at, amount)| read_settled(&at, &amount)).transpose()?,
        returned: stored.r.map(failed).transpose()?,
        refunded: stored.f.map(|(at, sums)| read_refunded(&at, &sums)).transpose()?,
        charged_back: stored.c.map(failed).transpose()?,
        resolution: match stored.x {
            Some(text) => {
                let read = Resolution::read(&text);
                Some(read.ok_or_else(|| format!("{text}: not a resolution"))?)
            }
            None => None,
        },
        is_spent: stored.w,
    })
}

fn read_time(text: &str) -> Result<Time, String> {
    crate::time::parse(text).map_err(|error| format!("{text}: {error}"))
}

fn read_money(text: &str) -> Result<(Money, Currency), String> {
    let (amount, currency) = text.split_once(' ').unwrap_or((text, "USD"));
    let amount = amount.parse().map_err(|error| format!("{text}: {error}"))?;
    let currency = Currency::read(currency).ok_or_else(|| format!("{text}: no currency"))?;
    Ok((amount, currency))
}

fn read_settled(at: &str, amount: &str) -> Result<Settled, String> {
    let (amount, currency) = read_money(amount)?;
    Ok(Settled { at: read_time(at)?, amount, currency })
}

fn read_refunded(at: &str, sums: &[String]) -> Result<Refunded, String> {
    let sums = sums.iter().map(|sum| read_money(sum).map(|(amount, currency)| (currency, amount)));
    Ok(Refunded { at: read_time(at)?, sums: sums.collect::<Result<_, _>>()? })
}

impl Resolution {
    /// The decision as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::AppliedTo(id) => format!("to {id}"),
            Self::RefundRequested => "refund".to_owned(),
            Self::RefundRefused => "refused".to_owned(),
            Self::Dismissed => "dismissed".to_owned(),
        }
    }

    /// Parses the text of [`Self::to_text`].
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        match (text, text.strip_prefix("to ")) {
            (_, Some(id)) => Some(Self::AppliedTo(SubscriptionId::from(id))),
            ("refused", None) => Some(Self::RefundRefused),
            ("refund", None) => Some(Self::RefundRequested),
            ("dismissed", None) => Some(Self::Dismissed),
            (_, None) => None,
        }
    }
}
