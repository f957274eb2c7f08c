//! Action details: a JSON object from the application, stored as a map.

use serde_json::Value as Json;

use crate::item::{Item, Value};

/// Size limit; both the daily usage row and the log row carry the details.
const MAX_DETAILS_BYTES: usize = 8 * 1024;
/// Nesting limit; DynamoDB's own is 32.
const MAX_DEPTH: usize = 16;
/// DynamoDB's numbers are smaller than this.
const MAX_NUMBER: f64 = 1e125;
/// DynamoDB's non-zero numbers are larger than this.
const MIN_NUMBER: f64 = 1e-125;

/// Why details cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DetailsError {
    /// Not an object.
    #[error("is not a JSON object")]
    NotAnObject,
    /// Larger than the size limit.
    #[error("has {0} bytes, the most is {MAX_DETAILS_BYTES}")]
    TooLong(usize),
    /// Nested deeper than the limit.
    #[error("is deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// A number outside DynamoDB's range.
    #[error("{0} is a number that cannot be stored")]
    Number(String),
}

/// Decodes details; null counts as an empty object.
pub fn details(json: &Json) -> Result<Item, DetailsError> {
    let length = json.to_string().len();
    if length > MAX_DETAILS_BYTES {
        return Err(DetailsError::TooLong(length));
    }
    match json {
        Json::Null => Ok(Item::new()),
        Json::Object(_) => match value(json, MAX_DEPTH)? {
            Value::M(item) => Ok(item),
            Value::S(_)
            | Value::N(_)
            | Value::B(_)
            | Value::Bool(_)
            | Value::Null
            | Value::L(_)
            | Value::Ss(_)
            | Value::Ns(_)
            | Value::Bs(_) => Err(DetailsError::NotAnObject),
        },
        Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => Err(DetailsError::NotAnObject),
    }
}

/// Converts JSON to an attribute value, within the nesting limit and DynamoDB's range of numbers.
pub fn storable_value(json: &Json) -> Result<Value, DetailsError> {
    value(json, MAX_DEPTH)
}

fn value(json: &Json, levels: usize) -> Result<Value, DetailsError> {
    let below = levels.checked_sub(1).ok_or(DetailsError::TooDeep)?;
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => {
            let size = number.as_f64().map(f64::abs).unwrap_or(f64::INFINITY);
            if size >= MAX_NUMBER || (size > 0.0 && size <= MIN_NUMBER) {
                return Err(DetailsError::Number(number.to_string()));
            }
            Value::N(number.to_string())
        }
        Json::String(text) => Value::text(text.as_str()),
        Json::Array(values) => {
            Value::L(values.iter().map(|json| value(json, below)).collect::<Result<_, _>>()?)
        }
        Json::Object(fields) => {
            let fields = fields.iter().map(|(name, json)| Ok((name.clone().into(), value(json, below)?)));
            Value::M(fields.collect::<Result<Item, DetailsError>>()?)
        }
    })
}
