//! Encoding and decoding of stored rows; errors name the attribute and the row.

use crate::attributes::{PK, SK, TYPE};
use crate::entitlements::credits::partition;
use crate::ids::UserId;
use crate::item::{Item, Value};
use crate::money::{Money, MoneyError};
use crate::time::GoTime;

/// An attribute of a stored row that cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{attribute} of row {key}: {problem}")]
pub struct ReadError {
    /// The attribute.
    pub attribute: String,
    /// The row: user and sort key.
    pub key: String,
    /// What is wrong with the value.
    pub problem: String,
}

/// A new row of a user in `gg_core`.
pub(crate) fn keyed(user: &UserId, sort: impl Into<String>, kind: &str) -> Item {
    let mut item = Item::new();
    item.set_text(PK, partition(user));
    item.set_text(SK, sort);
    item.set_text(TYPE, kind);
    item
}

/// Sets the texts that are `Some`.
pub(crate) fn set_texts<const N: usize>(item: &mut Item, texts: [(&'static str, Option<String>); N]) {
    for (name, text) in texts {
        if let Some(text) = text {
            item.set_text(name, text);
        }
    }
}

/// Sets the times that are `Some`.
pub(crate) fn set_times<const N: usize>(item: &mut Item, times: [(&'static str, &Option<GoTime>); N]) {
    set_texts(item, times.map(|(name, time)| (name, time.as_ref().map(GoTime::text))));
}

/// Removes known attributes from an item; the remaining ones are unknown.
pub(crate) struct Reader {
    pub(crate) item: Item,
    key: String,
}

impl Reader {
    /// A reader for an item with these key attributes.
    pub(crate) fn new(item: Item, keys: [&str; 2]) -> Self {
        let [partition, sort] = keys.map(|name| item.text(name).unwrap_or("?"));
        let key = format!("{partition}/{sort}");
        Self { item, key }
    }

    pub(crate) fn error(&self, attribute: &str, problem: impl Into<String>) -> ReadError {
        ReadError { attribute: attribute.to_owned(), key: self.key.clone(), problem: problem.into() }
    }

    pub(crate) fn text(&mut self, name: &'static str) -> Result<String, ReadError> {
        self.optional_text(name)?.ok_or_else(|| self.error(name, "is missing"))
    }

    pub(crate) fn optional_text(&mut self, name: &'static str) -> Result<Option<String>, ReadError> {
        match self.item.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::S(text)) => Ok(Some(text)),
            Some(other) => Err(self.error(name, format!("is {}, not a string", other.kind()))),
        }
    }

    /// An optional text; empty counts as missing, because Go writes empty strings.
    pub(crate) fn some_text(&mut self, name: &'static str) -> Result<Option<String>, ReadError> {
        Ok(self.optional_text(name)?.filter(|text| !text.is_empty()))
    }

    pub(crate) fn parsed<T>(
        &mut self,
        name: &'static str,
        wanted: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, ReadError> {
        match self.some_text(name)? {
            None => Ok(None),
            Some(text) => {
                read(&text).map(Some).ok_or_else(|| self.error(name, format!("{text:?} is not {wanted}")))
            }
        }
    }

    pub(crate) fn required<T>(
        &mut self,
        name: &'static str,
        wanted: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, ReadError> {
        self.parsed(name, wanted, read)?.ok_or_else(|| self.error(name, "is missing"))
    }

    pub(crate) fn flag(&mut self, name: &'static str) -> Result<bool, ReadError> {
        match self.item.remove(name) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(self.error(name, format!("is {}, not true or false", other.kind()))),
        }
    }

    pub(crate) fn money(&mut self, name: &'static str) -> Result<Option<Money>, ReadError> {
        match self.some_text(name)? {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|e: MoneyError| self.error(name, e.to_string())),
        }
    }

    pub(crate) fn time(&mut self, name: &'static str) -> Result<Option<GoTime>, ReadError> {
        match self.some_text(name)? {
            None => Ok(None),
            Some(text) => GoTime::read(&text)
                .map_err(|e| self.error(name, format!("{text:?} is not an RFC 3339 time: {e}"))),
        }
    }

    pub(crate) fn number(&mut self, name: &'static str) -> Result<Option<i64>, ReadError> {
        match self.item.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::N(number)) => number
                .parse()
                .map(Some)
                .map_err(|_| self.error(name, format!("{number} is not a whole number"))),
            Some(other) => Err(self.error(name, format!("is {}, not a number", other.kind()))),
        }
    }

    pub(crate) fn count(&mut self, name: &'static str) -> Result<u64, ReadError> {
        let number = self.number(name)?.unwrap_or(0);
        u64::try_from(number).map_err(|_| self.error(name, format!("{number} is negative")))
    }

    pub(crate) fn bytes(&mut self, name: &'static str) -> Result<Option<Vec<u8>>, ReadError> {
        match self.item.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::B(bytes)) => Ok(Some(bytes)),
            Some(other) => Err(self.error(name, format!("is {}, not binary", other.kind()))),
        }
    }

    pub(crate) fn texts(&mut self, name: &'static str) -> Result<Vec<String>, ReadError> {
        let not_texts = |row: &Self| row.error(name, "is not a list of strings");
        match self.item.remove(name) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::L(values)) => values
                .into_iter()
                .map(|v| v.as_text().map(str::to_owned).ok_or_else(|| not_texts(self)))
                .collect(),
            Some(_) => Err(not_texts(self)),
        }
    }
}
