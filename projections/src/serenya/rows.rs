//! Helpers to build rows: keys, times, and JSON as attribute values.

use dues_events::attributes::{PK, SK};
use dues_events::entitlements::stripe::Amount;
use dues_events::{GoTime, Item, Money, Time, Value};
use rust_decimal::Decimal;
use serde::Serialize;
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

/// A row with keys, entity type, payload, and times of creation and update.
pub(super) fn row(
    partition: String,
    sort: String,
    kind: &str,
    data: Value,
    created: Time,
    updated: Time,
) -> Item {
    let mut item = Item::new();
    item.set_text(PK, partition);
    item.set_text(SK, sort);
    item.set_text("entity_type", kind);
    item.set("data", data);
    item.set_text("created_at", text(created));
    item.set_text("updated_at", text(updated));
    item
}

/// The partition of a user's rows.
pub(super) fn user_partition(user: &str) -> String {
    format!("USER#{user}")
}

/// A time in ISO 8601.
pub(super) fn text(at: Time) -> String {
    GoTime::trimmed(at).text()
}

/// An optional time; null if absent.
pub(super) fn time(at: Option<Time>) -> Value {
    at.map_or(Value::Null, |at| Value::S(text(at)))
}

/// An optional text; null if absent.
pub(super) fn optional(value: Option<&str>) -> Value {
    value.map_or(Value::Null, Value::text)
}

pub(super) fn map<const N: usize>(attributes: [(&'static str, Value); N]) -> Item {
    attributes.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

/// Any serializable value as an attribute value; absent fields are null.
pub(super) fn value<T: Serialize>(part: &T) -> Value {
    serde_json::to_value(part).map_or(Value::Null, |json| of_json(&json))
}

pub(super) fn of_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => decimal(&number.to_string()),
        Json::String(text) => Value::text(text.as_str()),
        Json::Array(values) => Value::L(values.iter().map(of_json).collect()),
        Json::Object(fields) => {
            Value::M(fields.iter().map(|(name, field)| (name.clone().into(), of_json(field))).collect())
        }
    }
}

/// A number as DynamoDB returns it, without trailing zeros; text if it does not fit a decimal.
fn decimal(text: &str) -> Value {
    let read = Decimal::from_str_exact(text).or_else(|_| Decimal::from_scientific(text));
    read.map_or_else(|_| Value::text(text), |number| Value::N(number.normalize().to_string()))
}

/// An amount as a number, without the trailing zeros that DynamoDB drops.
pub(super) fn number(money: Money) -> Value {
    Value::N(money.decimal().normalize().to_string())
}

/// An amount in dollars. Null for other currencies: their number of decimals is not known here.
pub(super) fn amount(amount: Option<&Amount>) -> Value {
    amount.and_then(Amount::usd).map_or(Value::Null, number)
}

/// SHA-256 of a text, in hex.
pub(super) fn sha256(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}
