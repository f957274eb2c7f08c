//! `income-detected` and `account-balance`: signals that a member can pay now, delivered by EventBridge.

use rust_decimal::Decimal;
use serde::Deserialize;

use crate::ids::{EventId, UserId};
use crate::money::Money;
use crate::time::Time;
use crate::wire::{Field, WireError, parse, required_id, required_time};

/// The detail type of an income signal.
pub const INCOME: &str = "income-detected";
/// The detail type of a balance signal.
pub const BALANCE: &str = "account-balance";

/// A signal that a member can pay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    /// Identifies the fact.
    pub id: EventId,
    /// The account's owner.
    pub user_id: UserId,
    /// When it was observed.
    pub at: Time,
    /// What was observed.
    pub seen: Observation,
}

/// What a signal observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// Income arrived.
    Income(Money),
    /// A balance was reported.
    Balance {
        /// The amount that can be debited; negative when overdrawn.
        available: Decimal,
        /// Whether the account has just been put on file.
        new_account: bool,
    },
}

#[derive(Deserialize)]
struct WireIncome {
    event_id: Option<String>,
    user_id: Option<String>,
    amount: Option<String>,
    detected_at: Option<String>,
}

#[derive(Deserialize)]
struct WireBalance {
    event_id: Option<String>,
    user_id: Option<String>,
    available: Option<String>,
    observed_at: Option<String>,
    #[serde(default)]
    new_account: Option<bool>,
}

/// Decodes an `income-detected` signal.
///
/// # Errors
/// [`WireError`] names the field.
pub fn decode_income(bytes: &[u8]) -> Result<Signal, WireError> {
    let wire: WireIncome = parse(bytes)?;
    Ok(Signal {
        id: required_id(&wire.event_id, "event_id")?.into(),
        user_id: required_id(&wire.user_id, "user_id")?.into(),
        at: required_time(&wire.detected_at, "detected_at")?,
        seen: Observation::Income(wire.amount.required_as("amount")?),
    })
}

/// Decodes an `account-balance` signal.
///
/// # Errors
/// [`WireError`] names the field.
pub fn decode_balance(bytes: &[u8]) -> Result<Signal, WireError> {
    let wire: WireBalance = parse(bytes)?;
    let available = wire.available.required("available")?;
    Ok(Signal {
        id: required_id(&wire.event_id, "event_id")?.into(),
        user_id: required_id(&wire.user_id, "user_id")?.into(),
        at: required_time(&wire.observed_at, "observed_at")?,
        seen: Observation::Balance {
            available: Decimal::from_str_exact(available).map_err(|_| {
                WireError::new(
                    "available",
                    format!("{} is not a decimal number", crate::wire::quoted(available)),
                )
            })?,
            new_account: wire.new_account.unwrap_or(false),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_read() {
        let income =
            decode_income(br#"{"event_id":"i-1","user_id":"u-1","amount":"75.00","detected_at":"2026-02-01T00:00:00Z","x":1}"#).unwrap();
        assert_eq!(
            (income.user_id.as_str(), income.seen),
            ("u-1", Observation::Income(Money::from_cents(7500)))
        );
        let balance = decode_balance(
            br#"{"event_id":"b-1","user_id":"u-1","available":"-3.5","observed_at":"2026-02-01T00:00:00Z"}"#,
        )
        .unwrap();
        assert_eq!(
            balance.seen,
            Observation::Balance { available: Decimal::new(-35, 1), new_account: false }
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (json, field) in [
            (r#"{"user_id":"u","amount":"1","detected_at":"2026-02-01T00:00:00Z"}"#, "event_id"),
            (r#"{"event_id":"i","amount":"1","detected_at":"2026-02-01T00:00:00Z"}"#, "user_id"),
            (
                r#"{"event_id":"i","user_id":"u","amount":"much","detected_at":"2026-02-01T00:00:00Z"}"#,
                "amount",
            ),
            (r#"{"event_id":"i","user_id":"u","amount":"1","detected_at":"today"}"#, "detected_at"),
            (r#"{"event_id":"i","user_id":"u","amount":1,"detected_at":"2026-02-01T00:00:00Z"}"#, "amount"),
            ("[]", "record"),
        ] {
            assert_eq!(decode_income(json.as_bytes()).unwrap_err().field, field, "{json}");
        }
        let bad = r#"{"event_id":"b","user_id":"u","available":"lots","observed_at":"2026-02-01T00:00:00Z"}"#;
        assert_eq!(
            decode_balance(bad.as_bytes()).unwrap_err().to_string(),
            "available: \"lots\" is not a decimal number"
        );
    }
}
