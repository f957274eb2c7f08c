//! Small JSON objects, read field by field, so that an error names the field.

use dues_events::wire::{MAX_RECORD_BYTES, WireError};
use dues_events::{Money, Time, time};
use serde_json::{Map, Value};
use std::fmt::Display;

use crate::collections::job::JobRun;

/// The longest accepted id: it has to fit into a table key.
pub(crate) const MAX_ID_BYTES: usize = 256;

/// The fields of an object. Unknown fields are ignored; null counts as missing.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// Parses an object; `whole` names it in errors about the object itself.
    pub(crate) fn read(bytes: &[u8], whole: &str) -> Result<Self, WireError> {
        if bytes.len() > MAX_RECORD_BYTES {
            return Err(wrong(whole, format!("has {} bytes, the most is {MAX_RECORD_BYTES}", bytes.len())));
        }
        let json: Value =
            serde_json::from_slice(bytes).map_err(|error| wrong(whole, format!("is not JSON: {error}")))?;
        Self::of(json).ok_or_else(|| wrong(whole, "is not a JSON object"))
    }

    /// The fields of a JSON value; `None` unless it is an object.
    pub(crate) fn of(json: Value) -> Option<Self> {
        match json {
            Value::Object(fields) => Some(Self(fields)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
        }
    }

    pub(crate) fn into_map(self) -> Map<String, Value> {
        self.0
    }

    /// A required id.
    pub(crate) fn id(&self, field: &str) -> Result<&str, WireError> {
        let id = self.text(field)?;
        match id.len() {
            0 => Err(wrong(field, "is empty")),
            1..=MAX_ID_BYTES => Ok(id),
            length => Err(wrong(field, format!("has {length} bytes, the most is {MAX_ID_BYTES}"))),
        }
    }

    /// An optional id.
    pub(crate) fn optional_id(&self, field: &str) -> Result<Option<&str>, WireError> {
        self.get(field).map(|_| self.id(field)).transpose()
    }

    /// The raw value of a field; null if it is missing.
    pub(crate) fn json(&self, field: &str) -> &Value {
        self.get(field).unwrap_or(&Value::Null)
    }

    /// A required list of ids.
    pub(crate) fn ids<'a>(&'a self, field: &str) -> Result<Vec<&'a str>, WireError> {
        let value = self.get(field).ok_or_else(|| wrong(field, "is missing"))?;
        let list = value.as_array().ok_or_else(|| wrong(field, format!("{} is not a list", shown(value))))?;
        let id = |(n, value): (usize, &'a Value)| match value.as_str() {
            Some(id) if (1..=MAX_ID_BYTES).contains(&id.len()) => Ok(id),
            Some(_) | None => Err(wrong(&format!("{field}[{n}]"), format!("{} is not an id", shown(value)))),
        };
        list.iter().enumerate().map(id).collect()
    }

    /// A required name of a process.
    pub(crate) fn process(&self, field: &str) -> Result<JobRun, WireError> {
        let name = self.text(field)?;
        JobRun::ALL.into_iter().find(|process| process.name() == name).ok_or_else(|| {
            let names = JobRun::ALL.map(JobRun::name).join(", ");
            wrong(field, format!("{} is not one of {names}", shown(&Value::from(name))))
        })
    }

    /// An optional boolean; missing is false.
    pub(crate) fn flag(&self, field: &str) -> Result<bool, WireError> {
        match self.get(field) {
            None => Ok(false),
            Some(value) => {
                value.as_bool().ok_or_else(|| wrong(field, format!("{} is not true or false", shown(value))))
            }
        }
    }

    /// A required integer from `least` to `most`.
    pub(crate) fn number(&self, field: &str, least: u32, most: u32) -> Result<u32, WireError> {
        let value = self.get(field).ok_or_else(|| wrong(field, "is missing"))?;
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            wrong(field, format!("{} is not a whole number from {least} to {most}", shown(value)))
        })
    }

    /// A required time: RFC 3339, or a day, which means midnight UTC.
    pub(crate) fn time(&self, field: &str) -> Result<Time, WireError> {
        let text = self.text(field)?;
        time::parse_or_day(text).ok_or_else(|| {
            let shown = shown(&Value::from(text));
            wrong(field, format!("{shown} is neither an RFC 3339 time nor a day such as 2026-02-01"))
        })
    }

    /// An optional amount in dollars and cents, as text such as `"4.99"`.
    pub(crate) fn optional_money(&self, field: &str) -> Result<Option<Money>, WireError> {
        let amount = |_| {
            let text = self.text(field)?;
            text.parse()
                .map_err(|_| wrong(field, format!("{} is not an amount such as 4.99", shown(&text.into()))))
        };
        self.get(field).map(amount).transpose()
    }

    fn text(&self, field: &str) -> Result<&str, WireError> {
        let value = self.get(field).ok_or_else(|| wrong(field, "is missing"))?;
        value.as_str().ok_or_else(|| wrong(field, format!("{} is not text", shown(value))))
    }

    fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }
}

fn wrong(field: &str, problem: impl Display) -> WireError {
    WireError { field: field.to_owned(), problem: problem.to_string() }
}

/// A value for an error message, truncated to 40 characters.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    let cut: String = text.chars().take(40).collect();
    if cut.len() < text.len() { cut + "…" } else { text }
}
