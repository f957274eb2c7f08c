//! Extractors: ids of the path, query parameters, and the fields of a JSON body.
//!
//! Bodies and parameters are not read with serde: errors name the field and quote its value, and null counts
//! as missing. Command bodies of the read models have the shape of the events in their streams; one decoder
//! reads both.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use dues_events::wire::WireError;
use dues_events::{SubscriptionId, UserId};
use percent_encoding::percent_decode_str;
use serde_json::Value;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::str::FromStr;

use super::error::Error;
use crate::runtime::json_fields::{Fields, MAX_ID_BYTES};

/// Percent-decodes text. A `%` that encodes nothing is kept: API Gateway may have decoded the path before.
#[must_use]
pub fn decoded_text(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(Into::into)
}

/// The ids of a path, by their names in its template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ids(Vec<(String, String)>);

impl Ids {
    /// The id of that name; empty if the path has none. A valid id is never empty.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, id)| id)
    }

    pub(super) fn user(&self) -> UserId {
        self.get("user_id").into()
    }

    pub(super) fn subscription(&self) -> SubscriptionId {
        self.get("subscription_id").into()
    }

    /// As fields of an object.
    pub(super) fn fields(&self) -> impl Iterator<Item = (String, Value)> + '_ {
        self.0.iter().map(|(name, id)| (name.clone(), id.as_str().into()))
    }

    /// The ids for error messages, such as `user 7, image 3`.
    pub(super) fn name(&self) -> String {
        let name = |(name, id): &(String, String)| {
            format!("{} {id}", name.trim_end_matches("_id").replace('_', " "))
        };
        self.0.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Ids {
    type Rejection = Error;

    /// 404 for an id that is not UTF-8 or does not fit into a table key: no row can have it. The message
    /// names the id.
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|rejection| Error::new(404, "no_such_path", rejection.body_text()))?;
        let ids: Vec<_> = params.iter().map(|(name, id)| (name.to_owned(), id.to_owned())).collect();
        match ids.iter().find(|(_, id)| !(1..=MAX_ID_BYTES).contains(&id.len())) {
            None => Ok(Self(ids)),
            Some((name, id)) => {
                let problem = format!("{name}: has {} bytes, must have 1 to {MAX_ID_BYTES}", id.len());
                Err(Error::new(404, "no_such_path", problem))
            }
        }
    }
}

/// Who acts, for history. The server in front adds the authenticated caller as an extension of the request;
/// without one it is `api`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Actor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_else(|| Self("api".to_owned())))
    }
}

/// Query parameters.
#[derive(Debug)]
pub(super) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// An optional parameter.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A required parameter.
    pub(super) fn required(&self, name: &str) -> Result<&str, WireError> {
        let value = self.get(name).filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| invalid(name, "is missing"))?;
        // It has to fit into a table key.
        match value.len() {
            ..=MAX_ID_BYTES => Ok(value),
            bytes => Err(invalid(name, format!("has {bytes} bytes, the most is {MAX_ID_BYTES}"))),
        }
    }

    /// A required parameter with one of the given values.
    pub(super) fn one_of<T: Copy>(
        &self,
        name: &str,
        all: &[T],
        text: impl Fn(&T) -> &'static str,
    ) -> Result<T, WireError> {
        let value = self.required(name)?;
        let texts = || all.iter().map(&text).collect::<Vec<_>>().join(", ");
        let found = all.iter().copied().find(|one| text(one) == value);
        found.ok_or_else(|| invalid(name, format!("{value:?} is not one of {}", texts())))
    }

    /// An optional parameter, parsed and checked with `valid`; `expected` describes it in the error.
    pub(super) fn parsed<T: FromStr>(
        &self,
        name: &str,
        expected: &str,
        valid: impl Fn(&T) -> bool,
    ) -> Result<Option<T>, WireError> {
        let parse = |text: &str| {
            let value = text.parse().ok().filter(|value| valid(value));
            value.ok_or_else(|| invalid(name, format!("{text:?} is not {expected}")))
        };
        self.get(name).map(parse).transpose()
    }

    /// `limit`: `usual` by default, at most `most`.
    pub(super) fn limit(&self, usual: u32, most: u32) -> Result<u32, WireError> {
        let expected = format!("a whole number from 1 to {most}");
        Ok(self.parsed("limit", &expected, |limit| (1..=most).contains(limit))?.unwrap_or(usual))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = Error;

    // `+` is not a space: the UTC offset of a time may have one.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        let query = parts.uri.query().unwrap_or_default();
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let pair = |(name, value): (&str, &str)| match decoded_text(value) {
            Some(value) => Ok((name.to_owned(), value)),
            None => Err(Error::field(name, "is not UTF-8")),
        };
        pairs.map(pair).collect::<Result<_, _>>().map(Self)
    }
}

/// A JSON body that becomes a `T`.
pub(super) struct Body<T>(pub(super) T);

/// Types that are read from the fields of a JSON object.
pub(super) trait FromFields: Sized {
    /// Whether a missing body counts as an empty object.
    const OPTIONAL: bool = false;

    fn from_fields(fields: Fields) -> Result<Self, WireError>;
}

/// Any JSON object, field by field.
impl FromFields for Fields {
    const OPTIONAL: bool = true;

    fn from_fields(fields: Fields) -> Result<Self, WireError> {
        Ok(fields)
    }
}

impl<S: Send + Sync, T: FromFields> FromRequest<S> for Body<T> {
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<Self, Error> {
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|error| Error::new(400, "broken_body", error.to_string()))?;
        let body: &[u8] = if T::OPTIONAL && body.trim_ascii().is_empty() { b"{}" } else { &body };
        Ok(Self(T::from_fields(Fields::read(body, "body")?)?))
    }
}

fn invalid(field: &str, problem: impl Into<String>) -> WireError {
    WireError { field: field.to_owned(), problem: problem.into() }
}
