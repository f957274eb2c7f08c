//! One HTTP exchange, bounded in time and size.

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use super::RetryPolicy;

/// Longest response body.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// The result of one request.
pub(super) enum Exchange {
    /// A complete response.
    Answered(StatusCode, Bytes),
    /// The service cannot have received it.
    NotSent(String),
    /// The service may have received it.
    Lost(String),
}

/// Sends requests. Redirects are not followed: debits go only to the configured address.
pub(super) struct Client {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    timeout: Duration,
}

impl Client {
    pub(super) fn new(https: bool, retry: RetryPolicy) -> Result<Self, String> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(retry.connect_timeout));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(https)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        // One connection per request: a second response to one debit must not be read as the next one's.
        let http = legacy::Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Ok(Self { http, timeout: retry.timeout })
    }

    pub(super) async fn exchange(&self, request: hyper::http::request::Builder, body: Vec<u8>) -> Exchange {
        match request.header("connection", "close").body(Full::new(body.into())) {
            Ok(request) => tokio::time::timeout(self.timeout, self.send(request))
                .await
                .unwrap_or_else(|_| Exchange::Lost(format!("timeout after {:?}", self.timeout))),
            Err(error) => Exchange::NotSent(format!("not sent: {error}")),
        }
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Exchange {
        let answer = match self.http.request(request).await {
            Ok(answer) => answer,
            Err(error) if error.is_connect() => {
                return Exchange::NotSent(format!("not connected: {}", cause(&error)));
            }
            Err(error) => return Exchange::Lost(cause(&error)),
        };
        let status = answer.status();
        match Limited::new(answer.into_body(), MAX_BODY_BYTES).collect().await {
            Ok(body) => Exchange::Answered(status, body.to_bytes()),
            Err(error) => Exchange::Lost(format!(
                "{status} with an unusable body: {}",
                cause(&*error),
                status = status_text(status)
            )),
        }
    }
}

/// The status as reasons quote it.
pub(super) fn status_text(status: StatusCode) -> String {
    format!("HTTP {}", status.as_u16())
}

/// Certificates are verified against the system's roots; an http service needs none.
fn tls(https: bool) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let roots = if https {
        versions.with_native_roots().map_err(|error| error.to_string())?
    } else {
        versions.with_root_certificates(RootCertStore::empty())
    };
    Ok(roots.with_no_client_auth())
}

/// The innermost cause, such as `connection closed before message completed`. It comes from the network,
/// never from a body.
fn cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
