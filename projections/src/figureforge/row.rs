//! Rows of the table. Each has `pk`, `sk`, `created_at`, and `deleted_at`, which is null or a number.

use dues_events::{Item, Value};
use serde_json::Value as Json;

/// The table of this read model.
pub(super) const TABLE: &str = "figureforge";

/// Builder of a row.
pub(super) struct Row(Item);

impl Row {
    pub(super) fn new(pk: String, sk: String, created_at: i64, deleted_at: Option<i64>) -> Self {
        let mut item = Item::new();
        item.set_text("pk", pk);
        item.set_text("sk", sk);
        item.set("created_at", Value::signed(created_at));
        item.set("deleted_at", deleted_at.map_or(Value::Null, Value::signed));
        Self(item)
    }

    pub(super) fn text(mut self, name: &'static str, text: &str) -> Self {
        self.0.set_text(name, text);
        self
    }

    /// Text or null.
    pub(super) fn maybe(self, name: &'static str, text: Option<&str>) -> Self {
        self.set(name, text.map_or(Value::Null, Value::text))
    }

    /// Number or null.
    pub(super) fn number(self, name: &'static str, number: Option<i64>) -> Self {
        self.set(name, number.map_or(Value::Null, Value::signed))
    }

    pub(super) fn flag(self, name: &'static str, value: bool) -> Self {
        self.set(name, Value::Bool(value))
    }

    pub(super) fn texts<'a>(self, name: &'static str, texts: impl Iterator<Item = &'a str>) -> Self {
        self.set(name, Value::L(texts.map(Value::text).collect()))
    }

    /// Arbitrary JSON of the application.
    pub(super) fn json(self, name: &'static str, json: &Json) -> Self {
        self.set(name, value(json))
    }

    /// Sets an index key if the item is listed. Otherwise the attribute is absent, so the index omits the
    /// item.
    pub(super) fn indexed(self, listed: bool, name: &'static str, key: String) -> Self {
        if listed { self.text(name, &key) } else { self }
    }

    pub(super) fn set(mut self, name: &'static str, value: Value) -> Self {
        self.0.set(name, value);
        self
    }

    pub(super) fn item(self) -> Item {
        self.0
    }
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => Value::N(number.to_string()),
        Json::String(text) => Value::text(text.as_str()),
        Json::Array(values) => Value::L(values.iter().map(value).collect()),
        Json::Object(fields) => {
            Value::M(fields.iter().map(|(name, json)| (name.clone().into(), value(json))).collect())
        }
    }
}
