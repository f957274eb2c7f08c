//! Stored form of Stripe events: the decoded fields as JSON. Nothing else from Stripe is stored (names,
//! addresses, cards).

use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::{Fact, StripeEvent};
use crate::entitlements::stripe::wire::types;
use crate::ids::EventId;
use crate::time::Time;

#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    id: Cow<'a, EventId>,
    created: Time,
    livemode: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    api_version: Option<Box<str>>,
    source: Cow<'a, str>,
    fact: Cow<'a, Fact>,
}

impl StripeEvent {
    /// Encodes the event for the store.
    ///
    /// # Errors
    /// Cannot occur in practice: all map keys are text.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(&Stored {
            id: Cow::Borrowed(&self.id),
            created: self.created,
            livemode: self.livemode,
            api_version: self.api_version.clone(),
            source: Cow::Borrowed(self.source),
            fact: Cow::Borrowed(&self.fact),
        })
    }

    /// Decodes the JSON of [`StripeEvent::to_json`].
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let stored: Stored<'_> = serde_json::from_str(text)?;
        let source = types().find(|known| **known == *stored.source);
        let source = source.ok_or_else(|| {
            serde_json::Error::custom(format!("source: {:?} is no type of event", stored.source))
        })?;
        Ok(Self::new(
            stored.id.into_owned(),
            stored.created,
            stored.livemode,
            stored.api_version,
            source,
            stored.fact.into_owned(),
        ))
    }
}
