//! Wire shapes and their decoding into events. One file per source; no other code knows JSON field names.
//!
//! Unknown fields are ignored. A missing or malformed required field is an error that names the field.

pub mod app_events;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use crate::time::Time;

/// The largest record that is parsed. Real ones are under two kilobytes, Stripe's under twenty; Kinesis
/// carries up to a megabyte.
pub const MAX_RECORD_BYTES: usize = 256 * 1024;

/// Why a record cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireError {
    /// Path of the field, such as `payment.amount`; `record` for the whole record.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl WireError {
    pub(crate) fn new(field: impl Into<String>, problem: impl fmt::Display) -> Self {
        Self { field: field.into(), problem: problem.to_string() }
    }

    pub(crate) fn missing(field: &str) -> Self {
        Self::new(field, "is missing")
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl std::error::Error for WireError {}

/// Parses the JSON of a record. Every field of a shape is optional to serde; [`Field`] checks required
/// fields and reports their names.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, WireError> {
    if bytes.len() > MAX_RECORD_BYTES {
        return Err(WireError::new(
            "record",
            format!("has {} bytes, the most is {MAX_RECORD_BYTES}", bytes.len()),
        ));
    }
    // serde would accept a list as the fields of a shape, in order.
    if let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace())
        && *first != b'{'
    {
        return Err(WireError::new("record", "is not a JSON object"));
    }
    serde_json::from_slice(bytes).map_err(|_| {
        // Parse again, slower, only on error: this deserializer reports the path.
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let error = match serde_path_to_error::deserialize::<_, T>(&mut json) {
            Ok(_) => return WireError::new("record", "has more after its end"),
            Err(error) => error,
        };
        let path = error.path().to_string();
        let syntax = error.inner().is_syntax() || error.inner().is_eof();
        let field = if syntax || path == "." { "record".to_owned() } else { path };
        let problem =
            if syntax { format!("is not JSON: {}", error.inner()) } else { error.inner().to_string() };
        WireError::new(field, problem)
    })
}

/// Converts parsed JSON to a typed shape; errors name the path of the field.
///
/// # Errors
/// [`WireError`] names the field.
pub fn shape<T: DeserializeOwned>(value: &serde_json::Value) -> Result<T, WireError> {
    serde_path_to_error::deserialize::<_, T>(value).map_err(|error| {
        let (path, problem) = (error.path().to_string(), error.inner().to_string());
        // serde reports a missing field at the enclosing object.
        let missing = problem.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
        let inside = if path == "." { String::new() } else { path };
        match missing {
            Some(name) if inside.is_empty() => WireError::missing(name),
            Some(name) => WireError::missing(&format!("{inside}.{name}")),
            None if inside.is_empty() => WireError::new("record", problem),
            None => WireError::new(inside, problem),
        }
    })
}

#[derive(Deserialize)]
pub(crate) struct WireType {
    pub(crate) r#type: Option<String>,
}

/// Parses a record of a known type; `None` for other types, which need not be well-formed.
pub(crate) fn parse_if_known<T: DeserializeOwned>(
    bytes: &[u8],
    is_known: impl Fn(&str) -> bool,
) -> Result<Option<T>, WireError> {
    parse(bytes).map(Some).or_else(|error| match parse::<WireType>(bytes) {
        Ok(WireType { r#type: Some(other) }) if !is_known(&other) => Ok(None),
        Ok(_) | Err(_) => Err(error),
    })
}

/// A nested shape: a JSON object or null, never the list that serde would also accept.
pub(crate) fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(json: D) -> Result<Option<T>, D::Error> {
    struct Object<T>(PhantomData<T>);

    impl<'de, T: DeserializeOwned> Visitor<'de> for Object<T> {
        type Value = Option<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }

    json.deserialize_any(Object(PhantomData))
}

/// Access to required and optional fields.
pub(crate) trait Field {
    /// The text of a required, non-empty field.
    fn required(&self, field: &str) -> Result<&str, WireError>;
    /// The text of a field that may be missing, null or empty.
    fn optional(&self) -> Option<&str>;
    /// A required field, parsed into another type.
    fn required_as<T: FromStr<Err: fmt::Display>>(&self, field: &str) -> Result<T, WireError>;
    /// A required field with a fixed set of values.
    fn one_of<T>(&self, field: &str, wanted: &str, read: impl Fn(&str) -> Option<T>) -> Result<T, WireError>;
}

impl Field for Option<String> {
    fn required(&self, field: &str) -> Result<&str, WireError> {
        match self.as_deref() {
            None => Err(WireError::missing(field)),
            Some("") => Err(WireError::new(field, "is empty")),
            Some(text) => Ok(text),
        }
    }

    fn optional(&self) -> Option<&str> {
        self.as_deref().filter(|text| !text.is_empty())
    }

    fn required_as<T: FromStr<Err: fmt::Display>>(&self, field: &str) -> Result<T, WireError> {
        self.required(field)?.parse().map_err(|e| WireError::new(field, e))
    }

    fn one_of<T>(&self, field: &str, wanted: &str, read: impl Fn(&str) -> Option<T>) -> Result<T, WireError> {
        let text = self.required(field)?;
        read(text).ok_or_else(|| WireError::new(field, format!("{} is not {wanted}", quoted(text))))
    }
}

pub(crate) fn required_time(value: &Option<String>, field: &str) -> Result<Time, WireError> {
    let text = value.required(field)?;
    let at = crate::time::parse(text)
        .map_err(|e| WireError::new(field, format!("{} is not an RFC 3339 time: {e}", quoted(text))))?;
    match crate::time::is_in_range(at) {
        true => Ok(at),
        false => {
            Err(WireError::new(field, format!("{} is not between {}", quoted(text), crate::time::RANGE)))
        }
    }
}

/// The longest accepted id: it must fit into a table key.
pub(crate) const MAX_ID_BYTES: usize = 256;

pub(crate) fn required_id<'a>(value: &'a Option<String>, field: &str) -> Result<&'a str, WireError> {
    let id = value.required(field)?;
    if id.len() > MAX_ID_BYTES {
        return Err(WireError::new(field, format!("has {} bytes, the most is {MAX_ID_BYTES}", id.len())));
    }
    Ok(id)
}

/// Quotes a value for an error message, truncated when long.
pub(crate) fn quoted(text: &str) -> String {
    let cut: String = text.chars().take(40).collect();
    if cut.len() < text.len() { format!("{cut:?}…") } else { format!("{cut:?}") }
}

/// The `event_id` and `user_id` of a record that could not be decoded, if present.
#[must_use]
pub fn peek_ids(bytes: &[u8]) -> (Option<String>, Option<String>) {
    if bytes.len() > MAX_RECORD_BYTES {
        return (None, None);
    }
    let Ok(json) = serde_json::from_slice::<serde_json::Value>(bytes) else { return (None, None) };
    let text = |path: &str| {
        json.pointer(path).and_then(|v| v.as_str()).map(|v| v.chars().take(MAX_ID_BYTES).collect())
    };
    (text("/event_id"), text("/user_id").or_else(|| text("/payment/user_id")))
}
