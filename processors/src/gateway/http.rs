//! A payments service behind HTTP: `POST {base}/payments` makes a debit, `GET {base}/payments/{key}` tells what became of it.
//!
//! A submit ends in one of three ways. What the service says in so many words is the answer. A request that cannot have arrived is sent again. Everything
//! else leaves open whether there is a debit, so the service is asked for the key; only when it has never seen it is the debit submitted again, and always
//! under the same key.

mod client;
mod wire;

use dues_events::AttemptKey;
use dues_events::event::Answer;
use dues_store::SharedClock;
use hyper::Uri;
use hyper::header::{AUTHORIZATION, HeaderValue};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Debit, Gateway, Unanswered};
use client::{Client, Exchange};
use wire::Said;

/// How patient the gateway is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For one request, from its start to the last byte of the answer.
    pub timeout: Duration,
    /// For the connection alone.
    pub connect_timeout: Duration,
    /// How often one call submits a debit, always under the same key.
    pub submits: u32,
    /// How often the service is asked what became of a debit before it is left open.
    pub lookups: u32,
    /// The pause before the second try; each one after it is twice as long.
    pub pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(3),
            submits: 3,
            lookups: 3,
            pause: Duration::from_millis(250),
        }
    }
}

/// Why there is no gateway with these settings. The token is never part of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The address is not one.
    #[error("the payments service's address {0}")]
    Address(String),
    /// The token has characters that no header can carry.
    #[error("the payments service's token has characters that cannot be sent")]
    Token,
    /// The machine has nothing to check the service's certificate with.
    #[error("the payments service's certificate cannot be checked: {0}")]
    Certificates(String),
}

/// The payments service. Clones share their settings.
#[derive(Clone)]
pub struct HttpGateway {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    /// Without a slash at the end.
    base: String,
    authorization: Option<HeaderValue>,
    patience: Patience,
    clock: SharedClock,
}

impl fmt::Debug for HttpGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpGateway").field("base", &self.inner.base).field("patience", &self.inner.patience).finish_non_exhaustive()
    }
}

impl HttpGateway {
    /// The service at this address, such as `https://payments.example.com/v1`; the token goes into the `Authorization` header.
    ///
    /// # Errors
    /// [`Unusable`] names what is wrong with the settings.
    pub fn new(base: &str, token: Option<&str>, patience: Patience, clock: SharedClock) -> Result<Self, Unusable> {
        let (base, https) = address(base).map_err(|why| Unusable::Address(why.to_owned()))?;
        let authorization = token.map(bearer).transpose()?;
        let client = Client::new(https, patience).map_err(Unusable::Certificates)?;
        Ok(Self { inner: Arc::new(Inner { client, base, authorization, patience, clock }) })
    }
}

fn bearer(token: &str) -> Result<HeaderValue, Unusable> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| Unusable::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The address without slashes at its end, and whether it is an https one. What is wrong is said without repeating it: it may hold a password.
fn address(text: &str) -> Result<(String, bool), &'static str> {
    let uri: Uri = text.trim().parse().map_err(|_| "cannot be read: write it as in https://payments.example.com")?;
    let https = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        Some(_) | None => return Err("has to begin with https:// or http://"),
    };
    let authority = uri.authority().filter(|authority| !authority.host().is_empty()).ok_or("names no host")?;
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
    async fn submit(&self, debit: &Debit, key: &AttemptKey) -> Result<Answer, Unanswered> {
        let mut seen: Vec<String> = Vec::new();
        let mut looked_up = None;
        for turn in 0..self.inner.patience.submits.max(1) {
            self.pause_before(turn).await;
            let (why, better_later) = match self.post(debit, key).await {
                Said::Definite(answer) => return Ok(answer),
                Said::NotSent(why) => {
                    note(&mut seen, why);
                    continue;
                }
                Said::Doubtful(why) => (why, true),
                Said::Hopeless(why) => (why, false),
            };
            note(&mut seen, why);
            match self.find(key).await {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => looked_up = Some("never seen".to_owned()),
                Err(why) => return Err(unanswered(&seen, Some(why))),
            }
            if !better_later {
                break;
            }
        }
        Err(unanswered(&seen, looked_up))
    }

    async fn lookup(&self, key: &AttemptKey) -> Result<Option<Answer>, Unanswered> {
        self.find(key).await.map_err(|why| unanswered(&[], Some(why)))
    }
}

impl HttpGateway {
    async fn post(&self, debit: &Debit, key: &AttemptKey) -> Said {
        let Ok(idempotency) = HeaderValue::from_str(key.as_str()) else {
            return Said::Hopeless("not sent: the key cannot be a header".to_owned());
        };
        let request = hyper::Request::post(format!("{}/payments", self.inner.base))
            .header("idempotency-key", idempotency)
            .header("content-type", "application/json");
        match self.exchange(request, wire::body(debit, key)).await {
            Exchange::Answered(status, body) => wire::read(status, &body, key),
            Exchange::NotSent(why) => Said::NotSent(why),
            Exchange::Lost(why) => Said::Doubtful(why),
        }
    }

    /// What became of a debit, asked until the service says so or patience ends. The error says what was seen last.
    async fn find(&self, key: &AttemptKey) -> Result<Option<Answer>, String> {
        let mut last = String::new();
        for turn in 0..self.inner.patience.lookups.max(1) {
            self.pause_before(turn).await;
            let request = hyper::Request::get(format!("{}/payments/{}", self.inner.base, wire::path_segment(key.as_str())));
            last = match self.exchange(request, Vec::new()).await {
                Exchange::Answered(hyper::StatusCode::NOT_FOUND, _) => return Ok(None),
                Exchange::Answered(status, body) => match wire::read(status, &body, key) {
                    Said::Definite(answer) => return Ok(Some(answer)),
                    Said::Hopeless(why) => return Err(why),
                    Said::Doubtful(why) | Said::NotSent(why) => why,
                },
                Exchange::NotSent(why) | Exchange::Lost(why) => why,
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

    async fn pause_before(&self, turn: u32) {
        if let Some(earlier) = turn.checked_sub(1) {
            self.inner.clock.sleep(self.inner.patience.pause.saturating_mul(2_u32.saturating_pow(earlier))).await;
        }
    }
}

/// Keeps what was seen, each once.
fn note(seen: &mut Vec<String>, why: String) {
    if !seen.contains(&why) {
        seen.push(why);
    }
}

fn unanswered(submits: &[String], lookup: Option<String>) -> Unanswered {
    let submits = (!submits.is_empty()).then(|| submits.join(", then "));
    let seen: Vec<String> = submits.into_iter().chain(lookup.map(|why| format!("lookup: {why}"))).collect();
    Unanswered(format!("payments service: {}", seen.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway(base: &str, token: Option<&str>) -> Result<HttpGateway, Unusable> {
        HttpGateway::new(base, token, Patience::default(), dues_store::SystemClock::shared())
    }

    #[test]
    fn an_address_is_checked_and_what_is_wrong_with_it_is_said() {
        for (base, kept) in [
            ("https://payments.example.com", "https://payments.example.com"),
            (" http://127.0.0.1:8080/v1// ", "http://127.0.0.1:8080/v1"),
            ("http://[::1]:80/", "http://[::1]:80"),
        ] {
            assert_eq!(address(base).map(|(base, _)| base), Ok(kept.to_owned()));
        }
        for (base, why) in [
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
            assert!(error.starts_with("the payments service's address ") && error.contains(why), "{base}: {error}");
            assert!(!error.contains("hunter2"));
        }
    }

    #[test]
    fn a_token_is_never_shown() {
        let shown = format!("{:?}", gateway("http://localhost", Some("s3cret")).unwrap());
        assert!(shown.contains("http://localhost") && !shown.contains("s3cret"), "{shown}");
        let error = gateway("http://localhost", Some("s3cret\n")).unwrap_err();
        assert_eq!(error, Unusable::Token);
        assert!(!error.to_string().contains("s3cret"));
    }

    #[test]
    fn reasons_name_what_was_seen() {
        let seen = ["timeout after 10s".to_owned(), "HTTP 500".to_owned()];
        assert_eq!(unanswered(&seen[..1], None).0, "payments service: timeout after 10s");
        assert_eq!(
            unanswered(&seen, Some("never seen".to_owned())).0,
            "payments service: timeout after 10s, then HTTP 500; lookup: never seen"
        );
        assert_eq!(unanswered(&[], Some("HTTP 500".to_owned())).0, "payments service: lookup: HTTP 500");
    }
}
