//! HTTP behind an API Gateway HTTP API or a function URL: requests and responses of payload format 2.0.
//!
//! Not with `lambda_http`: it panics on a body that is not base64 and on a host that is not a URL, keeps the
//! stage in the path, and links `url` with its Unicode tables and `encoding_rs` into every function.

use aws_lambda_events::encodings::Base64Data;
use axum::Router;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_LENGTH;
use axum::response::IntoResponse as _;
use http_body_util::BodyExt as _;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use tower::ServiceExt as _;

use crate::api::{Actor, Response};

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpApiRequest {
    /// The path: percent-decoded by an HTTP API, still encoded from a function URL.
    pub raw_path: String,
    /// The query string.
    #[serde(default)]
    pub raw_query_string: String,
    /// The stage and the request line.
    pub request_context: RequestContext,
    /// The headers. API Gateway lower-cases their names, and joins repeated ones with commas.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body, which may be base64.
    #[serde(default)]
    pub body: Option<String>,
    /// Whether the body is base64.
    #[serde(default)]
    pub is_base64_encoded: bool,
}

/// The stage and the request line of a request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RequestContext {
    /// The stage; the path starts with its name, unless it is `$default`.
    #[serde(default)]
    pub stage: Option<String>,
    /// The request line.
    pub http: RequestLine,
    /// What API Gateway knows of the caller; its shape depends on the route's authorisation.
    #[serde(default)]
    pub authorizer: Value,
}

impl RequestContext {
    /// The authenticated caller: the subject of a JWT, or the ARN of an IAM identity.
    fn actor(&self) -> Option<Actor> {
        let name = |pointer| self.authorizer.pointer(pointer).and_then(Value::as_str);
        name("/jwt/claims/sub").or_else(|| name("/iam/userArn")).map(|name| Actor(name.to_owned()))
    }
}

/// A request line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RequestLine {
    /// Such as `POST`.
    pub method: String,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpApiResponse {
    /// The HTTP status.
    pub status_code: u16,
    /// The headers.
    pub headers: BTreeMap<String, String>,
    /// The body, as JSON text.
    pub body: String,
    /// Always false.
    pub is_base64_encoded: bool,
}

impl HttpApiRequest {
    /// A header; its name is case-insensitive.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let named = self.headers.iter().filter(|(header, _)| header.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.clone()).reduce(|all, next| all + "," + &next)
    }

    /// The raw bytes of the body.
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

/// Characters of a decoded path that are invalid in a URI.
const NOT_IN_PATHS: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>').add(b'?').add(b'`');

/// Serves a request with the router.
pub async fn http_api(router: &Router, request: HttpApiRequest) -> HttpApiResponse {
    let body = match request.bytes() {
        Ok(body) => body,
        Err(problem) => return Response::error(422, "invalid_field", problem).into(),
    };
    let path = without_stage(&request.raw_path, request.request_context.stage.as_deref());
    let mut uri = utf8_percent_encode(path, NOT_IN_PATHS).to_string();
    if !request.raw_query_string.is_empty() {
        uri = uri + "?" + &request.raw_query_string;
    }
    let method = request.request_context.http.method.as_str();
    let actor = request.request_context.actor();
    let Ok(mut request) = axum::http::Request::builder().method(method).uri(uri).body(Body::from(body))
    else {
        return Response::error(404, "no_such_path", "the method or the path cannot be read").into();
    };
    if let Some(actor) = actor {
        request.extensions_mut().insert(actor);
    }
    let (head, body) = router.clone().oneshot(request).await.into_response().into_parts();
    // Response bodies are in memory: collecting them cannot fail.
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = head.headers.iter().filter(|(name, _)| *name != CONTENT_LENGTH);
    HttpApiResponse {
        status_code: head.status.as_u16(),
        headers: headers.map(|(name, value)| (name.to_string(), text(value))).collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
        is_base64_encoded: false,
    }
}

fn without_stage<'a>(path: &'a str, stage: Option<&str>) -> &'a str {
    let rest = stage.and_then(|stage| path.strip_prefix('/')?.strip_prefix(stage));
    rest.filter(|rest| rest.starts_with('/')).unwrap_or(path)
}

impl From<Response> for HttpApiResponse {
    fn from(response: Response) -> Self {
        Self {
            status_code: response.status,
            headers: response.headers().map(|(name, value)| (name.to_owned(), value)).collect(),
            body: response.body.to_string(),
            is_base64_encoded: false,
        }
    }
}
