//! One request, one answer, within its time and size.

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

use super::Patience;

/// No answer is longer than this.
const LARGEST_BODY: usize = 64 * 1024;

/// What became of a request.
pub(super) enum Exchange {
    /// A whole answer.
    Answered(StatusCode, Bytes),
    /// The service cannot have got it.
    NotSent(String),
    /// The service may have got it.
    Lost(String),
}

/// Sends requests. Redirects are not followed: a debit goes where the settings say.
pub(super) struct Client {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    timeout: Duration,
}

impl Client {
    pub(super) fn new(https: bool, patience: Patience) -> Result<Self, String> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(patience.connect_timeout));
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls(https)?).https_or_http().enable_http1().wrap_connector(connector);
        // Each request has a connection of its own: if the service answers one debit twice, the second answer must not be taken for that to the next.
        let http = legacy::Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Ok(Self { http, timeout: patience.timeout })
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
            Err(error) if error.is_connect() => return Exchange::NotSent(format!("not connected: {}", cause(&error))),
            Err(error) => return Exchange::Lost(cause(&error)),
        };
        let status = answer.status();
        match Limited::new(answer.into_body(), LARGEST_BODY).collect().await {
            Ok(body) => Exchange::Answered(status, body.to_bytes()),
            Err(error) => Exchange::Lost(format!("{status} with a body that cannot be used: {}", cause(&*error), status = shown(status))),
        }
    }
}

/// As reasons name it.
pub(super) fn shown(status: StatusCode) -> String {
    format!("HTTP {}", status.as_u16())
}

/// Certificates are checked against the machine's roots; an http service needs none.
fn tls(https: bool) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let roots = if https {
        versions.with_native_roots().map_err(|error| error.to_string())?
    } else {
        versions.with_root_certificates(RootCertStore::empty())
    };
    Ok(roots.with_no_client_auth())
}

/// The innermost cause, such as `connection closed before message completed`. It comes from the network, never from a body.
fn cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
