//! What an application says of an action: a JSON object, kept as a map.

use serde_json::Value as Json;

use crate::item::{Item, Value};

/// The most that is kept: a day's usage and the log both carry it.
const MOST: usize = 8 * 1024;
/// The deepest that it may be; DynamoDB ends at 32.
const DEEPEST: usize = 16;
/// DynamoDB's numbers are smaller than this.
const LARGEST: f64 = 1e125;
/// And, unless they are zero, larger than this.
const SMALLEST: f64 = 1e-125;

/// Why details cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DetailsError {
    /// Not an object.
    #[error("is not a JSON object")]
    NoObject,
    /// Too much.
    #[error("has {0} bytes, the most is {MOST}")]
    TooLong(usize),
    /// Lists in lists in lists.
    #[error("is deeper than {DEEPEST} levels")]
    TooDeep,
    /// A number that the tables cannot hold.
    #[error("{0} is a number that cannot be stored")]
    Number(String),
}

/// Reads details; null is as good as an empty object.
///
/// # Errors
/// Says why they cannot be kept.
pub fn details(json: &Json) -> Result<Item, DetailsError> {
    let length = json.to_string().len();
    if length > MOST {
        return Err(DetailsError::TooLong(length));
    }
    match json {
        Json::Null => Ok(Item::new()),
        Json::Object(_) => match value(json, DEEPEST)? {
            Value::M(item) => Ok(item),
            Value::S(_)
            | Value::N(_)
            | Value::B(_)
            | Value::Bool(_)
            | Value::Null
            | Value::L(_)
            | Value::Ss(_)
            | Value::Ns(_)
            | Value::Bs(_) => Err(DetailsError::NoObject),
        },
        Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => Err(DetailsError::NoObject),
    }
}

/// JSON as an attribute value, if the tables can hold it: not too deep, and without numbers that are too large or too small.
///
/// # Errors
/// Says why it cannot be kept.
pub fn kept(json: &Json) -> Result<Value, DetailsError> {
    value(json, DEEPEST)
}

fn value(json: &Json, levels: usize) -> Result<Value, DetailsError> {
    let below = levels.checked_sub(1).ok_or(DetailsError::TooDeep)?;
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => {
            let size = number.as_f64().map(f64::abs).unwrap_or(f64::INFINITY);
            if size >= LARGEST || (size > 0.0 && size <= SMALLEST) {
                return Err(DetailsError::Number(number.to_string()));
            }
            Value::N(number.to_string())
        }
        Json::String(text) => Value::text(text.as_str()),
        Json::Array(values) => Value::L(values.iter().map(|json| value(json, below)).collect::<Result<_, _>>()?),
        Json::Object(fields) => {
            let fields = fields.iter().map(|(name, json)| Ok((name.clone().into(), value(json, below)?)));
            Value::M(fields.collect::<Result<Item, DetailsError>>()?)
        }
    })
}
