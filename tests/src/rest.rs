//! Requests to the REST API's router, without a server.

use axum::body::{Body, to_bytes};
use axum::response::IntoResponse as _;
use dues_processors::api::{Api, router};
use dues_processors::collections::gateway::Gateway;
use dues_store::Engine;
use serde_json::Value;
use tower::ServiceExt as _;

/// A request.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The method, such as `POST`.
    pub method: &'a str,
    /// The path, percent-encoded.
    pub path: &'a str,
    /// The query string, percent-encoded.
    pub query: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Value,
    /// The `allow` header.
    pub allow: Option<String>,
    /// The `retry-after` header.
    pub retry_after: Option<u64>,
}

impl Response {
    /// A response without further headers.
    #[must_use]
    pub fn of(status: u16, body: Value) -> Self {
        Self { status, body, allow: None, retry_after: None }
    }
}

/// Serves requests.
pub trait Serve {
    /// Serves a request.
    fn handle(&self, request: Request<'_>) -> impl Future<Output = Response> + Send;
}

impl<E: Engine, G: Gateway> Serve for Api<E, G> {
    async fn handle(&self, Request { method, path, query, body }: Request<'_>) -> Response {
        let uri = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        let request = axum::http::Request::builder().method(method).uri(uri).body(Body::from(body.to_vec()));
        let response = router(self.clone()).oneshot(request.expect("a URI")).await.into_response();
        let (head, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.expect("in memory");
        let header = |name| head.headers.get(name).map(|value| value.to_str().expect("text").to_owned());
        let (allow, retry_after, status) = (header("allow"), header("retry-after"), head.status.as_u16());
        let body = serde_json::from_slice(&body).expect("JSON");
        Response {
            status,
            body,
            allow,
            retry_after: retry_after.map(|after| after.parse().expect("seconds")),
        }
    }
}
