//! Small JSON objects of which every field is asked for by name, so that what is wrong with one names it.

use dues_events::wire::{LARGEST_RECORD, WireError};
use serde_json::{Map, Value};
use std::fmt::Display;

use crate::collections::job::Process;

/// The longest id that is accepted: a key of the tables has to hold it.
pub(crate) const LONGEST_ID: usize = 256;

/// An object's fields. Those that nobody asks for do not matter, and null is as good as missing.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// Reads an object; `whole` is what it is called when it is none.
    pub(crate) fn read(bytes: &[u8], whole: &str) -> Result<Self, WireError> {
        if bytes.len() > LARGEST_RECORD {
            return Err(wrong(whole, format!("has {} bytes, the most is {LARGEST_RECORD}", bytes.len())));
        }
        let json: Value = serde_json::from_slice(bytes).map_err(|error| wrong(whole, format!("is not JSON: {error}")))?;
        Self::of(json).ok_or_else(|| wrong(whole, "is not a JSON object"))
    }

    /// The fields of a value that is an object.
    pub(crate) fn of(json: Value) -> Option<Self> {
        match json {
            Value::Object(fields) => Some(Self(fields)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
        }
    }

    /// The object itself.
    pub(crate) fn into_json(self) -> Value {
        Value::Object(self.0)
    }

    /// An id, which must be there.
    pub(crate) fn id(&self, field: &str) -> Result<&str, WireError> {
        let id = self.text(field)?;
        match id.len() {
            0 => Err(wrong(field, "is empty")),
            1..=LONGEST_ID => Ok(id),
            length => Err(wrong(field, format!("has {length} bytes, the most is {LONGEST_ID}"))),
        }
    }

    /// An id, if it is there.
    pub(crate) fn optional_id(&self, field: &str) -> Result<Option<&str>, WireError> {
        self.get(field).map(|_| self.id(field)).transpose()
    }

    /// Whatever is there, as it came; null when nothing is.
    pub(crate) fn json(&self, field: &str) -> &Value {
        self.get(field).unwrap_or(&Value::Null)
    }

    /// A list of ids, which must be there.
    pub(crate) fn ids<'a>(&'a self, field: &str) -> Result<Vec<&'a str>, WireError> {
        let value = self.get(field).ok_or_else(|| wrong(field, "is missing"))?;
        let list = value.as_array().ok_or_else(|| wrong(field, format!("{} is not a list", shown(value))))?;
        let id = |(n, value): (usize, &'a Value)| match value.as_str() {
            Some(id) if (1..=LONGEST_ID).contains(&id.len()) => Ok(id),
            Some(_) | None => Err(wrong(&format!("{field}[{n}]"), format!("{} is not an id", shown(value)))),
        };
        list.iter().enumerate().map(id).collect()
    }

    /// The name of a process, which must be there.
    pub(crate) fn process(&self, field: &str) -> Result<Process, WireError> {
        let name = self.text(field)?;
        Process::ALL.into_iter().find(|process| process.name() == name).ok_or_else(|| {
            let names = Process::ALL.map(Process::name).join(", ");
            wrong(field, format!("{} is not one of {names}", shown(&Value::from(name))))
        })
    }

    /// A yes or no; missing is no.
    pub(crate) fn flag(&self, field: &str) -> Result<bool, WireError> {
        match self.get(field) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| wrong(field, format!("{} is not true or false", shown(value)))),
        }
    }

    /// A whole number in that range, which must be there.
    pub(crate) fn number(&self, field: &str, least: u32, most: u32) -> Result<u32, WireError> {
        let value = self.get(field).ok_or_else(|| wrong(field, "is missing"))?;
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| wrong(field, format!("{} is not a whole number from {least} to {most}", shown(value))))
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

/// A value in a message, cut when it is long.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    let cut: String = text.chars().take(40).collect();
    if cut.len() < text.len() { cut + "…" } else { text }
}
