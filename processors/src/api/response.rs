//! JSON responses.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::IntoResponse;
use serde_json::{Value, json};
use std::borrow::Cow;

/// A JSON response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The result, or `{"error":{"code":…,"message":…}}`.
    pub body: Value,
    /// The `allow` header of a 405.
    pub allow: Option<Cow<'static, str>>,
    /// The `retry-after` header, in seconds.
    pub retry_after: Option<u64>,
}

impl Response {
    /// A response with that status and body.
    #[must_use]
    pub fn of(status: u16, body: Value) -> Self {
        Self { status, body, allow: None, retry_after: None }
    }

    /// An error, with a code for programs and a message for people.
    #[must_use]
    pub fn error(status: u16, code: &str, message: impl Into<String>) -> Self {
        Self::of(status, json!({"error": {"code": code, "message": message.into()}}))
    }

    /// 405; `methods` are the allowed ones, separated by commas.
    #[must_use]
    pub fn not_allowed(methods: impl Into<Cow<'static, str>>) -> Self {
        let methods = methods.into();
        let here = if methods.contains(',') { "the methods here are" } else { "the only method here is" };
        let refused = Self::error(405, "method_not_allowed", format!("{here} {methods}"));
        Self { allow: Some(methods), ..refused }
    }

    /// The headers.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, String)> {
        let content = Some(("content-type", "application/json".to_owned()));
        let allow = self.allow.as_deref().map(|allow| ("allow", allow.to_owned()));
        let retry = self.retry_after.map(|after| ("retry-after", after.to_string()));
        [content, allow, retry].into_iter().flatten()
    }
}

impl IntoResponse for Response {
    fn into_response(self) -> axum::response::Response {
        // Always valid: all header values are plain text.
        let header = |(name, value): (&'static str, String)| {
            Some((HeaderName::from_static(name), HeaderValue::try_from(value).ok()?))
        };
        let headers = self.headers().filter_map(header).collect();
        let mut response = axum::response::Response::new(Body::from(self.body.to_string()));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        *response.headers_mut() = headers;
        response
    }
}
