//! The shapes at the edges, and how they become events. One file per source; nothing else in the program knows JSON field names.
//!
//! Unknown fields are kept out of the way. A missing or malformed required field is an error that names the field.

pub mod app_events;
pub mod memberships;
pub mod signals;
pub mod site_payments;
pub mod stripe;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use crate::time::Time;

/// The largest record that is looked into. Real ones have under two kilobytes, Stripe's under twenty; Kinesis carries up to a megabyte.
pub const LARGEST_RECORD: usize = 256 * 1024;

/// Why a record cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireError {
    /// The field, as a path: `payment.amount`; `record` when it is the whole.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl WireError {
    fn new(field: impl Into<String>, problem: impl fmt::Display) -> Self {
        Self { field: field.into(), problem: problem.to_string() }
    }

    fn missing(field: &str) -> Self {
        Self::new(field, "is missing")
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl std::error::Error for WireError {}

/// Reads the JSON of a record. Every field of a shape is optional to serde: what is required is asked for by [`Field`], which
/// knows its name.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, WireError> {
    if bytes.len() > LARGEST_RECORD {
        return Err(WireError::new("record", format!("has {} bytes, the most is {LARGEST_RECORD}", bytes.len())));
    }
    // serde would read a list as the fields of a shape, in their order.
    if let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace())
        && *first != b'{'
    {
        return Err(WireError::new("record", "is not a JSON object"));
    }
    serde_json::from_slice(bytes).map_err(|_| {
        // The slow way, only for the message: it knows the path of what is wrong.
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let error = match serde_path_to_error::deserialize::<_, T>(&mut json) {
            Ok(_) => return WireError::new("record", "has more after its end"),
            Err(error) => error,
        };
        let path = error.path().to_string();
        let syntax = error.inner().is_syntax() || error.inner().is_eof();
        let field = if syntax || path == "." { "record".to_owned() } else { path };
        let problem = if syntax { format!("is not JSON: {}", error.inner()) } else { error.inner().to_string() };
        WireError::new(field, problem)
    })
}

/// Reads a value that is JSON already; what is missing or wrong is named by its path.
///
/// # Errors
/// [`WireError`] names the field.
pub fn shape<T: DeserializeOwned>(value: &serde_json::Value) -> Result<T, WireError> {
    serde_path_to_error::deserialize::<_, T>(value).map_err(|error| {
        let (path, problem) = (error.path().to_string(), error.inner().to_string());
        // serde tells of a field that is not there at the object that lacks it.
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
struct WireType {
    r#type: Option<String>,
}

/// Reads a record whose type is ours; `None` for the others, whatever their shape: only ours have to be well-formed.
fn parse_ours<T: DeserializeOwned>(bytes: &[u8], is_ours: impl Fn(&str) -> bool) -> Result<Option<T>, WireError> {
    parse(bytes).map(Some).or_else(|error| match parse::<WireType>(bytes) {
        Ok(WireType { r#type: Some(other) }) if !is_ours(&other) => Ok(None),
        Ok(_) | Err(_) => Err(error),
    })
}

/// A shape inside a record: a JSON object or nothing, never the list that serde would also take.
fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(json: D) -> Result<Option<T>, D::Error> {
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

/// Asks for what must be there.
trait Field {
    /// The text of a field that must be there and not be empty.
    fn required(&self, field: &str) -> Result<&str, WireError>;
    /// The text of a field that may be missing, null or empty.
    fn optional(&self) -> Option<&str>;
    /// A required field in another type than text.
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
        read(text).ok_or_else(|| WireError::new(field, format!("{} is not {wanted}", shown(text))))
    }
}

fn required_time(value: &Option<String>, field: &str) -> Result<Time, WireError> {
    let text = value.required(field)?;
    crate::time::parse(text).map_err(|e| WireError::new(field, format!("{} is not an RFC 3339 time: {e}", shown(text))))
}

/// The longest id that is accepted: a key of the tables has to hold it.
const LONGEST_ID: usize = 256;

fn required_id<'a>(value: &'a Option<String>, field: &str) -> Result<&'a str, WireError> {
    let id = value.required(field)?;
    if id.len() > LONGEST_ID {
        return Err(WireError::new(field, format!("has {} bytes, the most is {LONGEST_ID}", id.len())));
    }
    Ok(id)
}

/// A value in a message: quoted, and cut when it is long.
fn shown(text: &str) -> String {
    let cut: String = text.chars().take(40).collect();
    if cut.len() < text.len() { format!("{cut:?}…") } else { format!("{cut:?}") }
}

/// What can be told of a record that could not be understood: its `event_id` and `user_id`, if they are there at all.
#[must_use]
pub fn peek(bytes: &[u8]) -> (Option<String>, Option<String>) {
    if bytes.len() > LARGEST_RECORD {
        return (None, None);
    }
    let Ok(json) = serde_json::from_slice::<serde_json::Value>(bytes) else { return (None, None) };
    let text = |path: &str| json.pointer(path).and_then(|v| v.as_str()).map(|v| v.chars().take(LONGEST_ID).collect());
    (text("/event_id"), text("/user_id").or_else(|| text("/payment/user_id")))
}
