//! The commands behind an API Gateway HTTP API or a function URL: events and answers of payload format 2.0.
//!
//! The shapes are written by hand: `aws_lambda_events` has them behind a feature that links `http`, `query_map` and more, for one path and one body.

use aws_lambda_events::encodings::Base64Data;
use dues_store::Engine;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

use super::{Api, Request, Response};
use crate::gateway::Gateway;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpApiRequest {
    /// The path; an HTTP API has decoded it, a function URL has not.
    pub raw_path: String,
    /// What stands behind the question mark.
    #[serde(default)]
    pub raw_query_string: String,
    /// Where it came in.
    pub request_context: RequestContext,
    /// Its headers; API Gateway has made their names lower-case, and joined those that came more than once with commas.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body; base64 when it says so.
    #[serde(default)]
    pub body: Option<String>,
    /// Whether the body is base64.
    #[serde(default)]
    pub is_base64_encoded: bool,
}

/// Where a request came in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RequestContext {
    /// The stage; a path starts with its name, unless it is `$default`.
    #[serde(default)]
    pub stage: Option<String>,
    /// The request line.
    pub http: RequestLine,
}

/// A request line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RequestLine {
    /// Such as `POST`.
    pub method: String,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpApiResponse {
    /// The HTTP status.
    pub status_code: u16,
    /// Its headers.
    pub headers: BTreeMap<&'static str, String>,
    /// The body, as JSON text.
    pub body: String,
    /// Never.
    pub is_base64_encoded: bool,
}

impl HttpApiRequest {
    /// A header, whatever the case of its name.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let named = self.headers.iter().filter(|(header, _)| header.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.clone()).reduce(|all, next| all + "," + &next)
    }

    /// The body, byte by byte as it came.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, String> {
        let body = self.body.clone().unwrap_or_default();
        match self.is_base64_encoded {
            true => match serde_json::from_value::<Base64Data>(Value::String(body)) {
                Ok(data) => Ok(data.0),
                Err(error) => Err(format!("body: is not base64: {error}")),
            },
            false => Ok(body.into_bytes()),
        }
    }
}

/// Carries a request out.
pub async fn http_api<E: Engine, G: Gateway>(api: &Api<E, G>, request: HttpApiRequest) -> HttpApiResponse {
    let body = match request.bytes() {
        Ok(body) => body,
        Err(problem) => return Response::error(422, "invalid_field", problem).into(),
    };
    let path = without_stage(&request.raw_path, request.request_context.stage.as_deref());
    let query = &request.raw_query_string;
    api.handle(Request { method: &request.request_context.http.method, path, query, body: &body }).await.into()
}

fn without_stage<'a>(path: &'a str, stage: Option<&str>) -> &'a str {
    let rest = stage.and_then(|stage| path.strip_prefix('/')?.strip_prefix(stage));
    rest.filter(|rest| rest.starts_with('/')).unwrap_or(path)
}

impl From<Response> for HttpApiResponse {
    fn from(response: Response) -> Self {
        let headers = response.headers().collect();
        Self { status_code: response.status, headers, body: response.body.to_string(), is_base64_encoded: false }
    }
}
