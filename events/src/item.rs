//! DynamoDB items: attribute names and typed values.

use serde_json::{Map, Value as Json};
use std::borrow::Cow;

/// An attribute name. Names from [`crate::attributes`] are borrowed, so most items allocate none.
pub type Name = Cow<'static, str>;

/// A typed attribute value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Text.
    S(String),
    /// A number as decimal text: exact at any size.
    N(String),
    /// Bytes.
    B(Vec<u8>),
    /// A boolean.
    Bool(bool),
    /// Null; Go's `nil`.
    Null,
    /// A list.
    L(Vec<Value>),
    /// A map.
    M(Item),
    /// A set of strings.
    Ss(Vec<String>),
    /// A set of numbers.
    Ns(Vec<String>),
    /// A set of byte strings.
    Bs(Vec<Vec<u8>>),
}

impl Value {
    /// A text value.
    pub fn text(text: impl Into<String>) -> Self {
        Self::S(text.into())
    }

    /// A number value.
    #[must_use]
    pub fn number(number: u64) -> Self {
        Self::N(number.to_string())
    }

    /// A number value that may be negative.
    #[must_use]
    pub fn signed(number: i64) -> Self {
        Self::N(number.to_string())
    }

    /// The text, if this is a text value.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::S(text) => Some(text),
            Self::N(_)
            | Self::B(_)
            | Self::Bool(_)
            | Self::Null
            | Self::L(_)
            | Self::M(_)
            | Self::Ss(_)
            | Self::Ns(_)
            | Self::Bs(_) => None,
        }
    }

    /// The value as a non-negative whole number, if it is one.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::N(number) => number.parse().ok(),
            Self::S(_)
            | Self::B(_)
            | Self::Bool(_)
            | Self::Null
            | Self::L(_)
            | Self::M(_)
            | Self::Ss(_)
            | Self::Ns(_)
            | Self::Bs(_) => None,
        }
    }

    /// The value as a whole number, possibly negative, if it is one.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::N(number) => number.parse().ok(),
            Self::S(_)
            | Self::B(_)
            | Self::Bool(_)
            | Self::Null
            | Self::L(_)
            | Self::M(_)
            | Self::Ss(_)
            | Self::Ns(_)
            | Self::Bs(_) => None,
        }
    }

    /// The name of the value's type, for error messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::S(_) => "a string",
            Self::N(_) => "a number",
            Self::B(_) => "binary",
            Self::Bool(_) => "a boolean",
            Self::Null => "null",
            Self::L(_) => "a list",
            Self::M(_) => "a map",
            Self::Ss(_) | Self::Ns(_) | Self::Bs(_) => "a set",
        }
    }

    /// Plain JSON for API answers: numbers as numbers, bytes as hex.
    #[must_use]
    pub fn to_json(&self) -> Json {
        match self {
            Self::S(text) => Json::from(text.as_str()),
            Self::N(number) => serde_json::from_str(number).unwrap_or_else(|_| Json::from(number.as_str())),
            Self::B(bytes) => Json::from(hex::encode(bytes)),
            Self::Bool(value) => Json::from(*value),
            Self::Null => Json::Null,
            Self::L(values) => values.iter().map(Self::to_json).collect(),
            Self::M(item) => item.to_json(),
            Self::Ss(texts) => texts.iter().map(String::as_str).collect(),
            Self::Ns(numbers) => numbers.iter().map(|n| Self::N(n.clone()).to_json()).collect(),
            Self::Bs(all) => all.iter().map(hex::encode).collect(),
        }
    }
}

/// A row: attributes sorted by name.
///
/// A sorted list instead of a tree: a row has a few dozen attributes and is read and written in name order,
/// and audits read millions of rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Item(Vec<(Name, Value)>);

impl Item {
    /// An empty item.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty item with capacity for that many attributes.
    #[must_use]
    pub fn with_capacity(attributes: usize) -> Self {
        Self(Vec::with_capacity(attributes))
    }

    /// Sets an attribute.
    pub fn set(&mut self, name: impl Into<Name>, value: Value) {
        let name = name.into();
        // Fast path: attributes set in name order are appended.
        match self.0.last() {
            Some((last, _)) if *last >= name => match self.place(&name) {
                Ok(place) => self.0[place].1 = value,
                Err(place) => self.0.insert(place, (name, value)),
            },
            Some(_) | None => self.0.push((name, value)),
        }
    }

    /// The index of an attribute, or where to insert it.
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_ref().cmp(name))
    }

    /// Sets a text attribute.
    pub fn set_text(&mut self, name: impl Into<Name>, text: impl Into<String>) {
        self.set(name, Value::S(text.into()));
    }

    /// Removes an attribute and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.place(name).ok().map(|place| self.0.remove(place).1)
    }

    /// The value of an attribute.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.place(name).ok().map(|place| &self.0[place].1)
    }

    /// The text of a text attribute.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_text()
    }

    /// Iterates over the attributes in name order.
    pub fn iter(&self) -> Iter<'_> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// The number of attributes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no attributes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The item as a plain JSON object.
    #[must_use]
    pub fn to_json(&self) -> Json {
        Json::Object(
            self.0.iter().map(|(name, value)| (name.to_string(), value.to_json())).collect::<Map<_, _>>(),
        )
    }
}

/// Iterator over attributes in name order.
pub type Iter<'a> =
    std::iter::Map<std::slice::Iter<'a, (Name, Value)>, fn(&(Name, Value)) -> (&Name, &Value)>;

impl IntoIterator for Item {
    type Item = (Name, Value);
    type IntoIter = std::vec::IntoIter<(Name, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Item {
    type Item = (&'a Name, &'a Value);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<(Name, Value)> for Item {
    fn from_iter<T: IntoIterator<Item = (Name, Value)>>(attributes: T) -> Self {
        let mut item = Self::new();
        item.extend(attributes);
        item
    }
}

impl Extend<(Name, Value)> for Item {
    fn extend<T: IntoIterator<Item = (Name, Value)>>(&mut self, attributes: T) {
        attributes.into_iter().for_each(|(name, value)| self.set(name, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_in_name_order_each_once_and_the_last_value_counts() {
        let mut item: Item = [("b", 1), ("d", 2), ("a", 3), ("d", 4), ("c", 5), ("a", 6)]
            .into_iter()
            .map(|(name, number)| (Name::from(name), Value::number(number)))
            .collect();
        let all = |item: &Item| {
            item.iter().map(|(name, value)| format!("{name}{}", value.as_u64().unwrap())).collect::<Vec<_>>()
        };
        assert_eq!((all(&item), item.len()), (["a6", "b1", "c5", "d4"].map(String::from).to_vec(), 4));
        assert_eq!((item.remove("b"), item.remove("b"), item.get("b")), (Some(Value::number(1)), None, None));
        item.set("e", Value::number(7));
        item.set("aa", Value::number(8));
        assert_eq!(all(&item), ["a6", "aa8", "c5", "d4", "e7"]);
        assert_eq!(item.get("aa"), Some(&Value::number(8)));
    }

    #[test]
    fn plain_json_shows_every_kind_of_value() {
        let item: Item = [
            ("s", Value::text("x")),
            ("n", Value::N("14.990".into())),
            ("b", Value::B(vec![0, 255])),
            ("t", Value::Bool(true)),
            ("nil", Value::Null),
            (
                "l",
                Value::L(vec![
                    Value::number(1),
                    Value::M([("k".into(), Value::text("v"))].into_iter().collect()),
                ]),
            ),
            ("ss", Value::Ss(vec!["a".into()])),
            ("ns", Value::Ns(vec!["7".into()])),
            ("bs", Value::Bs(vec![vec![16]])),
        ]
        .into_iter()
        .map(|(name, value)| (Name::from(name), value))
        .collect();
        assert_eq!(
            item.to_json().to_string(),
            r#"{"b":"00ff","bs":["10"],"l":[1,{"k":"v"}],"n":14.99,"nil":null,"ns":[7],"s":"x","ss":["a"],"t":true}"#
        );
    }
}
