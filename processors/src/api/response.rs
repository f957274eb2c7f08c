//! What is answered, for any server.

use dues_events::Record;
use serde_json::{Value, json};
use std::borrow::Cow;

use super::record_json;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The record and the outcome, or `{"error":{"code":…,"message":…}}`.
    pub body: Value,
    /// With 405, what the `allow` header has to say.
    pub allow: Option<Cow<'static, str>>,
    /// What the `retry-after` header has to say, in seconds.
    pub retry_after: Option<u64>,
}

impl Response {
    /// With that body.
    #[must_use]
    pub fn of(status: u16, body: Value) -> Self {
        Self { status, body, allow: None, retry_after: None }
    }

    /// Says what is wrong, with a word for programs and a sentence for people.
    #[must_use]
    pub fn error(status: u16, code: &str, message: impl Into<String>) -> Self {
        Self::of(status, json!({"error": {"code": code, "message": message.into()}}))
    }

    /// The answer to every method but the one that is allowed, or those, with commas between them.
    #[must_use]
    pub fn not_allowed(methods: impl Into<Cow<'static, str>>) -> Self {
        let methods = methods.into();
        let here = if methods.contains(',') { "the methods here are" } else { "the only method here is" };
        let refused = Self::error(405, "method_not_allowed", format!("{here} {methods}"));
        Self { allow: Some(methods), ..refused }
    }

    /// The headers that come with it.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, String)> {
        let content = Some(("content-type", "application/json".to_owned()));
        let allow = self.allow.as_deref().map(|allow| ("allow", allow.to_owned()));
        let retry = self.retry_after.map(|after| ("retry-after", after.to_string()));
        [content, allow, retry].into_iter().flatten()
    }

    /// A record, and what became of a command on it.
    pub(super) fn record(status: u16, record: &Record, outcome: &str) -> Self {
        let mut body = record_json(record);
        body["outcome"] = outcome.into();
        Self::of(status, body)
    }
}
