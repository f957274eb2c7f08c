//! How JSON is described: small schemas that are put together.

use serde_json::{Value, json};

/// A shape that the document holds once.
#[must_use]
pub fn shape(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Text.
#[must_use]
pub fn text() -> Value {
    json!({"type": "string"})
}

/// Text that a key of a table can hold. The most is 256 bytes, which are fewer characters where those are not ASCII.
#[must_use]
pub fn id() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 256})
}

/// A whole number.
#[must_use]
pub fn number() -> Value {
    json!({"type": "integer"})
}

/// A whole number that is not negative.
#[must_use]
pub fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

/// Yes or no.
#[must_use]
pub fn flag() -> Value {
    json!({"type": "boolean"})
}

/// An instant, RFC 3339.
#[must_use]
pub fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

/// A day.
#[must_use]
pub fn day() -> Value {
    json!({"type": "string", "format": "date"})
}

/// Any JSON.
#[must_use]
pub fn any() -> Value {
    json!({})
}

/// One of these words.
#[must_use]
pub fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Value {
    json!({"type": "string", "enum": words.into_iter().collect::<Vec<_>>()})
}

/// A list.
#[must_use]
pub fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

/// That, or null.
#[must_use]
pub fn or_null(mut schema: Value) -> Value {
    // What says more of a text than how long it is says it of the text alone.
    let more = ["enum", "format", "pattern"].into_iter().any(|word| schema.get(word).is_some());
    match schema.get("type").and_then(Value::as_str).filter(|_| !more) {
        Some(kind) => {
            schema["type"] = json!([kind, "null"]);
            schema
        }
        None => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}

/// Text, or nothing.
#[must_use]
pub fn text_or_null() -> Value {
    or_null(text())
}

/// An object that has at least these properties.
#[must_use]
pub fn object(properties: Value) -> Value {
    object_with(properties, json!({}))
}

/// An object that has these properties, and may have those.
#[must_use]
pub fn object_with(properties: Value, optional: Value) -> Value {
    let required: Vec<String> = properties.as_object().map(|all| all.keys().cloned().collect()).unwrap_or_default();
    let mut schema = json!({"type": "object", "properties": joined(properties, optional)});
    // An empty list says nothing.
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

/// The properties of both.
#[must_use]
pub fn joined(mut properties: Value, more: Value) -> Value {
    if let (Some(all), Value::Object(more)) = (properties.as_object_mut(), more) {
        all.extend(more);
    }
    properties
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_one_more_type_or_one_more_choice() {
        assert_eq!(or_null(id()), json!({"type": ["string", "null"], "minLength": 1, "maxLength": 256}));
        assert_eq!(or_null(time()), json!({"anyOf": [time(), {"type": "null"}]}));
        assert_eq!(or_null(shape("Error")), json!({"anyOf": [shape("Error"), {"type": "null"}]}));
        assert_eq!(or_null(words(["a"])), json!({"anyOf": [words(["a"]), {"type": "null"}]}));
    }

    #[test]
    fn what_is_optional_is_a_property_that_is_not_required() {
        let schema = object_with(json!({"a": text()}), json!({"b": number()}));
        assert_eq!(schema, json!({"type": "object", "required": ["a"], "properties": {"a": text(), "b": number()}}));
    }
}
