//! The envelope of an event: enough to identify and route it, even when the event cannot be decoded.

use serde_json::Value;

use super::{MAX_ID_BYTES, MAX_RECORD_BYTES};

/// The ids in an event's envelope. None of them is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The event's own id.
    pub id: Option<String>,
    /// The user's id.
    pub user: Option<String>,
    /// Stripe's customer id.
    pub customer: Option<String>,
}

impl Envelope {
    /// The ordering key of an event: the user, or the closest id that the event has.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.user.as_deref().or(self.customer.as_deref()).or(self.id.as_deref())
    }
}

/// Paths of the user's id.
const USERS: [&str; 4] = [
    "/data/object/metadata/user_id",
    "/data/object/parent/subscription_details/metadata/user_id",
    "/data/object/subscription_details/metadata/user_id",
    "/data/object/client_reference_id",
];

/// Paths of the customer: an id, or the expanded customer.
const CUSTOMERS: [&str; 2] = ["/data/object/customer", "/data/object/customer/id"];

/// Reads an event's envelope; empty for invalid JSON and for records above the size limit.
#[must_use]
pub fn envelope(bytes: &[u8]) -> Envelope {
    if bytes.len() > MAX_RECORD_BYTES {
        return Envelope::default();
    }
    let Ok(json) = serde_json::from_slice::<Value>(bytes) else { return Envelope::default() };
    let text = |path: &str| {
        let text = json.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty())?;
        Some(text.chars().take(MAX_ID_BYTES).collect())
    };
    Envelope {
        id: text("/id"),
        user: USERS.into_iter().find_map(text),
        customer: CUSTOMERS.into_iter().find_map(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_the_user_then_the_customer_then_the_event() {
        for (event, key) in [
            (
                r#"{"id":"evt_1","data":{"object":{"customer":"cus_1","metadata":{"user_id":"u-1"}}}}"#,
                Some("u-1"),
            ),
            (
                r#"{"id":"evt_1","data":{"object":{"customer":"cus_1","metadata":{"user_id":""}}}}"#,
                Some("cus_1"),
            ),
            (
                r#"{"id":"evt_1","data":{"object":{"customer":{"id":"cus_1"},"client_reference_id":null}}}"#,
                Some("cus_1"),
            ),
            (r#"{"id":"evt_1","data":{"object":{"customer":7}}}"#, Some("evt_1")),
            (r#"{"data":{}}"#, None),
            ("[]", None),
            ("{", None),
        ] {
            assert_eq!(envelope(event.as_bytes()).key(), key, "{event}");
        }
    }
}
