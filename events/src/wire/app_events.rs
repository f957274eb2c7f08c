//! Events of applications, on the stream `app-events`, in one common envelope.
//!
//! ```json
//! {"event_id":"e-1","type":"figureforge.image.saved","occurred_at":"2026-01-05T14:00:00Z",
//!  "image_id":"i-1", …}
//! ```
//!
//! The first segment of the type names the read model. The model decodes the rest of the type and all other
//! fields.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Field as _, WireError, parse, required_id, required_time, shape};
use crate::ids::EventId;
use crate::time::Time;

/// An application's event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppEvent {
    /// Identifies the fact.
    pub id: EventId,
    /// The read model that it is for.
    pub model: String,
    /// The rest of its type, such as `image.saved`.
    pub kind: String,
    /// When it occurred.
    pub at: Time,
    /// All other fields.
    pub body: Value,
}

#[derive(Deserialize)]
struct Wire {
    event_id: Option<String>,
    r#type: Option<String>,
    occurred_at: Option<String>,
    #[serde(flatten)]
    body: Map<String, Value>,
}

impl AppEvent {
    /// Decodes the other fields into the model's shape.
    ///
    /// # Errors
    /// [`WireError`] names the field.
    pub fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, WireError> {
        shape(&self.body)
    }
}

/// Decodes a record; `None` when its type names no model.
///
/// # Errors
/// [`WireError`] names the field.
pub fn decode(bytes: &[u8]) -> Result<Option<AppEvent>, WireError> {
    let wire: Wire = parse(bytes)?;
    let kind = wire.r#type.required("type")?;
    let Some((model, kind)) = kind.split_once('.') else { return Ok(None) };
    Ok(Some(AppEvent {
        id: required_id(&wire.event_id, "event_id")?.into(),
        model: model.to_owned(),
        kind: kind.to_owned(),
        at: required_time(&wire.occurred_at, "occurred_at")?,
        body: Value::Object(wire.body),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Image {
        image_id: String,
        size: Option<u32>,
    }

    #[test]
    fn the_envelope_is_ours_and_the_rest_the_models() {
        let text = br#"{"event_id":"e-1","type":"figureforge.image.saved","occurred_at":"2026-01-05T14:00:00Z","image_id":"i-1","more":1}"#;
        let event = decode(text).unwrap().unwrap();
        assert_eq!(
            (event.model.as_str(), event.kind.as_str(), event.id.as_str()),
            ("figureforge", "image.saved", "e-1")
        );
        let image: Image = event.read().unwrap();
        assert_eq!((image.image_id.as_str(), image.size), ("i-1", None));
        assert_eq!(
            decode(br#"{"event_id":"e-1","type":"LOGIN","occurred_at":"x"}"#),
            Ok(None),
            "whatever its shape"
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let event = |body: &str| {
            format!(r#"{{"event_id":"e-1","type":"m.k","occurred_at":"2026-01-05T14:00:00Z"{body}}}"#)
        };
        for (text, wrong) in [
            (event("").replace("e-1", ""), "event_id: is empty"),
            (
                event("").replace("2026-01-05T14:00:00Z", "noon"),
                "occurred_at: \"noon\" is not an RFC 3339 time: premature end of input",
            ),
            (event("").replace("\"type\":\"m.k\",", ""), "type: is missing"),
        ] {
            assert_eq!(decode(text.as_bytes()).unwrap_err().to_string(), wrong);
        }
        for (body, wrong) in [
            ("", "image_id: is missing"),
            (r#","image_id":"i","size":-1"#, "size: invalid value: integer `-1`, expected u32"),
        ] {
            assert_eq!(
                decode(event(body).as_bytes()).unwrap().unwrap().read::<Image>().unwrap_err().to_string(),
                wrong
            );
        }
    }
}
