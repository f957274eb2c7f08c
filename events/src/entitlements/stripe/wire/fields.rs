//! Building blocks of Stripe's objects: expandable ids, lists, metadata, seconds and amounts.

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error, MapAccess, Visitor};
use std::fmt;

use crate::billing::record::Provider;
use crate::entitlements::stripe::{Amount, Period, Purchase};
use crate::ids::UserId;
use crate::money::Money;
use crate::time::Time;
use crate::wire::{Field, MAX_ID_BYTES, WireError, object, quoted};

/// An id, or the expanded object with that id.
pub(super) struct Reference(String);

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Reference;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an id or an object with one")
            }

            fn visit_str<E>(self, id: &str) -> Result<Reference, E> {
                Ok(Reference(id.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Reference, A::Error> {
                let expanded = Expanded::deserialize(MapAccessDeserializer::new(map))?;
                expanded.id.map(Reference).ok_or_else(|| A::Error::custom("is an object without an id"))
            }
        }

        json.deserialize_any(Either)
    }
}

#[derive(Deserialize)]
struct Expanded {
    id: Option<String>,
}

/// The id in a field that may be missing, null or empty.
pub(super) fn optional_id<T: for<'a> From<&'a str>>(
    value: &Option<Reference>,
    field: &str,
) -> Result<Option<T>, WireError> {
    match value {
        None => Ok(None),
        Some(Reference(id)) if id.is_empty() => Ok(None),
        Some(Reference(id)) => fitting(id, field).map(T::from).map(Some),
    }
}

/// Checks that a text fits into a table key.
fn fitting<'a>(text: &'a str, field: &str) -> Result<&'a str, WireError> {
    if text.len() > MAX_ID_BYTES {
        return Err(WireError::new(field, format!("has {} bytes, the most is {MAX_ID_BYTES}", text.len())));
    }
    Ok(text)
}

/// A page of a list.
#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
pub(super) struct List<T> {
    data: Option<Vec<Element<T>>>,
}

impl<T> List<T> {
    /// The elements of an optional list, with their index.
    pub(super) fn of(list: &Option<Self>) -> impl Iterator<Item = (usize, &T)> {
        let elements = list.iter().filter_map(|list| list.data.as_ref()).flatten().enumerate();
        elements.filter_map(|(place, element)| Some((place, element.0.as_ref()?)))
    }
}

struct Element<T>(Option<T>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Element<T> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        object(json).map(Self)
    }
}

/// The keys that this system sets in Stripe's metadata.
#[derive(Deserialize)]
pub(super) struct Metadata {
    user_id: Option<String>,
    provider: Option<String>,
    purchase: Option<String>,
    #[serde(rename = "planTier")]
    plan_tier: Option<String>,
}

/// The metadata locations of an object, most specific first. Each key is taken from the first location that
/// has it.
#[derive(Default)]
pub(super) struct MetadataSources<'a>(Vec<(&'a Metadata, String)>);

impl<'a> MetadataSources<'a> {
    /// Adds a location, if present.
    pub(super) fn and(mut self, metadata: &'a Option<Metadata>, path: impl Into<String>) -> Self {
        self.0.extend(metadata.as_ref().map(|metadata| (metadata, path.into())));
        self
    }

    fn find(&self, name: &str, key: impl Fn(&Metadata) -> &Option<String>) -> Option<(&'a str, String)> {
        self.0.iter().find_map(|(metadata, path)| Some((key(metadata).optional()?, format!("{path}.{name}"))))
    }

    /// The user it is for.
    pub(super) fn user(&self) -> Result<Option<UserId>, WireError> {
        self.find("user_id", |metadata| &metadata.user_id)
            .map(|(text, field)| fitting(text, &field).map(UserId::from))
            .transpose()
    }

    /// Where that user signs in.
    pub(super) fn provider(&self) -> Result<Option<Provider>, WireError> {
        let found = self.find("provider", |metadata| &metadata.provider);
        found.map(|(text, field)| known(text, field, "cognito or local", Provider::read)).transpose()
    }

    /// The purchase. An unknown value is an error: it was paid for, and nothing here would deliver it.
    pub(super) fn purchase(&self) -> Result<Option<Purchase>, WireError> {
        let found = self.find("purchase", |metadata| &metadata.purchase);
        found
            .map(|(text, field)| {
                known(text, field, "FOUNDING_MEMBER, GUILD_BUILDER or CREDITS", Purchase::read)
            })
            .transpose()
    }

    /// The tier.
    pub(super) fn tier(&self) -> Result<Option<Box<str>>, WireError> {
        self.find("planTier", |metadata| &metadata.plan_tier)
            .map(|(text, field)| fitting(text, &field).map(Box::from))
            .transpose()
    }
}

fn known<T>(
    text: &str,
    field: String,
    wanted: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<T, WireError> {
    read(text).ok_or_else(|| WireError::new(field, format!("{} is not {wanted}", quoted(text))))
}

/// A user's id outside of the metadata.
pub(super) fn optional_user(value: &Option<String>, field: &str) -> Result<Option<UserId>, WireError> {
    value.optional().map(|text| fitting(text, field).map(UserId::from)).transpose()
}

/// The last second of the year 9999: later times have no RFC 3339 text.
const LAST_SECOND: i64 = 253_402_300_799;

fn seconds(value: i64, field: &str) -> Result<Time, WireError> {
    let at = (0..=LAST_SECOND).contains(&value).then(|| Time::from_timestamp(value, 0)).flatten();
    at.ok_or_else(|| WireError::new(field, format!("{value} is not a time in seconds since 1970")))
}

pub(super) fn required_seconds(value: Option<i64>, field: &str) -> Result<Time, WireError> {
    value.ok_or_else(|| WireError::missing(field)).and_then(|value| seconds(value, field))
}

pub(super) fn optional_seconds(value: Option<i64>, field: &str) -> Result<Option<Time>, WireError> {
    value.map(|value| seconds(value, field)).transpose()
}

/// A period with both ends or neither. `prefix` is the field path before `start` and `end`.
pub(super) fn optional_period(
    start: Option<i64>,
    end: Option<i64>,
    prefix: &str,
) -> Result<Option<Period>, WireError> {
    if start.is_none() && end.is_none() {
        return Ok(None);
    }
    let start = required_seconds(start, &format!("{prefix}start"))?;
    let end = required_seconds(end, &format!("{prefix}end"))?;
    Ok(Some(Period { start, end }))
}

/// The period that ends last, so that a shorter part does not cut the paid time short.
pub(super) fn last_to_end(periods: impl IntoIterator<Item = Period>) -> Option<Period> {
    periods.into_iter().max_by_key(|period| (period.end, period.start))
}

/// A required amount in minor units, with the currency next to it.
pub(super) fn required_amount(
    value: Option<i64>,
    field: &str,
    currency: &Option<String>,
) -> Result<Amount, WireError> {
    let value = value.ok_or_else(|| WireError::missing(field))?;
    let code = currency.required(CURRENCY)?;
    if code.len() != 3 || !code.bytes().all(|letter| letter.is_ascii_alphabetic()) {
        return Err(WireError::new(CURRENCY, format!("{} is not a code of three letters", quoted(code))));
    }
    if code.eq_ignore_ascii_case("usd") {
        return Money::from_minor_units(value).map(Amount::Usd).map_err(|e| WireError::new(field, e));
    }
    let minor_units =
        u64::try_from(value).map_err(|_| WireError::new(field, format!("{value} is negative")))?;
    Ok(Amount::Other { currency: code.to_ascii_lowercase().into(), minor_units })
}

const CURRENCY: &str = "data.object.currency";
