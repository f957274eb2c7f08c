//! A payments service over HTTP: `POST {base}/payments` submits a debit, `GET {base}/payments/{key}` looks
//! it up; `/refunds` does the same for refunds.
//!
//! A well-formed response is the answer. A request that cannot have arrived is resent. After anything else
//! the debit or refund may exist, so its key is looked up first; it is resubmitted, under the same key, only
//! if the service has never seen that key.

mod client;
mod wire;

use dues_events::billing::event::Answer;
use dues_events::{AttemptKey, RefundKey};
use dues_store::SharedClock;
use hyper::Uri;
use hyper::header::{AUTHORIZATION, HeaderValue};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Debit, Gateway, OutcomeUnknown, Refund, RefundAnswer};
use client::{Client, Exchange};
use wire::{Reply, Resource, refunds};

/// Timeouts and retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Of one request, up to the last byte of the response.
    pub timeout: Duration,
    /// Of connecting.
    pub connect_timeout: Duration,
    /// Submissions per call, all under the same key.
    pub max_submits: u32,
    /// Lookups before the outcome stays unknown.
    pub max_lookups: u32,
    /// Pause before the first retry; it doubles with each retry.
    pub backoff: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(3),
            max_submits: 3,
            max_lookups: 3,
            backoff: Duration::from_millis(250),
        }
    }
}

/// An invalid gateway configuration. Messages never contain the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GatewayConfigError {
    /// The address is invalid.
    #[error("the payments service's address {0}")]
    Address(String),
    /// The token is not a valid header value.
    #[error("the payments service's token is not a valid header value")]
    Token,
    /// No root certificates could be loaded.
    #[error("the root certificates cannot be loaded: {0}")]
    Certificates(String),
}

/// The payments service. Clones share their settings.
#[derive(Clone)]
pub struct HttpGateway {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    /// Without a trailing slash.
    base: String,
    authorization: Option<HeaderValue>,
    retry: RetryPolicy,
    clock: SharedClock,
}

impl fmt::Debug for HttpGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpGateway")
            .field("base", &self.inner.base)
            .field("retry", &self.inner.retry)
            .finish_non_exhaustive()
    }
}

impl HttpGateway {
    /// The service at this address, such as `https://payments.example.com/v1`; the token goes into the
    /// `Authorization` header.
    pub fn new(
        base: &str,
        token: Option<&str>,
        retry: RetryPolicy,
        clock: SharedClock,
    ) -> Result<Self, GatewayConfigError> {
        let (base, https) = address(base).map_err(|reason| GatewayConfigError::Address(reason.to_owned()))?;
        let authorization = token.map(bearer).transpose()?;
        let client = Client::new(https, retry).map_err(GatewayConfigError::Certificates)?;
        Ok(Self { inner: Arc::new(Inner { client, base, authorization, retry, clock }) })
    }
}

fn bearer(token: &str) -> Result<HeaderValue, GatewayConfigError> {
    let mut value =
        HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| GatewayConfigError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The address without trailing slashes, and whether it is https. Errors do not quote the address: it may
/// hold a password.
fn address(text: &str) -> Result<(String, bool), &'static str> {
    let uri: Uri =
        text.trim().parse().map_err(|_| "cannot be read: write it as in https://payments.example.com")?;
    let https = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        Some(_) | None => return Err("has to begin with https:// or http://"),
    };
    let authority =
        uri.authority().filter(|authority| !authority.host().is_empty()).ok_or("names no host")?;
    if authority.as_str().contains('@') {
        return Err("must not hold a user or a password: there is a setting for the token");
    }
    if authority.port_u16().is_none() && authority.as_str() != authority.host() {
        return Err("has a port that is not a number below 65536");
    }
    if uri.query().is_some() || text.contains('#') {
        return Err("must not have a query or a fragment");
    }
    Ok((text.trim().trim_end_matches('/').to_owned(), https))
}

impl Gateway for HttpGateway {
    async fn submit(&self, debit: &Debit, key: &AttemptKey) -> Result<Answer, OutcomeUnknown> {
        self.create(&wire::PAYMENTS, key.as_str(), wire::encode_debit(debit, key)).await
    }

    async fn lookup(&self, key: &AttemptKey) -> Result<Option<Answer>, OutcomeUnknown> {
        self.find(&wire::PAYMENTS, key.as_str()).await
    }

    async fn refund(&self, refund: &Refund, key: &RefundKey) -> Result<RefundAnswer, OutcomeUnknown> {
        self.create(&refunds::REFUNDS, key.as_str(), refunds::encode(refund, key)).await
    }

    async fn lookup_refund(&self, key: &RefundKey) -> Result<Option<RefundAnswer>, OutcomeUnknown> {
        self.find(&refunds::REFUNDS, key.as_str()).await
    }
}

impl HttpGateway {
    /// Submits until the service answers or the submissions run out, and looks the key up whenever a
    /// submission may have arrived.
    async fn create<A>(&self, resource: &Resource<A>, key: &str, body: Vec<u8>) -> Result<A, OutcomeUnknown> {
        let mut seen: Vec<String> = Vec::new();
        let mut looked_up = None;
        let mut may_be_queued = false;
        for attempt in 0..self.inner.retry.max_submits.max(1) {
            self.back_off(attempt).await;
            let (reason, is_rejected) = match self.post(resource, key, &body).await {
                Reply::Definite(answer) => return Ok(answer),
                Reply::NotSent(reason) => {
                    push_unique(&mut seen, reason);
                    continue;
                }
                Reply::Unknown(reason) => (reason, false),
                Reply::Rejected(reason) => (reason, true),
            };
            push_unique(&mut seen, reason.clone());
            match self.look_up(resource, key).await {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => looked_up = Some("never seen".to_owned()),
                Err(reason) => return Err(outcome_unknown(&seen, Some(reason))),
            }
            may_be_queued |= !is_rejected;
            if is_rejected {
                let refusal = resource.refusal.filter(|_| !may_be_queued);
                return refusal
                    .map(|refusal| refusal(reason))
                    .ok_or_else(|| outcome_unknown(&seen, looked_up));
            }
        }
        Err(outcome_unknown(&seen, looked_up))
    }

    async fn find<A>(&self, resource: &Resource<A>, key: &str) -> Result<Option<A>, OutcomeUnknown> {
        self.look_up(resource, key).await.map_err(|reason| outcome_unknown(&[], Some(reason)))
    }

    async fn post<A>(&self, resource: &Resource<A>, key: &str, body: &[u8]) -> Reply<A> {
        let Ok(idempotency) = HeaderValue::from_str(key) else {
            return Reply::Rejected("not sent: the key cannot be a header".to_owned());
        };
        let request = hyper::Request::post(format!("{}/{}", self.inner.base, resource.path))
            .header("idempotency-key", idempotency)
            .header("content-type", "application/json");
        match self.exchange(request, body.to_vec()).await {
            Exchange::Answered(status, body) => (resource.decode_submit)(status, &body, key),
            Exchange::NotSent(reason) => Reply::NotSent(reason),
            Exchange::Lost(reason) => Reply::Unknown(reason),
        }
    }

    /// Looks a key up until the service answers or the lookups run out. The error is the last failure.
    async fn look_up<A>(&self, resource: &Resource<A>, key: &str) -> Result<Option<A>, String> {
        let mut last = String::new();
        for attempt in 0..self.inner.retry.max_lookups.max(1) {
            self.back_off(attempt).await;
            let request = hyper::Request::get(format!(
                "{}/{}/{}",
                self.inner.base,
                resource.path,
                wire::path_segment(key)
            ));
            last = match self.exchange(request, Vec::new()).await {
                Exchange::Answered(hyper::StatusCode::NOT_FOUND, _) => return Ok(None),
                Exchange::Answered(status, body) => match (resource.decode_lookup)(status, &body, key) {
                    Reply::Definite(answer) => return Ok(Some(answer)),
                    Reply::Rejected(reason) => return Err(reason),
                    Reply::Unknown(reason) | Reply::NotSent(reason) => reason,
                },
                Exchange::NotSent(reason) | Exchange::Lost(reason) => reason,
            };
        }
        Err(last)
    }

    async fn exchange(&self, mut request: hyper::http::request::Builder, body: Vec<u8>) -> Exchange {
        if let Some(authorization) = &self.inner.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        self.inner.client.exchange(request.header("accept", "application/json"), body).await
    }

    async fn back_off(&self, attempt: u32) {
        if let Some(earlier) = attempt.checked_sub(1) {
            self.inner
                .clock
                .sleep(self.inner.retry.backoff.saturating_mul(2_u32.saturating_pow(earlier)))
                .await;
        }
    }
}

/// Adds a reason unless it is listed already.
fn push_unique(seen: &mut Vec<String>, reason: String) {
    if !seen.contains(&reason) {
        seen.push(reason);
    }
}

fn outcome_unknown(submits: &[String], lookup: Option<String>) -> OutcomeUnknown {
    let submits = (!submits.is_empty()).then(|| submits.join(", then "));
    let seen: Vec<String> =
        submits.into_iter().chain(lookup.map(|reason| format!("lookup: {reason}"))).collect();
    OutcomeUnknown(format!("payments service: {}", seen.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway(base: &str, token: Option<&str>) -> Result<HttpGateway, GatewayConfigError> {
        HttpGateway::new(base, token, RetryPolicy::default(), dues_store::SystemClock::shared())
    }

    #[test]
    fn an_address_is_checked_and_what_is_wrong_with_it_is_said() {
        for (base, redacted) in [
            ("https://payments.example.com", "https://payments.example.com"),
            (" http://127.0.0.1:8080/v1// ", "http://127.0.0.1:8080/v1"),
            ("http://[::1]:80/", "http://[::1]:80"),
        ] {
            assert_eq!(address(base).map(|(base, _)| base), Ok(redacted.to_owned()));
        }
        for (base, reason) in [
            ("", "cannot be read"),
            ("payments.example.com", "has to begin with"),
            ("/payments", "has to begin with"),
            ("ftp://payments.example.com", "has to begin with"),
            ("https://", "cannot be read"),
            ("https://ops:hunter2@payments.example.com", "must not hold a user"),
            ("https://payments.example.com:99999", "port"),
            ("https://payments.example.com?x=1", "query"),
            ("https://payments.example.com/#top", "fragment"),
            ("https://pay ments", "cannot be read"),
        ] {
            let error = gateway(base, None).unwrap_err().to_string();
            assert!(
                error.starts_with("the payments service's address ") && error.contains(reason),
                "{base}: {error}"
            );
            assert!(!error.contains("hunter2"));
        }
    }

    #[test]
    fn a_token_is_never_shown() {
        let shown = format!("{:?}", gateway("http://localhost", Some("s3cret")).unwrap());
        assert!(shown.contains("http://localhost") && !shown.contains("s3cret"), "{shown}");
        let error = gateway("http://localhost", Some("s3cret\n")).unwrap_err();
        assert_eq!(error, GatewayConfigError::Token);
        assert!(!error.to_string().contains("s3cret"));
    }

    #[test]
    fn reasons_name_what_was_seen() {
        let seen = ["timeout after 10s".to_owned(), "HTTP 500".to_owned()];
        assert_eq!(outcome_unknown(&seen[..1], None).0, "payments service: timeout after 10s");
        assert_eq!(
            outcome_unknown(&seen, Some("never seen".to_owned())).0,
            "payments service: timeout after 10s, then HTTP 500; lookup: never seen"
        );
        assert_eq!(outcome_unknown(&[], Some("HTTP 500".to_owned())).0, "payments service: lookup: HTTP 500");
    }
}
