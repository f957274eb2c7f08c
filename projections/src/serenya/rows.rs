//! How rows are made: keys, times, and JSON as attribute values.

use dues_events::attr::{PK, SK};
use dues_events::stripe::Amount;
use dues_events::{GoTime, Item, Money, Time, Value};
use rust_decimal::Decimal;
use serde::Serialize;
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

/// A row with its keys, its kind, its payload, and when it was made and changed.
pub(super) fn row(partition: String, sort: String, kind: &str, data: Value, created: Time, updated: Time) -> Item {
    let mut item = Item::new();
    item.set_text(PK, partition);
    item.set_text(SK, sort);
    item.set_text("entity_type", kind);
    item.set("data", data);
    item.set_text("created_at", text(created));
    item.set_text("updated_at", text(updated));
    item
}

/// The partition of everything of a user's.
pub(super) fn user_partition(user: &str) -> String {
    format!("USER#{user}")
}

/// A time, as ISO 8601.
pub(super) fn text(at: Time) -> String {
    GoTime::trimmed(at).text()
}

/// A time that may be missing: then it is null, as the seed has it.
pub(super) fn time(at: Option<Time>) -> Value {
    at.map_or(Value::Null, |at| Value::S(text(at)))
}

/// A text that may be missing.
pub(super) fn optional(value: Option<&str>) -> Value {
    value.map_or(Value::Null, Value::text)
}

/// A map of attributes.
pub(super) fn map<const N: usize>(attributes: [(&'static str, Value); N]) -> Item {
    attributes.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

/// Anything that serializes, as an attribute value; what is missing is null.
pub(super) fn value<T: Serialize>(part: &T) -> Value {
    serde_json::to_value(part).map_or(Value::Null, |json| of_json(&json))
}

/// JSON as an attribute value.
pub(super) fn of_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => decimal(&number.to_string()),
        Json::String(text) => Value::text(text.as_str()),
        Json::Array(values) => Value::L(values.iter().map(of_json).collect()),
        Json::Object(fields) => Value::M(fields.iter().map(|(name, field)| (name.clone().into(), of_json(field))).collect()),
    }
}

/// A number as DynamoDB would give it back, without zeros at its end; one that it cannot hold stays a text.
fn decimal(text: &str) -> Value {
    let read = Decimal::from_str_exact(text).or_else(|_| Decimal::from_scientific(text));
    read.map_or_else(|_| Value::text(text), |number| Value::N(number.normalize().to_string()))
}

/// An amount as a number, without the zeros that DynamoDB would cut off.
pub(super) fn number(money: Money) -> Value {
    Value::N(money.decimal().normalize().to_string())
}

/// An amount as the seed has it: dollars. Other currencies have no amount here, because only they know how many decimals they have.
pub(super) fn amount(amount: Option<&Amount>) -> Value {
    amount.and_then(Amount::usd).map_or(Value::Null, number)
}

/// The SHA-256 of a text, in hex.
pub(super) fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
