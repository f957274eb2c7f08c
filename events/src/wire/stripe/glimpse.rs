//! A look at an event from outside: enough to name it and to send it the right way, also when it cannot be understood.

use serde_json::Value;

use super::{LARGEST_RECORD, LONGEST_ID};

/// Who an event is about, as far as it says. Nothing here is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Glimpse {
    /// The event's own id.
    pub id: Option<String>,
    /// Our user.
    pub user: Option<String>,
    /// Stripe's customer.
    pub customer: Option<String>,
}

impl Glimpse {
    /// What keeps events in order among themselves: the user, or as near as the event comes to naming one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.user.as_deref().or(self.customer.as_deref()).or(self.id.as_deref())
    }
}

/// Where a user is named.
const USERS: [&str; 4] = [
    "/data/object/metadata/user_id",
    "/data/object/parent/subscription_details/metadata/user_id",
    "/data/object/subscription_details/metadata/user_id",
    "/data/object/client_reference_id",
];

/// Where a customer is named: an id, or the customer with that id.
const CUSTOMERS: [&str; 2] = ["/data/object/customer", "/data/object/customer/id"];

/// Looks at an event. What is no JSON, or too long to be looked into, shows nothing.
#[must_use]
pub fn glimpse(bytes: &[u8]) -> Glimpse {
    if bytes.len() > LARGEST_RECORD {
        return Glimpse::default();
    }
    let Ok(json) = serde_json::from_slice::<Value>(bytes) else { return Glimpse::default() };
    let text = |path: &str| {
        let text = json.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty())?;
        Some(text.chars().take(LONGEST_ID).collect())
    };
    Glimpse { id: text("/id"), user: USERS.into_iter().find_map(text), customer: CUSTOMERS.into_iter().find_map(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_the_user_then_the_customer_then_the_event() {
        for (event, key) in [
            (r#"{"id":"evt_1","data":{"object":{"customer":"cus_1","metadata":{"user_id":"u-1"}}}}"#, Some("u-1")),
            (r#"{"id":"evt_1","data":{"object":{"customer":"cus_1","metadata":{"user_id":""}}}}"#, Some("cus_1")),
            (r#"{"id":"evt_1","data":{"object":{"customer":{"id":"cus_1"},"client_reference_id":null}}}"#, Some("cus_1")),
            (r#"{"id":"evt_1","data":{"object":{"customer":7}}}"#, Some("evt_1")),
            (r#"{"data":{}}"#, None),
            ("[]", None),
            ("{", None),
        ] {
            assert_eq!(glimpse(event.as_bytes()).key(), key, "{event}");
        }
    }
}
